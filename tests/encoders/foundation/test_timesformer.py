"""EndoFM and EndoFM-LV equal the original modules."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from polyplink.encoders import Encoder, FoundationConfig, Tokens
from polyplink.encoders.foundation.pooling import Pooling
from polyplink.encoders.foundation.timesformer import TimesformerEncoder, library_name
from polyplink.encoders.published import read_published, unwrap
from polyplink.encoders.recognise import fit_published
from tests.encoders.published import golden_state, timesformer_shapes, write_endofm
from tests.encoders.small import made

GOLDENS = json.loads((Path(__file__).parents[1] / "goldens/encoders.json").read_text())


def loaded(path: Path) -> TimesformerEncoder:
    """A published file through the real path, into its encoder."""
    fitted = fit_published(path, unwrap(read_published(path)))
    encoder = made(fitted.config)
    encoder.load_state_dict(dict(fitted.tensors))
    assert isinstance(encoder, TimesformerEncoder)
    return encoder


def pixels(case: dict[str, Any]) -> torch.Tensor:
    shape = (1, case["frames"], 3, case["size"], case["size"])
    return torch.rand(shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("name", "frames"), [("endofm", 8), ("endofm_lv", 32)])
def test_tokens_equal_those_of_the_original(name: str, frames: int, tmp_path: Path) -> None:
    smallest = [case for case in GOLDENS[name]["cases"] if case["size"] == 112]
    assert check_tokens(name, frames, tmp_path, smallest) == 1


@pytest.mark.study
@pytest.mark.parametrize(("name", "frames"), [("endofm", 8), ("endofm_lv", 32)])
def test_all_tokens_equal_those_of_the_original(name: str, frames: int, tmp_path: Path) -> None:
    assert check_tokens(name, frames, tmp_path, GOLDENS[name]["cases"]) == 3


@torch.no_grad()
def check_tokens(name: str, frames: int, folder: Path, cases: list[dict[str, Any]]) -> int:
    """Hold tokens of some cases against the original's; how many were held."""
    state = golden_state(timesformer_shapes(frames))
    assert len(state) == GOLDENS[name]["tensors"] == 247
    encoder = loaded(write_endofm(folder / "published.pth", state))
    assert encoder.spec.name == name.replace("_", "-")
    for case in cases:
        tokens = encoder.tokens(pixels(case))
        assert tokens.cls is not None
        _, t, p, d = tokens.patches.shape
        assert [1 + t * p, d] == case["tokens"]
        assert torch.allclose(tokens.cls[0, :8], torch.tensor(case["cls8"]), atol=1e-3)
        mean = tokens.patches.mean(dim=(1, 2))[0, :8]
        assert torch.allclose(mean, torch.tensor(case["patchmean8"]), atol=1e-3)
        norm = torch.cat([tokens.cls.flatten(), tokens.patches.flatten()]).norm().item()
        assert norm == pytest.approx(case["norm"], rel=1e-4)
    return len(cases)


@torch.no_grad()
def test_poolings_follow_their_definitions() -> None:
    clip = torch.rand(1, 3, 3, 32, 32)
    found: dict[str, Tokens] = {}
    poolings: tuple[Pooling, ...] = ("cls", "mean", "patchmean", "cat")
    encoder: Encoder = made(FoundationConfig(model="endofm", depth=1, size=32))
    for pooling in poolings:
        config = FoundationConfig(model="endofm", depth=1, size=32, pooling=pooling)
        encoder = made(config)
        assert isinstance(encoder, TimesformerEncoder)
        found[pooling] = encoder.pooled(clip)
        assert found[pooling].tracklet.shape[1] == encoder.width == found[pooling].frames.shape[1]
    assert isinstance(encoder, TimesformerEncoder)
    tokens = encoder.tokens(clip)
    assert tokens.cls is not None
    every = torch.cat([tokens.cls[:, None], tokens.patches.flatten(1, 2)], dim=1)  # 1 1+t*p d
    assert torch.allclose(found["mean"].tracklet, every.mean(dim=1), atol=1e-5)
    assert torch.allclose(found["cls"].tracklet, every[:, 0], atol=1e-6)
    assert torch.allclose(found["patchmean"].tracklet, every[:, 1:].mean(dim=1), atol=1e-5)
    both = torch.cat([found["cls"].tracklet, found["patchmean"].tracklet], dim=1)
    assert torch.allclose(found["cat"].tracklet, both, atol=1e-6)


def test_temporal_names_are_not_taken_for_spatial_ones() -> None:
    assert library_name("blocks.3.temporal_norm1.bias") == "encoder.layer.3.temporal_layernorm.bias"
    assert library_name("blocks.3.norm1.bias") == "encoder.layer.3.layernorm_before.bias"
    assert len({library_name(name) for name in timesformer_shapes(8)}) == 247
