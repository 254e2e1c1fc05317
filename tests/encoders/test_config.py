"""The defaults are the paper's; records tell kinds apart."""

from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.encoders import (
    AnyEncoderConfig,
    EncoderConfig,
    FoundationConfig,
    MveConfig,
    SfeConfig,
)
from tests.encoders.small import KINDS

ANY: TypeAdapter[Any] = TypeAdapter(AnyEncoderConfig)


def test_the_papers_encoder() -> None:
    config = EncoderConfig()
    assert config.frame_encoder == "timm:resnet50.tv2_in1k"
    assert (config.width, config.layers, config.heads, config.feedforward) == (256, 3, 8, 1024)
    with pytest.raises(FrozenInstanceError):
        config.width = 3  # type: ignore[misc]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_survives_its_record(kind: str) -> None:
    assert ANY.validate_python(to_plain(KINDS[kind])) == KINDS[kind]
    assert ANY.validate_python(KINDS[kind]) == KINDS[kind]


def test_a_record_without_a_kind_is_a_transformer() -> None:
    plain = to_plain(EncoderConfig(width=128))
    del plain["kind"]
    assert ANY.validate_python(plain) == EncoderConfig(width=128)
    with pytest.raises(ValidationError, match="oracle"):
        ANY.validate_python({"kind": "oracle"})


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: EncoderConfig(width=10), "width 10 is no multiple of encoder.heads 8"),
        (lambda: EncoderConfig(layers=0), "encoder.layers is 0"),
        (lambda: EncoderConfig(dropout=1.0), "encoder.dropout is 1.0"),
        (lambda: EncoderConfig(std=(1, 0, 1)), "encoder.std is"),
        (lambda: SfeConfig(projector_out=0), "encoder.projector_out is 0"),
        (lambda: MveConfig(width=100), "no multiple of encoder.heads"),
        (lambda: MveConfig(frame_hidden=0), "encoder.frame_hidden is 0"),
        (lambda: FoundationConfig(size=0), "encoder.size is 0"),
        (lambda: FoundationConfig(clip=-1), "encoder.clip is -1"),
    ],
)
def test_values_that_make_no_encoder(make: Any, says: str) -> None:
    with pytest.raises(PolyplinkError, match=says):
        make()
