"""Figures of a detector: average precision by its definition."""

import numpy as np
import pytest

from polyplink.evaluate import average_precision, match_detections, score_for_false_boxes


def test_average_precision_is_that_of_the_definition() -> None:
    rng = np.random.default_rng(4)
    truth = [rng.uniform([0, 0, 20, 20], [50, 50, 70, 70], (k % 3, 4)) for k in range(30)]
    predicted = []
    for known in truth:
        near = known[rng.random(len(known)) < 0.8] + rng.normal(0, 3, 4)
        other = rng.uniform([0, 0, 10, 10], [50, 50, 60, 60], (2, 4))
        boxes = np.concatenate([near, other])
        predicted.append(np.concatenate([boxes, rng.random((len(boxes), 1))], 1))
    matches = match_detections(predicted, truth)
    # By the definition: for each recall the best precision of any score that reaches it.
    precisions = []
    for recall in np.linspace(0, 1, 101):
        reached = [0.0]
        for score in matches.scores:
            sure = matches.scores >= score
            if matches.hits[sure].sum() / len(matches.best) >= recall - 1e-12:
                reached.append(matches.hits[sure].mean())
        precisions.append(max(reached))
    assert average_precision(matches) == pytest.approx(np.mean(precisions))
    twice = average_precision(match_detections(predicted * 2, truth * 2))
    assert twice == pytest.approx(average_precision(matches, np.full(30, 2.0)), abs=0.02)
    empty = [boxes for boxes, known in zip(predicted, truth, strict=True) if not len(known)]
    score = score_for_false_boxes(empty, 0.5)
    assert sum((boxes[:, 4] >= score).sum() for boxes in empty) == int(0.5 * len(empty))
