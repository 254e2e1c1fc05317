"""A simulated detector, which returns the boxes of a realistic detector in annotated procedures.

It misses polyps in runs, its boxes jitter, every box has a score, and it raises false alarms that
last some frames. The presets have the published rates of detectors.

Detections follow a two-state Markov chain for every view of a polyp: in each frame a uniform number
is drawn again with probability `1 / memory`, or else kept from the previous frame, and a box is
detected if its probability exceeds this number. The probability is logistic in the box's size
(distance), its motion (blur), whether the frame's edge cuts it, and the time since the polyp came
into view; the intercept is such that the mean over all boxes is the preset's recall.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.signal import lfilter
from scipy.special import expit

from polyplink.core.arrays import Floats
from polyplink.core.errors import find_named
from polyplink.core.ranges import AT_LEAST_ONE, NOT_NEGATIVE, SHARE, Ranged
from polyplink.data.tables import DataSet
from polyplink_lab.simulate.presets import is_simulation
from polyplink_lab.simulate.procedure_specs import stream

if TYPE_CHECKING:
    from polyplink_lab.simulate.lookalikes import Followed

Index = npt.NDArray[np.int64]

EFFECTS = {"size": 0.9, "motion": -0.7, "edge": -0.6, "new": -0.8}  # on the log-odds of a hit
NEW = 0.4  # seconds for which a view is new


@dataclass(frozen=True)
class DetectorPreset(Ranged):
    """Rates of a simulated detector.

    Attributes:
        recall: Share of the frames with a polyp in which its box is detected.
        alarms: Mean number of false alarms per procedure.
        alarms_sd: Standard deviation of this number over procedures.
        memory: Mean number of frames until hit or miss is drawn again; 1 for independent misses.
        jitter: Standard deviation of a box's edges, shares of its width and height.
        median_alarm: Median length of a false alarm, frames.
        spread_alarm: Standard deviation of the logarithm of that length. With a median of 2, 1.0
            gives the published share of alarms of at most six frames, 88 %.
    """

    recall: Annotated[float, SHARE]
    alarms: Annotated[float, NOT_NEGATIVE]
    alarms_sd: Annotated[float, NOT_NEGATIVE]
    memory: Annotated[float, AT_LEAST_ONE] = 8.0
    jitter: Annotated[float, NOT_NEGATIVE] = 0.05
    median_alarm: Annotated[float, AT_LEAST_ONE] = 2.0
    spread_alarm: Annotated[float, NOT_NEGATIVE] = 1.0


DETECTORS: Mapping[str, DetectorPreset] = {
    "good": DetectorPreset(0.95, 20.0, 15.0),
    "gi-genius": DetectorPreset(0.466, 101.0, 88.0),
    "shifted": DetectorPreset(0.25, 300.0, 200.0),
    "misses-15": DetectorPreset(0.85, 0.0, 0.0),
}
"""Simulated detectors by name.

`gi-genius` has the published figures of GI Genius (Brand et al.): 46.6 % of the frames with a
polyp, 101 +- 88 false alarms per procedure, 88 % of them at most six frames long. The others are
our choice: `good` represents a detector on recordings like those of its training, `shifted` one on
different recordings, and `misses-15` has misses only.
"""


def detector_boxes(name: str, data: DataSet, seed: int, folder: Path) -> pl.DataFrame:
    """The boxes of a simulated detector by name: the plugin `sim` of the kind "detector".

    Raises:
        PolyplinkError: If the name is unknown; the message suggests the nearest.
    """
    preset = find_named("detector", name, DETECTORS)
    return detect_simulated(data, preset, seed, folder).drop("truth", "alarm")


def detect_simulated(
    data: DataSet, preset: DetectorPreset, seed: int, folder: Path | None = None
) -> pl.DataFrame:
    """The boxes of a simulated detector in annotated procedures.

    If boxes have images, false alarms are only in frames with an image.

    Args:
        data: Annotated procedures in which every box has a polyp.
        preset: The detector's rates.
        seed: Seed; the same seed gives the same boxes.
        folder: The data folder. False alarms in simulated procedures are on folds, residue and
            bubbles, see `lookalikes`; without the folder they are anywhere, and drift.

    Returns:
        The table `polyplink.data.tables.DETECTIONS` with scores and without polyps, sorted by
        procedure and frame. Two additional columns are for evaluation only: `truth`, the polyp in a
        box, and `alarm`, the number of the false alarm in its procedure; each is null for boxes of
        the other kind.

    Example:
        >>> from polyplink.data.tables import DataSet
        >>> detect_simulated(DataSet.of(*annotated), DETECTORS["good"], seed=0)  # doctest: +SKIP
    """
    rates = data.procedures.select("procedure_id", "fps", "width", "height")
    boxes = data.detections.join(rates, "procedure_id", maintain_order="left").sort(
        "procedure_id", "polyp_id", "frame", maintain_order=True
    )
    odds = _log_odds(boxes)
    intercept = _intercept(odds, preset.recall)
    boxes = boxes.with_columns(chance=pl.Series(expit(odds + intercept)))
    keys = ["procedure_id", "frame"]
    images = data.detections.select(*keys, "image").drop_nulls("image").unique(keys, keep="first")
    parts = []
    for row in data.procedures.iter_rows(named=True):
        rng = stream(seed, row["procedure_id"], "detector")
        procedure_boxes = boxes.filter(procedure_id=row["procedure_id"])
        follow, name = None, row["procedure_id"]
        if folder is not None and is_simulation(source := folder / row["source"]):
            from polyplink_lab.simulate.lookalikes import follow_lookalikes  # noqa: PLC0415 - torch

            follow = partial(follow_lookalikes, source, name, stream(seed, name, "lookalikes"))
        alarms = _alarms(rng, row, preset, follow)
        if images.height:  # an alarm without an image could not be shown
            alarms = alarms.drop("image").join(images, keys, maintain_order="left")
        parts += [_detect(rng, procedure_boxes, preset), alarms]
    columns = [*data.detections.columns, "truth", "alarm"]
    detections = pl.concat([part.select(columns) for part in parts])
    return detections.sort("procedure_id", "frame", maintain_order=True)


def _log_odds(boxes: pl.DataFrame) -> Floats:
    """Contribution (d,) of size, motion, edge and novelty to the log-odds of a hit."""
    x, y, w, h, frame, width, height, fps = (
        boxes[name].cast(pl.Float64).to_numpy()
        for name in ("x", "y", "w", "h", "frame", "width", "height", "fps")
    )
    polyp = boxes["polyp_id"].rle_id().to_numpy()
    follows = (np.diff(polyp, prepend=-1) == 0) & (np.diff(frame, prepend=-9) <= 2)  # d
    side = np.sqrt(w * h)
    moved = np.hypot(np.diff(x + w / 2, prepend=0), np.diff(y + h / 2, prepend=0)) / side
    edge = (x <= 1) | (y <= 1) | (x + w >= width - 2) | (y + h >= height - 2)
    rows = np.arange(len(frame))
    since = rows - np.maximum.accumulate(np.where(follows, 0, rows))  # boxes since it came
    effects = {
        "size": np.log(side / np.sqrt(width * height) / 0.2),
        "motion": np.where(follows, np.minimum(moved / 0.1, 3.0), 1.0),
        "edge": edge.astype(np.float64),
        "new": (since < NEW * fps).astype(np.float64),
    }
    total: Floats = np.sum([EFFECTS[name] * value for name, value in effects.items()], axis=0)
    return total


def _intercept(odds: Floats, recall: float) -> float:
    """The intercept at which the mean probability equals the recall, by bisection."""
    low, high = -50.0, 50.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expit(odds + middle).mean() < recall else (low, middle)
    return middle


def _detect(rng: np.random.Generator, boxes: pl.DataFrame, preset: DetectorPreset) -> pl.DataFrame:
    """The detected boxes of one procedure, with jitter and scores."""
    n = boxes.height
    chance, frame = boxes["chance"].to_numpy(), boxes["frame"].to_numpy()
    polyp = boxes["polyp_id"].rle_id().to_numpy()
    anew = rng.random(n) < 1 / preset.memory
    anew |= (np.diff(polyp, prepend=-1) != 0) | (np.diff(frame, prepend=-9) != 1)
    # Between decisions the uniform number that decided is kept.
    decided = np.maximum.accumulate(np.where(anew, np.arange(n), 0))
    hit = rng.random(n)[decided] < chance
    # The errors of the edges persist too: an autoregressive sequence of unit variance.
    noise = lfilter([0.6], [1.0, -0.8], rng.normal(size=(n, 4)), axis=0)
    x, y, w, h = boxes.select("x", "y", "w", "h").to_numpy().astype(np.float64).T
    left, top, right, bottom = (noise * preset.jitter * np.stack([w, h, w, h], 1)).T
    edges = np.stack([x + left, y + top, x + w + right, y + h + bottom], 1)
    score = 0.35 + 0.6 * chance + rng.normal(0, 0.1, n)
    detections = boxes.with_columns(
        truth="polyp_id", polyp_id=pl.lit(None, pl.String), alarm=pl.lit(None, pl.Int64)
    )
    return _add_boxes(detections, edges, score).filter(hit)


def _alarms(
    rng: np.random.Generator,
    procedure: dict[str, Any],
    preset: DetectorPreset,
    follow: "Callable[[Index, Index], Followed] | None",
) -> pl.DataFrame:
    """The false alarms of a procedure, on polyp-like places with `follow`, else anywhere."""
    mean, sd = preset.alarms, preset.alarms_sd
    count = round(rng.gamma((mean / sd) ** 2, sd**2 / mean)) if sd and mean else round(mean)
    drawn = rng.lognormal(np.log(preset.median_alarm), preset.spread_alarm, count)
    lengths = np.clip(drawn.round(), 1, procedure["n_frames"]).astype(np.int64)
    starts = (rng.random(count) * (procedure["n_frames"] - lengths + 1)).astype(np.int64)
    n = int(lengths.sum())
    alarm = np.repeat(np.arange(count), lengths)  # n
    within = np.arange(n) - np.repeat(np.cumsum(lengths) - lengths, lengths)  # n
    width, height = procedure["width"], procedure["height"]
    # In frame widths: the centre at first, its speed, and the sides, which change slowly.
    centre, speed = rng.uniform(0.15, 0.85, (count, 2)), rng.normal(0, 0.006, (count, 2))
    side = np.exp(rng.normal(np.log(0.16), 0.5, count))
    shape = np.exp(rng.normal(0, 0.25, count))
    shake = lfilter([0.006], [1.0, -0.9], rng.normal(size=(n, 2)), axis=0)
    middle = (centre[alarm] + speed[alarm] * within[:, None] + shake) * [width, height]  # n 2
    half = np.stack([side * shape, side / shape], 1)[alarm] * width / 2  # n 2
    half *= np.exp(lfilter([0.02], [1.0, -0.9], rng.normal(size=(n, 2)), axis=0))
    score = rng.beta(4, 4, count)[alarm] + rng.normal(0, 0.08, n)
    frames = starts[alarm] + within
    visible = np.ones(n, np.bool_)
    if follow is not None and n:
        centre, scale, in_view = follow(alarm, frames)
        placed = np.isin(alarm, alarm[in_view])
        visible = in_view | ~placed
        middle[in_view] = (centre + shake * [width, height])[in_view]
        half[in_view] *= scale[in_view, None]
    table = pl.DataFrame({"frame": frames.astype(np.int32), "alarm": alarm}).with_columns(
        procedure_id=pl.lit(procedure["procedure_id"]),
        polyp_id=pl.lit(None, pl.String),
        truth=pl.lit(None, pl.String),
        image=pl.lit(None, pl.String),
        width=pl.lit(width),
        height=pl.lit(height),
    )
    return _add_boxes(table, np.concatenate([middle - half, middle + half], 1), score).filter(
        visible
    )


def _add_boxes(table: pl.DataFrame, edges: Floats, score: Floats) -> pl.DataFrame:
    """Add scores, and boxes from edges (n, 4) left, top, right, bottom, clipped to the frame."""
    size = table.select("width", "height").to_numpy().astype(np.float64)  # n 2
    low = np.clip(edges[:, :2], 0, size - 2)
    high = np.clip(edges[:, 2:], low + 1, size - 1)
    places = np.concatenate([low, high - low], 1).round(1)
    return table.with_columns(
        *(pl.Series(name, places[:, k], dtype=pl.Float32) for k, name in enumerate("xywh")),
        pl.Series("score", np.clip(score, 0.05, 0.99).round(3), dtype=pl.Float32),
    )
