"""Scoring tracks, against TrackEval; both from boxes in memory."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from polyplink.bench.harness import BenchResult, against, best_of, growth
from polyplink.evaluate.hota import TrackingCounts, score_tracks, tracking_figures
from polyplink.evaluate.samples import BoxTracks, Ints, TrackletBoxes
from polyplink.evaluate.tracking import TrackingTruth, true_and_found

FRAMES = 46_000  # a procedure of 30 minutes at 25 frames a second
LONG = 60  # boxes of a tracklet
CLOSE = 1e-6


def synthetic_tracklets(frames: int, *, touching: bool) -> tuple[TrackletBoxes, Ints]:
    """Tracklets of a procedure, one after the other and some of them two at a time.

    Args:
        frames: Of the procedure.
        touching: Whether the boxes of one frame overlap.

    Returns:
        The tracklets (n of them) and their clusters (n,), some of them wrong.
    """
    rng = np.random.default_rng(0)
    n = max(frames // LONG, 2)
    start = np.arange(n) * LONG
    start[1::4] -= LONG // 2  # every fourth comes while another is there
    polyp = np.arange(n) * max(n // 40, 3) // n
    polyp[1::4] += polyp.max() + 1
    frame = (start[:, None] + np.arange(LONG)).ravel()
    box = np.empty((n, LONG, 4))
    box[..., :2] = 100.0 + rng.integers(0, 9, (n, LONG, 2))
    box[..., 2:] = 60.0
    box[1::4, :, 0] += 20.0 if touching else 400.0
    labels = np.where(rng.random(n) < 0.2, rng.integers(0, n, n), polyp)
    offset = np.arange(n + 1) * LONG
    return TrackletBoxes(polyp, offset, frame, box.reshape(-1, 4)), labels


def trackeval_figures(*scenes: tuple[BoxTracks, BoxTracks]) -> dict[str, float]:
    """The rival: TrackEval's similarities and metrics, combined over the scenes."""
    # Imported when used: it is an extra, and takes a second.
    from trackeval.metrics import CLEAR, HOTA, Identity  # noqa: PLC0415

    quiet = {"PRINT_CONFIG": False}
    found: dict[str, float] = {}
    data = [_trackeval_data(*scene) for scene in scenes]
    for metric in (HOTA(), Identity(quiet), CLEAR(quiet)):
        each = {str(i): metric.eval_sequence(one) for i, one in enumerate(data)}
        combined = each["0"] if len(each) == 1 else metric.combine_sequences(each)
        found |= {name: float(np.mean(value)) for name, value in combined.items()}
    return found


def _trackeval_data(true: BoxTracks, found: BoxTracks) -> dict[str, Any]:
    """A scene in the shape that TrackEval's metrics read."""
    from trackeval.datasets import MotChallenge2DBox  # noqa: PLC0415

    frames = np.arange(1 + max([0, *true.frame[-1:].tolist(), *found.frame[-1:].tolist()]))
    data: dict[str, Any] = {"num_timesteps": frames.size}
    boxes = []
    for side, one in (("gt", true), ("tracker", found)):
        bounds = np.searchsorted(one.frame, np.append(frames, frames.size))
        cuts = [slice(a, b) for a, b in pairwise(bounds)]
        data[f"{side}_ids"] = [one.track[cut] for cut in cuts]
        data[f"num_{side}_ids"], data[f"num_{side}_dets"] = one.tracks, one.frame.size
        boxes.append([one.box[cut] for cut in cuts])
    iou = MotChallenge2DBox._calculate_box_ious  # what its own reader calls
    data["similarity_scores"] = [iou(a, b) for a, b in zip(*boxes, strict=True)]
    return data


def agree(ours: TrackingCounts, theirs: dict[str, float]) -> bool:
    """Whether all figures are equal to 1e-6."""
    return all(
        abs(float(value) - theirs[name]) < CLOSE for name, value in tracking_figures(ours).items()
    )


def _measure(name: str, size: int, touching: bool) -> BenchResult:
    def prepare(frames: int) -> Callable[[], TrackingCounts]:
        tracklets, labels = synthetic_tracklets(frames, touching=touching)
        return lambda: TrackingTruth.of("bench", tracklets).score(labels[None]).counts.take(0)

    tracklets, labels = synthetic_tracklets(size, touching=touching)
    truth = TrackingTruth.of("bench", tracklets)
    scene = true_and_found(tracklets, truth.score(labels[None]).track[0])
    score_tracks(*scene)  # compiles, once per machine
    theirs: list[dict[str, float]] = []
    rival_s = best_of(lambda: theirs.append(trackeval_figures(scene)), 1)
    right = truth.table is not touching and agree(prepare(size)(), theirs[0])
    return against(
        name,
        "TrackEval",
        size,
        ours_s=best_of(prepare(size), 5),
        rival_s=rival_s,
        exponent=growth(prepare, size, 3),
        equal=right,
    )


def run(size: int = FRAMES) -> BenchResult:
    """Measure the table form: HOTA, identity and CLEAR of true boxes; size is frames, from 1,000.

    Looking at the tracklets (may the table form be used?) is part of ours. `equal` compares all
    figures to 1e-6.
    """
    return _measure("tracking", size, touching=False)


def run_general(size: int = FRAMES) -> BenchResult:
    """Measure the general form, on boxes that overlap; size is frames, from 1,000."""
    return _measure("tracking-general", size, touching=True)
