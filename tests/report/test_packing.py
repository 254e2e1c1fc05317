from hypothesis import given
from hypothesis import strategies as st

from polyplink.report.packing import DIGIT, LABEL, LEVELS, lanes, place_labels

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=25).map(
    lambda pairs: sorted((first, first + length) for first, length in pairs)
)


@given(SPANS)
def test_lanes_never_overlap_and_are_as_few_as_can_be(spans: list[tuple[int, int]]) -> None:
    placed = lanes(spans)
    for i, (first, last) in enumerate(spans):
        for j in range(i):
            if placed[i] == placed[j]:
                assert spans[j][1] < first or last < spans[j][0]
    together = [sum(a <= at <= b for a, b in spans) for at in range(100)]
    assert max(placed, default=-1) + 1 == max(together)


@given(st.lists(st.tuples(st.floats(0, 300), st.sampled_from(["1", "12", "123"])), max_size=30))
def test_labels_and_their_lines_never_touch(centres: list[tuple[float, str]]) -> None:
    placed = place_labels(sorted(centres), 10.0)
    boxes = [(p.x - DIGIT * len(p.text) / 2, p.x + DIGIT * len(p.text) / 2, p.y) for p in placed]
    for i, (left, right, y) in enumerate(boxes):
        for j, (other_left, other_right, other_y) in enumerate(boxes):
            if i != j and y == other_y:
                assert right < other_left or other_right < left
            if placed[j].foot is not None and y > other_y:  # j's line passes this label's level
                assert not left < placed[j].x < right


def test_a_crowded_label_is_raised_and_then_left_out() -> None:
    placed = place_labels([(100, "12"), (109, "13"), (112, "14")], 0.0)
    floor = LEVELS * LABEL
    assert [(p.text, p.foot) for p in placed] == [("12", None), ("13", floor)]
    assert placed[1].y == placed[0].y - LABEL
