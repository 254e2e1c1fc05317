"""The user's job: how many polyps, which views belong together, how sure, and a report."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from polyplink import __version__
from polyplink.core.artefacts import RunRecord, to_plain, write_json, write_text
from polyplink.data import write_table
from polyplink.jobs.embedding import Embedded, embed_data
from polyplink.jobs.leakage import overlap
from polyplink.jobs.operating import Operating, from_record
from polyplink.jobs.page import Linked
from polyplink.jobs.progress import Progress, silent
from polyplink.jobs.reporting import link_all, report_on
from polyplink.report import Report, write_report


@dataclass(frozen=True)
class Counted:
    """A finished count.

    Attributes:
        report: The report's file.
        page: What is in it.
        summary: What is in count.json.
    """

    report: Path
    page: Report
    summary: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Plain values: what is in count.json."""
        return self.summary


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 4)


def _groups(linked: Linked) -> list[dict[str, Any]]:
    rows = list(linked.scene.table.iter_rows(named=True))
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


def _doubts(linked: Linked) -> list[dict[str, Any]]:
    ids = linked.scene.table["tracklet_id"].to_list()
    return [
        {
            "members": [ids[i] for i in doubt.members],
            "others": [ids[i] for i in doubt.others],
            "joined": doubt.joined,
            "probability_of_one_polyp": round(doubt.probability, 4),
        }
        for doubt in linked.doubts
    ]


def _summary(done: Embedded, operating: Operating, linked: Sequence[Linked]) -> dict[str, Any]:
    found = {one.scene.procedure_id: one for one in linked}
    procedures = []
    for name in done.prepared.procedures:
        one = found.get(name)
        procedures.append(
            {
                "procedure_id": name,
                "polyps": len(one.names) if one else 0,
                "tracklets": one.scene.table.height if one else 0,
                "converged": one.clustering.converged if one else None,
                "groups": _groups(one) if one else [],
                "to_look_at": _doubts(one) if one else [],
            }
        )
    return {
        "polyplink": __version__,
        "weights": done.loaded.weights_id,
        "crops": done.prepared.key,
        "operating_point": to_plain(operating),
        "polyps": sum(p["polyps"] for p in procedures),
        "procedures": procedures,
    }


def _assignment(linked: Sequence[Linked]) -> pl.DataFrame:
    """tracklet_id -> label, score, and whether the algorithm converged."""
    rows = [
        (
            row["procedure_id"],
            row["tracklet_id"],
            one.names[label],
            _or_none(float(score)),
            one.clustering.converged,
        )
        for one in linked
        for row, label, score in zip(
            one.scene.table.iter_rows(named=True), one.clustering.labels, one.scores, strict=True
        )
    ]
    schema = {
        "procedure_id": pl.String,
        "tracklet_id": pl.String,
        "label": pl.String,
        "score": pl.Float64,
        "converged": pl.Boolean,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def _write_tables(out: Path, summary: dict[str, Any], linked: Sequence[Linked]) -> None:
    write_json(out / "count.json", summary)
    write_table(out / "assignment.parquet", _assignment(linked))
    counts = pl.DataFrame(
        [
            (p["procedure_id"], p["polyps"], p["tracklets"], p["converged"])
            for p in summary["procedures"]
        ],
        schema={
            "procedure_id": pl.String,
            "polyps": pl.Int64,
            "tracklets": pl.Int64,
            "converged": pl.Boolean,
        },
        orient="row",
    )
    write_text(out / "counts.csv", counts.write_csv())


def _leakage(done: Embedded) -> tuple[str, ...]:
    prepared = done.prepared
    seen = overlap(done.loaded.record.seen, prepared.data, prepared.procedures)
    if not seen:
        return ()
    return (
        f"The encoder was trained or validated on {len(seen)} of these procedures "
        f"({seen[0]}, ...): their counts flatter it.",
    )


def count(
    weights: Path,
    folder: Path,
    out: Path,
    *,
    part: str | None = None,
    device: str = "auto",
    workers: int = 2,
    progress: Progress = silent,
) -> Counted:
    """Count the polyps of every procedure at the operating point of the weights.

    Writes count.json, counts.csv, assignment.parquet, report.html and run.json.

    Args:
        weights: Weights file, or the folder of a training run.
        folder: The data folder; true polyps are shown where known, and not used.
        out: Folder to write.
        part: Part of the data set; None for all of it.
        device: Where to embed.
        workers: Threads that cut crops.
        progress: Told of crops and tracklets.

    Raises:
        PolyplinkError: If weights, data folder or an image is at fault.
    """
    record = RunRecord("count", settings={"weights": weights, "part": part})
    record.claim(out)
    with record.stage("embed"):
        done = embed_data(
            weights, folder, part=part, device=device, workers=workers, progress=progress
        )
    record.inputs |= {"weights": done.loaded.weights_id, "crops": done.prepared.key}
    operating = from_record(done.loaded.record.operating)
    with record.stage("associate"):
        linked = link_all(done, operating)
    summary = _summary(done, operating, linked)
    page = report_on(
        "Polyp count",
        weights,
        done,
        operating,
        linked,
        seconds=record.seconds,
        warnings=_leakage(done),
    )
    with record.stage("report"):
        _write_tables(out, summary, linked)
        write_report(out / "report.html", page)
    record.write(out)
    return Counted(out / "report.html", page, summary)
