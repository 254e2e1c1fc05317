"""Evaluation of detectors against annotated boxes: average precision, recall by size and shape.

Average precision as in COCO (101 recalls, interpolated), over all frames, for boxes of one class:
`AP50` at an IoU of 0.5, `AP` the mean over IoU 0.50, 0.55, ..., 0.95.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from polyplink.core.arrays import Flags, Floats, Ints
from polyplink.evaluate.intervals import Figure, Resampled, draw_weights, unless_nan
from polyplink.evaluate.samples import box_iou

if TYPE_CHECKING:
    from polyplink.learn.detector.augmented_frames import TrainingFrames

IOUS = tuple(round(0.5 + 0.05 * k, 2) for k in range(10))
LEAST_SCORE = 0.02  # smallest score of a box that is evaluated
FALSE_HIGH = 0.1  # boxes in a frame without a polyp, at the score that begins a track
FALSE_LOW = 0.5  # at the score that continues one
PER_FRAME = (0.05, 0.2)  # boxes in a frame without a polyp, on average
_RECALLS = np.linspace(0, 1, 101) - 1e-12  # at which precision is averaged
RESAMPLES = 500  # fewer than for other figures, because each sorts all boxes again


@dataclass(frozen=True)
class Matches:
    """Predicted boxes of all frames by falling score, and whether each hits a true box.

    Attributes:
        scores: (n,) score of each predicted box.
        hits: (n,) whether each predicted box is matched to a true one.
        best: (m,) score of the box matched to each true box; -inf if it is missed.
        frames: (n,) frame of each predicted box.
        true_frames: (m,) frame of each true box.
    """

    scores: Floats
    hits: Flags
    best: Floats
    frames: Ints
    true_frames: Ints


def match_detections(
    predicted: Sequence[Floats], truth: Sequence[Floats], iou: float = 0.5
) -> Matches:
    """Match predicted boxes to true ones, the highest scores first.

    Args:
        predicted: (k, 5) x, y, w, h, score for each frame.
        truth: (j, 4) x, y, w, h for each frame.
        iou: Smallest IoU of a match.
    """
    scores, hits, best, frames = [], [], [], []
    for frame, (boxes, true_boxes) in enumerate(zip(predicted, truth, strict=True)):
        order = np.argsort(-boxes[:, 4], kind="stable")
        ious = box_iou(boxes[order, None, :4], true_boxes)
        best_scores = np.full(len(true_boxes), -np.inf)
        for rank, row in enumerate(order):
            candidate = int(ious[rank].argmax()) if len(true_boxes) else -1
            hit = candidate >= 0 and ious[rank, candidate] >= iou
            scores.append(boxes[row, 4])
            hits.append(hit)
            frames.append(frame)
            if hit:
                best_scores[candidate] = boxes[row, 4]
                ious[:, candidate] = -1
        best.append(best_scores)
    by_score = np.argsort(-np.array(scores, float), kind="stable")
    return Matches(
        np.array(scores, float)[by_score],
        np.array(hits, bool)[by_score],
        np.concatenate(best) if best else np.empty(0),
        np.array(frames, np.int64)[by_score],
        np.repeat(np.arange(len(truth)), [len(true_boxes) for true_boxes in truth]),
    )


def average_precision(matches: Matches, weights: Floats | None = None) -> float:
    """Area under precision over recall, at 101 recalls; NaN without a true box.

    Args:
        matches: Result of `match_detections`.
        weights: Weight of each frame, for resamples; None for 1.

    Example:
        >>> boxes, truth = np.array([[0.0, 0, 2, 2, 0.9]]), np.array([[0.0, 0, 2, 2]])
        >>> round(average_precision(match_detections([boxes, boxes], [truth, truth + 5])), 3)
        0.505
    """
    if weights is None:
        weights = np.ones(
            1 + max(matches.frames.max(initial=0), matches.true_frames.max(initial=0))
        )
    polyps = weights[matches.true_frames].sum()
    if not polyps:
        return float("nan")
    counts = weights[matches.frames]
    true_positives = (counts * matches.hits).cumsum()
    if not len(true_positives):
        return 0.0
    precision = true_positives / counts.cumsum().clip(1e-9)
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    positions = np.searchsorted(true_positives / polyps, _RECALLS, side="left")
    precision_at = precision[positions.clip(max=len(precision) - 1)]
    return float(np.where(positions < len(precision), precision_at, 0).mean())


def score_for_false_boxes(
    predicted: Sequence[Floats], per_frame: float, weights: Floats | None = None
) -> float:
    """Smallest score with at most `per_frame` boxes in a frame without a polyp, on average.

    Args:
        predicted: (k, 5) boxes of each frame without a polyp.
        per_frame: Mean number of boxes per frame.
        weights: Weight of each frame, for resamples; None for 1.
    """
    scores = np.concatenate([boxes[:, 4] for boxes in predicted])
    frame_weights = np.ones(len(predicted)) if weights is None else weights
    order = np.argsort(-scores, kind="stable")
    n_boxes = np.repeat(frame_weights, [len(boxes) for boxes in predicted])[order].cumsum()
    limit = np.floor(per_frame * frame_weights.sum() + 1e-9)
    end = np.searchsorted(n_boxes, limit, side="right")
    return float(np.nextafter(scores[order[end]], 2)) if end < len(scores) else 0.0


def track_scores(empty: Sequence[Floats]) -> tuple[float, float]:
    """Scores of boxes that begin and continue a track, at which few boxes are mistaken.

    Args:
        empty: (k, 5) boxes of each frame without a polyp.
    """
    high, low = (
        round(max(score_for_false_boxes(empty, per_frame), 2 * LEAST_SCORE), 3)
        for per_frame in (FALSE_HIGH, FALSE_LOW)
    )
    return high, min(high, low)


@dataclass(frozen=True)
class DetectorFigures:
    """Figures of a detector on annotated frames.

    Intervals are over resampled procedures; a single procedure has none. The units of recall are
    annotated boxes.

    Attributes:
        frames: Number of frames.
        empty: Number of frames without a polyp.
        polyps: Number of annotated boxes.
        ap50: Average precision at an IoU of 0.5.
        ap: Mean average precision over IoU 0.50 to 0.95.
        score: Score threshold of recall, precision and false boxes.
        recall: Share of annotated boxes that are detected (IoU 0.5).
        precision: Share of detected boxes that match an annotated one.
        false_boxes: Number of boxes per frame without a polyp; None without such frames.
        recall_at: Recall at the score threshold that gives a mean number of boxes per frame without
            a polyp, by that number.
        recall_by: Recall by size and by shape of the annotated box.
    """

    frames: int
    empty: int
    polyps: int
    ap50: Figure
    ap: Figure
    score: float
    recall: Figure
    precision: Figure
    false_boxes: Figure | None
    recall_at: Mapping[str, Figure]
    recall_by: Mapping[str, Figure]


def measure_detector(
    predicted: Sequence[Floats],
    truth: Sequence[Floats],
    sizes: Floats,
    procedures: Sequence[str],
    *,
    score: float,
) -> DetectorFigures:
    """Figures of a detector's boxes.

    Args:
        predicted: (k, 5) x, y, w, h, score for each frame; of all scores.
        truth: (j, 4) x, y, w, h for each frame.
        sizes: (n, 2) width and height of the frames, pixels.
        procedures: Procedure of each frame.
        score: Score threshold of recall and precision.
    """
    # What is matched once, whatever the weights of frames.
    by_iou = [match_detections(predicted, truth, iou) for iou in IOUS]
    matches = by_iou[0]
    empty = np.array([not len(true) for true in truth])
    boxes_of_empty = [boxes for boxes, is_empty in zip(predicted, empty, strict=True) if is_empty]
    false = np.array([(boxes[:, 4] >= score).sum() for boxes in boxes_of_empty])
    detected, groups = matches.best >= score, _groups(matches, truth, sizes)

    def figures_of(weights: Floats) -> dict[str, float]:
        """All figures under weights of frames (frames,)."""
        polyps = weights[matches.true_frames]  # boxes
        boxes = weights[matches.frames] * (matches.scores >= score)
        precisions = [average_precision(at_iou, weights) for at_iou in by_iou]
        values = {
            "ap50": precisions[0],
            "ap": float(np.mean(precisions)),
            "recall": _share(detected, polyps),
            "precision": _share(matches.hits, boxes),
        }
        for name, group in groups.items():
            values[name] = _share(detected[group], polyps[group])
        if empty.any():
            values["false_boxes"] = _share(false, weights[empty])
            for per_frame in PER_FRAME:
                least = score_for_false_boxes(boxes_of_empty, per_frame, weights[empty])
                recall = _share(matches.best >= least, polyps)
                # Without a drawn frame of no polyp, no score is known to give few false boxes.
                values[f"{per_frame:g}"] = recall if weights[empty].any() else float("nan")
        return values

    # The procedures that a figure is of: those with a box of the group, or with an empty frame.
    of_frame = np.asarray(procedures, str)
    contributing = {name: of_frame[matches.true_frames[group]] for name, group in groups.items()}
    contributing["false_boxes"] = of_frame[empty]
    measured = _with_intervals(figures_of, procedures, contributing)
    n_boxes = len(matches.best)
    recall_at = {}
    if empty.any():
        for per_frame in PER_FRAME:
            name = f"{per_frame:g}"
            recall_at[name] = replace(measured[name], n=n_boxes)
    return DetectorFigures(
        frames=len(truth),
        empty=int(empty.sum()),
        polyps=n_boxes,
        ap50=measured["ap50"],
        ap=measured["ap"],
        score=score,
        recall=replace(measured["recall"], n=n_boxes),
        precision=measured["precision"],
        false_boxes=measured.get("false_boxes"),
        recall_at=recall_at,
        recall_by={
            name: replace(measured[name], n=int(group.sum())) for name, group in groups.items()
        },
    )


def measure_in_frames(
    predicted: Sequence[Floats], frames: "TrainingFrames", *, score: float
) -> DetectorFigures:
    """Figures of boxes that `detect_in_frames` returned, against the boxes annotated in the frames.

    Args:
        predicted: (k, 5) x, y, w, h, score for each frame; of all scores.
        frames: The annotated frames.
        score: Score that recall and precision are measured at.
    """
    from polyplink.learn.detector.frames import (  # noqa: PLC0415 - imports torch
        true_boxes,
        unstretched_sizes,
    )

    truth, sizes = true_boxes(frames), unstretched_sizes(frames)
    return measure_detector(predicted, truth, sizes, frames.procedures, score=score)


def _share(part: npt.ArrayLike, weights: Floats) -> float:
    """Weighted mean; NaN if the weights are 0."""
    total = weights.sum()
    return float((np.asarray(part) * weights).sum() / total) if total else float("nan")


def _with_intervals(
    figures_of: Callable[[Floats], Mapping[str, float]],
    procedures: Sequence[str],
    contributing: Mapping[str, npt.NDArray[np.str_]],
) -> dict[str, Figure]:
    """Figures with equal weights, and 95 % intervals over resamples of procedures.

    Args:
        figures_of: Figures under weights of frames (frames,).
        procedures: Procedure of each frame.
        contributing: Figure -> the procedures that it is of; all by default.
    """
    names, procedure = np.unique(np.asarray(procedures, str), return_inverse=True)
    values, units = figures_of(np.ones(len(procedure))), len(names)
    draws = draw_weights(units, resamples=RESAMPLES) if units > 1 else ()
    drawn = [figures_of(draw[procedure].astype(float)) for draw in draws]
    measured = {}
    for name, value in values.items():
        resampled = np.array([figures[name] for figures in drawn])
        taking_part = np.isin(names, contributing.get(name, names))
        measured[name] = Resampled(unless_nan(value), resampled, taking_part).figure()
    return measured


def _groups(matches: Matches, truth: Sequence[Floats], sizes: Floats) -> dict[str, Flags]:
    """Annotated boxes (flags) by size (square root of the share of the frame's area) and shape."""
    boxes = np.concatenate([true.reshape(-1, 4) for true in truth])
    area = sizes.prod(1)[matches.true_frames]
    share = np.sqrt(boxes[:, 2:].prod(1) / area)
    aspect = boxes[:, 2] / boxes[:, 3].clip(1e-9)
    groups = {
        "small (side below 0.15 of the frame)": share < 0.15,
        "medium (0.15 to 0.35)": (share >= 0.15) & (share < 0.35),
        "large (0.35 and above)": share >= 0.35,
        "wide (width above 1.5 heights)": aspect > 1.5,
        "about square": (aspect <= 1.5) & (aspect >= 1 / 1.5),
        "tall (height above 1.5 widths)": aspect < 1 / 1.5,
    }
    return {name: group for name, group in groups.items() if group.any()}
