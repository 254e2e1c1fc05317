"""From detections to tracklets: uninterrupted runs of boxes that show one polyp.

Every box belongs to a track: that of its polyp if the polyp is known, else one of a `Tracker`. A
compiled loop then cuts the tracks of polyps wherever a box does not continue the previous one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from polyplink.core.arrays import Ints
from polyplink.core.compiled import njit
from polyplink.tracklets.settings import PrepareSettings, TrackSettings
from polyplink.tracklets.tracks import ONE_SCENE, make_tracker, tracker_input, update_tracks

Box = tuple[float, float, float, float]
Rows = npt.NDArray[np.uint32]  # polars' own type of row numbers, which needs no cast there
Columns = tuple[npt.NDArray[np.float32], ...]  # x, y, w, h: d each
Limits = tuple[int, float]  # largest gap in frames, smallest IoU

BOX = ("x", "y", "w", "h")
USUAL_FPS = 25.0  # for procedures without a known frame rate
OWNER = ("procedure_id", "polyp_id")  # boxes without a polyp share one owner per procedure


@njit(error_model="numpy")
def overlap(box: Box, last: Box) -> float:
    """Intersection over union, in [0, 1], of two boxes x, y, w, h in pixels; areas above 0."""
    x, y, w, h = box
    p, q, r, s = last
    across = min(x + w, p + r) - max(x, p)
    down = min(y + h, q + s) - max(y, q)
    shared = max(across, 0.0) * max(down, 0.0)
    return float(min(shared / (w * h + r * s - shared), 1.0))


class Cuts(NamedTuple):
    """The t tracklets of d boxes, numbered by their first boxes.

    Attributes:
        tracklet: (d,) tracklet of each box.
        first: (t,) row of the first box of each tracklet.
        n: (t,) number of boxes of each tracklet.
    """

    tracklet: Rows
    first: Rows
    n: Rows


def frame_rates(procedures: pl.DataFrame) -> dict[str, float]:
    """Frames per second of each procedure; 25 if unknown."""
    rates = procedures.select("procedure_id", "fps").iter_rows()
    return {name: fps or USUAL_FPS for name, fps in rates}


def build_tracklets(
    detections: pl.DataFrame,
    settings: PrepareSettings | None = None,
    *,
    fps: Mapping[str, float] | None = None,
    scenes: Mapping[str, Ints] | None = None,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Build tracklets from detections.

    Detections of one polyp, in frame order, are cut wherever the next one is more than `max_gap`
    frames later or its IoU with the previous box is below `min_iou` (NTSSL paper, section 3). Two
    boxes of one polyp in one frame are cut too, because a tracklet has one box per frame. (The
    papers' program links them.) Detections without a polyp, as from a detector, are linked by a
    `Tracker`, which bridges the gaps of missed frames; each of its tracks is a tracklet.

    Args:
        detections: The table `polyplink.data.tables.DETECTIONS`, in any order.
        settings: Settings with `max_gap`, `min_iou` and `tracks`; None for the defaults.
        fps: Frames per second of each procedure, see `frame_rates`; 25 if not in it.
        scenes: First frames and numbers (s, 2) of the scenes of procedures that have several, in
            temporal order: no track of a `Tracker` continues from one scene to another.

    Returns:
        The detections, sorted so that each tracklet is one run in frame order, and the tracklets,
        sorted by procedure and first frame: tracklet_id ("procedure:number", numbered in that
        order), procedure_id, polyp_id (null if unknown), first_frame, last_frame, n (boxes)
        and offset (row of the first box in the sorted detections).
    """
    settings = settings or PrepareSettings()
    detections = detections.rechunk()  # gathering rows of many chunks is several times slower
    frames = _column(detections, "frame")  # d
    boxes = tuple(_column(detections, name) for name in BOX)  # x, y, w, h: d each
    owner = _owners(detections.select(OWNER))  # d
    track = owner.copy()
    unknown = detections["polyp_id"].is_null()
    if unknown.any():
        rows = np.flatnonzero(unknown.to_numpy())
        rows = rows[np.lexsort((frames[rows], owner[rows]))]  # by procedure, in time
        track[rows] = len(owner) + _link(
            detections[rows], owner[rows], settings.tracks, fps=fps or {}, scenes=scenes or {}
        )
    cuts = Cuts(*(np.empty(len(track), dtype=np.uint32) for _ in range(3)))
    last = np.full(int(track.max(initial=0)) + 1, -1, dtype=np.int32)  # row; -1: none yet
    count = _walk(track, frames, boxes, (settings.max_gap, settings.min_iou), cuts, last)
    if count < 0:  # the boxes of a track are not in temporal order
        in_time = detections[np.argsort(frames, kind="stable")]
        return build_tracklets(in_time, settings, fps=fps, scenes=scenes)
    return _tables(
        detections, owner, frames, Cuts(cuts.tracklet, cuts.first[:count], cuts.n[:count])
    )


def box_rows(tracklets: pl.DataFrame) -> tuple[Ints, Ints]:
    """The rows of the boxes of tracklets.

    Args:
        tracklets: t rows with offset and n, as from `build_tracklets`.

    Returns:
        (b,) row of each box in the sorted detections, ordered by tracklet, and (b,) the row of its
        tracklet.

    Example:
        >>> rows, tracklet = box_rows(pl.DataFrame({"offset": [4, 0], "n": [3, 2]}))
        >>> rows.tolist(), tracklet.tolist()
        ([4, 5, 6, 0, 1], [0, 0, 0, 1, 1])
    """
    offset, n = (tracklets[name].to_numpy().astype(np.int64) for name in ("offset", "n"))
    tracklet = np.repeat(np.arange(len(n)), n)
    return np.arange(n.sum()) + (offset - np.cumsum(n) + n)[tracklet], tracklet


def box_frames(tracklets: pl.DataFrame, detections: pl.DataFrame) -> npt.NDArray[np.object_]:
    """The frames of the boxes of each tracklet (t,), as arrays of rising numbers.

    Args:
        tracklets: t rows with offset and n, as from `build_tracklets`.
        detections: The sorted detections.

    Example:
        >>> boxes = pl.DataFrame({"frame": [2, 3, 4, 9]})
        >>> box_frames(pl.DataFrame({"offset": [3, 0], "n": [1, 3]}), boxes).tolist()
        [array([9]), array([2, 3, 4])]
    """
    frame = detections["frame"].to_numpy()
    frames = np.empty(tracklets.height, dtype=np.object_)
    for row, (offset, n) in enumerate(tracklets.select("offset", "n").iter_rows()):
        frames[row] = frame[offset : offset + n]
    return frames


def numbers_of_boxes(
    boxes: pl.DataFrame, gathered: pl.DataFrame, tracklets: pl.DataFrame, polyps: Sequence[int]
) -> pl.DataFrame:
    """The track and the polyp of each box of a data set.

    Args:
        boxes: The detections of a data set.
        gathered: The same rows, sorted as by `build_tracklets`.
        tracklets: t rows with offset and n, as from `build_tracklets`.
        polyps: Number of the polyp of each tracklet (t), from 1; 0 for none.

    Returns:
        track_id (the row of the tracklet, from 1) and polyp of each row of `boxes`, null for none.
        The numbers of boxes that are equal in all columns may be exchanged.

    Example:
        >>> boxes = pl.DataFrame({"frame": [4, 9, 7]})
        >>> gathered, tracklets = boxes[[2, 0, 1]], pl.DataFrame({"offset": [0, 1], "n": [1, 1]})
        >>> numbers_of_boxes(boxes, gathered, tracklets, [3, 0]).rows()
        [(2, None), (None, None), (1, 3)]
    """
    rows, tracklet = box_rows(tracklets)
    numbers = np.zeros((2, gathered.height), dtype=np.int64)  # of the gathered rows; 0: none
    numbers[:, rows] = tracklet + 1, np.array(polyps, dtype=np.int64)[tracklet]
    order, gathered_order = (
        table.select(pl.arg_sort_by(*boxes.columns, nulls_last=True)).to_series().to_numpy()
        for table in (boxes, gathered)
    )
    paired = np.empty_like(numbers)
    paired[:, order] = numbers[:, gathered_order]
    table = pl.DataFrame({"track_id": paired[0], "polyp": paired[1]})
    return table.with_columns(pl.when(pl.all() > 0).then(pl.all()))


def fill_gaps(boxes: pl.DataFrame) -> pl.DataFrame:
    """Interpolate boxes in the frames in which a tracklet has none, from the boxes on either side.

    The sides of the box move at constant speed, as is usual for MOTChallenge.

    Args:
        boxes: frame, x, y, w, h, score, tracklet (any names) and further columns; the rows of a
            tracklet are adjacent, in temporal order, with one box per frame.

    Returns:
        The boxes, followed by those of the gaps, which have no score and the further columns of the
        previous box; the column `interpolated` distinguishes them.

    Example:
        >>> box = {"y": 0.0, "w": 9.0, "h": 9.0, "score": 0.9, "tracklet": 1}
        >>> gap = pl.DataFrame([{"frame": 2, "x": 4.0, **box}, {"frame": 4, "x": 8.0, **box}])
        >>> fill_gaps(gap).select("frame", "x", "score", "interpolated").rows()[-1]
        (3, 6.0, None, True)
    """
    frame = boxes["frame"].to_numpy().astype(np.int64)  # b
    step = np.diff(frame)
    changes = boxes["tracklet"].rle_id().diff().drop_nulls().to_numpy()
    missing = np.where(changes == 0, step - 1, 0)  # b - 1
    before = np.repeat(np.arange(missing.size), missing)  # m: the box before each gap's frame
    nth = np.arange(before.size) - (np.cumsum(missing) - missing)[before] + 1
    sides = boxes.select(BOX).to_numpy().astype(np.float64)
    gap_sides = (
        sides[before] + (nth / step[before])[:, None] * np.diff(sides, axis=0)[before]
    )  # m, 4
    columns = {"frame": frame[before] + nth, **dict(zip(BOX, gap_sides.T, strict=True))}
    gap_boxes = boxes[before].with_columns(
        *(pl.Series(name, values).cast(boxes.schema[name]) for name, values in columns.items()),
        score=pl.lit(None, boxes.schema["score"]),
    )
    parts = (boxes, False), (gap_boxes, True)
    return pl.concat(table.with_columns(interpolated=pl.lit(flag)) for table, flag in parts)


def _link(
    boxes: pl.DataFrame,
    owner: Rows,
    settings: TrackSettings,
    *,
    fps: Mapping[str, float],
    scenes: Mapping[str, Ints],
) -> Ints:
    """Link boxes without a polyp: tracks (n,), numbered from 0 to 2 n - 1.

    Args:
        boxes: The n detections, sorted by procedure and time.
        owner: (n,) owner of each box.
        settings: How boxes are linked.
        fps: Frames per second of procedures.
        scenes: Scenes of procedures.
    """
    frames, places, scores = tracker_input(boxes)
    track = np.arange(len(owner), 2 * len(owner))  # boxes that are left out have separate tracks
    edges = np.flatnonzero(np.diff(owner.astype(np.int64), prepend=-1, append=-1))
    for start, stop in pairwise(edges):
        name = boxes["procedure_id"][int(start)]
        part = slice(start, stop)
        tracks_of_part = update_tracks(
            make_tracker(fps.get(name, USUAL_FPS), settings),
            settings,
            (frames[part], places[part], scores[part]),
            scenes.get(name, ONE_SCENE),
        )
        track[part] = np.where(tracks_of_part < 0, track[part], start + tracks_of_part)
    return track


def _column(table: pl.DataFrame, name: str) -> npt.NDArray[Any]:
    """A column of numbers (d,), without a copy if it has one chunk.

    It is always read-only, so that loops are compiled for only one type of array.
    """
    values = table[name].to_numpy()
    values.flags.writeable = False
    return values


def _owners(names: pl.DataFrame) -> Rows:
    """The first row (d,) with the same procedure and polyp as each row."""
    first = pl.col("row").first().over(OWNER)
    return names.with_row_index("row").select(first).to_series().to_numpy()


@njit(error_model="numpy")
def _walk(  # noqa: PLR0917
    tracks: Rows,
    frames: Rows,
    boxes: Columns,
    limits: Limits,
    cuts: Cuts,
    last: npt.NDArray[np.int32],
) -> int:
    """Follow all tracks at once, box by box, and fill `cuts`; last (t,) is -1 for every track.

    Returns the number of tracklets, or -1 if the boxes of a track are not in temporal order.
    """
    last_box = np.empty((last.size, 4))
    # Unpacked once, because every access to a tuple of arrays would count references.
    x, y, w, h = boxes
    max_gap, min_iou = limits
    tracklet, first, n = cuts
    count = 0
    for k in range(tracks.size):
        track = tracks[k]
        previous_row = last[track]
        gap = frames[k] - frames[previous_row]
        if previous_row >= 0 and gap < 0:
            return -1
        box = (np.float64(x[k]), np.float64(y[k]), np.float64(w[k]), np.float64(h[k]))
        previous = (last_box[track, 0], last_box[track, 1], last_box[track, 2], last_box[track, 3])
        # The tracks of boxes without a polyp, numbered after all others, are not cut.
        continues = track >= tracks.size or (gap <= max_gap and overlap(box, previous) >= min_iou)
        if previous_row >= 0 and gap >= 1 and continues:
            tracklet[k] = tracklet[previous_row]
        else:
            tracklet[k] = count
            first[count], n[count] = k, 0
            count += 1
        n[tracklet[k]] += 1
        last[track] = k
        last_box[track, 0], last_box[track, 1], last_box[track, 2], last_box[track, 3] = box
    return count


@njit()
def _gather(tracklet: Rows, begin: Ints, rows: Rows) -> None:
    """Group `rows` (d,) by tracklet, each from `begin` (t,) on, which is set to its end."""
    for k in range(tracklet.size):
        rows[begin[tracklet[k]]] = k
        begin[tracklet[k]] += 1


def _tables(
    detections: pl.DataFrame, owner: Rows, frames: Rows, cuts: Cuts
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Sort the detections by tracklet, and build the table of tracklets."""
    # Ranks of the owners by name, null last: text is sorted once per owner, not per tracklet.
    owners, owner_of = np.unique(owner[cuts.first], return_inverse=True)  # o, t
    names = detections.select(OWNER)[owners]
    order = names.select(pl.arg_sort_by(*OWNER, nulls_last=True)).to_series().to_numpy()  # o
    place = np.empty(len(names), dtype=np.int64)
    place[order] = np.arange(len(names))
    procedures = names["procedure_id"].rank("dense").to_numpy().astype(np.int64)  # o
    ranked = np.lexsort((place[owner_of], frames[cuts.first], procedures[owner_of]))  # t
    first, n, owner_of = cuts.first[ranked], cuts.n[ranked].astype(np.int64), owner_of[ranked]
    offset = np.cumsum(n) - n  # t
    begin = np.empty_like(offset)
    begin[ranked] = offset
    rows = np.empty(len(frames), dtype=np.uint32)
    _gather(cuts.tracklet, begin, rows)
    procedure = procedures[owner_of]  # t
    number = np.arange(len(n)) - np.searchsorted(procedure, procedure)  # within its procedure
    # Five digits or more; each number that occurs is written once.
    digits = pl.Series(np.arange(number.max(initial=-1) + 1)).cast(pl.String).str.zfill(5)
    tracklets = names[owner_of].select(
        pl.concat_str("procedure_id", pl.lit(":"), digits.gather(number)).alias("tracklet_id"),
        *OWNER,
        pl.Series("first_frame", frames[first], dtype=pl.Int32),
        pl.Series("last_frame", frames[rows[offset + n - 1]], dtype=pl.Int32),
        pl.Series("n", n, dtype=pl.Int32),
        pl.Series("offset", offset, dtype=pl.Int64),
    )
    return detections[rows], tracklets


def seconds(tracklets: pl.DataFrame, procedures: pl.DataFrame) -> np.ndarray:
    """Start and end of tracklets (n, 2) in seconds; at 25 frames per second if unknown.

    Args:
        tracklets: procedure_id, first_frame and last_frame (n rows).
        procedures: procedure_id and fps of all procedures.
    """
    fps = frame_rates(procedures)
    rate = np.array([fps[name] for name in tracklets["procedure_id"]])[:, None]
    moments: np.ndarray = tracklets.select("first_frame", "last_frame").to_numpy() / rate
    return moments


@dataclass(frozen=True)
class Spans:
    """First and last annotated frames.

    Attributes:
        procedures: procedure_id, first_frame, last_frame: over all detections of the procedure.
        polyps: procedure_id, polyp_id, first_frame, last_frame: over all detections of the polyp.
    """

    procedures: pl.DataFrame
    polyps: pl.DataFrame


def spans_of(detections: pl.DataFrame) -> Spans:
    """The spans of all detections, including those of tracklets that are too short to keep.

    Args:
        detections: The table `polyplink.data.tables.DETECTIONS`.

    Returns:
        Both tables, sorted by their ids.
    """
    ends = {"first_frame": pl.col("frame").min(), "last_frame": pl.col("frame").max()}
    polyp = ["procedure_id", "polyp_id"]
    return Spans(
        procedures=detections.group_by("procedure_id").agg(**ends).sort("procedure_id"),
        polyps=detections.drop_nulls("polyp_id").group_by(polyp).agg(**ends).sort(polyp),
    )


def positions(rows: pl.DataFrame, spans: pl.DataFrame, name: str = "position") -> pl.Series:
    """Position of each row's first frame in the annotated span of its procedure or polyp.

    Args:
        rows: Any table with the ids of `spans` and first_frame (tracklets, fragments).
        spans: `Spans.procedures` or `Spans.polyps` of the detections of the rows.
        name: Name of the result.

    Returns:
        Float64 in [0, 1]; 0 if the span is a single frame, null if the polyp is unknown.
    """
    keys = [key for key in spans.columns if key.endswith("_id")]
    length = pl.col("last_frame") - pl.col("first_frame")
    spans = spans.select(*keys, span_first="first_frame", length=length)
    joined = rows.select(*keys, "first_frame").join(
        spans, on=keys, how="left", maintain_order="left"
    )
    # numpy's division is correctly rounded; polars may multiply by the reciprocal and exceed 1.
    since = (joined["first_frame"] - joined["span_first"]).cast(pl.Float64).to_numpy()
    lengths = joined["length"].cast(pl.Float64).to_numpy()
    position = np.divide(since, lengths, out=since * 0.0, where=lengths > 0)
    return pl.Series(name, position, dtype=pl.Float64).fill_nan(None)


def add_positions(tracklets: pl.DataFrame, spans: Spans) -> pl.DataFrame:
    """Tracklets with their `position` in the annotated span of the procedure, and `bridged`.

    `bridged` is the share of a tracklet's frames, from its first to its last, without a box.
    """
    n_frames = pl.col("last_frame") - pl.col("first_frame") + 1
    return tracklets.with_columns(
        positions(tracklets, spans.procedures), bridged=1 - pl.col("n") / n_frames
    )


def one_box_a_frame(boxes: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Sort boxes by `keys` and keep one for each: two tracklets of a polyp may be in one frame.

    A detector's box is preferred to an interpolated one, and a higher score to a lower one.

    Example:
        >>> boxes = {"frame": [4, 4], "score": [None, 0.9], "interpolated": [True, False]}
        >>> one_box_a_frame(pl.DataFrame(boxes), "frame")["score"].to_list()
        [0.9]
    """
    order = [*keys, pl.col("interpolated"), -pl.col("score").fill_null(1.0)]
    ranked = boxes.sort(order, maintain_order=True)
    return ranked.unique(keys, keep="first", maintain_order=True)
