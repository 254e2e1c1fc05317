"""The embeddings table."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.encoders import Embeddings, read_embeddings, write_embeddings


@pytest.mark.parametrize("n", [0, 1, 5])
def test_round_trip(tmp_path: Path, n: int) -> None:
    vectors = np.random.default_rng(0).normal(size=(n, 4)).astype(np.float32)
    ids = [f"p:{i}" for i in range(n)]
    write_embeddings(tmp_path / "e.parquet", Embeddings(ids, vectors, "w", "c"))
    again = read_embeddings(tmp_path / "e.parquet")
    assert list(again.tracklet_ids) == ids
    assert np.array_equal(again.vectors, vectors)
    assert (again.weights_id, again.crops_id) == (("w", "c") if n else ("", ""))


def test_bad_tables_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    with pytest.raises(PolyplinkError, match="no embeddings at"):
        read_embeddings(path)
    path.write_bytes(b"junk")
    with pytest.raises(PolyplinkError, match="cannot be read"):
        read_embeddings(path)
    good = pl.DataFrame(
        {"tracklet_id": ["a", "b"], "vector": [[1.0], [2.0]], "weights_id": "w", "crops_id": "c"},
        schema_overrides={"vector": pl.Array(pl.Float32, 1)},
    )
    for bad, says in (
        (good.drop("vector"), "no column vector"),
        (good.with_columns(tracklet_id=pl.lit("a")), "'a' occurs twice"),
        (good.with_columns(weights_id=pl.Series(["w", "v"])), "mixes several weights_id"),
    ):
        bad.write_parquet(path)
        with pytest.raises(PolyplinkError, match=says):
            read_embeddings(path)
