import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.tracklets.boxes import enlarge, iou, overlap

SIDE = st.floats(0.5, 500, width=32)
PLACE = st.floats(-300, 900, width=32)
BOX = st.tuples(PLACE, PLACE, SIDE, SIDE)
BOXES = st.lists(BOX, min_size=1, max_size=8).map(np.array)


def naive_iou(a: np.ndarray, b: np.ndarray) -> float:
    width = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    height = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    shared = max(width, 0.0) * max(height, 0.0)
    return float(shared / (a[2] * a[3] + b[2] * b[3] - shared))


@settings(deadline=None)
@given(st.lists(st.tuples(BOX, BOX), min_size=1, max_size=8))
def test_iou_equals_a_naive_loop(pairs: list[tuple[tuple[float, ...], ...]]) -> None:
    a, b = np.array(pairs).swapaxes(0, 1)
    expected = [naive_iou(a[i], b[i]) for i in range(len(a))]
    np.testing.assert_allclose(iou(a, b), expected, atol=1e-9)
    one_by_one = [overlap(tuple(one), tuple(other)) for one, other in zip(a, b, strict=True)]
    np.testing.assert_array_equal(one_by_one, iou(a, b))


def test_iou_refuses_what_cannot_be_paired() -> None:
    with pytest.raises(PolyplinkError, match=r"shape \(2, 4\) and \(1, 4\) cannot be paired"):
        iou(np.ones((2, 4)), np.ones((1, 4)))


def naive_crop(box: np.ndarray, factor: float, width: int, height: int) -> list[int]:
    x, y, w, h = (float(v) for v in box)
    left, right = x + w / 2 - w * factor / 2, x + w / 2 + w * factor / 2
    top, bottom = y + h / 2 - h * factor / 2, y + h / 2 + h * factor / 2
    left, right = int(min(max(left, 0), width)), int(min(max(right, 0), width))
    top, bottom = int(min(max(top, 0), height)), int(min(max(bottom, 0), height))
    left, top = min(left, width - 1), min(top, height - 1)
    return [left, top, max(right, left + 1), max(bottom, top + 1)]


@settings(deadline=None)
@given(BOXES, st.floats(0.01, 20), st.integers(1, 700), st.integers(1, 700))
def test_enlarge_equals_a_naive_loop(boxes: np.ndarray, factor: float, w: int, h: int) -> None:
    expected = [naive_crop(box, factor, w, h) for box in boxes]
    np.testing.assert_array_equal(enlarge(boxes, factor, w, h), expected)


def test_a_factor_of_one_is_the_box_and_none_the_frame() -> None:
    box = np.array([[10.0, 20.0, 30.0, 40.0]])
    np.testing.assert_array_equal(enlarge(box, 1.0, 100, 100), [[10, 20, 40, 60]])
    np.testing.assert_array_equal(enlarge(box, None, 100, 90), [[0, 0, 100, 90]])


def test_enlarge_refuses_a_factor_of_zero_and_an_empty_frame() -> None:
    box = np.array([[10.0, 20.0, 30.0, 40.0]])
    with pytest.raises(PolyplinkError, match="crop factor 0; give one above 0, or None"):
        enlarge(box, 0, 100, 100)
    with pytest.raises(PolyplinkError, match="a frame of 0 x 100 pixels; mend width"):
        enlarge(box, 1.0, 0, 100)
