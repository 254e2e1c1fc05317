"""How well a detector finds annotated boxes: average precision, recall by size and shape.

Average precision as COCO computes it (101 recalls, interpolated), over all frames, for boxes of
one class: `AP50` at an IoU of 0.5, `AP` the mean over IoU 0.50, 0.55, ..., 0.95.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from polyplink.evaluate.intervals import PERCENTILES, draw_weights
from polyplink.evaluate.samples import box_iou

Floats = npt.NDArray[np.float64]
IOUS = tuple(round(0.5 + 0.05 * k, 2) for k in range(10))
LEAST_SCORE = 0.02  # from which a box is measured
RESAMPLES = 500  # fewer than of other figures: each sorts all boxes again


@dataclass(frozen=True)
class Matches:
    """Predicted boxes of all frames by falling score, and whether each hits a true box.

    Attributes:
        scores: (n,) of the predicted boxes.
        hits: (n,) whether the box is matched to a true one.
        best: (m,) largest score of a matched box of each true box; -inf for one that is missed.
        frames: (n,) frame of each predicted box.
        true_frames: (m,) frame of each true box.
    """

    scores: Floats
    hits: npt.NDArray[np.bool_]
    best: Floats
    frames: npt.NDArray[np.int64]
    true_frames: npt.NDArray[np.int64]


def match_detections(
    predicted: Sequence[Floats], truth: Sequence[Floats], iou: float = 0.5
) -> Matches:
    """Match predicted boxes to true ones, those of large scores first.

    Args:
        predicted: (k, 5) x, y, w, h, score for each frame.
        truth: (j, 4) for each frame.
        iou: Least overlap of a match.
    """
    scores, hits, best, frames = [], [], [], []
    for frame, (boxes, true) in enumerate(zip(predicted, truth, strict=True)):
        order = np.argsort(-boxes[:, 4], kind="stable")
        free = box_iou(boxes[order, None, :4], true)
        reached = np.full(len(true), -np.inf)
        for place, row in enumerate(order):
            candidate = int(free[place].argmax()) if len(true) else -1
            hit = candidate >= 0 and free[place, candidate] >= iou
            scores.append(boxes[row, 4])
            hits.append(hit)
            frames.append(frame)
            if hit:
                reached[candidate] = boxes[row, 4]
                free[:, candidate] = -1
        best.append(reached)
    by_score = np.argsort(-np.array(scores, float), kind="stable")
    return Matches(
        np.array(scores, float)[by_score],
        np.array(hits, bool)[by_score],
        np.concatenate(best) if best else np.empty(0),
        np.array(frames, np.int64)[by_score],
        np.repeat(np.arange(len(truth)), [len(true) for true in truth]),
    )


def average_precision(matches: Matches, weights: Floats | None = None) -> float:
    """Area under precision over recall, at 101 recalls; NaN without a true box.

    Args:
        matches: From `match_detections`.
        weights: How often each frame counts, for resamples; None for once.

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
    true = (counts * matches.hits).cumsum()
    if not len(true):
        return 0.0
    precision = true / counts.cumsum().clip(1e-9)
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    at = np.searchsorted(true / polyps, np.linspace(0, 1, 101) - 1e-12, side="left")
    reached = precision[at.clip(max=len(precision) - 1)]
    return float(np.where(at < len(precision), reached, 0).mean())


def score_for_false_boxes(predicted: Sequence[Floats], per_frame: float) -> float:
    """Smallest score with at most `per_frame` boxes in a frame without a polyp, on average.

    Args:
        predicted: (k, 5) boxes of each frame without a polyp.
        per_frame: Boxes a frame.
    """
    scores = np.sort(np.concatenate([boxes[:, 4] for boxes in predicted]))[::-1]
    allowed = int(per_frame * len(predicted))
    return float(np.nextafter(scores[allowed], 2)) if allowed < len(scores) else 0.0


@dataclass(frozen=True)
class DetectorFigures:
    """How well a detector finds the polyps of annotated frames.

    Attributes:
        frames: Frames.
        empty: Frames of them without a polyp.
        polyps: Annotated boxes.
        ap50: Average precision at an IoU of 0.5.
        ap50_interval: 95 % interval over resampled procedures; None for a single procedure.
        ap: Mean of average precision over IoU 0.50 to 0.95.
        score: Score that the figures below are measured at.
        recall: Share of annotated boxes that are detected (IoU 0.5).
        precision: Share of detected boxes that match one.
        false_boxes: Boxes for each frame without a polyp; None if there is no such frame.
        recall_at: Recall at the score where frames without a polyp have so many boxes on average.
        recall_by: Recall and number of boxes, by size and by shape of the annotated box.
    """

    frames: int
    empty: int
    polyps: int
    ap50: float
    ap50_interval: tuple[float, float] | None
    ap: float
    score: float
    recall: float
    precision: float
    false_boxes: float | None
    recall_at: Mapping[str, float]
    recall_by: Mapping[str, tuple[float, int]]


def measure_detector(
    predicted: Sequence[Floats],
    truth: Sequence[Floats],
    sizes: Floats,
    procedures: Sequence[str],
    *,
    score: float,
    seed: int = 0,
) -> DetectorFigures:
    """Figures of a detector's boxes.

    Args:
        predicted: (k, 5) x, y, w, h, score for each frame; of all scores.
        truth: (j, 4) for each frame.
        sizes: (n, 2) width and height of the frames, pixels.
        procedures: Procedure of each frame.
        score: Score that recall and precision are measured at.
        seed: Of the resampled procedures.
    """
    matches = match_detections(predicted, truth)
    empty = [boxes for boxes, true in zip(predicted, truth, strict=True) if not len(true)]
    sure = matches.scores >= score
    recall_at = {}
    for per_frame in (0.05, 0.2) if empty else ():
        min_score = score_for_false_boxes(empty, per_frame)
        recall_at[f"{per_frame:g}"] = float((matches.best >= min_score).mean())
    false = float(np.mean([(boxes[:, 4] >= score).sum() for boxes in empty])) if empty else None
    return DetectorFigures(
        frames=len(truth),
        empty=len(empty),
        polyps=len(matches.best),
        ap50=average_precision(matches),
        ap50_interval=_interval(matches, procedures, seed),
        ap=float(
            np.mean([average_precision(match_detections(predicted, truth, iou)) for iou in IOUS])
        ),
        score=score,
        recall=float((matches.best >= score).mean()),
        precision=float(matches.hits[sure].mean()) if sure.any() else float("nan"),
        false_boxes=false,
        recall_at=recall_at,
        recall_by=_recall_by(matches, truth, sizes, score),
    )


def _interval(matches: Matches, procedures: Sequence[str], seed: int) -> tuple[float, float] | None:
    """95 % interval of AP50 over resamples of procedures."""
    names, procedure = np.unique(np.asarray(procedures, str), return_inverse=True)
    if len(names) < 2:
        return None
    draws = draw_weights(len(names), resamples=RESAMPLES, seed=seed)
    values = [average_precision(matches, draw[procedure].astype(float)) for draw in draws]
    low, high = np.nanpercentile(values, PERCENTILES)
    return float(low), float(high)


def _recall_by(
    matches: Matches, truth: Sequence[Floats], sizes: Floats, score: float
) -> dict[str, tuple[float, int]]:
    """Recall and number of boxes by size (root of the share of the frame's area) and by shape."""
    boxes = np.concatenate([true.reshape(-1, 4) for true in truth])
    area = sizes.prod(1)[matches.true_frames]
    share = np.sqrt(boxes[:, 2:].prod(1) / area)
    aspect = boxes[:, 2] / boxes[:, 3].clip(1e-9)
    parts = {
        "small (side below 0.15 of the frame)": share < 0.15,
        "medium (0.15 to 0.35)": (share >= 0.15) & (share < 0.35),
        "large (0.35 and above)": share >= 0.35,
        "wide (width above 1.5 heights)": aspect > 1.5,
        "about square": (aspect <= 1.5) & (aspect >= 1 / 1.5),
        "tall (height above 1.5 widths)": aspect < 1 / 1.5,
    }
    reached = matches.best >= score
    return {
        name: (float(reached[part].mean()), int(part.sum()))
        for name, part in parts.items()
        if part.any()
    }
