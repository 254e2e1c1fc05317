"""The verb `count`: number of polyps, groups of tracklets, probabilities, and a report."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from polyplink import __version__
from polyplink.app.request import Data, Device, Out, Progress, Result, Weights, Workers, silent
from polyplink.core.artefacts import RunRecord, to_plain, write_json, write_text

if TYPE_CHECKING:
    from polyplink.app.encoded import Encoded
    from polyplink.app.operating_point import Linked, OperatingPoint
    from polyplink.report import Report


@dataclass(frozen=True)
class CountRequest:
    """What to count, and with which weights."""

    weights: Weights
    data: Data
    out: Out = Path("count")
    part: Annotated[str | None, Option(help="Part of the data set; all by default.")] = None
    device: Device = "auto"
    workers: Workers = 2


@dataclass(frozen=True)
class Counted:
    """A finished count.

    Attributes:
        report: The report's file.
        page: Its contents.
        summary: What count.json holds.
    """

    report: Path
    page: "Report"
    summary: dict[str, Any]


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
    from polyplink.app.build_report import build_report
    from polyplink.app.encoded import encode, load_named
    from polyplink.app.leakage import seen_procedures
    from polyplink.app.operating_point import from_record, link_all
    from polyplink.report import count_table, write_report

    weights, out = request.weights, request.out
    record = RunRecord("count", settings={"weights": weights, "part": request.part})
    record.claim(out)
    with record.stage("embed"):
        encoder = load_named(weights, request.device)
        encoded = encode(
            [encoder], request.data, request.part, workers=request.workers, progress=progress
        )
    prepared, own = encoded.prepared, encoder.record
    assert own is not None
    record.inputs |= {"weights": encoder.key, "crops": prepared.key}
    point = from_record(own.operating)
    with record.stage("associate"):
        linked = link_all(prepared, encoded.embeddings[encoder.name], point)
    met = [name for name, _ in seen_procedures(own.seen, prepared.data, prepared.procedures)]
    leaked = (
        f"The encoder was trained or validated on {len(met)} of these procedures "
        f"({met[0]}, ...): their counts are optimistic."
        if met
        else ""
    )
    page = build_report(
        "Polyp count",
        weights,
        encoded,
        point,
        linked,
        seconds=record.seconds,
        warnings=(leaked,) if leaked else (),
    )
    summary = _summary(encoded, point, linked)
    with record.stage("report"):
        _write_tables(out, summary, linked)
        write_report(out / "report.html", page)
    record.write(out)
    report = out / "report.html"
    shown = [count_table(page), f"report: {report}"]
    return Result(Counted(report, page, summary), summary, shown)


def _summary(
    encoded: "Encoded", point: "OperatingPoint", linked: "Sequence[Linked]"
) -> dict[str, Any]:
    """What count.json holds."""
    found = {one.tracklets.procedure_id: one for one in linked}
    procedures = []
    for name in encoded.prepared.procedures:
        one = found.get(name)
        procedures.append(
            {
                "procedure_id": name,
                "polyps": len(one.names) if one else 0,
                "tracklets": one.tracklets.table.height if one else 0,
                "converged": one.clustering.converged if one else None,
                "groups": _groups(one) if one else [],
                "to_look_at": _doubts(one) if one else [],
            }
        )
    return {
        "polyplink": __version__,
        "weights": encoded.first.key,
        "crops": encoded.prepared.key,
        "operating_point": to_plain(point),
        "polyps": sum(p["polyps"] for p in procedures),
        "procedures": procedures,
    }


def _groups(linked: "Linked") -> list[dict[str, Any]]:
    """Every counted polyp with its tracklets."""
    rows = list(linked.tracklets.table.iter_rows(named=True))
    labels = linked.clustering.labels.tolist()
    return [
        {
            "polyp": name,
            "tracklets": [
                {
                    "tracklet_id": row["tracklet_id"],
                    "first_frame": row["first_frame"],
                    "last_frame": row["last_frame"],
                    "sureness": _or_none(float(linked.scores[i])),
                }
                for i, row in enumerate(rows)
                if labels[i] == place
            ],
        }
        for place, name in enumerate(linked.names)
    ]


def _doubts(linked: "Linked") -> list[dict[str, Any]]:
    """Decisions that a person should review first."""
    ids = linked.tracklets.table["tracklet_id"].to_list()
    return [
        {
            "members": [ids[i] for i in doubt.members],
            "others": [ids[i] for i in doubt.others],
            "joined": doubt.joined,
            "probability_of_one_polyp": round(doubt.probability, 4),
        }
        for doubt in linked.doubts
    ]


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 4)


def _write_tables(out: Path, summary: dict[str, Any], linked: "Sequence[Linked]") -> None:
    """Write count.json, counts.csv (a row per procedure) and assignment.parquet (per tracklet)."""
    import polars as pl

    from polyplink.data import write_table

    write_json(out / "count.json", summary)
    counts = {
        "procedure_id": pl.String,
        "polyps": pl.Int64,
        "tracklets": pl.Int64,
        "converged": pl.Boolean,
    }
    table = pl.DataFrame(summary["procedures"], schema=counts)
    write_text(out / "counts.csv", table.write_csv())
    rows = [
        (
            one.tracklets.procedure_id,
            tracklet_id,
            one.names[label],
            _or_none(float(score)),
            one.clustering.converged,
        )
        for one in linked
        for tracklet_id, label, score in zip(
            one.tracklets.table["tracklet_id"], one.clustering.labels, one.scores, strict=True
        )
    ]
    columns = {
        "procedure_id": pl.String,
        "tracklet_id": pl.String,
        "label": pl.String,
        "score": pl.Float64,
        "converged": pl.Boolean,
    }
    write_table(out / "assignment.parquet", pl.DataFrame(rows, schema=columns, orient="row"))
