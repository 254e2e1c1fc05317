"""From vectors to identities: the operating point, every procedure linked at it, and their report.

The operating point is the setting of temporal affinity propagation that a count uses, and the
calibration of its links. It is chosen once, on the validation procedures of a training run, and is
stored in the weights.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from pydantic import TypeAdapter, ValidationError

from polyplink.app.encoded import Encoded
from polyplink.associate import (
    Calibration,
    Clustering,
    Doubt,
    TemporalAP,
    VisualForm,
    fit_calibration,
    labelled_pairs,
    link_scores,
    paper_grid,
    search,
    time_gaps,
    uncertain,
    visual,
)
from polyplink.core.artefacts import machine, to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.data import SIMULATED
from polyplink.encoders import Embeddings, weights_path
from polyplink.evaluate import choose, count_procedure
from polyplink.report import Comparison, Procedure, Report, Tracklet
from polyplink.report.formats import VISUAL
from polyplink.tracklets import Prepared

UNTUNED = TemporalAP(alpha=0.5, gamma=1.0, preference=0.0)  # near the middle of the papers' grid
MOST_DOUBTS = 5  # links listed for review, per procedure


@dataclass(frozen=True)
class ProcedureTracklets:
    """One procedure's tracklets, ready to be linked.

    Attributes:
        procedure_id: Its name.
        table: Its n rows of the tracklets table.
        V: Visual similarity (n, n), in [0, 1].
        positions: First frames relative to the procedure's annotated span (n,), in [0, 1].
    """

    procedure_id: str
    table: pl.DataFrame
    V: np.ndarray
    positions: np.ndarray

    @property
    def polyps(self) -> list[str | None]:
        """True polyp of every tracklet, None where unknown."""
        return self.table["polyp_id"].to_list()


def by_procedure(
    prepared: Prepared, embeddings: Embeddings, form: VisualForm
) -> list[ProcedureTracklets]:
    """Join tracklets and vectors, and group them by procedure; empty procedures are left out.

    Args:
        prepared: The tracklets.
        embeddings: Vectors of (at least) these tracklets, in any order.
        form: Form of the visual similarity.

    Raises:
        PolyplinkError: If a tracklet has no vector.
    """
    row = {name: i for i, name in enumerate(embeddings.tracklet_ids)}
    found = []
    for procedure_id in prepared.procedures:
        table = prepared.tracklets.filter(pl.col("procedure_id") == procedure_id)
        if table.is_empty():
            continue
        missing = [name for name in table["tracklet_id"] if name not in row]
        if missing:
            raise PolyplinkError(f"tracklet {missing[0]} has no vector", "embed the data set again")
        vectors = embeddings.vectors[[row[name] for name in table["tracklet_id"]]]  # n d
        V, positions = visual(vectors, form), table["position"].to_numpy()
        found.append(ProcedureTracklets(procedure_id, table, V, positions))
    return found


@dataclass(frozen=True)
class OperatingPoint:
    """The setting for counting, and the calibration of link probabilities.

    Attributes:
        setting: Of temporal affinity propagation.
        calibration: Maps similarities to probabilities; None without labels.
        origin: Origin of both, as a sentence for reports.
        form: Form of the visual similarity that the setting was chosen for.
    """

    setting: TemporalAP
    calibration: Calibration | None
    origin: str
    form: VisualForm = "l2"


def untuned(why: str) -> OperatingPoint:
    """The operating point without labels: a fixed setting and no probabilities."""
    return OperatingPoint(UNTUNED, None, f"not tuned: {why}")


def from_record(record: Mapping[str, Any] | None) -> OperatingPoint:
    """The operating point stored in weights.

    Raises:
        PolyplinkError: If it is broken.
    """
    if record is None:
        return untuned("the weights contain no operating point")
    try:
        return TypeAdapter(OperatingPoint).validate_python(dict(record))
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise PolyplinkError(f"broken operating point ({reason})", "train again") from None


def find_operating_point(
    held_out: Sequence[ProcedureTracklets], form: VisualForm = "l2", threads: int = 1
) -> OperatingPoint:
    """Choose the setting by the papers' rule and calibrate the links, on labelled procedures.

    Chosen is the setting whose FPR (mean over the procedures with two polyps or more) is nearest
    to 0.05, among equals the one with the lowest FR (Temporally-Aware Polyp Counting, section 3).

    Args:
        held_out: Procedures that were not trained on; those without labels are left out.
        form: Form of the visual similarity.
        threads: Threads of the search.
    """
    labelled = [one for one in held_out if any(polyp is not None for polyp in one.polyps)]
    if not labelled:
        return untuned("no held-out procedure has known polyps")
    grid = paper_grid().only(["temporal_ap"])
    counts = [
        count_procedure(
            search(one.V, one.positions, grid, threads=threads)["temporal_ap"].labels,
            one.polyps,
            one.procedure_id,
        )
        for one in labelled
    ]
    choice = choose(counts)
    names = ", ".join(one.procedure_id for one in labelled)
    if choice.rule == "one_polyp_each":
        return untuned(f"no held-out procedure ({names}) has two polyps or more")
    pairs = [labelled_pairs(one.V, time_gaps(one.positions), one.polyps) for one in labelled]
    fitted = fit_calibration(pairs)
    calibration = None if isinstance(fitted, str) else fitted
    origin = (
        f"chosen on the held-out procedures {names}: FPR {choice.fpr:.3f} (nearest to 0.05), "
        f"FR {choice.fr:.2f}"
    )
    if calibration is None:
        origin += f"; links are not calibrated, because {fitted}"
    return OperatingPoint(grid.temporal_ap()[choice.row], calibration, origin, form)


@dataclass(frozen=True)
class Linked:
    """One procedure's tracklets with their identities.

    Attributes:
        tracklets: What was linked.
        clustering: Identity of every tracklet, numbered by first appearance in time.
        names: Name of every identity ("P1").
        scores: Probability that a tracklet is assigned correctly (n,); NaN where not calibrated.
        doubts: The decisions most worth a review.
    """

    tracklets: ProcedureTracklets
    clustering: Clustering
    names: list[str]
    scores: np.ndarray
    doubts: list[Doubt]


def link(tracklets: ProcedureTracklets, point: OperatingPoint) -> Linked:
    """Cluster a procedure at the operating point."""
    V, positions = tracklets.V, tracklets.positions
    found = point.setting.cluster(V, positions)
    order = np.lexsort((np.arange(len(found.labels)), positions))
    places = {label: i for i, label in enumerate(dict.fromkeys(found.labels[order].tolist()))}
    labels = np.array([places[label] for label in found.labels.tolist()], dtype=np.int32)
    calibration = point.calibration
    P = None if calibration is None else calibration.probability(V, time_gaps(positions))
    return Linked(
        tracklets,
        Clustering(labels, found.converged),
        [f"P{i + 1}" for i in range(len(places))],
        link_scores(labels, P),
        uncertain(labels, P, MOST_DOUBTS),
    )


def link_all(prepared: Prepared, embeddings: Embeddings, point: OperatingPoint) -> list[Linked]:
    """Link every procedure that has tracklets."""
    return [link(one, point) for one in by_procedure(prepared, embeddings, point.form)]


def linked_boxes(prepared: Prepared, linked: Sequence[Linked]) -> pl.DataFrame:
    """The boxes of linked tracklets.

    Returns:
        procedure_id, frame, x, y, w, h, score, polyp and tracklet (both from 1 in a procedure).
    """
    rows, polyps, tracklets = ([np.zeros(0, np.int64)] for _ in range(3))
    for one in linked:
        table = one.tracklets.table
        offset, n = (table[name].to_numpy().astype(np.int64) for name in ("offset", "n"))
        within = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)
        rows.append(np.repeat(offset, n) + within)
        polyps.append(np.repeat(one.clustering.labels.astype(np.int64) + 1, n))
        tracklets.append(np.repeat(np.arange(len(n)) + 1, n))
    found = prepared.detections[np.concatenate(rows)]
    columns = ("procedure_id", "frame", "x", "y", "w", "h", "score")
    return found.select(
        *columns,
        polyp=pl.Series(np.concatenate(polyps)),
        tracklet=pl.Series(np.concatenate(tracklets)),
    )


def build_report(
    title: str,
    weights: Path,
    encoded: Encoded,
    point: OperatingPoint,
    linked: Sequence[Linked],
    *,
    seconds: Mapping[str, float],
    comparison: Comparison | None = None,
    notes: tuple[str, ...] = (),
    warnings: tuple[str, ...] = (),
) -> Report:
    """The page of a count or an evaluation.

    Args:
        title: Headline.
        weights: As the user gave them; a training history in the same folder is shown.
        encoded: The part and its vectors.
        point: The operating point that it was linked at.
        linked: Its procedures; those without tracklets are missing here and shown as empty.
        seconds: Time per stage.
        comparison: Table of methods, where there is one.
        notes: Notes.
        warnings: Warnings, in addition to those about the links.

    Raises:
        PolyplinkError: If the training history is broken.
    """
    prepared, record = encoded.prepared, encoded.first.record
    assert record is not None
    found = {one.tracklets.procedure_id: one for one in linked}
    names = prepared.data.procedures["dataset"].unique().sort().to_list()
    here, seed, setting = machine(), record.recipe.get("seed"), point.setting
    watched = "loss_bags" if record.origin.get("selected_by") == "bags" else "loss_labels"
    curves = _training_curves(weights_path(weights).parent, watched)
    best = record.origin.get("epoch")
    said = []
    if point.calibration is None:
        said.append(f"Links carry no sureness ({point.origin}).")
    failed = [one.tracklets.procedure_id for one in linked if not one.clustering.converged]
    if failed:
        said.append(f"Affinity propagation did not converge in {', '.join(failed)}.")
    return Report(
        title=title,
        dataset=", ".join(names),
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        machine=f"{here['system']}, {here['processor']}, {here['cores']} cores",
        weights=encoded.first.key,
        crops=prepared.key,
        seed=seed if isinstance(seed, int) else None,
        simulated=any(name.startswith(SIMULATED) for name in names),
        procedures=tuple(
            _procedure(name, found.get(name), prepared, point) for name in prepared.procedures
        ),
        comparison=comparison,
        curves=curves,
        best_epoch=int(best) if curves and best is not None else None,
        operating_point={
            "method": "temporal affinity propagation",
            "alpha": setting.alpha,
            "gamma": setting.gamma,
            "preference": setting.preference,
            "visual similarity": VISUAL[point.form],
            "chosen": point.origin,
        },
        settings={name: str(value) for name, value in to_plain(prepared.settings).items()},
        seconds=seconds,
        notes=notes,
        warnings=(*said, *warnings),
    )


def _procedure(
    procedure_id: str, linked: Linked | None, prepared: Prepared, point: OperatingPoint
) -> Procedure:
    """One procedure as the report shows it; without tracklets it is an empty time line."""
    row: dict[str, Any] = prepared.data.procedures.row(
        by_predicate=pl.col("procedure_id") == procedure_id, named=True
    )
    polyps = prepared.data.polyps
    # Polyps without a tracklet are counted too; where no polyp is known there is no number.
    known = None if polyps.is_empty() else polyps.filter(procedure_id=procedure_id).height
    if linked is None:
        return Procedure(procedure_id, row["n_frames"], (), fps=row["fps"], n_polyps=known)
    tracklets, crops = linked.tracklets, prepared.crops(procedure_id)
    of_each = zip(linked.clustering.labels, linked.scores, strict=True)
    return Procedure(
        procedure_id=procedure_id,
        n_frames=row["n_frames"],
        tracklets=tuple(
            Tracklet(
                tracklet_id=one["tracklet_id"],
                first=one["first_frame"],
                last=one["last_frame"],
                predicted=linked.names[label],
                polyp_id=one["polyp_id"],
                sureness=None if np.isnan(score) else float(score),
                crop=np.array(crops[one["crop_first"] + one["n_crops"] // 2]),  # the middle one
                bridged=one["bridged"],
            )
            for one, (label, score) in zip(
                tracklets.table.iter_rows(named=True), of_each, strict=True
            )
        ),
        fps=row["fps"],
        n_polyps=known,
        similarity=point.setting.similarity(tracklets.V, tracklets.positions),
        converged=linked.clustering.converged,
        uncertain=tuple(linked.doubts),
    )


def _training_curves(folder: Path, watched: str) -> dict[str, tuple[float, ...]]:
    """Curves of the report from the history.csv of a training run; none without the file."""
    path = folder / "history.csv"
    if not path.is_file():
        return {}
    columns = {"loss": "loss", "validation_loss": watched, "tau": "tau", "purity": "purity"}
    try:
        with path.open(newline="") as file:
            rows = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]
        return {name: tuple(row[column] for row in rows) for name, column in columns.items()}
    except (KeyError, ValueError, TypeError, csv.Error):
        raise PolyplinkError(
            f"{path} is no history of a training run", "remove it; the report does not need it"
        ) from None
