"""DINOv2: the Hub's layout and Meta's, there and back."""

import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from polyplink.encoders import FoundationConfig
from polyplink.encoders.foundation import find_spec
from polyplink.encoders.foundation.dinov2 import Dinov2Encoder, _shape
from polyplink.encoders.foundation.library import transformers
from tests.encoders.foundation.hub import State, count_on_meta, jiggle, loaded


def as_meta_writes(hub: State, depth: int) -> State:
    """The Hub's names back to those of dinov2_vits14_pretrain.pth, written out by hand."""
    found: State = {}
    for name, value in hub.items():
        if ".attention.attention." in name:
            continue
        plain = {"embeddings.cls_token": "cls_token", "embeddings.mask_token": "mask_token",
                 "embeddings.position_embeddings": "pos_embed"}.get(name, name)  # fmt: skip
        plain = plain.replace("embeddings.patch_embeddings.projection", "patch_embed.proj")
        plain = plain.replace("encoder.layer.", "blocks.").replace("layernorm.", "norm.")
        plain = plain.replace("attention.output.dense", "attn.proj")
        plain = plain.replace("mlp.weights_in", "mlp.w12").replace("mlp.weights_out", "mlp.w3")
        found[re.sub(r"layer_scale(\d).lambda1", r"ls\1.gamma", plain)] = value
    for i in range(depth):
        for part in ("weight", "bias"):
            rows = [
                hub[f"encoder.layer.{i}.attention.attention.{which}.{part}"]
                for which in ("query", "key", "value")
            ]
            found[f"blocks.{i}.attn.qkv.{part}"] = torch.cat(rows)
    return found


@torch.no_grad()
@pytest.mark.parametrize(("name", "depth"), [("dinov2-s", 2), ("dinov2-g", 1)])
def test_both_layouts_give_the_librarys_tokens(name: str, depth: int, tmp_path: Path) -> None:
    config = FoundationConfig(model=name, depth=depth, size=28)
    spec = find_spec(name)
    model = jiggle(transformers().Dinov2Model(_shape(spec, config)))
    model.save_pretrained(tmp_path)  # type: ignore[operator]
    path = tmp_path / "model.safetensors"
    encoder = loaded(path, config)
    assert isinstance(encoder, Dinov2Encoder)
    pixels = torch.rand(2, 3, 28, 28)
    wanted = model(pixels).last_hidden_state
    assert wanted.shape == (2, 5, spec.width)
    assert torch.equal(encoder.tokens(pixels), wanted)
    hub = load_file(path)
    assert "encoder.layer.0.attention.attention.query.weight" in hub  # names of the Hub
    torch.save(as_meta_writes(hub, depth), tmp_path / "dinov2_vits14_pretrain.pth")
    again = loaded(tmp_path / "dinov2_vits14_pretrain.pth", config)
    assert isinstance(again, Dinov2Encoder)
    assert torch.equal(again.tokens(pixels), wanted)


@pytest.mark.parametrize("letter", "sblg")
def test_tensors_of_the_whole_models(letter: str) -> None:
    spec = find_spec(f"dinov2-{letter}")
    assert count_on_meta(spec.name) == spec.tensors
