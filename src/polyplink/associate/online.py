"""Identities while a procedure runs: each tracklet is linked when it closes, in bounded memory.

The link probabilities are those of `associate.links`, computed from the data so far: ranks and
spreads of cosines over the stored tracklets, gaps as shares of the time that has passed. A new
tracklet is assigned by a partition of low cost (`associate.partition`), in which decisions
older than a window are fixed. Tracklets within the window may be assigned anew if this lowers the
cost; every such revision is reported.

Of the tracklets older than the window, a few are stored for each polyp. If there are more, the two
most similar are merged: the later one stays and represents both, with the sum of their weights.
"""

from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Annotated

import numpy as np
import numpy.typing as npt

from polyplink.associate.clusterers import LearnedLinks
from polyplink.associate.identities import OperatingPoint, count_intervals, link_scores
from polyplink.associate.links import Views, count_starts_between
from polyplink.associate.partition import pair_costs, partition, partition_cost
from polyplink.associate.similarity import unit_rows
from polyplink.core.arrays import Flags, Floats, Ints
from polyplink.core.errors import PolyplinkError
from polyplink.core.ranges import AT_LEAST_ONE, NOT_NEGATIVE, Ranged

BETTER = 1e-9  # a revision must lower the cost by more than this


@dataclass(frozen=True)
class OnlineSettings(Ranged):
    """Limits of memory, and the time for which a decision may change.

    Attributes:
        window: Seconds after its end during which the polyp of a tracklet may be revised.
        revisable: Maximum number of tracklets that may be revised, the latest ones.
        views: Stored tracklets per polyp, besides those within the window.
        rows: Stored tracklets in total, at least twice `revisable`. Beyond this, more are merged;
            then the polyps seen longest ago are still counted but no longer recognised.
    """

    window: Annotated[float, NOT_NEGATIVE] = 900.0
    revisable: Annotated[int, AT_LEAST_ONE] = 64
    views: Annotated[int, AT_LEAST_ONE] = 16
    rows: Annotated[int, AT_LEAST_ONE] = 160

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rows < 2 * self.revisable:
            raise PolyplinkError(
                f"{self.rows} rows for {self.revisable} revisable tracklets",
                "give at least twice as many rows",
            )


@dataclass(frozen=True)
class Revision:
    """A tracklet that was assigned anew: its name, and its polyp before and now."""

    tracklet: str
    before: int
    now: int


@dataclass(frozen=True)
class Decision:
    """The assignment of a tracklet that has closed.

    Attributes:
        tracklet: Name of the tracklet.
        polyp: Number of its polyp, from 1; a number is never used again.
        probability: Confidence of the assignment, see `identities.link_scores`.
        earlier: Name and start, in seconds, of the stored earlier tracklet of the polyp with the
            highest link probability; None for a polyp that was not seen before.
        revisions: Earlier tracklets that were assigned to another polyp.
        count: Number of polyps so far.
        interval: Lowest and highest number of polyps, 90 %; None if unknown.
    """

    tracklet: str
    polyp: int
    probability: float
    earlier: tuple[str, float] | None
    revisions: tuple[Revision, ...]
    count: int
    interval: tuple[int, int] | None


@dataclass(frozen=True)
class Stored(Views):
    """The m stored tracklets; `n_between` and `span` count all tracklets of the procedure.

    Attributes:
        starts: Start of every tracklet of the procedure so far, seconds, rising.
        weight: Number of tracklets that each represents (m,).
        polyp: Polyp of each (m,), 0 for the one to be assigned.
        movable: Whether it may be assigned anew (m,).
        name: Name of each (m,).
    """

    starts: Floats
    weight: Floats
    polyp: Ints
    movable: Flags
    name: npt.NDArray[np.object_]

    @property
    def n_between(self) -> Floats:
        """Number of tracklets, stored or not, that begin between two stored ones (m, m)."""
        return count_starts_between(self.start, self.starts)

    @property
    def span(self) -> float:
        """Seconds from the start of the procedure's first tracklet to the last end, at least 1."""
        return max(float(self.end.max() - self.starts[0]), 1.0)

    def take(self, rows: npt.ArrayLike) -> "Stored":
        """The stored tracklets of some rows."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        columns |= {name: value[rows] for name, value in columns.items() if name != "starts"}
        return Stored(**columns)


class OnlineLinker:
    """Links the tracklets of one procedure as they close.

    Attributes:
        point: The operating point.
        stored: The stored tracklets after the last decision; None before the first.

    Example:
        >>> from polyplink.associate.clusterers import LearnedLinks
        >>> from polyplink.associate.links import LinkModel, term_names
        >>> weights = dict.fromkeys(term_names(), 0.0) | {"cosine": 8.0}
        >>> point = OperatingPoint(LearnedLinks(0.5), LinkModel(-4.0, weights, 1, 1), "by hand")
        >>> linker = OnlineLinker(point)
        >>> [linker.add(f"t{i}", v, i, i + 0.5).polyp for i, v in enumerate(np.eye(2)[[0, 1, 0]])]
        [1, 2, 1]
    """

    def __init__(self, point: OperatingPoint, settings: OnlineSettings | None = None) -> None:
        """Start without polyps.

        Args:
            point: The operating point, with learned links.
            settings: Limits of memory and revisions; None for the defaults.

        Raises:
            PolyplinkError: If the operating point has no learned links.
        """
        if point.links is None or not isinstance(point.setting, LearnedLinks):
            raise PolyplinkError(
                f"the weights have no learned links ({point.origin}), which linking while a "
                "procedure runs needs",
                "add them with `polyplink calibrate`",
            )
        self.point, self.settings = point, settings or OnlineSettings()
        self._links, self._setting, self._spread = point.links, point.setting, point.spread
        self.stored: Stored | None = None
        self._n_numbers = 0  # numbers of polyps given so far
        self._retired: list[int] = []  # polyps that are counted and no longer recognised

    def add(
        self,
        tracklet: str,
        vector: npt.ArrayLike,
        start: float,
        end: float,
        frames: npt.ArrayLike | None = None,
    ) -> Decision:
        """Link a tracklet that has closed.

        Args:
            tracklet: Name of the tracklet.
            vector: Embedding (d,).
            start: Time of the first frame, seconds.
            end: Time of the last frame, seconds.
            frames: Frames with a box, rising; None if every frame from first to last has one.

        Raises:
            PolyplinkError: If the vector is zero or not finite, a time is not finite, or the
                tracklet ends before it begins.
        """
        views = self._append(tracklet, unit_rows(np.asarray(vector)[None]), start, end, frames)
        P = self._links.probability(views)
        polyps = self._number_polyps(views, self._decide(views, P))
        revised = np.flatnonzero((polyps != views.polyp) & (views.polyp > 0)).tolist()
        revisions = tuple(
            Revision(views.name[row], int(views.polyp[row]), int(polyps[row])) for row in revised
        )
        newest = int(polyps[-1])
        before = np.flatnonzero((polyps == newest) & (views.end < start))
        earlier = None
        if before.size:
            like = before[P[-1, before].argmax()]
            earlier = str(views.name[like]), float(views.start[like])
        count = len(self._retired) + len(np.unique(polyps))
        self.stored = self._prune(replace(views, polyp=polyps))
        return Decision(
            tracklet,
            newest,
            float(link_scores(polyps.astype(np.int32), P)[-1]),
            earlier,
            revisions,
            count,
            self._interval(views, P, count),
        )

    @property
    def numbers(self) -> dict[int, int]:
        """Number of each polyp for display, from 1 without gaps, in the order of appearance.

        The numbers in `Decision` never change; when two polyps turn out to be one, the numbers
        here are shifted, so that the last one is always the count.
        """
        open_polyps = [] if self.stored is None else np.unique(self.stored.polyp).tolist()
        return {polyp: i + 1 for i, polyp in enumerate(sorted({*open_polyps, *self._retired}))}

    def _append(
        self, tracklet: str, vector: Floats, start: float, end: float, frames: npt.ArrayLike | None
    ) -> Stored:
        """The stored tracklets and, as the last row, a new one without a polyp."""
        unit, flag = np.ones(1), np.ones(1, np.bool_)
        times = np.array([start], np.float64), np.array([end], np.float64)
        name = np.array([tracklet], dtype=object)
        with_box = np.empty(1, dtype=np.object_)
        with_box[0] = None if frames is None else np.asarray(frames)
        no_polyp = np.zeros(1, np.int64)
        new_row = Stored(vector, *times, times[0], unit, no_polyp, flag, name, frames=with_box)
        stored = self.stored
        if stored is None:
            return new_row
        oldest_end = max(end, stored.end.max()) - self.settings.window
        movable = stored.movable & (stored.end >= oldest_end)
        n_excess = movable.sum() + 1 - self.settings.revisable
        if n_excess > 0:
            movable[np.flatnonzero(movable)[:n_excess]] = False  # rows are in the order of closing
        columns = {
            field.name: np.concatenate([getattr(stored, field.name), getattr(new_row, field.name)])
            for field in fields(Stored)
        }
        columns["starts"].sort()  # a long view may close after others that began after it
        columns["movable"][:-1] = movable
        return Stored(**columns)

    def _decide(self, views: Stored, P: Floats) -> Ints:
        """Cluster of each tracklet (m,); tracklets older than the window keep their polyp."""
        old_rows = np.flatnonzero(~views.movable)
        must = [
            pair
            for polyp in np.unique(views.polyp[old_rows])
            for pair in pairwise(old_rows[views.polyp[old_rows] == polyp].tolist())
        ]
        constrained = P.copy()
        are_different = views.polyp[old_rows][:, None] != views.polyp[old_rows][None, :]
        block = np.ix_(old_rows, old_rows)
        constrained[block] = np.where(are_different, 0.0, constrained[block])
        price, tolerance = self._setting.price, self._setting.tolerance
        (labels,) = partition(constrained, [price], must, weights=views.weight, tolerance=tolerance)
        labels = labels.astype(np.int64)
        # The alternative: all decisions as before, and the new tracklet where it costs least.
        as_before, cost = views.polyp.copy(), pair_costs(constrained, views.weight, tolerance)[-1]
        polyps = np.unique(as_before[:-1])
        joining_costs = [float(cost[as_before == polyp].sum()) for polyp in polyps.tolist()]
        if joining_costs and min(joining_costs) < price:
            as_before[-1] = polyps[int(np.argmin(joining_costs))]
        best_cost, current_cost = (
            partition_cost(constrained, labels, price, views.weight, tolerance)
            for labels in (labels, as_before)
        )
        return labels if best_cost < current_cost - BETTER else as_before

    def _number_polyps(self, views: Stored, clusters: Ints) -> Ints:
        """Polyp number of each tracklet (m,): a cluster keeps the number of most of its members."""
        votes = []
        for cluster in np.unique(clusters):
            members = clusters == cluster
            for polyp in np.unique(views.polyp[members & (views.polyp > 0)]).tolist():
                of_polyp = members & (views.polyp == polyp)
                # Members older than the window decide.
                fixed = bool((of_polyp & ~views.movable).any())
                votes.append((fixed, float(views.weight[of_polyp].sum()), -polyp, int(cluster)))
        number_of: dict[int, int] = {}
        for _, _, polyp, cluster in sorted(votes, reverse=True):
            if cluster not in number_of and -polyp not in number_of.values():
                number_of[cluster] = -polyp
        for cluster in clusters.tolist():  # in the order of closing
            if cluster not in number_of:
                self._n_numbers += 1
                number_of[cluster] = self._n_numbers
        return np.array([number_of[cluster] for cluster in clusters.tolist()], np.int64)

    def _prune(self, views: Stored) -> Stored:
        """Merge tracklets older than the window if a polyp, or all polyps, exceed the limits."""
        for polyp in np.unique(views.polyp[~views.movable]).tolist():
            while ((views.polyp == polyp) & ~views.movable).sum() > self.settings.views:
                views = _merge_nearest(
                    views, np.flatnonzero((views.polyp == polyp) & ~views.movable)
                )
        while len(views.start) > self.settings.rows:
            old_polyps = views.polyp[~views.movable]
            polyps, sizes = np.unique(old_polyps, return_counts=True)
            if sizes.max() > 1:
                largest = polyps[sizes.argmax()]
                views = _merge_nearest(
                    views, np.flatnonzero((views.polyp == largest) & ~views.movable)
                )
                continue
            last_ends = [views.end[views.polyp == polyp].max() for polyp in polyps]
            views = views.take(views.polyp != polyps[int(np.argmin(last_ends))])
            self._retired.append(int(polyps[int(np.argmin(last_ends))]))
        return views

    def _interval(self, views: Stored, P: Floats, count: int) -> tuple[int, int] | None:
        """Lowest and highest number of polyps while the price varies, including the count."""
        if self._spread is None or self.point.exceeded_by(views.starts.size):
            return None
        # The largest factor alone: the interval is computed after every tracklet.
        factors, weights = [self._spread], views.weight
        (low,), (high,) = count_intervals(P, self._setting, factors, weights=weights)
        n_retired = len(self._retired)
        lowest, highest = self.point.widened(int(low) + n_retired, int(high) + n_retired)
        return min(lowest, count), max(highest, count)


def _merge_nearest(views: Stored, rows: Ints) -> Stored:
    """Merge the two most similar tracklets among `rows`; the one that ended later stays."""
    cosines = views.vectors[rows] @ views.vectors[rows].T
    np.fill_diagonal(cosines, -np.inf)
    first, second = (int(rows[k]) for k in np.unravel_index(int(cosines.argmax()), cosines.shape))
    later, earlier = (first, second) if views.end[first] > views.end[second] else (second, first)
    weight = views.weight.copy()
    weight[later] += weight[earlier]
    return replace(views, weight=weight).take(np.arange(len(weight)) != earlier)
