"""Checkpoints of the papers' programs."""

from pathlib import Path

import pytest
import torch

from polyplink.core.errors import PolyplinkError
from polyplink.encoders import MveEncoder, build_encoder
from polyplink.encoders.published import read_published, unwrap
from polyplink.encoders.recognise import fit_published
from polyplink.encoders.reference import REFERENCES

State = dict[str, torch.Tensor]


def published(name: str) -> State:
    """Random values under the names of a paper's program, from the names here."""
    torch.manual_seed(0)
    own = build_encoder(REFERENCES[name].encoder).state_dict()
    nesting = {"hmve": "mve.sfe.backbone.", "ta": "sfe.backbone.resnet.",
               "tpc": "sfe.backbone.backbone."}[name]  # fmt: skip
    layers = "mve.encoder." if name == "hmve" else "transformer_encoder."
    found: State = {}
    for key, value in own.items():
        new = key.replace("frame_head.", "sfe.head.") if key.startswith("frame_head.") else key
        if key.startswith("backbone."):
            new = key.replace("backbone.", nesting, 1)
        elif key.startswith("transformer."):
            new = key.replace("transformer.", layers, 1)
        elif name == "hmve":
            new = f"mve.{key}"
        found[new] = value
    heads = {
        "hmve": ("projector.0", "projector.2"),
        "ta": ("head.0", "head.2", "sfe.head.0", "sfe.head.2"),
        "tpc": (),
    }
    for head in heads[name]:
        found |= {f"{head}.weight": torch.zeros(2, 2), f"{head}.bias": torch.zeros(2)}
    return found


@pytest.mark.parametrize("name", REFERENCES)
def test_a_lightning_checkpoint_becomes_an_encoder(name: str, tmp_path: Path) -> None:
    state = published(name)
    assert name != "hmve" or len(state) == 361
    path = tmp_path / "last.ckpt"
    torch.save({"state_dict": state, "hyper_parameters": {"dim": 256}, "epoch": 49}, path)
    fitted = fit_published(path, unwrap(read_published(path)))
    assert fitted.name == name
    torch.manual_seed(0)
    own = build_encoder(REFERENCES[name].encoder)
    assert isinstance(own, MveEncoder) == (name == "tpc")
    assert set(fitted.tensors) == set(own.state_dict())
    assert all(torch.equal(fitted.tensors[key], v) for key, v in own.state_dict().items())


def test_norms_that_the_released_run_may_have_used_are_not_lost_in_silence() -> None:
    state = published("hmve") | {"mve.feature_norm.weight": torch.ones(2048)}
    with pytest.raises(PolyplinkError, match=r"holds 362 tensors, and NTSSL's .* has 361"):
        fit_published(Path("x.ckpt"), state)
    state = published("ta") | {"adapter.extra": torch.ones(1)}
    with pytest.raises(PolyplinkError, match=r"1 unknown, .* first 'adapter.extra'"):
        fit_published(Path("x.ckpt"), state)
