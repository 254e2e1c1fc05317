"""From vectors to identities: every procedure of a part linked at an operating point."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

from polyplink.associate.alarms import EQUAL_COST, tracklet_features
from polyplink.associate.clusterers import LearnedLinks
from polyplink.associate.identities import Identities, OperatingPoint, Purpose, identify
from polyplink.associate.links import Views
from polyplink.associate.partition import MOST, Labels, partition
from polyplink.associate.probes import Reading
from polyplink.associate.similarity import unit_rows
from polyplink.core.arrays import Flags, Floats
from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message
from polyplink.counting.interval import ASK_BELOW_MESSAGE, Cover, Coverage, point_for_boxes
from polyplink.data.origin import box_source, read_origin, share_not_decoded
from polyplink.data.tables import DataSet, read_data
from polyplink.encoders.encode import Embeddings
from polyplink.tracklets.box_runs import box_frames, box_rows, fill_gaps, numbers_of_boxes, seconds
from polyplink.tracklets.prepare import Prepared

if TYPE_CHECKING:
    from polyplink.encoders.encode import Encoded

SEEN_ONCE = 1  # pseudocount: polyps with one tracklet in the mean number of those of the others
DOUBTFUL_FROM = 0.4  # probability of a polyp from which a review asks about a false alarm
ALIKE = 0.95  # probability of one polyp from which two views in one frame are named to the user


@dataclass(frozen=True)
class ProcedureTracklets:
    """One procedure's tracklets, ready to be linked.

    Attributes:
        procedure_id: Id of the procedure.
        table: Its n rows of the tracklets table.
        views: Vectors and times of the tracklets, for learned links.
    """

    procedure_id: str
    table: pl.DataFrame
    views: Views

    @property
    def positions(self) -> np.ndarray:
        """First frames relative to the procedure's annotated span (n,), in [0, 1]."""
        return self.table["position"].to_numpy()

    @property
    def polyps(self) -> list[str | None]:
        """True polyp of every tracklet, None if unknown."""
        return self.table["polyp_id"].to_list()

    @property
    def has_polyp(self) -> bool:
        """Whether a tracklet is of a known polyp."""
        return any(polyp is not None for polyp in self.polyps)


def by_procedure(prepared: Prepared, embeddings: Embeddings) -> list[ProcedureTracklets]:
    """Join tracklets and vectors, and group them by procedure; empty procedures are left out.

    Args:
        prepared: The tracklets.
        embeddings: Vectors of (at least) these tracklets, in any order.

    Raises:
        PolyplinkError: If a tracklet has no vector.
    """
    tracklets, vectors = prepared.tracklets, vectors_of(prepared, embeddings)
    procedures = []
    for procedure_id in prepared.procedures:
        of_procedure = tracklets["procedure_id"] == procedure_id
        table = tracklets.filter(of_procedure)
        if table.is_empty():
            continue
        views = views_to_link(prepared, table, vectors[of_procedure.to_numpy()])
        procedures.append(ProcedureTracklets(procedure_id, table, views))
    return procedures


def views_to_link(prepared: Prepared, table: pl.DataFrame, vectors: np.ndarray) -> Views:
    """The tracklets of a table of one procedure, with their vectors (n, d), to be linked."""
    times = seconds(table, prepared.data.procedures)
    return Views(vectors, *times.T, frames=box_frames(table, prepared.detections))


def vectors_of(prepared: Prepared, embeddings: Embeddings) -> np.ndarray:
    """The vectors (t, d) of the tracklets, in the order of the tracklets table.

    Raises:
        PolyplinkError: If a tracklet has no vector.
    """
    row = {name: i for i, name in enumerate(embeddings.tracklet_ids)}
    names = prepared.tracklets["tracklet_id"].to_list()
    missing = [name for name in names if name not in row]
    if missing:
        hint = "embed the data set or count it again"
        raise PolyplinkError(f"tracklet {missing[0]} has no vector", hint)
    vectors: np.ndarray = embeddings.vectors[[row[name] for name in names]]
    return vectors


@dataclass(frozen=True)
class Screened:
    """Tracklets without those rejected as false alarms of a detector.

    Attributes:
        prepared: The tracklets to link. Their column `shows_polyp` is the probability that they
            show a polyp, null if unknown.
        alarms: The rows of the rejected tracklets. Their column `in_doubt` tells whether a review
            asks if they show a polyp.
        unscreened: Number of a detector's tracklets without a probability.
    """

    prepared: Prepared
    alarms: pl.DataFrame
    unscreened: int


def screen(
    prepared: Prepared,
    embeddings: Embeddings,
    point: OperatingPoint,
    *,
    keep_alarms: bool = False,
) -> Screened:
    """Separate false alarms from tracklets that show a polyp.

    A procedure's tracklets are judged [together][polyplink.counting.link.judge_together] if links
    are learned. Annotated tracklets (with a known polyp, or with boxes without scores) are never
    false alarms.

    Args:
        prepared: The tracklets.
        embeddings: Vectors of (at least) these tracklets.
        point: The operating point; without a model of false alarms, nothing is rejected.
        keep_alarms: Whether false alarms stay.

    Raises:
        PolyplinkError: If a tracklet has no vector, or the vectors do not fit the model.
    """
    features = tracklet_features(prepared)
    detected = features.select(pl.all_horizontal(pl.all().is_not_null())).to_series()
    table, model = prepared.tracklets, point.alarms
    if model is None or not detected.any():
        unknown = table.with_columns(shows_polyp=pl.lit(None, pl.Float64), in_doubt=pl.lit(False))
        return Screened(replace(prepared, tracklets=unknown), unknown.clear(), int(detected.sum()))
    vectors = unit_rows(vectors_of(prepared, embeddings))
    chance = model.probability(features, vectors)
    is_linked = np.ones(len(chance), dtype=np.bool_)
    in_doubt = np.zeros_like(is_linked)
    for rows in table.with_row_index("row").group_by("procedure_id").agg("row")["row"]:
        of_procedure = rows.to_numpy()
        chance[of_procedure] = model.of_procedure(chance[of_procedure])
        if not keep_alarms:
            views = views_to_link(prepared, table[rows], vectors[of_procedure])
            judged = judge_together(views, chance[of_procedure], point)
            chance[of_procedure] = judged.chance
            is_linked[of_procedure], in_doubt[of_procedure] = judged.is_linked, judged.in_doubt
    table = table.with_columns(
        shows_polyp=pl.Series(chance).fill_nan(None), in_doubt=pl.Series(in_doubt)
    )
    linked = replace(prepared, tracklets=table.filter(is_linked))
    return Screened(linked, table.filter(~is_linked), 0)


@dataclass(frozen=True)
class Judged:
    """The n tracklets of a procedure, judged together.

    Attributes:
        chance: Probability that each shows a polyp (n,); NaN for annotated ones, which do.
        is_linked: Whether each is linked (n,); the others are false alarms.
        in_doubt: Whether a review asks if a false alarm shows a polyp (n,).
    """

    chance: Floats
    is_linked: Flags
    in_doubt: Flags


def judge_together(views: Views, chance: Floats, point: OperatingPoint) -> Judged:
    """Judge the tracklets of a procedure by what links join.

    Links join all tracklets. If none of a polyp reaches the threshold of false alarms, all are kept
    if their probability together is `EQUAL_COST` or more: 1 - prod(1 - p)^(1 / sqrt(n)), because n
    tracklets of one polyp or false alarm are correlated, and count as sqrt(n) independent ones.
    Then the tracklets that are kept are joined alone, as they will be counted: polyps of fewer
    tracklets may lie below `EQUAL_COST` and are left out again.

    What is seen much more rarely than the other polyps of a procedure is more likely a false alarm:
    the odds of the tracklets of a polyp with s of them are multiplied by (2 s / m)^2 if the others
    have m > 2 s on average. For the mean, `SEEN_ONCE` further polyps count as seen once. A polyp is
    left out if then no tracklet reaches 1/2 or the threshold, or, if all were below the threshold,
    they do not reach `EQUAL_COST` together.

    A review asks about false alarms that links do not join with what is kept: of those that they
    join, about the one with the highest probability, if that is `DOUBTFUL_FROM` or more.

    Args:
        views: The n tracklets.
        chance: Probability that each shows a polyp (n,); NaN for annotated ones, which do.
        point: The operating point, with a model of false alarms. Without learned links, or with
            more tracklets than a partition may have, each tracklet is judged alone.
    """
    setting, model, links = point.setting, point.alarms, point.links
    assert model is not None
    is_below = chance < model.threshold
    in_doubt = np.zeros_like(is_below)
    if not isinstance(setting, LearnedLinks) or links is None or len(chance) > MOST:
        return Judged(chance, ~is_below, in_doubt)

    # Tracklets below the threshold, until the same ones are linked again.
    is_linked = np.ones_like(is_below)
    partitions: list[list[npt.NDArray[np.intp]]] = []  # each the rows of its polyps
    while is_linked.any():
        rows = np.flatnonzero(is_linked)
        P = links.probability(views.take(rows))  # (k, k)
        (labels,) = partition(P, [setting.price], tolerance=setting.tolerance)  # (k,)
        polyps = [rows[labels == label] for label in np.unique(labels)]
        partitions.append(polyps)
        next_linked = ~is_below
        for members in polyps:
            if is_below[members].all() and _joint_probability(chance[members]) >= EQUAL_COST:
                next_linked[members] = True
        if (next_linked == is_linked).all():
            break
        is_linked = next_linked

    # Polyps that are seen much more rarely than others.
    judged, n_linked = chance.copy(), int(is_linked.sum())
    polyps = partitions[-1] if n_linked else []
    for members in polyps:
        mean = (n_linked - len(members) + SEEN_ONCE) / (len(polyps) - 1 + SEEN_ONCE)
        factor = min(1.0, 2 * len(members) / mean) ** 2
        p = chance[members]
        p = p * factor / (p * factor + 1 - p)
        judged[members] = p
        if is_below[members].all():
            is_linked[members] = _joint_probability(p) >= EQUAL_COST
        else:
            # NaN, of an annotated tracklet, is kept.
            is_linked[members] = not p.max() < min(0.5, model.threshold)

    # False alarms that may be further polyps.
    for members in partitions[0]:
        best = members[judged[members].argmax()]
        in_doubt[best] = not is_linked[members].any() and judged[best] >= DOUBTFUL_FROM
    return Judged(judged, is_linked, in_doubt)


def _joint_probability(chance: Floats) -> float:
    """Probability that correlated tracklets (n,) show a polyp, see `judge_together`; may be NaN."""
    return float(1 - (1 - chance).prod() ** (1 / math.sqrt(chance.size)))


@dataclass(frozen=True)
class LinkedProcedure:
    """One procedure's tracklets with their identities.

    Attributes:
        tracklets: The tracklets.
        identities: The polyps that they show.
        readings: Size and histology of each polyp, as far as the operating point has probes.
    """

    tracklets: ProcedureTracklets
    identities: Identities
    readings: list[Reading]

    @property
    def procedure_id(self) -> str:
        """Id of the procedure."""
        return self.tracklets.procedure_id

    @property
    def table(self) -> pl.DataFrame:
        """The rows of its tracklets in the tracklets table."""
        return self.tracklets.table


def linked_boxes(prepared: Prepared, linked: Sequence[LinkedProcedure]) -> pl.DataFrame:
    """The boxes of linked tracklets, with interpolated boxes in the gaps of each tracklet.

    Returns:
        Columns procedure_id, frame, x, y, w, h, score, polyp and tracklet (both numbered from 1 in
        each procedure), and interpolated.
    """
    columns = ("procedure_id", "frame", "x", "y", "w", "h", "score")
    all_boxes = prepared.detections.select(
        *columns, polyp=pl.lit(0, pl.Int64), tracklet=pl.lit(0, pl.Int64)
    )
    tables = [fill_gaps(all_boxes.clear())]
    for procedure in linked:
        rows, tracklet = box_rows(procedure.table)
        polyp = procedure.identities.labels.astype(np.int64)[tracklet] + 1
        names = pl.Series("polyp", polyp), pl.Series("tracklet", tracklet + 1)
        tables.append(fill_gaps(all_boxes[rows].with_columns(*names)))
    return pl.concat(tables)


def tracks_of_boxes(prepared: Prepared, linked: Sequence[LinkedProcedure]) -> pl.DataFrame:
    """The track and the counted polyp of each box of the data set.

    Args:
        prepared: All tracklets, false alarms included.
        linked: The procedures with the tracklets that were counted.

    Returns:
        A row for each of `prepared.data.detections`: track_id (the tracklet, numbered from 1 over
        all procedures) and polyp (numbered from 1 in each procedure). Both are null for a box in no
        tracklet; polyp is null for a box in a false alarm.
    """
    polyps = {
        name: label + 1
        for procedure in linked
        for name, label in zip(
            procedure.table["tracklet_id"],
            procedure.identities.labels.tolist(),
            strict=True,
        )
    }
    of_tracklets = [polyps.get(name, 0) for name in prepared.tracklets["tracklet_id"]]
    return numbers_of_boxes(
        prepared.data.detections, prepared.detections, prepared.tracklets, of_tracklets
    )


def coverage_of(linked: Sequence[LinkedProcedure], polyps: Mapping[str, int]) -> Coverage | None:
    """How often intervals hold the true number of polyps; None if there is nothing to compare."""
    rows = [
        (polyps[procedure.procedure_id], *procedure.identities.interval)
        for procedure in linked
        if procedure.identities.interval is not None and procedure.procedure_id in polyps
    ]
    return Coverage.of(rows) if rows else None


def link_messages(point: OperatingPoint, linked: Sequence[LinkedProcedure]) -> list[Message]:
    """Warnings about unreliable links: no probabilities, no convergence, or too many views."""
    messages = []
    if point.links is None:
        messages.append(Message("no_probabilities", {"why": point.origin}))
    failed = [procedure.procedure_id for procedure in linked if not procedure.identities.converged]
    if failed:
        messages.append(Message("not_converged", {"names": ", ".join(failed)}))
    exceeding = [
        procedure.procedure_id
        for procedure in linked
        if point.exceeded_by(len(procedure.identities.labels))
    ]
    if exceeding:
        names, most = ", ".join(exceeding), point.most_views or 0
        messages.append(
            Message("cover.size", {"names": names, "most": most, "ask": ASK_BELOW_MESSAGE})
        )
    return messages


def alike_messages(alike: Mapping[str, Sequence[tuple[int, int]]]) -> list[Message]:
    """The warning about polyps that look alike in the same frames, if there are any.

    Args:
        alike: Procedure -> its pairs of such polyps, from `alike_together`.
    """
    pairs = [f"{name}: {a + 1}, {b + 1}" for name, polyps in alike.items() for a, b in polyps]
    listed = "; ".join(pairs[:3]) + ("; ..." if len(pairs) > 3 else "")
    return [Message("alike_together", {"pairs": listed})] if pairs else []


def alike_together(
    point: OperatingPoint, views: Views, labels: Labels, apart: Flags | None = None
) -> list[tuple[int, int]]:
    """Pairs of polyps that look alike in the same frames, as two pictures of one polyp do.

    Args:
        point: The operating point.
        views: The n tracklets.
        labels: Polyp of every tracklet (n,).
        apart: Pairs of tracklets (n, n) that a reviewer called different polyps.
    """
    together = np.triu(views.overlap & (labels[:, None] != labels[None, :]))
    if point.links is None or not together.any():
        return []
    alike = together & (point.links.likeness(views) >= ALIKE)
    return sorted(_polyp_pairs(alike, labels) - _polyp_pairs(apart, labels))


def _polyp_pairs(pairs: Flags | None, labels: Labels) -> set[tuple[int, int]]:
    """The pairs of polyps, the smaller number first, of pairs of tracklets (n, n)."""
    if pairs is None:
        return set()
    return {(min(pair), max(pair)) for pair in labels[np.argwhere(pairs)].tolist()}


@dataclass(frozen=True)
class LinkedPart:
    """A linked part of a data folder.

    Attributes:
        encoded: The part and its vectors.
        point: The operating point of the links.
        cover: Whether the count has intervals, and why.
        screened: Its tracklets, without false alarms.
        procedures: Its procedures, except those without tracklets.
    """

    encoded: "Encoded"
    point: OperatingPoint
    cover: Cover
    screened: Screened
    procedures: list[LinkedProcedure]


def link_part(encoded: "Encoded", *, purpose: Purpose, keep_alarms: bool) -> LinkedPart:
    """Link every procedure of a part at the operating point stored in the weights.

    Args:
        encoded: The part and its vectors by one encoder.
        purpose: Purpose for which the price of a polyp was chosen.
        keep_alarms: Whether tracklets that the model classifies as false alarms are linked too.

    Raises:
        PolyplinkError: If the vectors do not fit the model of false alarms.
    """
    encoder, prepared = encoded.first, encoded.prepared
    point, cover = point_for_boxes(
        encoder.record,
        box_source(encoded.folder, prepared.data, prepared.procedures),
        prepared.settings,
        read_origin(encoded.folder),
        purpose=purpose,
        keep_alarms=keep_alarms,
        not_decoded=share_not_decoded(encoded.folder, prepared.procedures),
    )
    embeddings = encoded.embeddings[encoder.name]
    screened = screen(prepared, embeddings, point, keep_alarms=keep_alarms)
    linked = []
    for tracklets in by_procedure(screened.prepared, embeddings):
        identities = identify(tracklets.views, tracklets.positions, point)
        readings = point.read(tracklets.views.vectors, identities.labels)
        linked.append(LinkedProcedure(tracklets, identities, readings))
    return LinkedPart(encoded, point, cover, screened, linked)


def with_unknown_polyps(data: DataSet) -> set[str]:
    """Procedures with annotated boxes of no known polyp: their number of polyps is not known."""
    unknown = pl.col("polyp_id").is_null() & pl.col("score").is_null()
    return set(data.detections.filter(unknown)["procedure_id"])


def true_counts(data: DataSet, procedures: Sequence[str], *, every: bool) -> dict[str, int]:
    """True number of polyps of procedures, including polyps without a tracklet.

    Procedures with annotated boxes of no known polyp are left out.

    Args:
        data: The annotated data set.
        procedures: Ids of the procedures.
        every: Whether all procedures are annotated; otherwise those without a polyp are left out,
            because they may not have been annotated.
    """
    polyps = pl.concat(
        [
            data.polyps.select("procedure_id", "polyp_id"),
            data.detections.select("procedure_id", "polyp_id").drop_nulls(),
        ]
    )
    n_polyps = dict(polyps.unique().group_by("procedure_id").len().iter_rows())
    annotated = procedures if every else [name for name in procedures if name in n_polyps]
    unknown = with_unknown_polyps(data)
    return {name: n_polyps.get(name, 0) for name in annotated if name not in unknown}


def known_counts(prepared: Prepared, truth: Path | None = None) -> dict[str, int]:
    """True number of polyps of each annotated procedure, here or in the data folder `truth`."""
    data = prepared.data if truth is None else read_data(truth)
    return true_counts(data, prepared.procedures, every=truth is not None)
