"""Foundation encoders: presets, pooling, clips, and unsupported settings of each model."""

import importlib
from dataclasses import replace
from types import ModuleType

import pytest
import torch
from hypothesis import given, strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.encoders.build import build_encoder
from polyplink.encoders.catalogue import FOUNDATION, find_spec
from polyplink.encoders.config import FoundationConfig
from polyplink.encoders.foundation import ClipFoundation, FrameFoundation, clip_starts, pool
from polyplink.encoders.spec import Pooling, from_published_names, transformers
from tests.encoders.small import CLIPS, random_crops, random_encoder


def test_every_model_has_a_preset_of_its_authors_and_the_reference_one() -> None:
    assert set(FOUNDATION) == {
        *(f"dinov2-{size}" for size in "sblg"),
        *(f"dinov3-{size}" for size in "sbl"),
        *("vjepa2-l", "endofm", "endofm-lv", "endovit", "surgenet"),
    }
    settled = {name: spec.settle(FoundationConfig(model=name)) for name, spec in FOUNDATION.items()}
    assert settled["endovit"].mean == (0.3464, 0.2280, 0.2228)
    assert {name for name, config in settled.items() if config.size != 224} == {"vjepa2-l"}
    clips = {name: config.clip for name, config in settled.items() if config.clip != 1}
    assert clips == {"endofm": 8, "endofm-lv": 32, "vjepa2-l": 64}
    for name, spec in FOUNDATION.items():
        assert spec.source
        assert spec.licence
        reference = spec.settle(FoundationConfig(model=name, preset="reference"))
        assert (reference.size, reference.mean, reference.std) == (224, (0.45,) * 3, (0.225,) * 3)
        assert reference.clip == 0


def test_explicit_values_override_the_preset() -> None:
    config = FoundationConfig(model="dinov2-b", preset="reference", mean=(0, 0, 0), pooling="cat")
    settled = find_spec("dinov2-b").settle(config)
    assert (settled.mean, settled.pooling, settled.std) == ((0, 0, 0), "cat", (0.225,) * 3)
    assert find_spec("dinov2-b").settle(settled) == settled


@pytest.mark.parametrize(
    ("model", "values", "message"),
    [
        ("dinov2-s", {"size": 232}, "patches of 14 pixels, and 232 is not a multiple.*size=238"),
        ("surgenet", {"size": 232}, "patches of 32 pixels.*encoder.size=224"),
        ("surgenet", {"pooling": "cls"}, "surgenet has no pooling 'cls'; .* mean"),
        ("endovit", {"size": 232}, "endovit only takes images of 224 pixels, not 232"),
        ("vjepa2-l", {"size": 32, "clip": 1}, "takes clips of 2 frames or more, not 1"),
    ],
)
def test_settings_that_a_model_does_not_support_are_refused(
    model: str, values: dict[str, object], message: str
) -> None:
    with pytest.raises(PolyplinkError, match=message):
        random_encoder(FoundationConfig(model=model, depth=1, **values))  # type: ignore[arg-type]


def test_crops_of_another_size_and_clips_too_short_are_refused() -> None:
    with torch.device("meta"):  # refused before anything is computed
        encoder = build_encoder(FoundationConfig("vjepa2-l", depth=1, size=64))
    with pytest.raises(PolyplinkError, match="64 pixels, and these crops have 32 x 48"):
        encoder(torch.zeros(2, 48, 32, 3, dtype=torch.uint8), [2])
    with pytest.raises(PolyplinkError, match="takes clips of 2 frames or more, but a tracklet has"):
        encoder(random_crops(4, size=64), [3, 1])


@pytest.mark.parametrize("prefix", [1, 5])
@pytest.mark.parametrize("pooling", ["cls", "mean", "patchmean", "cat"])
def test_poolings_equal_a_loop(pooling: Pooling, prefix: int) -> None:
    tokens = torch.rand(3, 9, 4)
    actual = pool(tokens, pooling, prefix)
    for image in range(3):
        rows = tokens[image].tolist()
        mean = [sum(row[k] for row in rows) / 9 for k in range(4)]
        patches = [sum(row[k] for row in rows[prefix:]) / (9 - prefix) for k in range(4)]
        naive = {"cls": rows[0], "mean": mean, "patchmean": patches, "cat": rows[0] + patches}
        assert torch.allclose(actual[image], torch.tensor(naive[pooling]), atol=1e-6)


@torch.no_grad()
def test_a_tracklet_is_the_mean_of_its_pooled_frames() -> None:
    config = FoundationConfig(
        model="dinov2-s", depth=1, size=28, pooling="cat", mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7)
    )
    encoder = random_encoder(config)
    assert isinstance(encoder, FrameFoundation)
    frames = random_crops(5, size=28)
    actual = encoder(frames, [2, 3])
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (config.mean, config.std))
    pixels = (frames.permute(0, 3, 1, 2) / 255 - mean) / std
    vectors = pool(encoder.spec.tokens(encoder.backbone, pixels), "cat")
    assert torch.allclose(actual.frames, vectors, atol=1e-5)
    assert torch.allclose(actual.tracklet[1], vectors[2:].mean(dim=0), atol=1e-5)
    assert encoder.width == 2 * 384


@torch.no_grad()
@pytest.mark.parametrize(("preset", "prefix"), [("own", 5), ("reference", 1)])
def test_only_the_reference_preset_pools_registers_as_patches(preset: str, prefix: int) -> None:
    config = FoundationConfig("dinov3-s", preset=preset, pooling="patchmean", size=32, depth=1)  # type: ignore[arg-type]
    encoder, pixels = random_encoder(config), torch.rand(1, 3, 32, 32)
    assert isinstance(encoder, FrameFoundation)
    expected = pool(encoder.spec.tokens(encoder.backbone, pixels), "patchmean", prefix)
    assert torch.equal(encoder.pooled(pixels), expected)


@given(st.integers(1, 300), st.integers(0, 70))
def test_every_frame_is_in_a_clip_and_no_clip_leaves_the_tracklet(frames: int, clip: int) -> None:
    starts = clip_starts(frames, clip)
    size = min(clip or frames, frames)
    assert starts == sorted(set(starts))
    assert starts[0] == 0
    assert starts[-1] + size == frames
    assert set(range(frames)) == {start + i for start in starts for i in range(size)}
    assert len(starts) == -(-frames // size)  # as few as possible


@torch.no_grad()
def test_a_long_tracklet_is_the_mean_of_its_clips() -> None:
    in_clips, in_one_clip = random_encoder(CLIPS), random_encoder(replace(CLIPS, clip=0))
    frames = random_crops(10)
    actual = in_clips(frames, [10])
    parts = [(start, in_one_clip(frames[start : start + 4], [4])) for start in clip_starts(10, 4)]
    mean = sum(tokens.tracklet for _, tokens in parts) / len(parts)
    assert torch.allclose(actual.tracklet, torch.as_tensor(mean), atol=1e-5)
    for frame in range(10):
        vectors = [t.frames[frame - start] for start, t in parts if start <= frame < start + 4]
        assert torch.allclose(actual.frames[frame], torch.stack(vectors).mean(dim=0), atol=1e-5)
    short = in_clips(frames[:3], [3])
    assert torch.allclose(short.tracklet, in_one_clip(frames[:3], [3]).tracklet)


@torch.no_grad()
def test_poolings_of_clips_follow_their_definitions() -> None:
    clip = torch.rand(1, 3, 3, 32, 32)
    encoder = random_encoder(CLIPS)
    assert isinstance(encoder, ClipFoundation)
    patches, cls = encoder.spec.tokens(encoder.backbone, clip)
    all_tokens = torch.cat([cls[:, None], patches.flatten(1, 2)], dim=1)  # 1 1+t*p d
    # The papers' program averages patches over time before it pools: 1 of 5 tokens is CLS.
    tokens_averaged = torch.cat([cls[:, None], patches.mean(dim=1)], dim=1)  # 1 1+p d
    naive = {
        "cls": all_tokens[:, 0],
        "mean": tokens_averaged.mean(dim=1),
        "patchmean": all_tokens[:, 1:].mean(dim=1),
    }
    naive["cat"] = torch.cat([naive["cls"], naive["patchmean"]], dim=1)
    for pooling, expected in naive.items():
        encoder.pooling = pooling  # type: ignore[assignment]
        actual = encoder.pooled(clip)
        assert torch.allclose(actual.tracklet, expected, atol=1e-5)
        assert expected.shape[1] == actual.frames.shape[1]


def test_renaming_keeps_unknown_tensors_and_adds_no_missing_ones() -> None:
    library = transformers()
    shape = library.Dinov2Config(hidden_size=12, num_hidden_layers=1, num_attention_heads=2)
    state = {"embeddings.cls_token": torch.ones(1, 1, 12), "stranger": torch.zeros(1)}
    actual = from_published_names(library.Dinov2Model, shape, state)
    assert set(actual) == set(state)
    assert torch.equal(actual["embeddings.cls_token"], torch.ones(1, 1, 12))


def test_a_missing_library_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_missing_module(name: str) -> ModuleType:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(importlib, "import_module", raise_missing_module)
    with pytest.raises(PolyplinkError, match=r"transformers.*polyplink\[foundation\]"):
        transformers()
