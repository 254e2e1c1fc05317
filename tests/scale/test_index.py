"""The index of views: segments, search, additions and damage."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from filelock import FileLock

from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.scale import index
from polyplink.scale.index import ROWS, Block, Index, add_rows, approximate_index, build_index

N, D = 1_200, 20


def blocks(first: int, last: int, step: int = 100) -> Iterator[Block]:
    """Blocks of views, four similar ones per polyp; some vectors have a norm other than 1."""
    centres = np.random.default_rng(1).normal(size=(N, D))
    for a in range(first, last, step):
        ids = np.arange(a, min(a + step, last))
        noise = np.random.default_rng(a).normal(size=(len(ids), D))
        table = pl.DataFrame(
            {
                "tracklet_id": [f"t{i}" for i in ids],
                "procedure_id": [f"v{i // 40}" for i in ids],
                "patient": [f"p{i // 80}" for i in ids],
                "size_mm": (ids // 4 % 10).astype(np.float32),
                "key": ["k"] * len(ids),
            }
        )
        empty_columns = (
            pl.lit(None, kind).alias(n) for n, kind in ROWS.items() if n not in table.columns
        )
        vectors = (centres[ids // 4] + 0.4 * noise) * (1 + ids % 3)[:, None]
        yield table.with_columns(*empty_columns), vectors.astype(np.float32)


@pytest.fixture
def index_of_views(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    monkeypatch.setattr(index, "SEGMENT", 500)
    return build_index(tmp_path / "index", blocks(0, N), "abc")


def test_a_search_over_segments_equals_a_comparison_with_all_rows(index_of_views: Index) -> None:
    index_of_views = add_rows(index_of_views, lambda _: blocks(N, N + 60))
    assert (len(index_of_views), index_of_views.record.segments) == (N + 60, [500, 500, 200, 60])
    vectors = np.concatenate([v for _, v in (*blocks(0, N), *blocks(N, N + 60))]).astype(float)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    large = pl.col("size_mm") >= 6
    for name, where in (("t7", None), ("t1210", None), ("t640", large)):
        row, vector = index_of_views.find(name)
        assert row["tracklet_id"] == name
        results = index_of_views.search(3 * vector, 9, where)
        cosines = vectors @ vectors[int(name[1:])]
        if where is not None:
            cosines[np.arange(N + 60) // 4 % 10 < 6] = -2
        best = np.argsort(-cosines, kind="stable")[:9]
        assert results["tracklet_id"].to_list() == [f"t{i}" for i in best]
        assert np.allclose(results["similarity"], cosines[best], atol=1e-6)
    assert dict(index_of_views.procedures())["v31"] == "k"
    assert index_of_views.search(vector, 5, pl.col("patient") == "nobody").is_empty()


def test_invalid_queries_and_damaged_indices_are_refused(
    index_of_views: Index, tmp_path: Path
) -> None:
    with pytest.raises(PolyplinkError, match=r"weights abc, not of xyz"):
        index_of_views.check("xyz")
    with pytest.raises(PolyplinkError, match=r"no tracklet 'u1' in .*index, which holds 1200"):
        index_of_views.find("u1")
    with pytest.raises(PolyplinkError, match=r"a vector of 3 numbers, where .* have 20"):
        index_of_views.search([1, 2, 3])
    with pytest.raises(PolyplinkError, match="is zero"):
        index_of_views.search(np.zeros(D))
    with pytest.raises(PolyplinkError, match="is not an index; make one"):
        Index(tmp_path)
    with pytest.raises(PolyplinkError, match="there is no tracklet to index"):
        build_index(tmp_path / "empty", [], "abc")
    assert not (tmp_path / "empty").exists()
    with pytest.raises(PolyplinkError, match="exists already"):
        build_index(index_of_views.folder, blocks(0, 4), "abc")
    path = index_of_views.folder / "00002" / "rows.parquet"
    table = pl.read_parquet(path)
    for damaged_table in (
        table.drop("date"),
        table.with_columns(pl.col("crop").cast(pl.String)),
        table[1:],
    ):
        damaged_table.write_parquet(path)
        with pytest.raises(PolyplinkError, match=r"00002 lacks rows or columns; build the index"):
            Index(index_of_views.folder).procedures()
    (index_of_views.folder / "00001" / "codes.i8").write_bytes(b"")
    with pytest.raises(PolyplinkError, match=r"00001 cannot be read .*; build the index again"):
        Index(index_of_views.folder).find("t1")


def test_an_interrupted_addition_changes_nothing(index_of_views: Index) -> None:
    (index_of_views.folder / "00003").mkdir()  # a segment that index.json does not name yet
    assert add_rows(index_of_views, lambda _: blocks(N, N + 8)).record.segments[-1] == 8

    def interrupted_blocks() -> Iterator[Block]:
        yield from blocks(N + 8, N + 12)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        add_rows(index_of_views, lambda _: interrupted_blocks())
    assert len(Index(index_of_views.folder)) == N + 8


def test_procedures_that_another_process_adds_meanwhile_are_not_added_twice(
    index_of_views: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    def blocks_not_indexed(indexed: dict[str, str]) -> Iterator[Block]:
        for rows, vectors in blocks(N, N + 8):
            new = ~rows["procedure_id"].is_in(list(indexed))
            yield rows.filter(new), vectors[new.to_numpy()]

    acquire = FileLock.__enter__

    def add_before_locking(lock: FileLock) -> FileLock:
        monkeypatch.undo()
        add_rows(index_of_views, blocks_not_indexed)
        return acquire(lock)

    monkeypatch.setattr(FileLock, "__enter__", add_before_locking)
    segments = add_rows(index_of_views, blocks_not_indexed).segments
    names = pl.concat([segment.rows.collect() for segment in segments])["tracklet_id"]
    assert names.n_unique() == len(names) == N + 8


@pytest.mark.slow
def test_the_approximate_search_has_a_measured_recall_and_exact_similarities(
    index_of_views: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("lancedb", reason="the extra `scale` is not installed")
    approximate = approximate_index(index_of_views)
    assert to_plain(approximate.record.approximate)["recall"] > 0.5
    _, vector = approximate.find("t77")
    approximate_results, exact = (
        approximate.search(vector, 5, exact=exact) for exact in (False, True)
    )
    common = approximate_results.join(exact, on="tracklet_id")
    assert common.height >= 4
    assert (
        common["similarity"] == common["similarity_right"]
    ).all()  # similarities of its results are exact
    extended = add_rows(approximate, lambda _: blocks(N, N + 8))
    assert "t1203" in extended.search(extended.find("t1201")[1], 5)["tracklet_id"].to_list()
    assert Index(index_of_views.folder).record.approximate == approximate.record.approximate

    def kill(_: Index) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as interrupted, pytest.raises(KeyboardInterrupt):
        interrupted.setattr(index, "recall", kill)
        approximate_index(extended)
    assert Index(extended.folder).record.approximate is None
    assert to_plain(approximate_index(extended).record.approximate)["rows"] == N + 8
    for table in (index_of_views.folder / "lance").glob("*/_indices/*/*"):
        table.write_bytes(b"")
    with pytest.raises(PolyplinkError, match=r"cannot be read .*; search with --exact"):
        Index(index_of_views.folder).search(vector, 5)
    shutil.rmtree(index_of_views.folder / "lance")
    with pytest.raises(PolyplinkError, match=r"cannot be read .*; search with --exact"):
        Index(index_of_views.folder).search(vector, 5)
