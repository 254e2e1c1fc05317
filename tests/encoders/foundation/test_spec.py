"""Presets, and what a model refuses."""

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.encoders import FoundationConfig
from polyplink.encoders.foundation import FOUNDATION, find_spec


def test_each_has_its_own_preset_and_that_of_the_reference() -> None:
    own = find_spec("endovit").settle(FoundationConfig(model="endovit"))
    assert own.mean == (0.3464, 0.2280, 0.2228)
    assert (own.size, own.pooling) == (224, "cls")
    for name, spec in FOUNDATION.items():
        there = spec.settle(FoundationConfig(model=name, preset="reference"))
        assert (there.size, there.mean, there.std) == (224, (0.45,) * 3, (0.225,) * 3)
        assert there.clip == 0
    sizes = {
        name: spec.settle(FoundationConfig(model=name)).size for name, spec in FOUNDATION.items()
    }
    assert sizes.pop("vjepa2-l") == 256
    assert set(sizes.values()) == {224}
    clips = {name: FOUNDATION[name].clip for name in ("endofm", "endofm-lv", "vjepa2-l")}
    assert clips == {"endofm": 8, "endofm-lv": 32, "vjepa2-l": 64}


def test_what_is_given_wins_over_the_preset() -> None:
    config = FoundationConfig(model="dinov2-b", preset="reference", mean=(0, 0, 0), pooling="cat")
    settled = find_spec("dinov2-b").settle(config)
    assert (settled.mean, settled.pooling, settled.std) == ((0, 0, 0), "cat", (0.225,) * 3)
    assert find_spec("dinov2-b").settle(settled) == settled


@pytest.mark.parametrize(
    ("model", "values", "says"),
    [
        ("dinov2-s", {"size": 232}, "patches of 14 pixels, and 232 is no multiple.*size=238"),
        ("surgenet", {"size": 232}, "patches of 32 pixels.*encoder.size=224"),
        ("surgenet", {"pooling": "cls"}, "surgenet has no pooling 'cls'; .* mean"),
    ],
)
def test_what_a_model_refuses(model: str, values: dict[str, object], says: str) -> None:
    with pytest.raises(PolyplinkError, match=says):
        find_spec(model).settle(FoundationConfig(model=model, **values))  # type: ignore[arg-type]
