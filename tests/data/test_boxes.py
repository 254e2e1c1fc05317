"""Checking and clipping boxes against a naive version, and the counts of faults."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message
from polyplink.data.boxes import Border, box_table, check_boxes, fit_boxes, without_repeated
from polyplink.data.faults import LEFT_OUT, Faults

WIDTH, HEIGHT, N_FRAMES = 100, 80, 3
PROCEDURES = pl.DataFrame(
    {"procedure_id": ["v"], "n_frames": [N_FRAMES], "width": [WIDTH], "height": [HEIGHT]}
)
EDGES = ("left", "top", "right", "bottom")
number = st.none() | st.floats() | st.sampled_from([0.0, 1.0, 5.0])
edge = (
    st.integers(-100, 300).map(lambda half: half / 2)
    | st.floats(-50, 150)
    | st.sampled_from([float("nan"), float("inf"), 0.0, 100.0])
)


def boxes_by_edges(*edges: tuple[float, ...], frame: int = 0) -> pl.DataFrame:
    table = pl.DataFrame(list(edges), schema=dict.fromkeys(EDGES, pl.Float64), orient="row")
    return box_table(
        table.with_columns(
            at=pl.format("line {}", pl.int_range(pl.len())), procedure_id=pl.lit("v"), frame=frame
        )
    )


def boxes_by_sides(*rows: tuple[object, ...]) -> pl.DataFrame:
    names = ("at", "procedure_id", "frame", "x", "y", "w", "h", "score")
    schema = {n: pl.String if i < 2 else pl.Float64 for i, n in enumerate(names)}
    return box_table(pl.DataFrame(list(rows), schema=schema, orient="row"))


def naive_box(box: tuple[float, ...], border: Border) -> tuple[float, ...] | None:
    """One box after checking and clipping, as x, y, w, h; None if it is left out."""
    left, top, right, bottom = box
    if not np.isfinite(box).all() or right <= left or bottom <= top:
        return None
    if right <= 0 or bottom <= 0 or left >= WIDTH or top >= HEIGHT:
        return None
    if border == "pixels":
        left, right = (min(max(float(np.rint(e)), 0), WIDTH - 1) for e in (left, right))
        top, bottom = (min(max(float(np.rint(e)), 0), HEIGHT - 1) for e in (top, bottom))
    elif border == "clip":
        left, right = max(left, 0), min(right, WIDTH)
        top, bottom = max(top, 0), min(bottom, HEIGHT)
    sides = tuple(float(np.float32(s)) for s in (left, top, right - left, bottom - top))
    return sides if min(sides[2:]) > 0 else None


@given(st.lists(st.tuples(edge, edge, edge, edge), max_size=6))
@pytest.mark.parametrize("border", ["clip", "pixels"])
def test_boxes_equal_a_naive_version(border: Border, edges: list[tuple[float, ...]]) -> None:
    faults = Faults()
    checked = check_boxes(boxes_by_edges(*edges), faults)
    fitted = fit_boxes(checked, PROCEDURES, faults, border=border)
    expected = [naive_box(box, border) for box in edges]
    assert fitted.select("x", "y", "w", "h").rows() == [box for box in expected if box is not None]
    left_out = sum(fault.number for fault in faults.counts.values() if fault.warning == LEFT_OUT)
    assert left_out == expected.count(None)


@given(st.lists(st.tuples(st.none() | st.just("v"), *[number] * 6)))
def test_checked_boxes_are_valid_and_others_are_counted(rows: list[tuple[object, ...]]) -> None:
    rows = [*rows, *([("v", 0, 1, 1, 5, 5, 0.5)] * len(rows))]  # most scores are valid
    boxes = boxes_by_sides(*((str(i), *row) for i, row in enumerate(rows)))
    faults = Faults()
    valid = check_boxes(boxes, faults)
    left_out = sum(fault.number for fault in faults.counts.values() if fault.warning == LEFT_OUT)
    assert valid.height + left_out == len(rows)
    assert valid.schema["frame"] == pl.Int32
    for row in valid.iter_rows(named=True):
        assert row["procedure_id"] == "v"
        assert row["frame"] >= 0
        assert all(abs(np.float32(row[side])) < float("inf") for side in "xywh")
        assert min(row["w"], row["h"]) > 0
        assert row["score"] is None or 0 <= row["score"] <= 1


@pytest.mark.parametrize(
    ("box", "message"),
    [
        ((1, 40, 30, 50, 60, 90), "most scores are above 1, the first has score 90; divide"),
        ((0.04, 1, 1, 5, 5, 0.9), "most frames are not whole .* frame 0.04; give the number"),
        ((1, 0.4, 0.3, 0.5, 0.6, 0.9), "lie within one pixel, the first has w 0.5; multiply x and"),
        ((1, 40, 30, 70, 60, 0.9), "beyond the image, .* right and bottom edge; give left, top, w"),
    ],
)
def test_boxes_in_other_units_are_refused(box: tuple[float, ...], message: str) -> None:
    """They would be left out, count as annotated, or be counted as one polyp."""
    boxes = boxes_by_sides(*((f"line {i}", "v", *box) for i in range(12)))
    with pytest.raises(PolyplinkError, match=f"line 0: .*{message}"):
        fit_boxes(check_boxes(boxes, Faults()), PROCEDURES, Faults())
    without = check_boxes(boxes_by_sides(("line 0", "v", 1, 4, 3, 5, 6, math.nan)), Faults())
    assert without["score"].to_list() == [None]


def test_too_many_boxes_are_refused_unless_limits_are_lifted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("polyplink.data.boxes.MOST_BOXES", 1)
    edges = boxes_by_edges((1, 2, 3, 4), (5, 6, 7, 8))
    with pytest.raises(PolyplinkError, match=r"2 boxes are more than 1; .* with --no-limits"):
        check_boxes(edges, Faults())
    monkeypatch.setenv("POLYPLINK_NO_LIMITS", "1")
    assert check_boxes(edges, Faults()).height == 2


def test_faults_are_counted_by_kind_with_their_first_location() -> None:
    faults = Faults()
    edges = [(1, 1, 1, 5), (200, 1, 300, 5), (np.nan, 1, 2, 3), (90, 1, 110, 5), (1, 2, 3, 4)]
    checked = check_boxes(boxes_by_edges(*edges), faults)
    assert fit_boxes(checked, PROCEDURES, faults, border="clip").height == 2
    assert [*map(str, faults.messages)] == [
        "1 x box with a coordinate or side that is not finite, left out (line 2 (nan, 1, nan, 2))",
        "1 x box of no area, left out (line 0 (1, 1, 0, 4))",
        "1 x box wholly outside the image, left out (line 1 (200, 1, 100, 4))",
        "1 x box that reaches beyond the image, clipped to it (line 3)",
    ]
    with pytest.raises(PolyplinkError, match=r"line 0 \(1, 1, 0, 4\): box of no area; correct"):
        check_boxes(boxes_by_edges(*edges[:1]), Faults(strict=True))


def test_boxes_partly_outside_stay_and_boxes_beyond_the_last_frame_are_left_out() -> None:
    boxes = boxes_by_sides(
        ("in", "v", 2, 1, 1, 5, 5, 0.5),
        ("late", "v", N_FRAMES, 1, 1, 5, 5, None),
        ("right", "v", 0, WIDTH, 1, 5, 5, None),
        ("left", "v", 0, -5, 1, 5, 5, None),
        ("partly", "v", 0, -4, 76, 5, 5, 1.5),
    )
    faults = Faults()
    fitted = fit_boxes(check_boxes(boxes, faults), PROCEDURES, faults)
    assert fitted.select("at", "x", "score").rows() == [("in", 1, 0.5), ("partly", -4, None)]
    assert [*map(str, faults.messages)] == [
        "1 x box with a score outside [0, 1], kept without it, as an annotated box (partly)",
        "1 x box beyond the last frame of its procedure, left out (late (1, 1, 5, 5))",
        "2 x box wholly outside the image, left out (first: right (100, 1, 5, 5))",
        "1 x box that reaches beyond the image (partly)",
    ]
    with pytest.raises(PolyplinkError, match=r"late .*: box beyond the last frame .*; correct the"):
        fit_boxes(check_boxes(boxes, Faults()), PROCEDURES, Faults(strict=True))


def test_repeated_boxes_are_left_out() -> None:
    boxes = boxes_by_sides(
        ("first", "v", 0, 1, 1, 5, 5, 0.5),
        ("score", "v", 0, 1, 1, 5, 5, 0.6),
        ("frame", "v", 1, 1, 1, 5, 5, 0.5),
        ("again", "v", 0, 1, 1, 5, 5, 0.5),
        ("thrice", "v", 0, 1, 1, 5, 5, 0.5),
    )
    faults = Faults()
    unique_boxes = without_repeated(check_boxes(boxes, faults), faults)
    assert unique_boxes["at"].to_list() == ["first", "score", "frame"]
    assert [*map(str, faults.messages)] == [
        "2 x box that repeats another of its frame, left out (first: again (1, 1, 5, 5))"
    ]
    with pytest.raises(PolyplinkError, match=r"again .*: box that repeats another .*; leave one"):
        without_repeated(check_boxes(boxes, Faults()), Faults(strict=True))


def test_faults_and_warnings_are_counted_with_the_first_name() -> None:
    faults, other = Faults(), Faults()
    faults.fault(Message("import.no_area"), "a.xml", "correct the box")
    faults.warn(Message.of("odd"), "x")
    other.fault(Message("import.no_area"), "b.xml", "correct the box")
    other.warn(Message.of("odder"), "y", 3)
    faults.add(other)
    assert [*map(str, faults.messages)] == [
        "2 x box of no area, left out (first: a.xml)",
        "1 x odd (x)",
        "3 x odder (first: y)",
    ]
