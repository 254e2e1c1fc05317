"""Embedding once."""

from pathlib import Path

import numpy as np
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.encoders import read_embeddings
from polyplink.jobs import embed_data
from tests.conftest import Made


def test_vectors_are_kept_and_found_again(made: Made, tmp_path: Path) -> None:
    told: list[str] = []
    first = embed_data(
        made.run,
        made.data,
        part="eval",
        out=tmp_path / "v.parquet",
        device="cpu",
        progress=lambda stage, done, total: told.append(stage),
    )
    told.clear()
    again = embed_data(
        made.run,
        made.data,
        part="eval",
        device="cpu",
        progress=lambda stage, done, total: told.append(stage),
    )
    assert not [stage for stage in told if stage.startswith("embed")]
    assert np.array_equal(first.embeddings.vectors, again.embeddings.vectors)
    assert np.array_equal(read_embeddings(tmp_path / "v.parquet").vectors, first.embeddings.vectors)
    assert first.embeddings.crops_id == first.prepared.key
    assert first.embeddings.weights_id == first.loaded.weights_id


def test_parts_and_weights_that_are_not_there(made: Made, tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match="no part 'nowhere'"):
        embed_data(made.run, made.data, part="nowhere", device="cpu")
    with pytest.raises(PolyplinkError, match="no weights at"):
        embed_data(tmp_path, made.data, device="cpu")


def test_a_broken_file_of_vectors_is_made_again(made: Made) -> None:
    done = embed_data(made.run, made.data, part="eval", device="cpu")
    done.path.write_bytes(b"junk")
    again = embed_data(made.run, made.data, part="eval", device="cpu")
    assert np.array_equal(again.embeddings.vectors, done.embeddings.vectors)
