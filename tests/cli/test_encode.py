"""`encode`: preparing, embedding and caching of vectors."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from polyplink import embed_data
from polyplink.core.errors import PolyplinkError
from polyplink.data.tables import DataSet, read_data, write_data
from polyplink.encoders.encode import (
    BLOCK_BYTES,
    _blocks,
    encode,
    read_embeddings,
    vectors_folder,
    write_embeddings,
)
from polyplink.encoders.load import NamedEncoder, baselines, load_named
from polyplink.evaluate.truth import samples_of, tracklet_boxes
from tests.conftest import SampleRun, recipe


def mean_colour(crops: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
    starts = np.cumsum([0, *lengths])
    means = [crops[a:b].mean(axis=(0, 1, 2)) for a, b in pairwise(starts)]
    return np.stack(means).astype(np.float32)


COLOUR = NamedEncoder("colour", "colour-once", mean_colour, torch.device("cpu"), recipe().prepare)


def test_vectors_are_cached_and_damaged_files_are_recomputed(
    sample_run: SampleRun, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    embed = partial(embed_data, sample_run.run, sample_run.data, part="eval", device="cpu")
    first = embed(out=tmp_path / "v.parquet").value
    stages: list[str] = []
    second = embed(progress=lambda stage, done, total: stages.append(stage)).value
    encoder = second.first
    assert not [stage for stage in stages if stage.startswith("embed")]
    vectors = first.vectors["ntssl-demo"]
    assert np.array_equal(vectors, second.vectors["ntssl-demo"])
    assert np.array_equal(read_embeddings(tmp_path / "v.parquet").vectors, vectors)
    assert first.embeddings["ntssl-demo"].crops_id == first.prepared.key
    stem = second.prepared.stem(second.prepared.procedures[0])
    file = vectors_folder(encoder, second.prepared) / f"{stem}.parquet"
    stored, content = read_embeddings(file), file.read_bytes()
    narrow = replace(stored, vectors=stored.vectors[:, :3])
    of_other_rows = replace(stored, tracklet_ids=[f"other {k}" for k in range(6)])
    for corrupt in (
        lambda: file.write_bytes(b"junk"),
        lambda: write_embeddings(file, narrow),
        lambda: write_embeddings(file, of_other_rows),
        lambda: write_embeddings(file, replace(stored, vectors=stored.vectors * np.nan)),
        lambda: write_embeddings(file, replace(stored, weights_id="others")),
    ):
        corrupt()
        caplog.clear()
        repaired = encode([encoder], sample_run.data, "eval")
        assert np.array_equal(repaired.vectors["ntssl-demo"], vectors)
        assert f"{file} is damaged or of other tracklets; it is made again" in caplog.text
        assert file.read_bytes() == content


def test_blocks_of_more_than_4_gib_of_crops_are_in_order() -> None:
    """Vectors are joined in the order of the blocks, and named in that of the table."""
    table = pl.DataFrame({"n": [100] * 400, "row": range(400)}, {"n": pl.Int32, "row": pl.Int32})
    crop_bytes = 3 * 232 * 232
    blocks = _blocks(table, crop_bytes)
    assert pl.concat(blocks)["row"].to_list() == list(range(400))
    assert max(block["n"].sum() for block in blocks) * crop_bytes < BLOCK_BYTES + 100 * crop_bytes


def test_a_file_that_holds_no_table_is_not_replaced(sample_run: SampleRun, tmp_path: Path) -> None:
    (notes := tmp_path / "notes.parquet").write_text("mine")
    with pytest.raises(PolyplinkError, match=r"notes\.parquet is a file of another kind"):
        embed_data(sample_run.run, sample_run.data, out=notes)
    assert notes.read_text() == "mine"


def test_fragments_have_the_polyps_of_their_tracklets(sample_run: SampleRun) -> None:
    tracklets, fragments = (
        encode([COLOUR], sample_run.data, "eval"),
        encode([COLOUR], sample_run.data, "eval", clip=4),
    )
    tracklet_samples, fragment_samples = (
        samples_of(encoded.prepared, encoded.clip) for encoded in (tracklets, fragments)
    )
    assert len(fragment_samples.tracklet_ids) == 2 * len(tracklet_samples.tracklet_ids)
    assert np.bincount(tracklet_samples.polyp).tolist() == [3, 3]
    assert np.bincount(fragment_samples.polyp).tolist() == [6, 6]
    boxes = tracklet_boxes(tracklets.prepared, tracklet_samples)
    assert boxes.sizes.tolist() == tracklets.table["n"].to_list()
    assert boxes.box[0].tolist() == [10.0, 8.0, 16.0, 12.0]


def test_baselines_have_the_same_rows_and_other_tracklets_are_refused(
    sample_run: SampleRun,
) -> None:
    encoder = load_named(sample_run.run, "cpu")
    encoded = encode([encoder], sample_run.data, "eval").add(baselines(encoder))
    assert list(encoded.vectors) == ["ntssl-demo", "untrained encoder", "colour histogram"]
    assert {len(vectors) for vectors in encoded.vectors.values()} == {6}
    assert not np.allclose(encoded.vectors["ntssl-demo"], encoded.vectors["untrained encoder"])
    other_tracklets = replace(COLOUR, name="short", prepare=replace(COLOUR.prepare, min_length=40))
    with pytest.raises(PolyplinkError, match="short has other settings of tracklets"):
        encoded.add([other_tracklets])


def test_only_an_added_procedure_is_embedded(sample_run: SampleRun, tmp_path: Path) -> None:
    data, both = read_data(sample_run.data), pl.col("procedure_id").is_in(["001-001", "001-002"])
    procedures, polyps = data.procedures.filter(both), data.polyps.filter(both)
    first = data.detections.filter(procedure_id="001-001")
    write_data(tmp_path, DataSet.of(first, procedures, polyps))
    encode([COLOUR], tmp_path)
    write_data(tmp_path, DataSet.of(data.detections.filter(both), procedures, polyps))
    n_tracklets: list[int] = []

    def counting_embedder(crops: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
        n_tracklets.append(len(lengths))
        return mean_colour(crops, lengths)

    encoded = encode([replace(COLOUR, embedder=counting_embedder)], tmp_path)
    assert n_tracklets == [6]  # the tracklets of one procedure
    whole = encode([COLOUR], sample_run.data).vectors["colour"]
    assert np.array_equal(encoded.vectors["colour"], whole[:12])
    files = {path.stem for path in vectors_folder(COLOUR, encoded.prepared).glob("*.parquet")}
    assert files == {encoded.prepared.stem(name) for name in ("001-001", "001-002")}
