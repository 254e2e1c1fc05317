import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyplink.errors import PolyplinkError
from polyplink.simulate import PRESETS, Preset, preset, smoke, tiny


def test_tiny_has_four_studies_of_ten_procedures() -> None:
    counts = dict(tiny().polyps)
    assert list(counts) == [f"00{s}-{v:03d}" for s in range(1, 5) for v in range(1, 11)]
    values = list(counts.values())
    assert values.count(0) == 1
    assert values.count(1) == 1
    assert max(values) == 4
    assert sorted(values)[len(values) // 2] == 3


def test_smoke_has_both_parts() -> None:
    assert smoke().polyps == (("001-001", 2), ("001-002", 2), ("001-009", 2), ("001-010", 2))
    assert smoke().long_views == (3, 3)
    assert smoke().long_frames[0] >= 30


@pytest.mark.parametrize("name", list(PRESETS))
def test_preset_by_name(name: str) -> None:
    assert preset(name) == PRESETS[name]()
    assert preset(name).name == name


def test_unknown_preset_names_the_nearest() -> None:
    with pytest.raises(PolyplinkError, match=r"no preset 'tinny'; did you mean tiny\?"):
        preset("tinny")


@given(st.integers(-5, 15) | st.sampled_from([17, 129]))
def test_frames_are_even_and_large_enough(width: int) -> None:
    with pytest.raises(PolyplinkError, match=f"width is {width}; give an even number from 16"):
        dataclasses.replace(smoke(), width=width)


@pytest.mark.parametrize(
    ("name", "value"), [("long_views", (3, 2)), ("short_frames", (0, 4)), ("short_views", (-1, 2))]
)
def test_ranges_are_ranges(name: str, value: tuple[int, int]) -> None:
    with pytest.raises(PolyplinkError, match=f"{name} is {value[0]} to {value[1]}; give a range"):
        Preset("own", (("001-001", 1),), 64, 56, **{name: value})  # type: ignore[arg-type]


def test_counts_are_counts() -> None:
    with pytest.raises(PolyplinkError, match="fewer than 0 polyps; give counts from 0"):
        dataclasses.replace(smoke(), polyps=(("001-001", -1),))
