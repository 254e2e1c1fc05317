"""Foundation encoders: presets, pooling, clips, and what a model refuses."""

import importlib
from types import ModuleType

import pytest
import torch
from hypothesis import given, strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.encoders.catalogue import FOUNDATION, find_spec
from polyplink.encoders.config import FoundationConfig
from polyplink.encoders.foundation import ClipFoundation, FrameFoundation, clip_starts, pool
from polyplink.encoders.spec import Pooling, from_published_names, transformers
from tests.encoders.small import crops, made


def test_each_has_its_own_preset_and_the_references() -> None:
    assert set(FOUNDATION) == {
        *(f"dinov2-{size}" for size in "sblg"),
        *(f"dinov3-{size}" for size in "sbl"),
        *("vjepa2-l", "endofm", "endofm-lv", "endovit", "surgenet"),
    }
    own = {name: spec.settle(FoundationConfig(model=name)) for name, spec in FOUNDATION.items()}
    assert own["endovit"].mean == (0.3464, 0.2280, 0.2228)
    assert {name for name, one in own.items() if one.size != 224} == {"vjepa2-l"}
    clips = {name: one.clip for name, one in own.items() if one.clip != 1}
    assert clips == {"endofm": 8, "endofm-lv": 32, "vjepa2-l": 64}
    for name, spec in FOUNDATION.items():
        assert spec.source
        assert spec.licence
        there = spec.settle(FoundationConfig(model=name, preset="reference"))
        assert (there.size, there.mean, there.std) == (224, (0.45,) * 3, (0.225,) * 3)
        assert there.clip == 0


def test_given_values_override_the_preset() -> None:
    config = FoundationConfig(model="dinov2-b", preset="reference", mean=(0, 0, 0), pooling="cat")
    settled = find_spec("dinov2-b").settle(config)
    assert (settled.mean, settled.pooling, settled.std) == ((0, 0, 0), "cat", (0.225,) * 3)
    assert find_spec("dinov2-b").settle(settled) == settled


@pytest.mark.parametrize(
    ("model", "values", "says"),
    [
        ("endofn", {}, "no foundation encoder 'endofn'; did you mean endofm"),
        ("dinov2-s", {"size": 232}, "patches of 14 pixels, and 232 is not a multiple.*size=238"),
        ("surgenet", {"size": 232}, "patches of 32 pixels.*encoder.size=224"),
        ("surgenet", {"pooling": "cls"}, "surgenet has no pooling 'cls'; .* mean"),
        ("endovit", {"size": 232}, "endovit only takes images of 224 pixels, not 232"),
        ("vjepa2-l", {"size": 32, "clip": 1}, "takes clips of 2 frames or more, not 1"),
    ],
)
def test_what_a_model_does_not_support(model: str, values: dict[str, object], says: str) -> None:
    with pytest.raises(PolyplinkError, match=says):
        made(FoundationConfig(model=model, depth=1, **values))  # type: ignore[arg-type]


def test_crops_of_another_size_or_too_few_are_refused() -> None:
    encoder = made(FoundationConfig("vjepa2-l", depth=1, size=64))
    with pytest.raises(PolyplinkError, match="64 pixels, and these crops have 32 x 48"):
        encoder(torch.zeros(2, 48, 32, 3, dtype=torch.uint8), [2])
    with pytest.raises(PolyplinkError, match="takes clips of 2 frames or more, but a tracklet has"):
        encoder(crops(4, size=64), [3, 1])


@pytest.mark.parametrize("prefix", [1, 5])
@pytest.mark.parametrize("pooling", ["cls", "mean", "patchmean", "cat"])
def test_poolings_equal_a_loop(pooling: Pooling, prefix: int) -> None:
    tokens = torch.rand(3, 9, 4)
    found = pool(tokens, pooling, prefix)
    for image in range(3):
        rows = tokens[image].tolist()
        mean = [sum(row[k] for row in rows) / 9 for k in range(4)]
        patches = [sum(row[k] for row in rows[prefix:]) / (9 - prefix) for k in range(4)]
        naive = {"cls": rows[0], "mean": mean, "patchmean": patches, "cat": rows[0] + patches}
        assert torch.allclose(found[image], torch.tensor(naive[pooling]), atol=1e-6)


@torch.no_grad()
def test_a_tracklet_is_the_mean_of_its_pooled_frames() -> None:
    config = FoundationConfig(
        model="dinov2-s", depth=1, size=28, pooling="cat", mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7)
    )
    encoder = made(config)
    assert isinstance(encoder, FrameFoundation)
    frames = crops(5, size=28)
    found = encoder(frames, [2, 3])
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (config.mean, config.std))
    pixels = (frames.permute(0, 3, 1, 2) / 255 - mean) / std
    vectors = pool(encoder.spec.tokens(encoder.backbone, pixels), "cat")
    assert torch.allclose(found.frames, vectors, atol=1e-5)
    assert torch.allclose(found.tracklet[1], vectors[2:].mean(dim=0), atol=1e-5)
    assert encoder.width == 2 * 384


@torch.no_grad()
@pytest.mark.parametrize(("preset", "prefix"), [("own", 5), ("reference", 1)])
def test_registers_are_patches_in_the_reference_alone(preset: str, prefix: int) -> None:
    config = FoundationConfig("dinov3-s", preset=preset, pooling="patchmean", size=32, depth=1)  # type: ignore[arg-type]
    encoder, pixels = made(config), torch.rand(1, 3, 32, 32)
    assert isinstance(encoder, FrameFoundation)
    wanted = pool(encoder.spec.tokens(encoder.backbone, pixels), "patchmean", prefix)
    assert torch.equal(encoder.pooled(pixels), wanted)


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
    cut = made(FoundationConfig(model="endofm", depth=1, size=32, clip=4))
    whole = made(FoundationConfig(model="endofm", depth=1, size=32, clip=0))
    frames = crops(10)
    found = cut(frames, [10])
    parts = [(start, whole(frames[start : start + 4], [4])) for start in clip_starts(10, 4)]
    mean = sum(tokens.tracklet for _, tokens in parts) / len(parts)
    assert torch.allclose(found.tracklet, torch.as_tensor(mean), atol=1e-5)
    for frame in range(10):
        own = [t.frames[frame - start] for start, t in parts if start <= frame < start + 4]
        assert torch.allclose(found.frames[frame], torch.stack(own).mean(dim=0), atol=1e-5)
    short = cut(frames[:3], [3])
    assert torch.allclose(short.tracklet, whole(frames[:3], [3]).tracklet)


@torch.no_grad()
def test_poolings_of_clips_follow_their_definitions() -> None:
    clip = torch.rand(1, 3, 3, 32, 32)
    encoder = made(FoundationConfig(model="endofm", depth=1, size=32))
    assert isinstance(encoder, ClipFoundation)
    patches, cls = encoder.spec.tokens(encoder.backbone, clip)
    every = torch.cat([cls[:, None], patches.flatten(1, 2)], dim=1)  # 1 1+t*p d
    # The program averages patches over time before it pools: of 5 tokens one is CLS.
    in_time = torch.cat([cls[:, None], patches.mean(dim=1)], dim=1)  # 1 1+p d
    naive = {"cls": every[:, 0], "mean": in_time.mean(dim=1), "patchmean": every[:, 1:].mean(dim=1)}
    naive["cat"] = torch.cat([naive["cls"], naive["patchmean"]], dim=1)
    for pooling, wanted in naive.items():
        other = made(FoundationConfig("endofm", depth=1, size=32, pooling=pooling))  # type: ignore[arg-type]
        assert isinstance(other, ClipFoundation)
        found = other.pooled(clip)
        assert torch.allclose(found.tracklet, wanted, atol=1e-5)
        assert wanted.shape[1] == other.width == found.frames.shape[1]


def test_tensors_that_the_loader_missed_or_did_not_use_can_be_seen() -> None:
    library = transformers()
    shape = library.Dinov2Config(hidden_size=12, num_hidden_layers=1, num_attention_heads=2)
    state = {"embeddings.cls_token": torch.ones(1, 1, 12), "stranger": torch.zeros(1)}
    found = from_published_names(library.Dinov2Model, shape, state)
    assert set(found) == set(state)
    assert torch.equal(found["embeddings.cls_token"], torch.ones(1, 1, 12))


def test_a_missing_library_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str) -> ModuleType:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(importlib, "import_module", gone)
    with pytest.raises(PolyplinkError, match=r"transformers.*polyplink\[foundation\]"):
        transformers()
