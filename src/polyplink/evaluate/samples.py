"""The samples of an evaluation: tracklets with procedures and polyps, and boxes with tracks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from polyplink.associate.links import Frames
from polyplink.associate.similarity import checked_positions, unit_rows
from polyplink.core.arrays import Flags, Floats, Ints
from polyplink.core.errors import PolyplinkError
from polyplink.core.text import short_repr


def _codes(names: Sequence[str]) -> tuple[tuple[str, ...], Ints]:
    """Distinct names in order of first appearance, and the index of every name in them."""
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    return tuple(places), np.array([places[name] for name in names], dtype=np.int64)


@dataclass(frozen=True)
class Samples:
    """n tracklets of any number of procedures, one row each, in any order.

    Attributes:
        tracklet_ids: Name of every tracklet (n,), unique.
        procedures: Names of the procedures, in order of first appearance.
        procedure: Index of every tracklet's procedure in `procedures` (n,).
        polyp: Code of every tracklet's polyp (n,); every unknown polyp has a unique code.
        labelled: Whether the polyp is known (n,).
        positions: Position in the procedure (n,), in [0, 1].
        spans: Number of frames by which each procedure's positions were divided, 1 or more; for
            times in frames; empty if unknown.
        moments: Start and end of every tracklet (n, 2), seconds, for learned links; None if
            unknown.
        frames: Frames with a box of every tracklet (n,), for learned links; None if unknown.
    """

    __repr__ = short_repr

    tracklet_ids: tuple[str, ...]
    procedures: tuple[str, ...]
    procedure: Ints
    polyp: Ints
    labelled: Flags
    positions: Floats
    spans: Mapping[str, int] = field(default_factory=dict)
    moments: Floats | None = None
    frames: Frames | None = None

    @classmethod
    def of(  # noqa: PLR0917
        cls,
        tracklet_ids: Sequence[str],
        procedures: Sequence[str],
        polyps: Sequence[str | None],
        positions: npt.ArrayLike,
        spans: Mapping[str, int] | None = None,
        moments: Floats | None = None,
        frames: Frames | None = None,
    ) -> Self:
        """Check the columns of a table of tracklets.

        Args:
            tracklet_ids: Name of every tracklet (n,).
            procedures: Name of every tracklet's procedure (n,).
            polyps: Name of every tracklet's polyp (n,), None if unknown.
            positions: Position of every tracklet in the procedure (n,), in [0, 1].
            spans: Annotated span of each procedure in frames, for times in frames.
            moments: Start and end of every tracklet (n, 2), seconds, for learned links.
            frames: Frames with a box of every tracklet (n,), for learned links, see
                `associate.links.Views`.

        Raises:
            PolyplinkError: If the columns differ in length or are empty, a tracklet occurs twice,
                a polyp occurs in two procedures, no polyp is known, or a position is outside
                [0, 1].
        """
        p = checked_positions(positions)
        lengths = {len(tracklet_ids), len(procedures), len(polyps), p.size}
        lengths |= {len(column) for column in (moments, frames) if column is not None}
        if len(lengths) > 1 or lengths == {0}:
            raise PolyplinkError(
                f"columns of {len(tracklet_ids)} tracklets, {len(procedures)} procedures, "
                f"{len(polyps)} polyps and {p.size} positions",
                "give one of each per tracklet, and at least one tracklet",
            )
        repeated = np.setdiff1d(
            np.arange(p.size), np.unique(list(tracklet_ids), return_index=True)[1]
        )
        if repeated.size:
            raise PolyplinkError(
                f"tracklet {tracklet_ids[repeated[0]]!r} occurs twice (row {repeated[0]})",
                "give each tracklet one row",
            )
        procedure_of: dict[str, str] = {}
        for polyp, procedure in zip(polyps, procedures, strict=True):
            if polyp is not None and procedure_of.setdefault(polyp, procedure) != procedure:
                raise PolyplinkError(
                    f"polyp {polyp!r} is in procedures {procedure_of[polyp]!r} and {procedure!r}",
                    "use different names of polyps in different procedures",
                )
        if not procedure_of:
            raise PolyplinkError(
                "no tracklet has a known polyp", "give a --part with annotated polyps"
            )
        names, places = _codes(procedures)
        labelled = np.array([polyp is not None for polyp in polyps], dtype=np.bool_)
        # An unknown polyp gets the number of the row as its unique name.
        _, codes = _codes([f"p{v}" if v is not None else f"{i}" for i, v in enumerate(polyps)])
        return cls(
            tuple(tracklet_ids), names, places, codes, labelled, p, spans or {}, moments, frames
        )

    def of_procedure(self, place: int) -> tuple[Self, Ints]:
        """One procedure's tracklets, and their rows in these samples."""
        rows = np.flatnonzero(self.procedure == place)
        return self.take(rows), rows

    def take(self, rows: Ints) -> Self:
        """The tracklets of some rows, at least one, in that order."""
        names, procedure = _codes([self.procedures[place] for place in self.procedure[rows]])
        return replace(
            self,
            tracklet_ids=tuple(self.tracklet_ids[row] for row in rows),
            procedures=names,
            procedure=procedure,
            polyp=self.polyp[rows],
            labelled=self.labelled[rows],
            positions=self.positions[rows],
            moments=None if self.moments is None else self.moments[rows],
            frames=None if self.frames is None else self.frames[rows],
        )

    def unit_rows(self, vectors: npt.ArrayLike) -> Floats:
        """Vectors (n, d) of these samples, scaled to length 1.

        Raises:
            PolyplinkError: If there is not one vector per sample, or one is zero or not finite.
        """
        unit, n = unit_rows(vectors), len(self.tracklet_ids)
        if len(unit) != n:
            raise PolyplinkError(
                f"{len(unit)} vectors for {n} tracklets",
                "give one vector per tracklet, in the order of the samples",
            )
        return unit

    @property
    def labelled_procedures(self) -> Flags:
        """Whether each procedure has a tracklet of known polyp (procedures,)."""
        return np.isin(np.arange(len(self.procedures)), self.procedure[self.labelled])

    @property
    def n_unlabelled(self) -> int:
        """Number of tracklets without a known polyp."""
        return int((~self.labelled).sum())


@dataclass(frozen=True)
class BoxTracks:
    """n boxes of one procedure in the order of their frames.

    Attributes:
        frame: Frame of every box (n,), rising.
        track: Track of every box (n,), in [0, tracks).
        box: x, y, w, h of every box (n, 4), pixels.
        tracks: Number of tracks.
    """

    frame: Ints
    track: Ints
    box: Floats
    tracks: int

    @classmethod
    def of(cls, frame: npt.ArrayLike, track: npt.ArrayLike, box: npt.ArrayLike) -> Self:
        """Sort and check boxes.

        Args:
            frame: Frame of every box (n,).
            track: Track of every box (n,): numbers or names of any kind.
            box: x, y, w, h of every box (n, 4), pixels.

        Raises:
            PolyplinkError: If the lengths differ, a box is not finite or has no area, or a track
                is in one frame twice.
        """
        frames = np.asarray(frame, dtype=np.int64)
        boxes = np.asarray(box, dtype=np.float64).reshape(-1, 4)
        names, codes = np.unique(np.asarray(track), return_inverse=True)
        if not frames.shape == codes.shape == (len(boxes),):
            raise PolyplinkError(
                f"{frames.size} frames, {codes.size} tracks and {len(boxes)} boxes",
                "give one of each per box",
            )
        bad = np.flatnonzero(~(np.isfinite(boxes).all(axis=1) & (boxes[:, 2:] > 0).all(axis=1)))
        if bad.size:
            raise PolyplinkError(
                f"box {boxes[bad[0]].tolist()} of frame {frames[bad[0]]} has no area",
                "leave it out",
            )
        order = np.argsort(frames, kind="stable")
        keys = np.sort(frames * max(names.size, 1) + codes)
        repeated = np.flatnonzero(np.diff(keys) == 0)
        if repeated.size:
            at, track_code = divmod(int(keys[repeated[0]]), names.size)
            raise PolyplinkError(
                f"track {names.tolist()[track_code]!r} is in frame {at} twice", "keep one box of it"
            )
        return cls(frames[order], codes[order].astype(np.int64), boxes[order], names.size)


class Overlaps(NamedTuple):
    """Overlapping pairs of a true and a detected box, frame by frame.

    Attributes:
        true: Row of the true box (p,).
        detected: Row of the detected box (p,).
        similarity: IoU of the two boxes (p,), above 0.
        starts: First pair of every common frame, and the end (f + 1,).
        true_rows: First true box of every common frame, and the row after its last (f, 2).
        detected_rows: First detected box of every common frame, and the row after its last (f, 2).
    """

    true: Ints
    detected: Ints
    similarity: Floats
    starts: Ints
    true_rows: Ints
    detected_rows: Ints


def _in_one_frame(a: Ints, b: Ints) -> tuple[Ints, Ints]:
    """Rows of all pairs of boxes of one frame (p,), (p,), from rising frames (n,) and (m,)."""
    begin, end = (np.searchsorted(b, a, side) for side in ("left", "right"))  # (n,)
    n_pairs = end - begin
    i = np.repeat(np.arange(a.size), n_pairs)
    return i, np.arange(i.size) - np.repeat(np.cumsum(n_pairs) - end, n_pairs)


def box_iou(a: Floats, b: Floats) -> Floats:
    """IoU (...) of boxes x, y, w, h (..., 4) and (..., 4), rounded as TrackEval does.

    Example:
        >>> box_iou(np.array([[0.0, 0, 2, 2]]), np.array([[1.0, 0, 2, 2]])).round(3).tolist()
        [0.333]
    """
    ends = a[..., :2] + a[..., 2:], b[..., :2] + b[..., 2:]  # (..., 2)
    sides = np.minimum(*ends) - np.maximum(a[..., :2], b[..., :2])
    shared = np.maximum(sides, 0.0).prod(axis=-1)
    areas = (ends[0] - a[..., :2]).prod(axis=-1) + (ends[1] - b[..., :2]).prod(axis=-1)
    return np.asarray(shared / (areas - shared))


def overlaps(true: BoxTracks, detected: BoxTracks) -> Overlaps:
    """Find the overlapping pairs of all frames that have boxes on both sides."""
    i, j = _in_one_frame(true.frame, detected.frame)
    iou = box_iou(true.box[i], detected.box[j])
    i, j, iou = i[iou > 0], j[iou > 0], iou[iou > 0]
    common = np.intersect1d(true.frame, detected.frame)  # (f,)
    starts = np.append(np.searchsorted(true.frame[i], common), i.size)
    true_rows, detected_rows = (
        np.stack([np.searchsorted(side.frame, common, end) for end in ("left", "right")], axis=1)
        for side in (true, detected)
    )
    return Overlaps(i, j, iou, starts, true_rows, detected_rows)


@dataclass(frozen=True)
class TrackletBoxes:
    """n tracklets and their d boxes; frames are only comparable within a procedure.

    Attributes:
        polyp: Code of every tracklet's polyp (n,).
        offset: First box of every tracklet, and the end (n + 1,).
        frame: Frame of every box (d,), rising within a tracklet.
        box: x, y, w, h of every box (d, 4), pixels.

    Raises:
        PolyplinkError: If the offsets do not fit, a tracklet has no box, or its frames do not
            rise.
    """

    __repr__ = short_repr

    polyp: Ints
    offset: Ints
    frame: Ints
    box: Floats

    def __post_init__(self) -> None:
        n, d = self.polyp.size, self.frame.size
        fits = self.offset.shape == (n + 1,) and self.box.shape == (d, 4)
        if not fits or self.offset[0] != 0 or self.offset[-1] != d or (self.sizes < 1).any():
            raise PolyplinkError(
                f"{n} tracklets, offsets {self.offset.shape}, {d} frames, boxes {self.box.shape}",
                "give every tracklet one run of boxes, one after the other",
            )
        falls = np.flatnonzero(np.diff(self.frame) <= 0) + 1
        unsorted = falls[~np.isin(falls, self.offset)]
        if unsorted.size:
            raise PolyplinkError(
                f"frame {self.frame[unsorted[0]]} (box {unsorted[0]}) does not come after the one "
                "before it in its tracklet",
                "sort the boxes of a tracklet by frame, one box per frame",
            )

    @property
    def sizes(self) -> Ints:
        """Number of boxes of every tracklet (n,)."""
        return np.diff(self.offset)

    @property
    def first(self) -> Ints:
        """First frame of every tracklet (n,)."""
        return self.frame[self.offset[:-1]]

    @property
    def last(self) -> Ints:
        """Last frame of every tracklet (n,)."""
        return self.frame[self.offset[1:] - 1]

    def take(self, rows: Ints) -> "TrackletBoxes":
        """Some tracklets (m,) and their boxes, in that order."""
        sizes = self.sizes[rows]
        offset = np.concatenate([[0], np.cumsum(sizes)])
        # Box k of a tracklet is k rows after its first box.
        at = np.repeat(self.offset[rows] - offset[:-1], sizes) + np.arange(offset[-1])
        return TrackletBoxes(self.polyp[rows], offset, self.frame[at], self.box[at])

    def owner(self) -> Ints:
        """Tracklet of every box (d,)."""
        return np.repeat(np.arange(self.polyp.size), self.sizes)


def find_concurrent(tracklets: TrackletBoxes) -> tuple[Ints, Flags, Flags]:
    """Find tracklets that overlap in time.

    Returns:
        Pairs with overlapping spans (m, 2), each sorted by first frame, in the order of the first
        frame of the later tracklet; whether they have a frame in common (m,); whether two of their
        boxes overlap in one frame (m,).
    """
    n, by_first = tracklets.polyp.size, np.argsort(tracklets.first, kind="stable")
    order = np.argsort(tracklets.frame, kind="stable")
    frame, box = tracklets.frame[order], tracklets.box[order]
    place = np.argsort(by_first)[tracklets.owner()[order]]  # of every box's tracklet (d,)
    i, j = _in_one_frame(frame, frame)
    is_earlier = place[i] < place[j]
    i, j = i[is_earlier], j[is_earlier]
    together, touching = np.zeros((2, n, n), dtype=np.bool_)  # by later and earlier tracklet
    together[place[j], place[i]] = True
    touch = box_iou(box[i], box[j]) > 0
    touching[place[j[touch]], place[i[touch]]] = True
    spans = tracklets.last[by_first] >= tracklets.first[by_first][:, None]
    late, early = np.nonzero(np.tril(spans, -1))
    return (
        np.stack([by_first[early], by_first[late]], axis=1),
        together[late, early],
        touching[late, early],
    )
