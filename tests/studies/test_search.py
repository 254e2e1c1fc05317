"""Times of a search among a million views, and the recall of the approximate search.

Run by `make study`: some minutes. POLYPLINK_VIEWS sets another number of views, and
POLYPLINK_INDEX a folder that keeps the index for the next run.

Random vectors have the distribution of `ntssl-small` on the preset `small`: the k-th largest of
their variances is about exp(-k / 5) of the largest, and one hundredth of the total is spread over
all 256 directions. A polyp has six views with so much noise that the cosine distinguishes pairs of
one polyp with an AUROC of about 0.8.
"""

import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import roc_auc_score

from polyplink.scale.exact import nearest
from polyplink.scale.index import ROWS, Block, Index, approximate_index, build_index, recall

VIEWS = int(os.environ.get("POLYPLINK_VIEWS", "1_000_000"))
WIDTH, OF_POLYP, NOISE_SHARE, BLOCK = 256, 6, 0.68, 60_000
SPREAD = np.sqrt(np.exp(-np.arange(WIDTH) / 5) / 5 + 0.01 / WIDTH)
QUERIES, K = 200, 12


def random_views(first: int, n: int) -> np.ndarray:
    """Random vectors (n, WIDTH) of views; views of a polyp are consecutive."""
    rng = np.random.default_rng(first)
    polyps = rng.normal(size=(n // OF_POLYP + 1, WIDTH), scale=SPREAD)
    views = rng.normal(size=(n, WIDTH), scale=SPREAD)
    vectors = (1 - NOISE_SHARE) ** 0.5 * polyps[np.arange(n) // OF_POLYP] + NOISE_SHARE**0.5 * views
    return np.asarray(vectors, np.float32)


def blocks() -> Iterator[Block]:
    for first in range(0, VIEWS, BLOCK):
        ids = pl.Series(range(first, min(first + BLOCK, VIEWS)))
        none = {name: pl.lit(None, kind) for name, kind in ROWS.items()}
        table = (
            pl.DataFrame({"id": ids})
            .select(**none | {"tracklet_id": pl.col("id")})
            .with_columns(
                tracklet_id=pl.format("{}:{}", ids // 12, ids),
                procedure_id=(ids // 12).cast(pl.String),
                patient=(ids // 24).cast(pl.String),
                size_mm=(ids // OF_POLYP % 20).cast(pl.Float32),
                start_s=(ids % 12 * 60).cast(pl.Float32),
            )
        )
        yield table, random_views(first, len(ids))


def times(index: Index, queries: np.ndarray, **options: object) -> str:
    """Milliseconds per search: median, 99th percentile, minimum and CPU time."""
    milliseconds, start = [], time.process_time()
    for query in queries:
        before = time.perf_counter()
        index.search(query, K, **options)  # type: ignore[arg-type]
        milliseconds.append(1e3 * (time.perf_counter() - before))
    cpu_milliseconds = 1e3 * (time.process_time() - start) / len(queries)
    p50, best = statistics.median(milliseconds), min(milliseconds)
    p99 = np.percentile(milliseconds, 99)
    return f"p50 {p50:.1f}, p99 {p99:.1f}, best {best:.1f}, processor {cpu_milliseconds:.1f}"


@pytest.mark.study
def test_a_search_of_a_million_views(tmp_path: Path) -> None:
    folder = Path(os.environ.get("POLYPLINK_INDEX", tmp_path / "index"))
    sample = random_views(0, 1200)
    cosine = np.corrcoef(sample)[np.triu_indices(len(sample), 1)]
    first, second = np.triu_indices(len(sample), 1)
    auroc = roc_auc_score(first // OF_POLYP == second // OF_POLYP, cosine)
    print(f"\nAUROC of the cosine: {auroc:.3f}")
    start = time.process_time()
    if not folder.exists():
        build_index(folder, blocks(), "drawn")
        print(
            f"{VIEWS:,} x {WIDTH}: built in {time.process_time() - start:.0f} s of processor time"
        )
    index = Index(folder)
    queries = random_views(10**9, QUERIES).astype(np.float64)
    index.search(queries[0], K)
    print(f"load {os.getloadavg()[0]:.1f}; a search, ms: {times(index, queries)}")
    if len(index.segments) == 1:
        _, unit, codes = index.segments[0]
        milliseconds = []
        for query in queries / np.linalg.norm(queries, axis=1, keepdims=True):
            before = time.perf_counter()
            nearest(query, unit, codes, K)
            milliseconds.append(1e3 * (time.perf_counter() - before))
        p50, best = statistics.median(milliseconds), min(milliseconds)
        print(f"the pass alone, ms: p50 {p50:.1f}, best {best:.1f}")
    large = pl.col("size_mm") >= 15
    print(f"with a filter that a quarter passes, ms: {times(index, queries[:50], where=large)}")
    if index.record.approximate is None:
        start = time.perf_counter()
        index = approximate_index(index)
        print(f"approximate form written and measured in {time.perf_counter() - start:.0f} s")
    measured = recall(index)
    print(measured)
    assert measured.recall is not None
    assert measured.recall > 0.5
    print(f"load {os.getloadavg()[0]:.1f}; approximate, ms: {times(index, queries)}")
