"""From clusterings to the pages of a report."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from polyplink.associate import Clustering, Doubt, link_scores, time_gaps, uncertain
from polyplink.core.artefacts import machine
from polyplink.core.errors import PolyplinkError
from polyplink.data import SIMULATED
from polyplink.encoders import LoadedEncoder
from polyplink.jobs.clustering import Scene
from polyplink.jobs.operating import Operating
from polyplink.report import (
    OperatingPoint,
    Procedure,
    Provenance,
    Tracklet,
    Training,
    UncertainLink,
)
from polyplink.tracklets import Prepared

MOST_DOUBTS = 5  # per procedure
_CURVES = ("loss", "loss_labels", "loss_bags", "tau", "purity")


@dataclass(frozen=True)
class Linked:
    """One procedure after association.

    Attributes:
        scene: What went in.
        clustering: What came out, clusters numbered by first appearance in time.
        names: Name of every cluster.
        scores: How sure the place of every tracklet is (n,), in [0, 1]; NaN where not calibrated.
        doubts: Decisions most worth a look.
    """

    scene: Scene
    clustering: Clustering
    names: list[str]
    scores: np.ndarray
    doubts: list[Doubt]


def link(scene: Scene, operating: Operating) -> Linked:
    """Cluster a procedure at the operating point and say how sure the links are."""
    found = operating.setting.cluster(scene.V, scene.positions)
    order = np.lexsort((np.arange(len(found.labels)), scene.positions))
    places = {label: i for i, label in enumerate(dict.fromkeys(found.labels[order].tolist()))}
    labels = np.array([places[label] for label in found.labels.tolist()], dtype=np.int32)
    calibration = operating.calibration
    P = None
    if calibration is not None:
        P = calibration.probability(scene.V, time_gaps(scene.positions))
    return Linked(
        scene,
        Clustering(labels, found.converged),
        [f"P{i + 1}" for i in range(len(places))],
        link_scores(labels, P),
        uncertain(labels, P, MOST_DOUBTS),
    )


def _tracklets(linked: Linked, prepared: Prepared) -> tuple[Tracklet, ...]:
    crops = prepared.crops(linked.scene.procedure_id)
    rows = linked.scene.table.iter_rows(named=True)
    return tuple(
        Tracklet(
            tracklet_id=row["tracklet_id"],
            first=row["first_frame"],
            last=row["last_frame"],
            predicted=linked.names[label],
            polyp_id=row["polyp_id"],
            sureness=None if np.isnan(score) else float(score),
            crop=np.array(crops[row["crop_first"] + row["n_crops"] // 2]),  # its middle
        )
        for row, label, score in zip(rows, linked.clustering.labels, linked.scores, strict=True)
    )


def _procedure_row(prepared: Prepared, procedure_id: str) -> dict[str, Any]:
    return prepared.data.procedures.row(
        by_predicate=pl.col("procedure_id") == procedure_id, named=True
    )


def _true_polyps(prepared: Prepared, procedure_id: str) -> int | None:
    """Polyps of a procedure, those without a tracklet included; None where none is known."""
    table = prepared.data.polyps
    if table.is_empty():
        return None
    return table.filter(pl.col("procedure_id") == procedure_id).height


def procedure_page(linked: Linked, prepared: Prepared, operating: Operating) -> Procedure:
    """One procedure as the report shows it."""
    scene = linked.scene
    row = _procedure_row(prepared, scene.procedure_id)
    ids = scene.table["tracklet_id"].to_list()
    return Procedure(
        procedure_id=scene.procedure_id,
        n_frames=row["n_frames"],
        tracklets=_tracklets(linked, prepared),
        fps=row["fps"],
        n_polyps=_true_polyps(prepared, scene.procedure_id),
        similarity=operating.setting.similarity(scene.V, scene.positions),
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


def empty_page(procedure_id: str, prepared: Prepared) -> Procedure:
    """A procedure in which nothing was long enough to be a tracklet."""
    row = _procedure_row(prepared, procedure_id)
    true = _true_polyps(prepared, procedure_id)
    return Procedure(procedure_id, row["n_frames"], (), fps=row["fps"], n_polyps=true)


def pages(linked: Sequence[Linked], prepared: Prepared, operating: Operating) -> list[Procedure]:
    """All procedures of `prepared`, in its order, those without tracklets included."""
    found = {one.scene.procedure_id: one for one in linked}
    return [
        procedure_page(found[name], prepared, operating)
        if name in found
        else empty_page(name, prepared)
        for name in prepared.procedures
    ]


def provenance(prepared: Prepared, loaded: LoadedEncoder) -> Provenance:
    """What a report was made from, and on what."""
    names = prepared.data.procedures["dataset"].unique().sort().to_list()
    here = machine()
    seed = loaded.record.recipe.get("seed")
    return Provenance(
        dataset=", ".join(names),
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        machine=f"{here['system']}, {here['processor']}, {here['cores']} cores",
        weights=loaded.weights_id,
        crops=prepared.key,
        seed=seed if isinstance(seed, int) else None,
        simulated=any(name.startswith(SIMULATED) for name in names),
    )


def operating_point(operating: Operating) -> OperatingPoint:
    """The operating point as the report shows it."""
    setting = operating.setting
    values = {"alpha": setting.alpha, "gamma": setting.gamma, "preference": setting.preference}
    return OperatingPoint("temporal affinity propagation", values, operating.origin)


def training_curves(weights: Path, loaded: LoadedEncoder) -> Training | None:
    """The curves of the run that made the weights, where its history lies beside them."""
    path = weights.parent / "history.csv"
    if not path.is_file():
        return None
    try:
        with path.open(newline="") as file:
            rows = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]
        curves = {name: tuple(row[name] for row in rows) for name in _CURVES}
    except (KeyError, ValueError, TypeError, csv.Error):
        raise PolyplinkError(
            f"{path} is no history of a training run", "remove it; a report does without"
        ) from None
    selected = loaded.record.origin.get("selected_by")
    watched = "loss_bags" if selected == "bags" else "loss_labels"
    best = loaded.record.origin.get("epoch")
    return Training(
        loss=curves["loss"],
        validation_loss=curves[watched],
        tau=curves["tau"],
        purity=curves["purity"],
        best_epoch=None if best is None else int(best),
    )
