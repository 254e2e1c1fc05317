"""The report of `count` and `evaluate`: one page from linked procedures."""

import csv
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from polyplink.app.encoded import Encoded
from polyplink.app.operating_point import Linked, OperatingPoint
from polyplink.core.artefacts import machine, to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.data import SIMULATED
from polyplink.encoders import WeightsRecord, weights_path
from polyplink.report import (
    Comparison,
    Procedure,
    Provenance,
    Report,
    Tracklet,
    Training,
    UncertainLink,
)
from polyplink.report import OperatingPoint as ShownPoint
from polyplink.tracklets import Prepared

_CURVES = ("loss", "loss_labels", "loss_bags", "tau", "purity")


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
    """
    prepared, record = encoded.prepared, encoded.first.record
    assert record is not None
    found = {one.tracklets.procedure_id: one for one in linked}
    setting = point.setting
    values = {"alpha": setting.alpha, "gamma": setting.gamma, "preference": setting.preference}
    return Report(
        title=title,
        provenance=_provenance(prepared, encoded.first.key, record),
        procedures=tuple(
            _procedure(name, found.get(name), prepared, point) for name in prepared.procedures
        ),
        comparison=comparison,
        training=_training_curves(weights_path(weights), record),
        operating_point=ShownPoint("temporal affinity propagation", values, point.origin),
        settings={name: str(value) for name, value in to_plain(prepared.settings).items()},
        seconds=seconds,
        notes=notes,
        warnings=link_warnings(point, linked) + warnings,
    )


def link_warnings(point: OperatingPoint, linked: Sequence[Linked]) -> tuple[str, ...]:
    """Warnings about timelines and links."""
    said = []
    if point.calibration is None:
        said.append(f"Links carry no sureness ({point.origin}).")
    failed = [one.tracklets.procedure_id for one in linked if not one.clustering.converged]
    if failed:
        said.append(f"Affinity propagation did not converge in {', '.join(failed)}.")
    return tuple(said)


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
    tracklets = linked.tracklets
    ids = tracklets.table["tracklet_id"].to_list()
    return Procedure(
        procedure_id=procedure_id,
        n_frames=row["n_frames"],
        tracklets=_tracklets(linked, prepared),
        fps=row["fps"],
        n_polyps=known,
        similarity=point.setting.similarity(tracklets.V, tracklets.positions),
        converged=linked.clustering.converged,
        uncertain=tuple(
            UncertainLink(
                members=tuple(ids[i] for i in doubt.members),
                others=tuple(ids[i] for i in doubt.others),
                joined=doubt.joined,
                sureness=1.0 - doubt.doubt,
            )
            for doubt in linked.doubts
        ),
    )


def _tracklets(linked: Linked, prepared: Prepared) -> tuple[Tracklet, ...]:
    crops = prepared.crops(linked.tracklets.procedure_id)
    rows = linked.tracklets.table.iter_rows(named=True)
    return tuple(
        Tracklet(
            tracklet_id=row["tracklet_id"],
            first=row["first_frame"],
            last=row["last_frame"],
            predicted=linked.names[label],
            polyp_id=row["polyp_id"],
            sureness=None if np.isnan(score) else float(score),
            crop=np.array(crops[row["crop_first"] + row["n_crops"] // 2]),  # the middle one
        )
        for row, label, score in zip(rows, linked.clustering.labels, linked.scores, strict=True)
    )


def _provenance(prepared: Prepared, key: str, record: WeightsRecord) -> Provenance:
    """Provenance of the report: data, weights and machine."""
    names = prepared.data.procedures["dataset"].unique().sort().to_list()
    here = machine()
    seed = record.recipe.get("seed")
    return Provenance(
        dataset=", ".join(names),
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        machine=f"{here['system']}, {here['processor']}, {here['cores']} cores",
        weights=key,
        crops=prepared.key,
        seed=seed if isinstance(seed, int) else None,
        simulated=any(name.startswith(SIMULATED) for name in names),
    )


def _training_curves(weights: Path, record: WeightsRecord) -> Training | None:
    """Training curves, if the history.csv of the run is in the folder of the weights."""
    path = weights.parent / "history.csv"
    if not path.is_file():
        return None
    try:
        with path.open(newline="") as file:
            rows = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]
        curves = {name: tuple(row[name] for row in rows) for name in _CURVES}
    except (KeyError, ValueError, TypeError, csv.Error):
        raise PolyplinkError(
            f"{path} is no history of a training run", "remove it; the report does not need it"
        ) from None
    watched = "loss_bags" if record.origin.get("selected_by") == "bags" else "loss_labels"
    best = record.origin.get("epoch")
    return Training(
        loss=curves["loss"],
        validation_loss=curves[watched],
        tau=curves["tau"],
        purity=curves["purity"],
        best_epoch=None if best is None else int(best),
    )
