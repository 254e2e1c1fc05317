"""Foundation encoders compute the same as the modules published with their weights."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from polyplink.encoders.build import build_encoder
from polyplink.encoders.catalogue import FOUNDATION, find_spec
from polyplink.encoders.config import FoundationConfig
from polyplink.encoders.foundation import Foundation
from polyplink.encoders.published import fit_published, read_published
from tests.encoders.checkpoints import (
    State,
    caformer_shapes,
    golden_state,
    timesformer_shapes,
    vit_shapes,
    write_endofm,
    write_endovit,
)
from tests.encoders.small import random_encoder

GOLDENS = json.loads((Path(__file__).parent / "goldens/encoders.json").read_text())


def load_as_added(path: Path, config: FoundationConfig | None = None) -> Any:
    """Load a published file as `polyplink weights add` does."""
    spec, tensors, settled, *_ = fit_published(path, read_published(path), config)
    assert config is None or spec.name == config.model
    encoder = random_encoder(settled)
    assert isinstance(encoder, Foundation)
    encoder.load_state_dict(dict(tensors))
    return encoder


def tokens_of(encoder: Foundation, pixels: torch.Tensor) -> Any:
    return encoder.spec.tokens(encoder.backbone, pixels)


def with_random_values(model: Any) -> Any:
    """Add noise to every tensor, because many are initialised as zeros and ones."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for value in model.parameters():
            value.add_(torch.randn(value.shape, generator=generator) * 0.05)
    return model.eval()


def concatenated(hub: State, block: str, names: tuple[str, ...], part: str) -> torch.Tensor:
    return torch.cat([hub[f"{block}.{name}.{part}"] for name in names])


def meta_dinov2(hub: State, depth: int) -> State:
    """Names of the Hub changed back to those of dinov2_vits14_pretrain.pth, by hand."""
    state: State = {}
    for name, value in hub.items():
        if ".attention.attention." in name:
            continue
        new_name = {"embeddings.cls_token": "cls_token", "embeddings.mask_token": "mask_token",
                 "embeddings.position_embeddings": "pos_embed"}.get(name, name)  # fmt: skip
        new_name = new_name.replace("embeddings.patch_embeddings.projection", "patch_embed.proj")
        new_name = new_name.replace("encoder.layer.", "blocks.").replace("layernorm.", "norm.")
        new_name = new_name.replace("attention.output.dense", "attn.proj")
        new_name = new_name.replace("mlp.weights_in", "mlp.w12").replace(
            "mlp.weights_out", "mlp.w3"
        )
        state[re.sub(r"layer_scale(\d).lambda1", r"ls\1.gamma", new_name)] = value
    for i in range(depth):
        for part in ("weight", "bias"):
            block = f"encoder.layer.{i}.attention.attention"
            rows = concatenated(hub, block, ("query", "key", "value"), part)
            state[f"blocks.{i}.attn.qkv.{part}"] = rows
    return state


def meta_dinov3(hub: State) -> State:
    """Names of the Hub changed back to those of Meta's file, by hand."""
    state: State = {"rope_embed.periods": torch.ones(16)}
    for name, value in hub.items():
        if re.search(r"\.[qkv]_proj\.", name):
            continue
        new_name = {"embeddings.cls_token": "cls_token", "embeddings.mask_token": "mask_token",
                 "embeddings.register_tokens": "storage_tokens"}.get(name, name)  # fmt: skip
        new_name = new_name.replace("embeddings.patch_embeddings", "patch_embed.proj")
        new_name = re.sub(r"^layer\.", "blocks.", new_name).replace("attention.o_proj", "attn.proj")
        new_name = new_name.replace("mlp.up_proj", "mlp.fc1").replace("mlp.down_proj", "mlp.fc2")
        new_name = re.sub(r"layer_scale(\d).lambda1", r"ls\1.gamma", new_name)
        state[new_name] = value[0] if new_name == "mask_token" else value
    for i in range(2):
        block, qkv = f"layer.{i}.attention", ("q_proj", "k_proj", "v_proj")
        query, value = (hub[f"{block}.{p}_proj.bias"] for p in "qv")
        state[f"blocks.{i}.attn.qkv.weight"] = concatenated(hub, block, qkv, "weight")
        state[f"blocks.{i}.attn.qkv.bias"] = torch.cat([query, query * 0, value])
        state[f"blocks.{i}.attn.qkv.bias_mask"] = torch.ones(3 * 384)
    return state


def meta_vjepa2(hub: State) -> State:
    """Names of the Hub changed back to those of vitl.pt, by hand."""
    state: State = {"pos_embed": torch.zeros(1, 4, 1024)}
    for name, value in hub.items():
        if name.startswith("predictor.") or re.search(r"attention\.(query|key|value)", name):
            continue
        new_name = name.replace("encoder.embeddings.patch_embeddings.proj", "patch_embed.proj")
        new_name = new_name.replace("encoder.layernorm.", "norm.").replace(
            "attention.proj", "attn.proj"
        )
        state[new_name.replace("encoder.layer.", "blocks.")] = value
    for part in ("weight", "bias"):
        rows = concatenated(hub, "encoder.layer.0.attention", ("query", "key", "value"), part)
        state[f"blocks.0.attn.qkv.{part}"] = rows
    return {f"module.backbone.{name}": value for name, value in state.items()}


@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "depth"),
    [("dinov2-s", 2), pytest.param("dinov2-g", 1, marks=pytest.mark.slow), ("dinov3-s", 2)],
)
def test_dino_equals_transformers_from_either_layout(name: str, depth: int, tmp_path: Path) -> None:
    spec = find_spec(name)
    size = 2 * spec.patch
    config = FoundationConfig(model=name, depth=depth, size=size)
    model = with_random_values(spec.network(spec, config))
    model.save_pretrained(tmp_path)
    path, meta = tmp_path / "model.safetensors", tmp_path / "meta.pth"
    hub = load_file(path)
    torch.save(meta_dinov2(hub, depth) if "v2" in name else meta_dinov3(hub), meta)
    pixels = torch.rand(2, 3, size, size)
    expected = model(pixels).last_hidden_state
    for file in (path, meta):
        encoder = load_as_added(file, config)
        assert expected.shape == (2, spec.prefix + 4, spec.width)
        assert torch.equal(tokens_of(encoder, pixels), expected)
        encoder.train()  # in which DINOv3 itself augments its positions
        assert torch.equal(tokens_of(encoder, pixels), expected)


VJEPA2 = FoundationConfig(model="vjepa2-l", depth=1, size=32)


@pytest.mark.slow
@torch.no_grad()
def test_vjepa2_equals_transformers_from_either_layout(tmp_path: Path) -> None:
    spec = find_spec("vjepa2-l")
    model = with_random_values(spec.network(spec, spec.settle(VJEPA2)))
    model.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    torch.save({"encoder": meta_vjepa2(load_file(path)), "predictor": {}}, tmp_path / "vitl.pt")
    clips = torch.rand(2, 4, 3, 32, 32)
    expected = model(clips, skip_predictor=True).last_hidden_state  # 2 2*4 1024
    for file in (path, tmp_path / "vitl.pt"):
        encoder = load_as_added(file, VJEPA2)
        patches, cls = tokens_of(encoder, clips)
        assert cls is None
        assert torch.equal(patches.flatten(1, 2), expected)
        pooled = encoder.pooled(clips)
        assert torch.allclose(pooled.tracklet, expected.mean(dim=1), atol=1e-6)
        pairs = pooled.frames.view(2, 2, 2, -1)
        assert torch.equal(pairs[:, :, 0], pairs[:, :, 1])  # both frames of a pair have its tokens


@torch.no_grad()
@pytest.mark.parametrize("frames", [pytest.param(2, marks=pytest.mark.slow), 7])
def test_vjepa2_is_the_mean_of_all_tokens_for_even_and_odd_lengths(frames: int) -> None:
    """The reference is `MeanPooler` of the papers' program on the original's last hidden state."""
    with torch.device("meta"):
        encoder: Any = build_encoder(replace(VJEPA2, preset="reference"))
    network: Any = with_random_values(encoder.spec.network(encoder.spec, encoder.config))
    encoder.backbone = network.encoder
    clips = torch.rand(1, frames, 3, 32, 32)
    expected = network(clips, skip_predictor=True).last_hidden_state.mean(dim=1)
    pooled = encoder.pooled(clips)
    assert torch.allclose(pooled.tracklet, expected, atol=1e-5)
    assert len(pooled.frames) == frames
    if frames % 2:
        assert torch.equal(pooled.frames[-1], pooled.frames[-2])


def test_positions_of_vjepa2_fit_the_crop_size_or_that_of_the_paper() -> None:
    with torch.device("meta"):
        for positions, side in (("correct", 2), ("paper", 16)):  # tokens along a side
            encoder: Any = build_encoder(replace(VJEPA2, positions=positions))  # type: ignore[arg-type]
            assert encoder.backbone.layer[0].attention.grid_size == side


TENSORS = {"dinov2-s": 223, "dinov2-b": 223, "dinov2-l": 439, "dinov2-g": 807, "dinov3-s": 211,
           "dinov3-b": 211, "dinov3-l": 415, "vjepa2-l": 388, "endofm": 247, "endofm-lv": 247,
           "endovit": 150, "surgenet": 152}  # fmt: skip


@pytest.mark.parametrize("name", FOUNDATION)
def test_full_models_have_the_published_number_of_tensors(name: str) -> None:
    with torch.device("meta"):
        assert len(build_encoder(FoundationConfig(model=name)).state_dict()) == TENSORS[name]


def pixels_of(case: dict[str, Any]) -> torch.Tensor:
    shape = (1, case["frames"], 3, case["size"], case["size"])
    return torch.rand(shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize("name", ["endofm", "endofm_lv"])
@pytest.mark.parametrize("sizes", [{112}, pytest.param({112, 224}, marks=pytest.mark.study)])
def test_endofm_equals_the_original(name: str, sizes: set[int], tmp_path: Path) -> None:
    state = golden_state(timesformer_shapes(8 if name == "endofm" else 32))
    assert len(state) == GOLDENS[name]["tensors"] == 247
    encoder = load_as_added(write_endofm(tmp_path / "published.pth", state))
    assert encoder.spec.name == name.replace("_", "-")
    cases = [case for case in GOLDENS[name]["cases"] if case["size"] in sizes]
    assert len(cases) == 2 * len(sizes) - 1
    for case in cases:
        patches, cls = tokens_of(encoder, pixels_of(case))
        _, t, p, d = patches.shape
        assert [1 + t * p, d] == case["tokens"]
        assert torch.allclose(cls[0, :8], torch.tensor(case["cls8"]), atol=1e-3)
        mean = patches.mean(dim=(1, 2))[0, :8]
        assert torch.allclose(mean, torch.tensor(case["patchmean8"]), atol=1e-3)
        norm = torch.cat([cls.flatten(), patches.flatten()]).norm().item()
        assert norm == pytest.approx(case["norm"], rel=1e-4)


@pytest.mark.slow
@torch.no_grad()
def test_endovit_equals_the_original(tmp_path: Path) -> None:
    state = golden_state(vit_shapes())
    assert len(state) == GOLDENS["endovit"]["tensors"] == 150
    encoder = load_as_added(write_endovit(tmp_path / "pytorch_model.bin", state))
    (case,) = GOLDENS["endovit"]["cases"]
    tokens = tokens_of(encoder, pixels_of(case)[0])
    assert torch.allclose(tokens.mean(dim=0)[0, :8], torch.tensor(case["cls8"]), atol=1e-3)
    mean = tokens[:, 1:].mean(dim=(0, 1))[:8]
    assert torch.allclose(mean, torch.tensor(case["patchmean8"]), atol=1e-3)


@pytest.mark.slow
@torch.no_grad()
def test_surgenet_equals_the_original(tmp_path: Path) -> None:
    state = golden_state(caformer_shapes())
    assert len(state) == GOLDENS["surgenet"]["tensors"] == 152
    path = tmp_path / "SurgeNetXL_checkpoint_epoch0050_teacher.pth"
    torch.save(state | {"head.mlp.0.weight": torch.zeros(2, 2)}, path)
    encoder = load_as_added(path)
    for case in GOLDENS["surgenet"]["cases"]:
        vectors = encoder.pooled(pixels_of(case)[0])
        assert vectors.shape == (2, 512)
        assert torch.allclose(vectors.mean(dim=0)[:8], torch.tensor(case["mean8"]), atol=1e-3)
    torch.save({"teacher": {f"module.backbone.{k}": v for k, v in state.items()}}, path)
    rewrapped = load_as_added(path).state_dict()  # nesting of other files of the same authors
    assert all(torch.equal(rewrapped[k], v) for k, v in encoder.state_dict().items())
