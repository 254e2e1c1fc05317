"""Which encoder published tensors are of."""

from pathlib import Path

import pytest
import torch

from polyplink.core.errors import PolyplinkError
from polyplink.encoders import FoundationConfig, build_frame_encoder
from polyplink.encoders.recognise import fit_published, is_resnet, recognise
from tests.encoders.published import timesformer_shapes, vit_shapes

PATH = Path("given.pth")
SHALLOW = FoundationConfig(depth=1)


def zeros(shapes: dict[str, tuple[int, ...]]) -> dict[str, torch.Tensor]:
    return {name: torch.zeros(shape) for name, shape in shapes.items()}


def test_endofm_is_told_by_its_time_table_and_endovit_by_its_decoder() -> None:
    for frames, name in ((8, "endofm"), (32, "endofm-lv"), (16, None)):
        known = recognise(zeros(timesformer_shapes(frames, 1)))
        assert getattr(known, "name", None) == name
    encoder = zeros(vit_shapes(1))
    assert recognise(encoder) is None  # any ViT-B/16 looks like this
    known = recognise(encoder | {"decoder_embed.weight": torch.zeros(1)})
    assert getattr(known, "name", None) == "endovit"


def test_a_key_too_many_too_few_or_of_another_shape() -> None:
    state = zeros(timesformer_shapes(8, 1))
    assert fit_published(PATH, state, SHALLOW).name == "endofm"
    few = {k: v for k, v in state.items() if k != "norm.bias"}
    bent = state | {"norm.bias": torch.zeros(7)}
    for bad, says in (
        (few, "1 tensors missing, 0 unknown"),
        (state | {"stranger": torch.zeros(1)}, "0 tensors missing, 1 unknown"),
        (bent, "1 of another shape"),
    ):
        with pytest.raises(PolyplinkError, match=says):
            fit_published(PATH, bad, SHALLOW)
    with pytest.raises(PolyplinkError, match="holds 27 tensors, and Endo-FM has 247"):
        fit_published(PATH, zeros(timesformer_shapes(8, 1)))


def test_what_nobody_knows_is_told_by_its_names() -> None:
    with pytest.raises(PolyplinkError, match=r"no encoder that is known .*begins with what, ever"):
        fit_published(PATH, {"what": torch.zeros(1), "ever": torch.zeros(1)})
    with pytest.raises(PolyplinkError, match="no tensor at all"):
        fit_published(PATH, {})


def test_torchvisions_backbone() -> None:
    with torch.device("meta"):
        model, _ = build_frame_encoder("timm:resnet50")
    assert is_resnet(model.state_dict())
    assert not is_resnet(zeros(vit_shapes(1)))
