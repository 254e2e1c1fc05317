"""Starting anew from the weights of another run."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from polyplink.core.errors import PolyplinkError
from polyplink.encoders import (
    AnyEncoderConfig,
    Encoder,
    Seen,
    WeightsRecord,
    build_started,
    inherited,
    save_weights,
)
from polyplink.tracklets import PrepareSettings
from tests.encoders.small import MVE, PROJECTED, SFE, TRANSFORMER, made

SEEN = Seen(trained=(("set", "001-001", "p"),), datasets=("SUN",))


def written(path: Path, config: AnyEncoderConfig) -> Encoder:
    """Weights of another run, with values of their own."""
    encoder = made(config, seed=5)
    save_weights(path, encoder, WeightsRecord(config, PrepareSettings(), {}, SEEN, {}))
    return encoder


def test_the_same_encoder_starts_where_the_other_ended(tmp_path: Path) -> None:
    other = written(tmp_path / "weights.safetensors", TRANSFORMER)
    config = replace(TRANSFORMER, frame_weights=Path("not-read.safetensors"))
    started = build_started(config, tmp_path)  # a run folder will do
    for name, value in other.state_dict().items():
        assert torch.equal(started.state_dict()[name], value)


def test_without_weights_it_is_the_plain_encoder() -> None:
    torch.manual_seed(0)
    plain = build_started(TRANSFORMER)
    fresh = made(TRANSFORMER).state_dict()
    assert all(torch.equal(value, fresh[name]) for name, value in plain.state_dict().items())
    assert inherited(TRANSFORMER, None) == (Seen(), {})


def test_the_multi_view_encoder_starts_from_the_head_of_single_frames(tmp_path: Path) -> None:
    path = tmp_path / "sfe.safetensors"
    head = replace(PROJECTED, projector_out=MVE.width)
    sfe = written(path, head).state_dict()
    torch.manual_seed(0)
    state = build_started(MVE, path).state_dict()
    fresh = made(MVE).state_dict()
    assert torch.equal(state["frame_head.2.weight"], sfe["head.2.weight"])
    assert all(torch.equal(state[k], v) for k, v in sfe.items() if k.startswith("backbone."))
    rest = [k for k in state if not k.startswith(("backbone.", "frame_head."))]
    assert {"cls_token", "head.weight"} <= set(rest)
    assert all(torch.equal(state[k], fresh[k]) for k in rest)  # random as without


def test_what_was_seen_before_is_handed_on(tmp_path: Path) -> None:
    path = tmp_path / "sfe.safetensors"
    written(path, SFE)
    seen, ids = inherited(SFE, path)
    assert [tuple(row) for row in seen.trained] == [("set", "001-001", "p")]
    assert list(seen.datasets) == ["SUN"]
    assert len(ids["init_from"]) >= 8


def test_weights_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "sfe.safetensors"
    written(path, SFE)
    with pytest.raises(PolyplinkError, match=r"without its head; .*encoder\.vector=projected"):
        build_started(MVE, path)
    with pytest.raises(PolyplinkError, match="holds weights of another encoder"):
        build_started(TRANSFORMER, path)
    written(path, PROJECTED)
    with pytest.raises(PolyplinkError, match=r"of another shape, first 'frame_head\.2"):
        build_started(MVE, path)
    with pytest.raises(PolyplinkError, match="no weights at"):
        build_started(MVE, tmp_path / "none.safetensors")
