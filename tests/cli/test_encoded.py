"""Prepared, embedded, cached: what every verb that needs vectors stands on."""

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
from polyplink.encoders.encode import encode
from polyplink.encoders.load import NamedEncoder, baselines, load_named
from polyplink.encoders.vectors import read_embeddings, write_embeddings
from polyplink.evaluate.truth import samples_of, tracklet_boxes
from tests.conftest import SampleRun, recipe


def mean_colour(crops: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
    starts = np.cumsum([0, *lengths])
    means = [crops[a:b].mean(axis=(0, 1, 2)) for a, b in pairwise(starts)]
    return np.stack(means).astype(np.float32)


def never(crops: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
    raise AssertionError("embedded twice")


COLOUR = NamedEncoder("colour", "colour-once", mean_colour, torch.device("cpu"), recipe().prepare)


def test_vectors_are_kept_and_found_again(
    sample_run: SampleRun, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    embed = partial(embed_data, sample_run.run, sample_run.data, part="eval", device="cpu")
    first = embed(out=tmp_path / "v.parquet").value
    stages: list[str] = []
    again = embed(progress=lambda stage, done, total: stages.append(stage)).value
    assert not [stage for stage in stages if stage.startswith("embed")]
    vectors = first.vectors["ntssl-demo"]
    assert np.array_equal(vectors, again.vectors["ntssl-demo"])
    assert np.array_equal(read_embeddings(tmp_path / "v.parquet").vectors, vectors)
    assert first.embeddings["ntssl-demo"].crops_id == first.prepared.key
    stem = again.prepared.stem(again.prepared.procedures[0])
    file = again.folders["ntssl-demo"] / f"{stem}.parquet"
    stored, whole = read_embeddings(file), file.read_bytes()
    narrow = replace(stored, vectors=stored.vectors[:, :3])
    for spoil in (
        lambda: file.write_bytes(b"junk"),
        lambda: write_embeddings(file, narrow),
        lambda: write_embeddings(file, replace(stored, vectors=stored.vectors * np.nan)),
        lambda: write_embeddings(file, replace(stored, weights_id="others")),
    ):
        spoil()
        caplog.clear()
        assert np.array_equal(embed().value.vectors["ntssl-demo"], vectors)
        assert f"{file} is damaged or of other tracklets; it is made again" in caplog.text
        assert file.read_bytes() == whole


@pytest.mark.parametrize("clip", [None, 4])
def test_rows_are_embedded_once_by_key_and_length(sample_run: SampleRun, clip: int | None) -> None:
    first = encode([COLOUR], sample_run.data, "eval", clip=clip)
    cached = replace(COLOUR, embedder=never)
    again = encode([cached], sample_run.data, "eval", clip=clip)
    assert np.array_equal(first.vectors["colour"], again.vectors["colour"])
    # Vectors of other rows under this name are not believed.
    other = encode([COLOUR], sample_run.data, "train", clip=clip)
    own, theirs = (
        one.folders["colour"] / f"{one.prepared.stem(one.prepared.procedures[0])}.parquet"
        for one in (first, other)
    )
    own.write_bytes(theirs.read_bytes())
    with pytest.raises(AssertionError, match="embedded twice"):
        encode([cached], sample_run.data, "eval", clip=clip)
    assert len(encode([COLOUR], sample_run.data, "eval", clip=clip).vectors["colour"]) == len(
        first.table
    )


def test_fragments_are_of_their_tracklets_polyps_and_boxes_are_the_tracklets(
    sample_run: SampleRun,
) -> None:
    whole, parts = (
        encode([COLOUR], sample_run.data, "eval"),
        encode([COLOUR], sample_run.data, "eval", clip=4),
    )
    of_whole, of_parts = (samples_of(one.prepared, one.clip) for one in (whole, parts))
    assert len(of_parts.tracklet_ids) == 2 * len(of_whole.tracklet_ids)
    assert np.bincount(of_whole.polyp).tolist() == [3, 3]
    assert np.bincount(of_parts.polyp).tolist() == [6, 6]
    boxes = tracklet_boxes(whole.prepared, of_whole)
    assert boxes.sizes.tolist() == whole.table["n"].to_list()
    assert boxes.box[0].tolist() == [10.0, 8.0, 16.0, 12.0]


def test_baselines_stand_on_the_same_rows_and_other_tracklets_are_refused(
    sample_run: SampleRun,
) -> None:
    ours = load_named(sample_run.run, "cpu")
    found = encode([ours], sample_run.data, "eval").add(baselines(ours))
    assert list(found.vectors) == ["ntssl-demo", "untrained encoder", "colour histogram"]
    assert {len(vectors) for vectors in found.vectors.values()} == {6}
    assert not np.allclose(found.vectors["ntssl-demo"], found.vectors["untrained encoder"])
    short = replace(COLOUR, name="short", prepare=replace(COLOUR.prepare, min_length=40))
    with pytest.raises(PolyplinkError, match="short has other settings of tracklets"):
        found.add([short])


def test_an_added_procedure_is_the_only_one_that_is_embedded(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    whole = read_data(sample_run.data)
    names = whole.procedures["procedure_id"].to_list()
    few = pl.col("procedure_id").is_in(names[:-1])
    write_data(tmp_path, DataSet.of(whole.detections.filter(few), whole.procedures, whole.polyps))
    encode([COLOUR], tmp_path)
    write_data(tmp_path, whole)
    seen: list[int] = []

    def counting(crops: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
        seen.append(len(lengths))
        return mean_colour(crops, lengths)

    found = encode([replace(COLOUR, embedder=counting)], tmp_path)
    assert seen == [6]  # the tracklets of one procedure
    assert np.array_equal(
        found.vectors["colour"], encode([COLOUR], sample_run.data).vectors["colour"]
    )
    files = {path.stem for path in found.folders["colour"].glob("*.parquet")}
    assert files == {found.prepared.stem(name) for name in names}
