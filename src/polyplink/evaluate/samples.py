"""The samples of an evaluation: tracklets with procedures and polyps, and boxes with tracks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from polyplink.associate.similarity import checked_positions, unit_rows
from polyplink.core.compiled import njit
from polyplink.core.errors import PolyplinkError

Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def _codes(names: Sequence[str]) -> tuple[tuple[str, ...], Ints]:
    """Distinct names in order of first appearance, and the place of every name in them."""
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    return tuple(places), np.array([places[name] for name in names], dtype=np.int64)


@dataclass(frozen=True)
class Samples:
    """n tracklets of any number of procedures, one row each, in any order.

    Attributes:
        tracklet_ids: Name of every tracklet (n,), unique.
        procedures: Names of the procedures, in order of first appearance.
        procedure: Place of every tracklet's procedure in `procedures` (n,).
        polyp: Code of every tracklet's polyp (n,); every unknown one has a unique code.
        known: Whether the polyp is known (n,).
        positions: Position in the procedure (n,), in [0, 1].
    """

    tracklet_ids: tuple[str, ...]
    procedures: tuple[str, ...]
    procedure: Ints
    polyp: Ints
    known: npt.NDArray[np.bool_]
    positions: npt.NDArray[np.float64]

    @classmethod
    def of(
        cls,
        tracklet_ids: Sequence[str],
        procedures: Sequence[str],
        polyps: Sequence[str | None],
        positions: npt.ArrayLike,
    ) -> Self:
        """Check the columns of a table of tracklets.

        Args:
            tracklet_ids: Name of every tracklet (n,).
            procedures: Name of its procedure (n,).
            polyps: Name of its polyp (n,), None where unknown.
            positions: Its position in the procedure (n,), in [0, 1].

        Raises:
            PolyplinkError: If the columns differ in length or are empty, a tracklet occurs twice,
                a polyp occurs in two procedures, no polyp is known, or a position is outside
                [0, 1].
        """
        p = checked_positions(positions)
        lengths = {len(tracklet_ids), len(procedures), len(polyps), p.size}
        if len(lengths) > 1 or lengths == {0}:
            raise PolyplinkError(
                f"columns of {len(tracklet_ids)} tracklets, {len(procedures)} procedures, "
                f"{len(polyps)} polyps and {p.size} positions",
                "give one of each per tracklet, and at least one tracklet",
            )
        _check_names(tracklet_ids, procedures, polyps)
        names, procedure = _codes(procedures)
        known = np.array([polyp is not None for polyp in polyps], dtype=np.bool_)
        # A tracklet of unknown polyp is named by its row: equal to no other.
        _, polyp = _codes([f"p{v}" if v is not None else f"{i}" for i, v in enumerate(polyps)])
        return cls(tuple(tracklet_ids), names, procedure, polyp, known, p)

    def of_procedure(self, place: int) -> tuple[Self, Ints]:
        """One procedure's tracklets, and their rows in these samples."""
        rows = np.flatnonzero(self.procedure == place)
        return self.take(rows), rows

    def take(self, rows: Ints) -> Self:
        """Some tracklets, at least one, in that order."""
        names, procedure = _codes([self.procedures[place] for place in self.procedure[rows]])
        return replace(
            self,
            tracklet_ids=tuple(self.tracklet_ids[row] for row in rows),
            procedures=names,
            procedure=procedure,
            polyp=self.polyp[rows],
            known=self.known[rows],
            positions=self.positions[rows],
        )

    def unit_rows(self, vectors: npt.ArrayLike) -> Reals:
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
    def labelled(self) -> npt.NDArray[np.bool_]:
        """Whether each procedure has a tracklet of known polyp (procedures,)."""
        return np.isin(np.arange(len(self.procedures)), self.procedure[self.known])

    @property
    def unlabelled(self) -> int:
        """How many tracklets have no known polyp."""
        return int((~self.known).sum())


def _check_names(
    tracklet_ids: Sequence[str], procedures: Sequence[str], polyps: Sequence[str | None]
) -> None:
    seen: set[str] = set()
    for row, name in enumerate(tracklet_ids):
        if name in seen:
            raise PolyplinkError(
                f"tracklet {name!r} occurs twice (row {row})", "give each tracklet one row"
            )
        seen.add(name)
    home: dict[str, str] = {}
    for polyp, procedure in zip(polyps, procedures, strict=True):
        if polyp is not None and home.setdefault(polyp, procedure) != procedure:
            raise PolyplinkError(
                f"polyp {polyp!r} is in procedures {home[polyp]!r} and {procedure!r}",
                "name polyps so that no two procedures share a name",
            )
    if not home:
        raise PolyplinkError(
            "no tracklet has a known polyp", "evaluate on procedures with annotated polyps"
        )


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
    box: Reals
    tracks: int

    @classmethod
    def of(cls, frame: npt.ArrayLike, track: npt.ArrayLike, box: npt.ArrayLike) -> Self:
        """Sort and check boxes.

        Args:
            frame: Frame of every box (n,).
            track: Its track (n,): numbers or names of any kind.
            box: x, y, w, h (n, 4), pixels.

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
        twice = np.flatnonzero(np.diff(keys) == 0)
        if twice.size:
            at, which = divmod(int(keys[twice[0]]), names.size)
            raise PolyplinkError(
                f"track {names[which].item()!r} is in frame {at} twice", "keep one box of it"
            )
        return cls(frames[order], codes[order].astype(np.int64), boxes[order], names.size)


class Overlaps(NamedTuple):
    """Pairs of a true and a found box of one frame that overlap, frame by frame.

    Attributes:
        true: Row of the true box (p,).
        found: Row of the found box (p,).
        similarity: Their IoU (p,), above 0.
        starts: First pair of every common frame, and the end (f + 1,).
        true_rows: First true box of every common frame, and the row after its last (f, 2).
        found_rows: The same of the found boxes (f, 2).
    """

    true: Ints
    found: Ints
    similarity: Reals
    starts: Ints
    true_rows: Ints
    found_rows: Ints


@njit()
def _iou(a: Reals, b: Reals) -> float:
    """IoU of two boxes x, y, w, h: (4,), (4,)."""
    width = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    height = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    if width <= 0.0 or height <= 0.0:
        return 0.0
    area_a = (a[0] + a[2] - a[0]) * (a[1] + a[3] - a[1])  # as TrackEval rounds it
    area_b = (b[0] + b[2] - b[0]) * (b[1] + b[3] - b[1])
    shared = width * height
    return float(shared / (area_a + area_b - shared))


@njit()
def _pairs(a: Reals, b: Reals, a_rows: Ints, b_rows: Ints) -> tuple[Ints, Ints, Reals, Ints]:
    frames = a_rows.shape[0]
    room = 0
    for f in range(frames):
        room += (a_rows[f, 1] - a_rows[f, 0]) * (b_rows[f, 1] - b_rows[f, 0])
    true, found = np.empty(room, np.int64), np.empty(room, np.int64)
    similarity, starts = np.empty(room), np.empty(frames + 1, np.int64)
    place = 0
    for f in range(frames):
        starts[f] = place
        for i in range(a_rows[f, 0], a_rows[f, 1]):
            for j in range(b_rows[f, 0], b_rows[f, 1]):
                iou = _iou(a[i], b[j])
                if iou > 0.0:
                    true[place], found[place], similarity[place] = i, j, iou
                    place += 1
    starts[frames] = place
    return true[:place], found[:place], similarity[:place], starts


def overlaps(true: BoxTracks, found: BoxTracks) -> Overlaps:
    """Find the overlapping pairs of all frames that have boxes on both sides."""
    common = np.intersect1d(true.frame, found.frame)  # (f,)
    a_rows, b_rows = (
        np.stack(
            [np.searchsorted(side.frame, common, end) for end in ("left", "right")], axis=1
        ).astype(np.int64)
        for side in (true, found)
    )
    return Overlaps(*_pairs(true.box, found.box, a_rows, b_rows), a_rows, b_rows)


@dataclass(frozen=True)
class TrackletBoxes:
    """n tracklets and their d boxes; of one procedure, where frames are compared.

    Attributes:
        polyp: Code of every tracklet's polyp (n,).
        offset: First box of every tracklet, and the end (n + 1,).
        frame: Frame of every box (d,), rising within a tracklet.
        box: x, y, w, h of every box (d, 4), pixels.

    Raises:
        PolyplinkError: If the offsets do not fit, a tracklet has no box, or its frames do not
            rise.
    """

    polyp: Ints
    offset: Ints
    frame: Ints
    box: Reals

    def __post_init__(self) -> None:
        n, d = self.polyp.size, self.frame.size
        fits = self.offset.shape == (n + 1,) and self.box.shape == (d, 4)
        if not fits or self.offset[0] != 0 or self.offset[-1] != d or (self.sizes < 1).any():
            raise PolyplinkError(
                f"{n} tracklets, offsets {self.offset.shape}, {d} frames, boxes {self.box.shape}",
                "give every tracklet one run of boxes, one after the other",
            )
        falls = np.flatnonzero(np.diff(self.frame) <= 0) + 1
        inside = falls[~np.isin(falls, self.offset)]
        if inside.size:
            raise PolyplinkError(
                f"frame {self.frame[inside[0]]} (box {inside[0]}) does not come after the one "
                "before it in its tracklet",
                "sort the boxes of a tracklet by frame, one box a frame",
            )

    @property
    def sizes(self) -> Ints:
        """Boxes of every tracklet (n,)."""
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
        # Box k of a tracklet lies k rows after its first.
        at = np.repeat(self.offset[rows] - offset[:-1], sizes) + np.arange(offset[-1])
        return TrackletBoxes(self.polyp[rows], offset, self.frame[at], self.box[at])

    def owner(self) -> Ints:
        """Tracklet of every box (d,)."""
        return np.repeat(np.arange(self.polyp.size), self.sizes)


@dataclass(frozen=True)
class Concurrent:
    """Pairs of tracklets whose spans overlap in time.

    Attributes:
        pairs: Tracklets i < j in the order of first frames (m, 2).
        together: Whether they have a frame in common (m,).
        touching: Whether two of their boxes overlap in one frame (m,).
    """

    pairs: Ints
    together: npt.NDArray[np.bool_]
    touching: npt.NDArray[np.bool_]


def find_concurrent(tracklets: TrackletBoxes) -> Concurrent:
    """Find the tracklets that are seen at one time; most are alone, so that this is quick."""
    first, last = tracklets.first, tracklets.last
    order = np.argsort(first, kind="stable")
    pairs, together, touching = [], [], []
    open_ones: list[int] = []
    for j in order.tolist():
        open_ones = [i for i in open_ones if last[i] >= first[j]]
        for i in open_ones:
            shared, touch = _overlap(tracklets, i, j)
            pairs.append((i, j))
            together.append(shared)
            touching.append(touch)
        open_ones.append(j)
    return Concurrent(
        np.array(pairs, dtype=np.int64).reshape(-1, 2),
        np.array(together, dtype=np.bool_),
        np.array(touching, dtype=np.bool_),
    )


def _overlap(tracklets: TrackletBoxes, i: int, j: int) -> tuple[bool, bool]:
    """Whether two tracklets share a frame, and whether their boxes overlap in one."""
    a, b = (slice(tracklets.offset[k], tracklets.offset[k + 1]) for k in (i, j))
    _, at, other = np.intersect1d(
        tracklets.frame[a], tracklets.frame[b], assume_unique=True, return_indices=True
    )
    x, y = tracklets.box[a][at], tracklets.box[b][other]  # (f, 4)
    low = np.maximum(x[:, :2], y[:, :2])
    high = np.minimum(x[:, :2] + x[:, 2:], y[:, :2] + y[:, 2:])
    return bool(at.size), bool((high > low).all(axis=1).any())
