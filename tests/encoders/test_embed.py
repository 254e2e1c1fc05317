"""Embedding whole tracklets of any length."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.encoders import (
    EncoderConfig,
    NetworkEmbedder,
    TrackletEncoder,
    colour_histogram,
    embed,
)
from polyplink.encoders.embed import equal_groups, length_groups
from polyplink.tracklets import PrepareSettings, prepare
from tests.encoders.small import CLIPS, made
from tests.samples import write_procedures

SETTINGS = PrepareSettings(size=32, crop_factor=2.0)


def network() -> TrackletEncoder:
    torch.manual_seed(0)
    return TrackletEncoder(
        EncoderConfig(frame_encoder="timm:test_resnet", width=16, layers=1, heads=2, feedforward=16)
    )


def random_crops(n: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (n, 32, 32, 3), dtype=np.uint8)


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(2, 100))
def test_groups_hold_everything_once_within_the_bound(lengths: list[int], most: int) -> None:
    groups = length_groups(lengths, most)
    assert sorted(i for group in groups for i in group) == list(range(len(lengths)))
    for group in groups:
        assert len(group) == 1 or len(group) * (1 + max(lengths[i] for i in group)) <= most


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 100))
def test_clips_of_one_length_go_together_within_the_bound(lengths: list[int], most: int) -> None:
    groups = equal_groups(lengths, most)
    assert sorted(i for group in groups for i in group) == list(range(len(lengths)))
    for group in groups:
        assert len({lengths[i] for i in group}) == 1
        assert len(group) == 1 or sum(lengths[i] for i in group) <= most


@pytest.mark.parametrize("per_pass", [1, 7, 1000])
def test_vectors_of_clips_are_those_of_the_encoder(per_pass: int) -> None:
    lengths, encoder = [3, 2, 3], made(CLIPS)
    crops = random_crops(8)
    vectors = NetworkEmbedder(encoder, frames_per_pass=per_pass)(crops, lengths)
    with torch.no_grad():
        wanted = encoder(torch.from_numpy(crops), lengths).tracklet.numpy()
    assert np.allclose(vectors, wanted, atol=1e-5)


@pytest.mark.parametrize(("per_pass", "most"), [(1, 2), (7, 30), (1000, 10_000)])
def test_blocks_and_groups_change_nothing(per_pass: int, most: int) -> None:
    lengths = [5, 1, 9, 3, 9]
    crops = random_crops(sum(lengths))
    encoder = network().eval()
    vectors = NetworkEmbedder(encoder, frames_per_pass=per_pass, most_tokens=most)(crops, lengths)
    with torch.no_grad():
        start = 0
        for row, length in enumerate(lengths):
            alone = encoder(torch.from_numpy(crops[start : start + length]), [length]).tracklet
            assert np.allclose(vectors[row], alone[0].numpy(), atol=1e-5)
            start += length


def test_histogram_equals_a_loop() -> None:
    lengths, crops = [2, 3], random_crops(5)
    found = colour_histogram(crops, lengths, bins=4)
    start = 0
    for row, length in enumerate(lengths):
        naive = np.zeros(64)
        for pixel in crops[start : start + length].reshape(-1, 3):
            r, g, b = (int(v) * 4 // 256 for v in pixel)
            naive[r * 16 + g * 4 + b] += 1
        assert np.allclose(found[row], naive / naive.sum(), atol=1e-7)
        start += length


def test_a_data_set_is_embedded_in_the_order_of_its_tracklets(tmp_path: Path) -> None:
    prepared = prepare(write_procedures(tmp_path, procedures=2), SETTINGS)
    seen: list[tuple[int, int]] = []
    embeddings = embed(
        prepared, colour_histogram, "histogram", progress=lambda a, b: seen.append((a, b))
    )
    assert embeddings.tracklet_ids == prepared.tracklets["tracklet_id"].to_list()
    assert seen == [(6, 12), (12, 12)]
    row = prepared.tracklets.row(7, named=True)
    own = prepared.crops(row["procedure_id"])[row["crop_first"] :][: row["n_crops"]]
    assert np.allclose(embeddings.vectors[7], colour_histogram(own, [row["n_crops"]])[0])
    assert embeddings.crops_id == prepared.key


def test_nothing_to_embed_and_broken_vectors(tmp_path: Path) -> None:
    folder = write_procedures(tmp_path, procedures=2, views=1)
    short = prepare(folder, PrepareSettings(size=32, min_length=99))
    assert embed(short, colour_histogram, "x").vectors.shape == (0, 1)  # no mistake: no polyps
    whole = prepare(folder, SETTINGS)
    with pytest.raises(PolyplinkError, match="vector of tracklet 001-001:00000 is not finite"):
        embed(whole, lambda crops, lengths: np.full((len(lengths), 2), np.nan), "x")
