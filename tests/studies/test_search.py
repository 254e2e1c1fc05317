"""How long a search among a million views takes, and what the approximate form finds of it.

Run by `make study`: some minutes. POLYPLINK_VIEWS sets another number of views, and
POLYPLINK_INDEX a folder that keeps the index for the next run.

Vectors are drawn as those of `ntssl-small` on the preset `small` are distributed: the k-th largest
of their variances is about exp(-k / 5) of the largest, with a hundredth of the whole spread over
all 256 directions. A polyp has six views, whose own part of the variance makes the cosine tell
pairs of one polyp from pairs of two with an AUROC of about 0.8.
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
from polyplink.scale.index import ROWS, Block, Index, approximated, build_index, recall

VIEWS = int(os.environ.get("POLYPLINK_VIEWS", "1_000_000"))
WIDTH, OF_POLYP, OWN, BLOCK = 256, 6, 0.68, 60_000
SPREAD = np.sqrt(np.exp(-np.arange(WIDTH) / 5) / 5 + 0.01 / WIDTH)
QUERIES, K = 200, 12


def drawn(first: int, n: int) -> np.ndarray:
    """Vectors (n, WIDTH) of views, those of a polyp one after the other."""
    rng = np.random.default_rng(first)
    polyps = rng.normal(size=(n // OF_POLYP + 1, WIDTH), scale=SPREAD)
    views = rng.normal(size=(n, WIDTH), scale=SPREAD)
    mixed = (1 - OWN) ** 0.5 * polyps[np.arange(n) // OF_POLYP] + OWN**0.5 * views
    return np.asarray(mixed, np.float32)


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
        yield table, drawn(first, len(ids))


def times(index: Index, queries: np.ndarray, **options: object) -> str:
    """Milliseconds of a search: median, 99th percentile and of processor time."""
    took, begun = [], time.process_time()
    for query in queries:
        before = time.perf_counter()
        index.search(query, K, **options)  # type: ignore[arg-type]
        took.append(1e3 * (time.perf_counter() - before))
    own = 1e3 * (time.process_time() - begun) / len(queries)
    p50, best = statistics.median(took), min(took)
    return f"p50 {p50:.1f}, p99 {np.percentile(took, 99):.1f}, best {best:.1f}, processor {own:.1f}"


@pytest.mark.study
def test_a_search_of_a_million_views(tmp_path: Path) -> None:
    folder = Path(os.environ.get("POLYPLINK_INDEX", tmp_path / "index"))
    some = drawn(0, 1200)
    cosine = np.corrcoef(some)[np.triu_indices(len(some), 1)]
    one, other = np.triu_indices(len(some), 1)
    print(
        f"\nAUROC of the cosine: {roc_auc_score(one // OF_POLYP == other // OF_POLYP, cosine):.3f}"
    )
    begun = time.process_time()
    if not folder.exists():
        build_index(folder, blocks(), "drawn")
        print(
            f"{VIEWS:,} x {WIDTH}: built in {time.process_time() - begun:.0f} s of processor time"
        )
    index = Index(folder)
    queries = drawn(10**9, QUERIES).astype(np.float64)
    index.search(queries[0], K)
    print(f"load {os.getloadavg()[0]:.1f}; a search, ms: {times(index, queries)}")
    if len(index.segments) == 1:
        _, unit, codes = index.segments[0]
        took = []
        for query in queries / np.linalg.norm(queries, axis=1, keepdims=True):
            before = time.perf_counter()
            nearest(query, unit, codes, K)
            took.append(1e3 * (time.perf_counter() - before))
        print(f"the pass alone, ms: p50 {statistics.median(took):.1f}, best {min(took):.1f}")
    large = pl.col("size_mm") >= 15
    print(f"with a filter that a quarter passes, ms: {times(index, queries[:50], where=large)}")
    if "approximate" not in index.record:
        begun = time.perf_counter()
        index = approximated(index)
        print(f"approximate form written and measured in {time.perf_counter() - begun:.0f} s")
    found = index.record["approximate"] | recall(index)
    print(found)
    assert found["recall"] > 0.5
    print(f"load {os.getloadavg()[0]:.1f}; approximate, ms: {times(index, queries)}")
