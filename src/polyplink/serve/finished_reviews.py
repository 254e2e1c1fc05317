"""Procedures of finished reviews, with the corrected polyps as labels; links fitted on them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from polyplink.associate.identities import OperatingPoint, identify
from polyplink.core.errors import PolyplinkError
from polyplink.counting.link import ProcedureTracklets, views_to_link
from polyplink.counting.operating_point import find_operating_point
from polyplink.data.origin import box_source
from polyplink.serve.desk import Desk


def fit_reviews(
    desks: Sequence[Desk], labelled: Sequence[ProcedureTracklets], before: OperatingPoint
) -> tuple[OperatingPoint, list[str]]:
    """Fit an operating point on finished procedures; the previous one stays if it counts better.

    Args:
        desks: The reviews.
        labelled: Their finished procedures, with the corrected identities.
        before: The operating point of the weights of the count.

    Returns:
        The operating point, and a warning if it is the previous one.

    Raises:
        PolyplinkError: If the reviews have fewer than two finished procedures with a view, no pair
            of views of one polyp, or none of two polyps.
    """
    if len(labelled) < 2:
        raise PolyplinkError(
            "links are fitted on some procedures and judged on others, but only one finished "
            "procedure has a view",
            "finish the review of more procedures",
        )
    sources = {box_source(desk.data, desk.prepared.data, desk.names) for desk in desks}
    source = sources.pop() if len(sources) == 1 else None
    # Other reviews may have unfinished procedures of the same names.
    finished = [
        (desk, name, solved)
        for desk in desks
        for index, name in enumerate(desk.names)
        if (solved := desk.solve(index)).decided.done
    ]
    patients = {name: desk.prepared.data.patients[name] for desk, name, _ in finished}
    # With the polyps that the reviewer added, which have no tracklet.
    polyps = {name: solved.n_polyps for _, name, solved in finished}
    settings = [desk.prepared.settings for desk in desks]
    point = find_operating_point(
        labelled,
        source,
        polyps,
        tolerance=before.tolerance,
        patients=patients,
        settings=settings[0] if len(set(settings)) == 1 else None,
    )
    if point.error is None:
        raise PolyplinkError(point.origin, "finish the review of more procedures")
    # As the error of the new one, over procedures with a tracklet of a polyp.
    with_polyp = [procedure for procedure in labelled if procedure.has_polyp]
    error_before = np.mean([_count_error(procedure, before, polyps) for procedure in with_polyp])
    if point.error > error_before:
        note = (
            f"links fitted on the reviews would count them off by {point.error:.2f} polyps, those "
            f"of the weights by {error_before:.2f}: the weights keep theirs; review more procedures"
        )
        return before, [note]
    return replace(point, alarms=before.alarms, size=before.size, adenoma=before.adenoma), []


def _count_error(
    procedure: ProcedureTracklets, point: OperatingPoint, polyps: Mapping[str, int]
) -> int:
    """How many polyps an operating point counts a procedure off by; `polyps` are the true ones."""
    counted = identify(procedure.views, procedure.positions, point).names
    return abs(len(counted) - polyps[procedure.procedure_id])


def finished_procedures(desk: Desk) -> list[ProcedureTracklets]:
    """The finished procedures of a desk, with the corrected identities as their polyps.

    Their tracklets are those that a new count links: also what the reviewer rejected, of no polyp,
    and not what the model of false alarms rejected, even if the reviewer restored it.
    """
    finished = []
    for index, counted in enumerate(desk.count.procedures):
        solved = desk.solve(index)
        alarms = [alarm.tracklet_id for alarm in counted.alarms]
        rows = (~solved.table["whole"].is_in(alarms)).arg_true().to_list()
        if not solved.decided.done or not rows:
            continue
        polyps = [None if polyp is None else f"P{polyp + 1}" for polyp in solved.polyps]
        table = solved.table.with_columns(polyp_id=pl.Series(polyps, dtype=pl.String))[rows]
        views = views_to_link(desk.prepared, table, desk.row_vectors(solved.table)[rows])
        finished.append(ProcedureTracklets(counted.procedure_id, table, views))
    return finished
