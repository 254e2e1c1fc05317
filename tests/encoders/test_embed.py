"""Embedding of tracklets and fragments, devices and precision, and the table of vectors."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn

from polyplink.core.errors import PolyplinkError
from polyplink.encoders.config import AnyEncoderConfig, SfeConfig
from polyplink.encoders.device import memory_suffices, pick_device, place, precision
from polyplink.encoders.embed import (
    NetworkEmbedder,
    colour_histogram,
    fold_batch_norms,
    length_groups,
)
from polyplink.encoders.encode import (
    Embeddings,
    crops_of,
    embed,
    fragment_table,
    read_embeddings,
    write_embeddings,
)
from polyplink.encoders.encoder import Encoder, FrameWise
from polyplink.tracklets.prepare import Prepared, prepare
from polyplink.tracklets.settings import PrepareSettings
from tests.encoders.small import CLIPS, TRANSFORMER, random_crops, random_encoder
from tests.samples import write_procedures

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    settings = PrepareSettings(size=16, crop_factor=2.0, stride=1)
    folder = write_procedures(tmp_path_factory.mktemp("embed"), procedures=2, length=37)
    return prepare(folder, settings, workers=1)


def nan_embedder(crops: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
    return np.full((len(lengths), 3), np.nan, np.float32)


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(2, 100))
def test_length_groups_hold_every_tracklet_once_within_the_limit(
    lengths: list[int], most: int
) -> None:
    padded = length_groups(lengths, most, beside=1)
    equal = length_groups(lengths, most, equal=True)
    for groups in (padded, equal):
        assert sorted(i for group in groups for i in group) == list(range(len(lengths)))
    for group in padded:
        assert len(group) == 1 or len(group) * (1 + max(lengths[i] for i in group)) <= most
    for group in equal:
        assert len({lengths[i] for i in group}) == 1
        assert len(group) == 1 or sum(lengths[i] for i in group) <= most


@torch.no_grad()
@pytest.mark.parametrize("config", [TRANSFORMER, CLIPS], ids=["frames", "clips"])
@pytest.mark.parametrize(("per_pass", "most"), [(1, 2), (7, 30)])
def test_vectors_do_not_depend_on_blocks_and_groups(
    config: AnyEncoderConfig, per_pass: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths, encoder = [5, 2, 9, 3, 9], random_encoder(config)
    frames = random_crops(sum(lengths))
    monkeypatch.setattr("polyplink.encoders.embed.FRAMES_PER_PASS", per_pass)
    monkeypatch.setattr("polyplink.encoders.embed.MOST_TOKENS", most)
    vectors = NetworkEmbedder(encoder)(frames.numpy(), lengths)
    for vector, part in zip(vectors, torch.split(frames, lengths), strict=True):
        vector_alone = encoder(part, [len(part)]).tracklet
        assert np.allclose(vector, vector_alone[0].numpy(), atol=1e-5)


class Net(FrameWise):
    """A convolution and a BatchNorm, called in the order that a test chooses."""

    def __init__(self, call: Callable[[nn.Module, nn.Module, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.config = SfeConfig()
        self.norm, self.convolution, self.call = nn.BatchNorm2d(3), nn.Conv2d(3, 3, 3), call
        self.keep_pixel_scale((0.5,) * 3, (0.5,) * 3)

    def encode_frames(self, frames: torch.Tensor) -> torch.Tensor:
        features = self.call(self.convolution, self.norm, self.normalised(frames))
        return features.mean(dim=(2, 3))


def with_batch_norm_statistics(encoder: Encoder) -> Encoder:
    """Give BatchNorm layers random statistics, as after training."""
    for layer in encoder.modules():
        if isinstance(layer, nn.BatchNorm2d):
            for value in (layer.weight, layer.bias, layer.running_mean, layer.running_var):
                assert value is not None
                value.data.uniform_(0.5, 1.5)
    return encoder.eval()


@pytest.mark.parametrize("name", ["timm:test_resnet", "timm:test_efficientnet"])
@pytest.mark.parametrize("stages", [(), (0, 1)])
def test_folding_batch_norm_into_convolutions_keeps_the_vectors(
    name: str, stages: tuple[int, ...]
) -> None:
    encoder = with_batch_norm_statistics(
        random_encoder(SfeConfig(frame_encoder=name, stages=stages))
    )
    assert isinstance(encoder, FrameWise)
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    frames, lengths = random_crops(9).numpy(), [4, 5]
    expected = NetworkEmbedder(encoder)(frames, lengths)
    actual = NetworkEmbedder(encoder, frozen=True)(frames, lengths)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    layer_types = [type(layer).__name__ for layer in fold_batch_norms(encoder, 32).modules()]
    assert "Conv2d" in layer_types
    assert not any(kind.startswith("BatchNorm") for kind in layer_types)
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())


@pytest.mark.parametrize(
    ("call", "folds"),
    [
        (lambda convolution, norm, x: norm(convolution(x)), True),
        (lambda convolution, norm, x: convolution(norm(x)), False),
        (lambda convolution, norm, x: norm(convolution(x).relu()), False),
        (lambda convolution, norm, x: norm(y := convolution(x)) + y, False),
        (lambda convolution, norm, x: norm(convolution(norm(x))), False),
    ],
    ids=["norm after", "norm before", "norm later", "used twice", "norm twice"],
)
def test_a_norm_is_folded_only_if_it_runs_directly_after_the_convolution(
    call: Callable[[nn.Module, nn.Module, torch.Tensor], torch.Tensor], folds: bool
) -> None:
    encoder = with_batch_norm_statistics(Net(call))
    assert isinstance(encoder, FrameWise)
    folded_encoder = fold_batch_norms(encoder, 16)
    assert (folded_encoder is not encoder) == folds
    frames = random_crops(3, 16)
    with torch.no_grad():
        expected = encoder.encode_frames(frames)
        torch.testing.assert_close(
            folded_encoder.encode_frames(frames), expected, rtol=1e-5, atol=1e-5
        )


def test_the_histogram_equals_a_loop_over_pixels() -> None:
    lengths, frames = [2, 3], random_crops(5).numpy()
    actual = colour_histogram(frames, lengths, bins=4)
    for row, (start, length) in enumerate(zip([0, 2], lengths, strict=True)):
        naive = np.zeros(64)
        for pixel in frames[start : start + length].reshape(-1, 3):
            r, g, b = (int(v) * 4 // 256 for v in pixel)
            naive[r * 16 + g * 4 + b] += 1
        assert np.allclose(actual[row], naive / naive.sum(), atol=1e-7)


def test_a_data_set_is_embedded_in_the_order_of_its_tracklets(prepared: Prepared) -> None:
    progress_calls: list[tuple[int, int]] = []
    embeddings = embed(
        prepared, colour_histogram, "x", progress=lambda a, b: progress_calls.append((a, b))
    )
    assert embeddings.tracklet_ids == prepared.tracklets["tracklet_id"].to_list()
    assert progress_calls == [(6, 12), (12, 12)]
    row = prepared.tracklets.row(7, named=True)
    crops = prepared.crops(row["procedure_id"])[row["crop_first"] :][: row["n_crops"]]
    assert np.allclose(embeddings.vectors[7], colour_histogram(crops, [row["n_crops"]])[0])
    assert embeddings.crops_id == prepared.key
    assert embed(prepared.select([]), colour_histogram, "x").vectors.shape == (0, 1)
    with pytest.raises(PolyplinkError, match="vector of tracklet 001-001:00000 is not finite"):
        embed(prepared, nan_embedder, "x")
    with pytest.raises(PolyplinkError, match=r"fragment 001-001:00000#0 is not finite"):
        embed(prepared, nan_embedder, "broken", length=8)
    with pytest.raises(PolyplinkError, match="no tracklet has 50 crops"):
        fragment_table(prepared, 50)


def test_tracklets_of_a_long_procedure_are_embedded_in_blocks(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracklets_per_call = list[int]()

    def recording_histogram(crops: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
        tracklets_per_call.append(len(lengths))
        return colour_histogram(crops, lengths)

    unblocked = embed(prepared, recording_histogram, "x")
    per_procedure, tracklets_per_call = tracklets_per_call, []
    monkeypatch.setitem(embed.__globals__, "BLOCK_BYTES", 1)  # a tracklet each
    np.testing.assert_array_equal(
        embed(prepared, recording_histogram, "x").vectors, unblocked.vectors
    )
    assert sum(tracklets_per_call) == sum(per_procedure) == len(unblocked.vectors)
    assert set(tracklets_per_call) == {1}
    assert len(per_procedure) == len(prepared.procedures)


@pytest.mark.parametrize("at_once", [5, 64])
def test_each_fragment_is_embedded_alone(
    prepared: Prepared, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(embed.__globals__, "BLOCK_FRAGMENTS", at_once)
    progress_calls: list[tuple[int, int]] = []
    record_progress = lambda a, b: progress_calls.append((a, b))  # noqa: E731
    arguments = (prepared, colour_histogram, "x")
    embeddings = embed(*arguments, length=8, progress=record_progress)
    table = fragment_table(prepared, 8)
    names = table["fragment_id"].to_list()
    assert list(embeddings.tracklet_ids) == names
    assert [name.split(":")[1] for name in names[3:5]] == ["00000#3", "00001#0"]
    assert len(set(names)) == table.height == 12 * 4  # 37 // 8 of each tracklet
    for row, vector in zip(table.iter_rows(named=True), embeddings.vectors, strict=True):
        first = row["crop_first"]
        crops = prepared.crops(row["procedure_id"])[first : first + 8]
        assert np.allclose(vector, colour_histogram(np.array(crops), [8])[0])
    assert progress_calls[-1] == (table.height, table.height)


@pytest.mark.parametrize("n", [0, 5])
def test_a_written_table_of_vectors_reads_back_equal(tmp_path: Path, n: int) -> None:
    vectors = np.random.default_rng(0).normal(size=(n, 4)).astype(np.float32)
    ids = [f"p:{i}" for i in range(n)]
    write_embeddings(tmp_path / "e.parquet", Embeddings(ids, vectors, "w", "c"))
    reread = read_embeddings(tmp_path / "e.parquet")
    assert list(reread.tracklet_ids) == ids
    assert np.array_equal(reread.vectors, vectors)
    assert (reread.weights_id, reread.crops_id) == (("w", "c") if n else ("", ""))


def test_invalid_tables_of_vectors_are_refused(tmp_path: Path) -> None:
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
    for bad, message in (
        (good.drop("vector"), "no column vector"),
        (good.with_columns(tracklet_id=pl.lit("a")), "'a' occurs twice"),
        (good.with_columns(weights_id=pl.Series(["w", "v"])), "mixes several weights_id"),
    ):
        bad.write_parquet(path)
        with pytest.raises(PolyplinkError, match=message):
            read_embeddings(path)


def test_devices_are_selected_by_name_and_unknown_ones_refused() -> None:
    assert pick_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert pick_device("cpu") == CPU
    for name in ("cuda:99", "abacus"):
        with pytest.raises(PolyplinkError, match=f"no device '{name}'"):
            pick_device(name)


def test_convolutions_are_placed_channels_last() -> None:
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv3d(3, 8, 3))  # a Conv3d has no such layout
    expected = [tensor.detach().clone() for tensor in module.parameters()]
    assert place(module, CPU) is module
    placed = list(module.parameters())
    assert placed[0].is_contiguous(memory_format=torch.channels_last)
    assert all(torch.equal(a, b) for a, b in zip(placed, expected, strict=True))


@torch.no_grad()
def test_matrix_products_are_computed_in_the_requested_precision() -> None:
    a, b = torch.randn(256, 256), torch.randn(256, 256)
    exact = (a.double() @ b.double()).float()
    torch.set_float32_matmul_precision("medium")  # lets oneDNN round to bf16
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16), precision(CPU):
            assert (a @ b).dtype == torch.float32
            torch.testing.assert_close(a @ b, exact, atol=1e-3, rtol=0)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
    with precision(CPU, "bf16"):
        assert (a @ b).dtype == torch.bfloat16
    if torch.cuda.is_available():
        with precision(torch.device("cuda")):
            assert (a.cuda() @ b.cuda()).dtype == torch.bfloat16
        with precision(torch.device("cuda"), "tf32"):
            error = (a.cuda() @ b.cuda()).cpu() - exact
            assert 1e-4 < error.abs().max() < 0.2
    with precision(CPU, "tf32"):  # a CPU has no tf32
        assert torch.get_float32_matmul_precision() == "highest"
        torch.testing.assert_close(a @ b, exact, atol=1e-3, rtol=0)
    encoder, frames = random_encoder(TRANSFORMER), random_crops(6).numpy()
    with pytest.raises(PolyplinkError, match="no precision 'int8' here; give one of: float32, tf"):
        NetworkEmbedder(encoder, compute="int8")(frames, [2, 4])
    wide = NetworkEmbedder(encoder)(frames, [2, 4])
    rounded = NetworkEmbedder(encoder, compute="bf16")(frames, [2, 4])
    assert 1e-5 < np.abs(rounded - wide).max() < 0.2
    norms = np.linalg.norm(rounded, axis=1) * np.linalg.norm(wide, axis=1)
    assert ((rounded * wide).sum(axis=1) > 0.99 * norms).all()


def test_a_failed_allocation_is_one_line_and_other_errors_are_unchanged() -> None:
    with (
        pytest.raises(PolyplinkError, match="the memory of cpu is too small"),
        memory_suffices(CPU),
    ):
        torch.empty(2**60, dtype=torch.uint8)
    with pytest.raises(PolyplinkError, match="shorter clips"), memory_suffices(CPU):
        raise torch.OutOfMemoryError("CUDA out of memory")
    with pytest.raises(RuntimeError, match="shapes"), memory_suffices(CPU):
        raise RuntimeError("shapes do not fit")


def test_crops_that_are_not_kept_are_removed_if_embedding_fails(tmp_path: Path) -> None:
    folder = write_procedures(tmp_path / "data", procedures=1, length=37)
    part = prepare(folder, PrepareSettings(size=16), with_crops=False)
    passing = tmp_path / "passing"
    with (
        pytest.raises(KeyboardInterrupt),
        crops_of(part, data=folder, workers=1, passing=passing) as cut,
    ):
        assert cut.has_crops(part.procedures[0])
        raise KeyboardInterrupt
    assert [path for path in passing.rglob("*") if path.is_file()] == []
    assert not part.has_crops(part.procedures[0])


def test_vectors_exclude_crops_of_broken_frames(tmp_path: Path) -> None:
    folder = write_procedures(tmp_path, procedures=1, views=1, length=37)
    first = prepare(folder, PrepareSettings(size=16, min_length=8, stride=1), with_crops=False)
    image = first.detections["image"][10]
    (folder / first.data.procedures["source"][0] / image).write_bytes(b"half")
    part = prepare(folder, PrepareSettings(size=16, min_length=8, stride=1))
    embeddings = embed(part, colour_histogram, "x")
    assert part.tracklets["crop_first"].to_list()[:2] == [0, 11]
    for row, vector in zip(part.tracklets.iter_rows(named=True), embeddings.vectors, strict=True):
        crops = part.crops(row["procedure_id"])[row["crop_first"] :][: row["n_crops"]]
        assert np.allclose(vector, colour_histogram(crops, [row["n_crops"]])[0])
