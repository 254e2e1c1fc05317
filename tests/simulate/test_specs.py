import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.simulate import Preset, smoke
from polyplink.simulate.specs import SURPLUS, PairSpec, PolypSpec, ProcedureSpec


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


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("pair_share", 1.5, r"pair_share is 1.5; give a value in \[0, 1\]"),
        ("difficulty", -0.1, r"difficulty is -0.1; give a value in \[0, 1\]"),
        ("fullest", 0.0, "fullest is 0.0; give a share above 0"),
        ("shorter", 0.5, "shorter is 0.5; give 1 or more"),
        ("insertion", (0.5, 0.3), "insertion is 0.5 to 0.3; give a range within"),
    ],
)
def test_shares_are_shares(name: str, value: object, message: str) -> None:
    with pytest.raises(PolyplinkError, match=f"preset smoke: {message}"):
        dataclasses.replace(smoke(), **{name: value})  # type: ignore[arg-type]


def test_released_procedures_are_known_by_name() -> None:
    with pytest.raises(PolyplinkError, match="005-001 is no procedure of REAL-Colon; name"):
        Preset("own", (("005-001", 1),), released=True)


def test_a_frame_with_two_boxes_counts_once() -> None:
    polyps = tuple(PolypSpec(3.0, "sigma", "HP", "HP", frames) for frames in (100, 70))
    spec = ProcedureSpec("001-001", 900, 25.0, 64, 56, "Olympus", 60, "male", 9.0, polyps)
    assert spec.boxed_frames == 170
    assert dataclasses.replace(spec, pairs=(PairSpec(0, 1, 40),)).boxed_frames == 130


def test_the_surplus_is_that_of_the_release() -> None:
    assert pytest.approx(351_264) == 342_109 * (1 + SURPLUS)
