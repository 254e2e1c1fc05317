"""V-JEPA 2: the Hub's layout and Meta's, positions, pairs of frames."""

import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from polyplink.core.errors import PolyplinkError
from polyplink.encoders import FoundationConfig
from polyplink.encoders.foundation import find_spec
from polyplink.encoders.foundation.library import transformers
from polyplink.encoders.foundation.vjepa2 import Vjepa2Encoder, _shape
from tests.encoders.foundation.hub import State, count_on_meta, jiggle, loaded
from tests.encoders.small import made

CONFIG = FoundationConfig(model="vjepa2-l", depth=1, size=32)


def as_meta_writes(hub: State) -> State:
    """The Hub's names back to those of vitl.pt, written out by hand."""
    found: State = {"pos_embed": torch.zeros(1, 4, 1024)}
    for name, value in hub.items():
        if name.startswith("predictor.") or re.search(r"attention\.(query|key|value)", name):
            continue
        plain = name.replace("encoder.embeddings.patch_embeddings.proj", "patch_embed.proj")
        plain = plain.replace("encoder.layernorm.", "norm.").replace("attention.proj", "attn.proj")
        found[plain.replace("encoder.layer.", "blocks.")] = value
    for part in ("weight", "bias"):
        rows = [hub[f"encoder.layer.0.attention.{w}.{part}"] for w in ("query", "key", "value")]
        found[f"blocks.0.attn.qkv.{part}"] = torch.cat(rows)
    return {f"module.backbone.{name}": value for name, value in found.items()}


@torch.no_grad()
def test_both_layouts_give_the_librarys_tokens(tmp_path: Path) -> None:
    model = jiggle(transformers().VJEPA2Model(_shape(find_spec("vjepa2-l"), CONFIG)))
    model.save_pretrained(tmp_path)  # type: ignore[operator]
    path = tmp_path / "model.safetensors"
    torch.save({"encoder": as_meta_writes(load_file(path)), "predictor": {}}, tmp_path / "vitl.pt")
    clips = torch.rand(2, 4, 3, 32, 32)
    wanted = model(clips, skip_predictor=True).last_hidden_state  # 2 2*4 1024
    for file in (path, tmp_path / "vitl.pt"):
        encoder = loaded(file, CONFIG)
        assert isinstance(encoder, Vjepa2Encoder)
        tokens = encoder.tokens(clips)
        assert tokens.cls is None
        assert torch.equal(tokens.patches[:, ::2].flatten(1, 2), wanted)
        assert torch.equal(tokens.patches[:, 1], tokens.patches[:, 0])  # a pair is one token
        assert torch.allclose(encoder.pooled(clips).tracklet, wanted.mean(dim=1), atol=1e-6)
        assert encoder.tokens(clips[:, :3]).patches.shape[1] == 3


@torch.no_grad()
def test_positions_are_correct_or_as_the_paper_ran_them() -> None:
    correct = made(CONFIG)
    paper = made(FoundationConfig(model="vjepa2-l", depth=1, size=32, positions="paper"))
    assert isinstance(correct, Vjepa2Encoder)
    assert isinstance(paper, Vjepa2Encoder)
    paper.load_state_dict(correct.state_dict())  # no weight depends on it
    grids = [m.backbone.layer[0].attention.grid_size for m in (correct, paper)]  # type: ignore[union-attr, index]
    assert grids == [2, 16]
    clips = torch.rand(1, 4, 3, 32, 32)
    assert not torch.allclose(correct.pooled(clips).tracklet, paper.pooled(clips).tracklet)


def test_a_clip_that_is_too_short_is_refused() -> None:
    with pytest.raises(PolyplinkError, match="takes clips of 2 frames or more, and a tracklet has"):
        made(CONFIG)(torch.zeros(4, 32, 32, 3, dtype=torch.uint8), [3, 1])
    with pytest.raises(PolyplinkError, match="takes clips of 2 frames or more, not 1"):
        made(FoundationConfig(model="vjepa2-l", depth=1, size=32, clip=1))


def test_tensors_of_the_whole_model() -> None:
    assert count_on_meta("vjepa2-l") == find_spec("vjepa2-l").tensors
