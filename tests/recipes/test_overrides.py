"""Fields of recipes set by name."""

from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.recipes.by_name import override
from polyplink.recipes.ntssl import ntssl


def test_fields_of_every_depth_can_be_set() -> None:
    changed = override(
        ntssl(),
        [
            "loss.temperature=0.1",
            "prepare.crop_factor=none",
            "encoder.frame_weights=a/b.safetensors",
            "seed=7",
            "encoder.mean=[0.5, 0.4, 0.3]",
        ],
    )
    assert changed.loss.temperature == 0.1
    assert changed.prepare.crop_factor is None
    assert changed.encoder.frame_weights == Path("a/b.safetensors")
    assert changed.seed == 7
    assert changed.encoder.mean == (0.5, 0.4, 0.3)
    assert ntssl().loss.temperature == 0.07  # the recipe is unchanged


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("loss.temprature=1", "did you mean loss.temperature?"),
        ("loss.form=cubic", "loss.form=cubic does not fit"),
        ("optim.epochs=many", "optim.epochs=many does not fit"),
        ("seed", "write NAME=VALUE"),
        ("loss=1", "has no field 'loss'"),
        ("qqq=1", "the names are: name, encoder.frame_encoder"),
        ("prepare.stride=0", "stride is 0"),
    ],
)
def test_invalid_assignments_are_refused(assignment: str, message: str) -> None:
    with pytest.raises(PolyplinkError, match=message.replace("?", r"\?")):
        override(ntssl(), [assignment])
