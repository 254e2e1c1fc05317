"""The verb `count`: number of polyps, groups of tracklets, probabilities, and a report."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from polyplink import __version__
from polyplink.app.request import (
    Data,
    Device,
    Out,
    Progress,
    Result,
    TrackletOptions,
    Weights,
    Workers,
    silent,
)
from polyplink.core.artefacts import RunRecord, to_plain, write_json, write_text
from polyplink.core.errors import PolyplinkError

if TYPE_CHECKING:
    import polars as pl

    from polyplink.app.encoded import Encoded
    from polyplink.app.linked import Linked
    from polyplink.evaluate import Figure
    from polyplink.report import Report
    from polyplink.tracklets import Prepared, PrepareSettings


# Columns of assignment.parquet, and of the views that they are taken from.
ASSIGNMENT = {
    "procedure": "procedure_id",
    "tracklet": "tracklet_id",
    "polyp": "label",
    "probability": "score",
    "converged": "converged",
}


@dataclass(frozen=True)
class CountRequest(TrackletOptions):
    """What to count, and with which weights."""

    weights: Weights
    data: Data
    out: Out = Path("count")
    part: Annotated[str | None, Option(help="Part of the data set; all by default.")] = None
    truth: Annotated[
        Path | None,
        Option(help="Data folder with annotated boxes of the same procedures, to compare with."),
    ] = None
    device: Device = "auto"
    workers: Workers = 2


@dataclass(frozen=True)
class Counted:
    """A finished count.

    Attributes:
        report: The report's file.
        page: Its contents.
        summary: What count.json holds.
        boxes: The linked boxes: procedure_id, frame, x, y, w, h, score, polyp and
            tracklet (both from 1 in a procedure).
    """

    report: Path
    page: "Report"
    summary: dict[str, Any]
    boxes: "pl.DataFrame"


def count(request: CountRequest, progress: Progress = silent) -> Result[Counted]:
    """Count the polyps of every procedure; writes count.json, tables and a report.

    Procedures are linked at the operating point stored in the weights. True polyps are shown where
    they are known and are not used.

    Args:
        request: Weights, data folder and output folder, which gets count.json, counts.csv,
            assignment.parquet, report.html and run.json.
        progress: Called for crops and tracklets.

    Raises:
        PolyplinkError: If weights, data folder or an image is at fault.
    """
    import polars as pl

    from polyplink.app.encoded import encode, load_named
    from polyplink.app.linked import build_report, from_record, link_all, linked_boxes
    from polyplink.data import write_table
    from polyplink.report import count_table, write_report
    from polyplink.report.formats import figure_text
    from polyplink.tracklets import lost_boxes

    weights, out = request.weights, request.out
    record = RunRecord("count", settings={"weights": weights, "part": request.part})
    record.claim(out)
    with record.stage("embed"):
        encoder = load_named(weights, request.device, tracklets=request)
        encoded = encode(
            [encoder], request.data, request.part, workers=request.workers, progress=progress
        )
    prepared, own = encoded.prepared, encoder.record
    assert own is not None
    record.inputs |= {"weights": encoder.key, "crops": prepared.key}
    point = from_record(own.operating)
    with record.stage("associate"):
        linked = link_all(prepared, encoded.embeddings[encoder.name], point)
    lost = lost_boxes(prepared)
    warnings, notes = _said(encoded, linked, lost)
    page = build_report(
        "Polyp count",
        weights,
        encoded,
        point,
        linked,
        seconds=record.seconds,
        notes=tuple(notes),
        warnings=tuple(warnings),
    )
    found = {one.tracklets.procedure_id: one for one in linked}
    procedures = [_counted(name, found.get(name)) for name in prepared.procedures]
    summary = {
        "polyplink": __version__,
        "weights": encoder.key,
        "crops": prepared.key,
        "operating_point": to_plain(point),
        "tracklets": to_plain(prepared.settings),
        "lost_boxes": lost,
        "warnings": list(page.warnings),
        "polyps": sum(p["polyps"] for p in procedures),
        "procedures": procedures,
    }
    boxes = linked_boxes(prepared, linked)
    compared = None if request.truth is None else _compare(request.truth, boxes, prepared)
    if compared is not None:
        figures, compared_rows = compared
        summary["against_truth"] = {"figures": to_plain(figures), "procedures": compared_rows}
    report = out / "report.html"
    with record.stage("report"):
        write_json(out / "count.json", summary)
        counts = {"procedure_id": pl.String, "polyps": pl.Int64, "tracklets": pl.Int64}
        table = pl.DataFrame(procedures, schema=counts | {"converged": pl.Boolean})
        write_text(out / "counts.csv", table.write_csv())
        views = _views(prepared.data.procedures, linked)
        write_text(out / "views.csv", views.drop("converged").write_csv())
        assigned = views.select(*ASSIGNMENT).rename(ASSIGNMENT)
        write_table(out / "assignment.parquet", assigned)
        write_report(report, page)
    record.write(out)
    shown = [count_table(page), *notes]
    if compared is not None:
        shown += [f"{name}: {figure_text(figure)}" for name, figure in compared[0].items()]
    counted = Counted(report, page, summary, boxes)
    if point.calibration is None:
        mend = "train with labelled procedures held out to tune counts and probabilities"
        warnings.append(f"operating point: {point.origin}; {mend}")
    return Result(counted, summary, [*shown, f"report: {report}"], warnings)


def _compare(
    truth: Path, boxes: "pl.DataFrame", prepared: "Prepared"
) -> "tuple[Mapping[str, Figure], list[dict[str, Any]]]":
    """Figures against annotated boxes, and a row for each procedure.

    Raises:
        PolyplinkError: If a procedure is not annotated there.
    """
    import polars as pl

    from polyplink.data import read_data
    from polyplink.evaluate import chain_figures, score_procedure

    known = read_data(truth)
    there = set(known.procedures["procedure_id"])
    strange = [name for name in prepared.procedures if name not in there]
    PolyplinkError.unless(
        not strange, f"{truth} has no procedure {strange[:1]}", "give the annotations of these"
    )
    rows = [
        score_procedure(
            name,
            known.detections.filter(pl.col("procedure_id") == name),
            boxes.filter(pl.col("procedure_id") == name),
        )
        for name in prepared.procedures
    ]
    plain = [{k: v for k, v in to_plain(row).items() if k != "counts"} for row in rows]
    return chain_figures(rows), plain


def _said(
    encoded: "Encoded", linked: "Sequence[Linked]", lost: Mapping[str, int]
) -> tuple[list[str], list[str]]:
    """Warnings about the count, and notes: what was left out, and why a count is 0."""
    from polyplink.app.leakage import seen_procedures
    from polyplink.data import SIMULATED

    prepared, own = encoded.prepared, encoded.first.record
    assert own is not None
    warnings = []
    met = [name for name, _ in seen_procedures(own.seen, prepared.data, prepared.procedures)]
    if met:
        warnings.append(
            f"The encoder was trained or validated on {len(met)} of these procedures "
            f"({met[0]}, ...): their counts are optimistic."
        )
    sets = [dataset for dataset, *_ in own.seen.trained]
    real = [name for name in prepared.data.procedures["dataset"] if not name.startswith(SIMULATED)]
    if real and sets and all(name.startswith(SIMULATED) for name in sets):
        warnings.append(
            f"The encoder was trained on simulated pictures, and {real[0]} is not simulated: do "
            "not rely on this count."
        )
    lines = lost_lines(lost, prepared.settings)
    counted = {one.tracklets.procedure_id for one in linked}
    empty = [name for name in prepared.procedures if name not in counted]
    if empty:
        named = ", ".join(empty[:3]) + (", ..." if len(empty) > 3 else "")
        boxed = prepared.data.detections["procedure_id"].is_in(empty).any()
        why = "; ".join(lines) if boxed else "there is no box in them"
        warnings.append(f"Counted 0 in {len(empty)} procedures ({named}): {why}.")
    return warnings, [f"Boxes left out: {'; '.join(lines)}."] if lines else []


def lost_lines(lost: Mapping[str, int], settings: "PrepareSettings") -> list[str]:
    """What was left out, how much, and the option that keeps it.

    Args:
        lost: From `polyplink.tracklets.lost_boxes`.
        settings: The settings that left it out.

    Example:
        >>> from polyplink.tracklets import PrepareSettings
        >>> lost = {"boxes": 90, "min_length": 9, "min_seconds": 0, "low": 0}
        >>> lost_lines(lost, PrepareSettings())
        ['9 of 90 boxes in tracklets of fewer than 30 boxes (--min-length)']
    """
    why = {
        "min_length": f"in tracklets of fewer than {settings.min_length} boxes (--min-length)",
        "min_seconds": f"in tracks shorter than {settings.min_seconds:g} s (--min-seconds)",
        "low": f"with scores below {settings.tracks.low:g} (--low)",
    }
    return [f"{lost[name]} of {lost['boxes']} boxes {why[name]}" for name in why if lost[name]]


def _views(procedures: "pl.DataFrame", linked: "Sequence[Linked]") -> "pl.DataFrame":
    """One row for each view of a polyp: when it begins and ends, and how sure it is.

    Returns:
        procedure, polyp, tracklet, start_s, end_s (seconds; null where the rate is not known),
        start_frame, end_frame (the last one), probability, bridged (share of its frames without a
        box), and whether the procedure's clustering converged, in the order of time.
    """
    import polars as pl

    fps = pl.col("procedure").replace_strict(dict(procedures.select("procedure_id", "fps").rows()))
    start, end = pl.col("start_frame"), pl.col("end_frame")
    schema = dict.fromkeys(("procedure", "polyp", "tracklet"), pl.String())
    frames = dict.fromkeys(("start_frame", "end_frame"), pl.Int32())
    sure = {"probability": pl.Float64(), "bridged": pl.Float64(), "converged": pl.Boolean()}
    tables = [pl.DataFrame(schema={**schema, **frames, **sure})]
    for one in linked:
        table = one.tracklets.table
        probability = pl.Series(one.scores, dtype=pl.Float64).fill_nan(None).round(4)
        polyps = [one.names[label] for label in one.clustering.labels]
        rows = table.select(
            procedure="procedure_id",
            polyp=pl.Series(polyps, dtype=pl.String),
            tracklet="tracklet_id",
            start_frame="first_frame",
            end_frame="last_frame",
            probability=probability,
            bridged=pl.col("bridged").round(4),
            converged=pl.lit(one.clustering.converged),
        )
        tables.append(rows.sort("start_frame", maintain_order=True))
    return pl.concat(tables).select(
        *schema,
        start_s=(start / fps).round(2),
        end_s=((end + 1) / fps).round(2),
        start_frame="start_frame",
        end_frame="end_frame",
        probability="probability",
        bridged="bridged",
        converged="converged",
    )


def _counted(name: str, linked: "Linked | None") -> dict[str, Any]:
    """What count.json holds of a procedure: its polyps with their tracklets, and what to review."""
    found: dict[str, Any] = {"procedure_id": name, "polyps": 0, "tracklets": 0, "converged": None}
    if linked is None:
        return found | {"groups": [], "to_look_at": []}
    rows = list(linked.tracklets.table.iter_rows(named=True))
    tracklets = [
        {
            "tracklet_id": row["tracklet_id"],
            "first_frame": row["first_frame"],
            "last_frame": row["last_frame"],
            "sureness": _or_none(score),
            "bridged": round(row["bridged"], 4),
        }
        for row, score in zip(rows, linked.scores, strict=True)
    ]
    labels = linked.clustering.labels.tolist()
    return found | {
        "polyps": len(linked.names),
        "tracklets": len(rows),
        "converged": linked.clustering.converged,
        "groups": [
            {
                "polyp": polyp,
                "tracklets": [t for t, own in zip(tracklets, labels, strict=True) if own == place],
            }
            for place, polyp in enumerate(linked.names)
        ],
        "to_look_at": [
            {
                "members": [rows[i]["tracklet_id"] for i in doubt.members],
                "others": [rows[i]["tracklet_id"] for i in doubt.others],
                "joined": doubt.joined,
                "probability_of_one_polyp": round(doubt.probability, 4),
            }
            for doubt in linked.doubts
        ],
    }


def _or_none(score: float) -> float | None:
    return None if math.isnan(score) else round(float(score), 4)
