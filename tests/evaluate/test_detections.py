"""Figures of a detector: average precision, and resampling of procedures."""

import numpy as np
import pytest

from polyplink.core.arrays import Floats
from polyplink.evaluate.detections import (
    average_precision,
    match_detections,
    measure_detector,
    score_for_false_boxes,
    track_scores,
)


def frames_of(n: int) -> tuple[list[Floats], list[Floats]]:
    """Per frame, boxes (k, 5) of a poor detector and true boxes (j, 4)."""
    rng = np.random.default_rng(4)
    truth = [rng.uniform([0, 0, 20, 20], [50, 50, 70, 70], (k % 3, 4)) for k in range(n)]
    predicted = []
    for true_boxes in truth:
        near = true_boxes[rng.random(len(true_boxes)) < 0.8] + rng.normal(0, 3, 4)
        other = rng.uniform([0, 0, 10, 10], [50, 50, 60, 60], (2, 4))
        boxes = np.concatenate([near, other])
        predicted.append(np.concatenate([boxes, rng.random((len(boxes), 1))], 1))
    return predicted, truth


def without_polyp(predicted: list[Floats], truth: list[Floats]) -> list[Floats]:
    """The boxes of the frames without a true box."""
    return [
        boxes for boxes, true_boxes in zip(predicted, truth, strict=True) if not len(true_boxes)
    ]


def test_average_precision_equals_its_definition() -> None:
    predicted, truth = frames_of(30)
    matches = match_detections(predicted, truth)
    # The definition: for each recall, the best precision of all scores that reach it.
    precisions = []
    for recall in np.linspace(0, 1, 101):
        reached = [0.0]
        for score in matches.scores:
            above = matches.scores >= score
            if matches.hits[above].sum() / len(matches.best) >= recall - 1e-12:
                reached.append(matches.hits[above].mean())
        precisions.append(max(reached))
    assert average_precision(matches) == pytest.approx(np.mean(precisions))
    with_copies = average_precision(match_detections(predicted * 2, truth * 2))
    assert with_copies == pytest.approx(average_precision(matches, np.full(30, 2.0)), abs=0.02)
    empty = without_polyp(predicted, truth)
    score = score_for_false_boxes(empty, 0.5)
    assert sum((boxes[:, 4] >= score).sum() for boxes in empty) == int(0.5 * len(empty))


def test_a_true_box_is_detected_once() -> None:
    box, aside = np.array([[10.0, 10.0, 20.0, 20.0], [13.0, 13.0, 20.0, 20.0]])
    predicted = np.array([[*box, 0.8], [*box, 0.9], [*aside, 0.7]])
    matches = match_detections([predicted], [box[None]])
    assert (matches.scores.tolist(), matches.hits.tolist()) == ([0.9, 0.8, 0.7], [1, 0, 0])
    both = match_detections([predicted], [np.stack([box, aside])])
    assert both.hits.tolist() == [True, True, False]
    assert both.best.tolist() == [0.9, 0.8]


def test_recall_is_divided_by_size_and_shape() -> None:
    sides = [(10, 10), (14, 14), (15, 15), (30, 30), (35, 35), (40, 20), (20, 40)]
    truth = [np.array([[0.0, 0.0, w, h]]) for w, h in sides]
    predicted = [np.append(box, [[0.9]], axis=1) for box in truth]
    sizes = np.full((len(sides), 2), 100.0)
    figures = measure_detector(predicted, truth, sizes, ["v"] * len(sides), score=0.5)
    assert [figure.n for figure in figures.recall_by.values()] == [2, 4, 1, 1, 5, 1]
    assert track_scores([np.zeros((0, 5))] * 3) == (0.04, 0.04)  # no mistaken box


def test_weighted_figures_equal_those_of_repeated_frames() -> None:
    """A resample that draws a procedure twice equals data that contain its frames twice."""
    predicted, truth = frames_of(30)
    sizes = np.full((30, 2), 100.0)
    names = [str(k // 3) for k in range(30)]  # ten procedures
    figures = measure_detector(predicted, truth, sizes, names, score=0.5)
    weights = np.random.default_rng(1).integers(0, 4, 30)
    rows = np.repeat(np.arange(30), weights)
    repeated_figures = measure_detector(
        [predicted[row] for row in rows],
        [truth[row] for row in rows],
        np.full((len(rows), 2), 100.0),
        ["one"] * len(rows), score=0.5,
    )  # fmt: skip
    empty = without_polyp(predicted, truth)
    is_empty = np.array([not len(true_boxes) for true_boxes in truth])
    repeated = [predicted[row] for row in rows if is_empty[row]]
    for per_frame in (0.05, 0.2, 1.0):
        expected = score_for_false_boxes(repeated, per_frame)
        assert score_for_false_boxes(empty, per_frame, weights[is_empty]) == expected
    matches = match_detections(predicted, truth)
    assert repeated_figures.ap50.value == pytest.approx(
        average_precision(matches, weights.astype(float))
    )
    assert repeated_figures.ap50.low is None  # one procedure
    assert figures.false_boxes is not None
    assert figures.false_boxes.value == np.mean([(boxes[:, 4] >= 0.5).sum() for boxes in empty])
    for figure in (figures.ap50, figures.recall, figures.precision, *figures.recall_at.values()):
        assert figure.low is not None
        assert figure.high is not None
        assert figure.value is not None
        assert figure.low <= figure.value <= figure.high
        assert figure.low < figure.high
    assert figures.recall.n == sum(map(len, truth))


def test_resamples_without_a_frame_of_no_polyp_have_no_recall_at_a_number_of_false_boxes() -> None:
    box = np.array([[10.0, 10.0, 20.0, 20.0]])
    # One of ten procedures has a frame without a polyp; its false box outscores the others' hits.
    scores = [0.8, 0.9, *[0.5] * 9]
    truth = [np.zeros((0, 4)), *[box] * 10]
    predicted = [np.append(box, [[score]], axis=1) for score in scores]
    procedures = ["first", "first", *(f"other {k}" for k in range(9))]
    figures = measure_detector(predicted, truth, np.full((11, 2), 100.0), procedures, score=0.5)
    recall = figures.recall_at["0.05"]
    assert recall.value == 0.1
    assert recall.high is not None
    assert recall.high < 0.5
