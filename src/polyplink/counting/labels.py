"""Polyps of tracklets: from annotated boxes, or pseudo-labels from links without labels.

A count of a detector's boxes is compared with annotated boxes of the same procedures.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from polyplink.associate.links import NotFitted, fit_unlabelled, unlabelled_price
from polyplink.associate.partition import partition
from polyplink.core.artefacts import content_key, to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.counting.link import by_procedure, with_unknown_polyps
from polyplink.data.tables import read_data
from polyplink.evaluate.chain import chain_figures, match_tracklets, score_procedure
from polyplink.tracklets.box_runs import box_rows
from polyplink.tracklets.prepare import Prepared

if TYPE_CHECKING:
    from polyplink.encoders.encode import Encoded


def true_boxes_of(truth: Path, procedures: Sequence[str]) -> dict[str, pl.DataFrame]:
    """The annotated boxes of procedures in a data folder.

    Raises:
        PolyplinkError: If a procedure is not in the data folder, or has an annotated box of no
            known polyp, where tracklets would count as false alarms.
    """
    data = read_data(truth)
    annotated = set(data.procedures["procedure_id"])
    missing = [name for name in procedures if name not in annotated]
    if missing:
        raise PolyplinkError(
            f"{truth} has no procedure {next(iter(missing), '')!r}; its procedures are "
            f"{', '.join(sorted(annotated)[:3])}{', ...' if len(annotated) > 3 else ''}",
            "give --truth the annotations of the same recordings, under the same procedure ids "
            "(`polyplink doctor DATA` lists those of a data folder)",
        )
    unknown = sorted(with_unknown_polyps(data).intersection(procedures))
    if unknown:
        raise PolyplinkError(
            f"{truth}: procedure {unknown[0]!r} has annotated boxes without a polyp id",
            "give --truth annotations with the polyp of every box, or choose procedures that have "
            "them with --part",
        )
    return {name: data.detections.filter(procedure_id=name) for name in procedures}


def with_truth(prepared: Prepared, truth: Path) -> Prepared:
    """Set the true polyp of a detector's tracklets, null for false alarms.

    Args:
        prepared: The tracklets.
        truth: Data folder with annotated boxes of the same procedures.

    Raises:
        PolyplinkError: If a procedure is not in the data folder `truth`.
    """
    true_boxes = true_boxes_of(truth, prepared.procedures)
    rows, tracklet = box_rows(prepared.tracklets)
    boxes = prepared.detections[rows].with_columns(tracklet=pl.Series(tracklet))
    matched = [
        match_tracklets(true_boxes[name], boxes.filter(procedure_id=name)) for name in true_boxes
    ]
    polyps = pl.concat(matched).sort("tracklet")["polyp_id"]
    return replace(prepared, tracklets=prepared.tracklets.with_columns(polyp_id=polyps))


def with_pseudo_labels(prepared: Prepared, encoded: "Encoded") -> Prepared:
    """Replace the polyps of tracklets by pseudo-labels from links fitted without labels.

    A second encoder can be trained on them where polyps are not annotated: clusters as labels
    (DeepCluster, Caron et al. 2018), here from links that use the order of tracklets.

    Args:
        prepared: The tracklets.
        encoded: Vectors of the same tracklets by one encoder.

    Raises:
        PolyplinkError: If the vectors are of other tracklets, or no links can be fitted.
    """
    ids = "tracklet_id"
    name, embeddings = next(iter(encoded.embeddings.items()))
    if encoded.prepared.tracklets[ids].to_list() != prepared.tracklets[ids].to_list():
        raise PolyplinkError(
            f"{name} was trained on tracklets with other settings than the recipe's",
            "give the settings of its training with --min-length, --max-gap and --min-iou",
        )

    # Links without labels, and the partitions under them.
    procedures = by_procedure(encoded.prepared, embeddings)
    several = [procedure.views for procedure in procedures if procedure.table.height > 1]
    try:
        model, price = fit_unlabelled(several), unlabelled_price(several)
    except NotFitted as error:
        raise PolyplinkError(
            f"{name} gives no pseudo-labels: {error}", "give more procedures"
        ) from None
    labelled = []
    for procedure in procedures:
        (clusters,) = partition(model.probability(procedure.views), [price])
        polyp_id = pl.lit(f"{procedure.procedure_id}/") + pl.Series(clusters).cast(str)
        labelled.append(procedure.table.select(ids, polyp_id=polyp_id))

    # They take the place of the polyps.
    tracklets = prepared.tracklets.drop("polyp_id").join(
        pl.concat(labelled), on=ids, how="left", maintain_order="left"
    )
    ends = pl.col("first_frame").min(), pl.col("last_frame").max()
    spans = tracklets.group_by("procedure_id", "polyp_id").agg(*ends).sort(pl.all())
    return replace(
        prepared,
        tracklets=tracklets.select(prepared.tracklets.columns),
        spans=replace(prepared.spans, polyps=spans),
        key=content_key(prepared.key, tracklets["polyp_id"].to_list()),
    )


def compare_with_truth(truth: Path, boxes: pl.DataFrame, prepared: Prepared) -> dict[str, Any]:
    """Compare tracked boxes with annotated ones: overall figures, and a row per procedure.

    Raises:
        PolyplinkError: If a procedure is not in the data folder `truth`.
    """
    truth_boxes = true_boxes_of(truth, prepared.procedures)
    rows = [
        score_procedure(name, annotated, boxes.filter(pl.col("procedure_id") == name))
        for name, annotated in truth_boxes.items()
    ]
    plain = [{k: v for k, v in to_plain(row).items() if k != "counts"} for row in rows]
    return {"figures": chain_figures(rows), "procedures": plain}
