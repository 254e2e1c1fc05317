"""The index of views: written in parts, searched as one, against comparing everything."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from filelock import FileLock

from polyplink.core.errors import PolyplinkError
from polyplink.scale import index
from polyplink.scale.index import ROWS, Block, Index, add_rows, approximated, build_index

N, D = 1_200, 20


def blocks(first: int, last: int, step: int = 100) -> Iterator[Block]:
    """Views of polyps of four each, alike but for noise; some lengths are not 1."""
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
        rest = (pl.lit(None, kind).alias(n) for n, kind in ROWS.items() if n not in table.columns)
        vectors = (centres[ids // 4] + 0.4 * noise) * (1 + ids % 3)[:, None]
        yield table.with_columns(*rest), vectors.astype(np.float32)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    monkeypatch.setattr(index, "SEGMENT", 500)
    return build_index(tmp_path / "index", blocks(0, N), "abc")


def test_parts_are_searched_as_one(made: Index) -> None:
    made = add_rows(made, lambda _: blocks(N, N + 60))
    assert (len(made), made.record["segments"]) == (N + 60, [500, 500, 200, 60])
    vectors = np.concatenate([v for _, v in (*blocks(0, N), *blocks(N, N + 60))]).astype(float)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    large = pl.col("size_mm") >= 6
    for name, where in (("t7", None), ("t1210", None), ("t640", large)):
        row, vector = made.find(name)
        assert row["tracklet_id"] == name
        found = made.search(3 * vector, 9, where)
        cosines = vectors @ vectors[int(name[1:])]
        if where is not None:
            cosines[np.arange(N + 60) // 4 % 10 < 6] = -2
        best = np.argsort(-cosines, kind="stable")[:9]
        assert found["tracklet_id"].to_list() == [f"t{i}" for i in best]
        assert np.allclose(found["similarity"], cosines[best], atol=1e-6)
    assert dict(made.procedures())["v31"] == "k"
    assert made.search(vector, 5, pl.col("patient") == "nobody").is_empty()


def test_what_cannot_be_searched_says_why(made: Index, tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match=r"weights abc, not of xyz"):
        made.check("xyz")
    with pytest.raises(PolyplinkError, match=r"no tracklet 'u1' in .*index, which holds 1200"):
        made.find("u1")
    with pytest.raises(PolyplinkError, match=r"a vector of 3 numbers, where .* have 20"):
        made.search([1, 2, 3])
    with pytest.raises(PolyplinkError, match="is zero"):
        made.search(np.zeros(D))
    with pytest.raises(PolyplinkError, match="is not an index; make one"):
        Index(tmp_path)
    with pytest.raises(PolyplinkError, match="there is no tracklet to index"):
        build_index(tmp_path / "empty", [], "abc")
    assert not (tmp_path / "empty").exists()
    with pytest.raises(PolyplinkError, match="exists already"):
        build_index(made.folder, blocks(0, 4), "abc")
    path = made.folder / "00002" / "rows.parquet"
    table = pl.read_parquet(path)
    for odd in (table.drop("date"), table.with_columns(pl.col("crop").cast(pl.String)), table[1:]):
        odd.write_parquet(path)
        with pytest.raises(PolyplinkError, match=r"00002 lacks rows or columns; build the index"):
            Index(made.folder).procedures()
    (made.folder / "00001" / "codes.i8").write_bytes(b"")
    with pytest.raises(PolyplinkError, match=r"00001 cannot be read .*; build the index again"):
        Index(made.folder).find("t1")


def test_a_killed_addition_leaves_no_trace(made: Index) -> None:
    (made.folder / "00003").mkdir()  # written, but not yet named by index.json
    assert add_rows(made, lambda _: blocks(N, N + 8)).record["segments"][-1] == 8

    def killed() -> Iterator[Block]:
        yield from blocks(N + 8, N + 12)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        add_rows(made, lambda _: killed())
    assert len(Index(made.folder)) == N + 8


def test_what_another_process_adds_meanwhile_is_not_added_twice(
    made: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(known: dict[str, str]) -> Iterator[Block]:
        for rows, vectors in blocks(N, N + 8):
            new = ~rows["procedure_id"].is_in(list(known))
            yield rows.filter(new), vectors[new.to_numpy()]

    acquire = FileLock.__enter__

    def after_another(lock: FileLock) -> FileLock:
        monkeypatch.undo()
        add_rows(made, late)
        return acquire(lock)

    monkeypatch.setattr(FileLock, "__enter__", after_another)
    ids = add_rows(made, late).segments
    names = pl.concat([one.rows.collect() for one in ids])["tracklet_id"]
    assert names.n_unique() == len(names) == N + 8


@pytest.mark.slow
def test_the_approximate_form_finds_most_and_says_how_many(made: Index) -> None:
    pytest.importorskip("lancedb", reason="the extra `scale` is not installed")
    found = approximated(made)
    assert found.record["approximate"]["recall"] > 0.5
    _, vector = found.find("t77")
    mine, exact = (found.search(vector, 5, exact=exact) for exact in (False, True))
    both = mine.join(exact, on="tracklet_id")
    assert both.height >= 4
    assert (both["similarity"] == both["similarity_right"]).all()  # of what it finds, exactly
    now = add_rows(found, lambda _: blocks(N, N + 8))
    assert "t1203" in now.search(now.find("t1201")[1], 5)["tracklet_id"].to_list()
    assert Index(made.folder).record["approximate"] == found.record["approximate"]
    for table in (made.folder / "lance").glob("*/_indices/*/*"):
        table.write_bytes(b"")
    with pytest.raises(PolyplinkError, match=r"cannot be read .*; search with --exact"):
        Index(made.folder).search(vector, 5)
    shutil.rmtree(made.folder / "lance")
    with pytest.raises(PolyplinkError, match=r"cannot be read .*; search with --exact"):
        Index(made.folder).search(vector, 5)
