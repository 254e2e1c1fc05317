"""Foundation encoders start from weights that were added."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from polyplink.core.errors import PolyplinkError
from polyplink.encoders import FoundationConfig
from tests.encoders.small import CLIPS, FRAMES, made


def test_weights_are_loaded_strictly(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file(made(CLIPS).state_dict(), path)
    again = made(FoundationConfig("endofm", depth=1, size=32, clip=4, frame_weights=path), seed=1)
    for name, value in made(CLIPS).state_dict().items():
        assert torch.equal(again.state_dict()[name], value)
    with pytest.raises(PolyplinkError, match="weights of another encoder"):
        made(FoundationConfig("dinov3-s", depth=1, size=32, frame_weights=path))
    path.write_bytes(b"junk")
    with pytest.raises(PolyplinkError, match=r"is not safetensors.*weights add"):
        made(FoundationConfig("endofm", depth=1, size=32, frame_weights=path))


def test_without_weights_values_are_random() -> None:
    one, two = (made(FRAMES, seed).state_dict() for seed in (0, 1))
    assert not torch.equal(
        one["backbone.embeddings.cls_token"], two["backbone.embeddings.cls_token"]
    )
