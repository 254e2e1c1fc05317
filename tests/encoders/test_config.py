"""The defaults are the paper's."""

from dataclasses import FrozenInstanceError

import pytest

from polyplink.encoders import EncoderConfig


def test_the_papers_encoder() -> None:
    config = EncoderConfig()
    assert config.frame_encoder == "timm:resnet50.tv2_in1k"
    assert (config.width, config.layers, config.heads, config.feedforward) == (256, 3, 8, 1024)
    with pytest.raises(FrozenInstanceError):
        config.width = 3  # type: ignore[misc]
