from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from polyplink.data.sets.sun_names import SunName, number_frames, parse_name

RELEASED = "case_M_20181001100941_0U62372100109341_1_005_001-1_a10_ayy_image0001"


def test_a_released_name() -> None:
    assert parse_name(RELEASED) == SunName(10, RELEASED[:-4], 1)
    assert parse_name(RELEASED.upper()) == SunName(10, RELEASED[:-4].upper(), 1)
    assert parse_name("a_a2_image_12") == SunName(2, "a_a2_image_", 12)


def test_names_without_segment_or_number() -> None:
    for stem in ("image0001", "a_a2_ayy", "x_a1_image", "_a1_image0001b", "12", ""):
        assert parse_name(stem) is None


def test_segments_sort_as_numbers_and_are_cut() -> None:
    names = [
        SunName(10, "p_a10_", 1),
        SunName(10, "p_a10_", 2),
        SunName(2, "p_a2_", 1),
        SunName(2, "p_a2_", 3),
        SunName(2, "p_a2_", 10),
        SunName(2, "q_a2_", 1),
    ]
    frames = number_frames(reversed(names))
    assert [frames[name] for name in names] == [13, 14, 0, 2, 9, 11]


def test_segments_counted_from_0_and_late_ones() -> None:
    zero, late = SunName(1, "a", 0), SunName(2, "b", 5)
    assert number_frames([late, zero]) == {zero: 0, late: 6}


@given(st.sets(st.tuples(st.integers(1, 3), st.sampled_from("ab"), st.integers(0, 9))))
def test_frames_rise_by_steps_inside_a_segment_and_by_gaps_between(
    keys: set[tuple[int, str, int]],
) -> None:
    frames = number_frames(SunName(*key) for key in keys)
    order = sorted(frames)
    assert list(frames) == order
    for before, after in pairwise(order):
        step = frames[after] - frames[before]
        if before[:2] == after[:2]:
            assert step == after.number - before.number
        else:
            assert step > 1  # a tracklet ends here
