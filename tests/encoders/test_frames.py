"""Backbones of timm, and pixels."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from polyplink.core.errors import PolyplinkError
from polyplink.encoders.frames import build_frame_encoder, to_pixels

NAME = "timm:test_resnet"


def test_a_backbone_gives_one_vector_per_frame() -> None:
    model, width = build_frame_encoder(NAME)
    assert model(torch.rand(3, 3, 32, 32)).shape == (3, width)


def test_weights_are_loaded_strictly_but_for_the_classifier(tmp_path: Path) -> None:
    model, width = build_frame_encoder(NAME)
    state = {k: v.clone() for k, v in model.state_dict().items()}
    save_file(state | {"fc.weight": torch.zeros(5, width)}, tmp_path / "a.safetensors")
    again, _ = build_frame_encoder(NAME, tmp_path / "a.safetensors")
    assert all(torch.equal(v, state[k]) for k, v in again.state_dict().items())


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("resnet50", "write timm:NAME"),
        ("timm:resnet5o", "did you mean timm:resnet50"),
        ("timm:zzzzzzzz", "timm knows no model 'zzzzzzzz'"),
    ],
)
def test_unknown_names(name: str, says: str) -> None:
    with pytest.raises(PolyplinkError, match=says):
        build_frame_encoder(name)


def test_weights_that_are_missing_broken_or_anothers(tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match=r"no file .* with weights of the frame encoder"):
        build_frame_encoder(NAME, tmp_path / "none.safetensors")
    (tmp_path / "broken.safetensors").write_bytes(b"123")
    with pytest.raises(PolyplinkError, match="is not safetensors"):
        build_frame_encoder(NAME, tmp_path / "broken.safetensors")
    other, _ = build_frame_encoder("timm:test_convnext")
    save_file(dict(other.state_dict()), tmp_path / "other.safetensors")
    with pytest.raises(PolyplinkError, match="weights of another encoder"):
        build_frame_encoder(NAME, tmp_path / "other.safetensors")


def test_shapes_of_another_model_are_refused(tmp_path: Path) -> None:
    model, _ = build_frame_encoder(NAME)
    state = {k: v.clone() for k, v in model.state_dict().items()}
    first = next(k for k, v in state.items() if v.ndim == 4)
    state[first] = torch.zeros(1, 1, 1, 1)
    save_file(state, tmp_path / "bent.safetensors")
    with pytest.raises(PolyplinkError, match="1 of another shape"):
        build_frame_encoder(NAME, tmp_path / "bent.safetensors")


def test_models_that_widen_their_features_are_asked_for_what_they_give() -> None:
    model, width = build_frame_encoder("timm:mobilenetv3_small_050")
    model.eval()
    assert model(torch.rand(1, 3, 32, 32)).shape == (1, width)


def test_pixels_are_scaled_once_and_lie_channels_last() -> None:
    frames = torch.randint(0, 256, (2, 5, 7, 3), dtype=torch.uint8)
    mean, std = torch.full((3, 1, 1), 0.45), torch.full((3, 1, 1), 0.225)
    pixels = to_pixels(frames, mean, std)
    assert pixels.shape == (2, 3, 5, 7)
    assert pixels.is_contiguous(memory_format=torch.channels_last)
    naive = (frames[1, 4, 6, 2].item() / 255 - 0.45) / 0.225
    assert pixels[1, 2, 4, 6].item() == pytest.approx(naive, abs=1e-6)
    assert torch.allclose(to_pixels(frames.float() / 255, mean, std), pixels)


@pytest.mark.parametrize("shape", [(2, 5, 7, 3), (0, 5, 7, 3), (1, 1, 1, 3), (3, 24, 40, 3)])
def test_pixels_equal_those_made_step_by_step(shape: tuple[int, ...]) -> None:
    frames = torch.randint(0, 256, shape, dtype=torch.uint8)
    before = frames.clone()
    mean = torch.tensor([0.485, 0.456, 0.406]).reshape(3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225]).reshape(3, 1, 1)
    plain = (frames.permute(0, 3, 1, 2).float() / 255.0 - mean) / std
    assert torch.equal(to_pixels(frames, mean, std), plain)
    turned = frames.transpose(1, 2)  # does not lie in one piece
    assert torch.equal(to_pixels(turned, mean, std), plain.transpose(2, 3))
    assert torch.equal(frames, before)
