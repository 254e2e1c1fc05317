"""DINOv3: the Hub's layout and Meta's, there and back."""

import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from polyplink.encoders import FoundationConfig
from polyplink.encoders.foundation import find_spec
from polyplink.encoders.foundation.dinov3 import Dinov3Encoder, _shape
from polyplink.encoders.foundation.library import transformers
from polyplink.encoders.foundation.pooling import pool
from tests.encoders.foundation.hub import State, count_on_meta, jiggle, loaded
from tests.encoders.small import made

CONFIG = FoundationConfig(model="dinov3-s", depth=2, size=32, pooling="patchmean")


def as_meta_writes(hub: State) -> State:
    """The Hub's names back to those of Meta's file, written out by hand."""
    found: State = {"rope_embed.periods": torch.ones(16)}
    for name, value in hub.items():
        if re.search(r"\.[qkv]_proj\.", name):
            continue
        plain = {"embeddings.cls_token": "cls_token", "embeddings.mask_token": "mask_token",
                 "embeddings.register_tokens": "storage_tokens"}.get(name, name)  # fmt: skip
        plain = plain.replace("embeddings.patch_embeddings", "patch_embed.proj")
        plain = re.sub(r"^layer\.", "blocks.", plain).replace("attention.o_proj", "attn.proj")
        plain = plain.replace("mlp.up_proj", "mlp.fc1").replace("mlp.down_proj", "mlp.fc2")
        plain = re.sub(r"layer_scale(\d).lambda1", r"ls\1.gamma", plain)
        found[plain] = value[0] if plain == "mask_token" else value
    for i in range(2):
        rows = {p: hub[f"layer.{i}.attention.{p}_proj.weight"] for p in "qkv"}
        bias = {p: hub[f"layer.{i}.attention.{p}_proj.bias"] for p in "qv"}
        found[f"blocks.{i}.attn.qkv.weight"] = torch.cat(list(rows.values()))
        found[f"blocks.{i}.attn.qkv.bias"] = torch.cat([bias["q"], bias["q"] * 0, bias["v"]])
        found[f"blocks.{i}.attn.qkv.bias_mask"] = torch.ones(3 * 384)
    return found


@torch.no_grad()
def test_both_layouts_give_the_librarys_tokens(tmp_path: Path) -> None:
    model = jiggle(transformers().DINOv3ViTModel(_shape(find_spec("dinov3-s"), CONFIG)))
    model.save_pretrained(tmp_path)  # type: ignore[operator]
    path = tmp_path / "model.safetensors"
    pixels = torch.rand(2, 3, 32, 32)
    wanted = model(pixels).last_hidden_state
    assert wanted.shape == (2, 1 + 4 + 4, 384)
    torch.save(as_meta_writes(load_file(path)), tmp_path / "meta.pth")
    for file in (path, tmp_path / "meta.pth"):
        encoder = loaded(file, CONFIG)
        assert isinstance(encoder, Dinov3Encoder)
        assert torch.equal(encoder.tokens(pixels), wanted)
        encoder.train()  # positions stay as they are in training
        assert torch.equal(encoder.tokens(pixels), wanted)


@torch.no_grad()
def test_registers_are_no_patches_but_in_the_reference() -> None:
    pixels = torch.rand(1, 3, 32, 32)
    for preset, prefix in (("own", 5), ("reference", 1)):
        encoder = made(
            FoundationConfig(model="dinov3-s", depth=1, size=32, pooling="patchmean", preset=preset)  # type: ignore[arg-type]
        )
        assert isinstance(encoder, Dinov3Encoder)
        wanted = pool(encoder.tokens(pixels), "patchmean", prefix)
        assert torch.equal(encoder.pooled(pixels), wanted)


@pytest.mark.parametrize("letter", "sbl")
def test_tensors_of_the_whole_models(letter: str) -> None:
    spec = find_spec(f"dinov3-{letter}")
    assert count_on_meta(spec.name) == spec.tensors
