"""Count a data folder and write the results, for `count`, `run`, `live` and `calibrate --stills`.

`count_data` counts; `return_data` then writes imported boxes back with their tracks, and draws
videos; `count_and_track` does both and writes the tracks.
"""

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import polars as pl
from rich.table import Table
from rich.text import Text

from polyplink.associate.identities import Purpose
from polyplink.core.artefacts import change_folder, write_json, write_text
from polyplink.core.messages import Message, catalogue
from polyplink.core.results import Progress, Result, silent
from polyplink.core.runs import RunRecord
from polyplink.core.text import readable_path
from polyplink.counting.corrections import LOG, read_corrections, review_messages
from polyplink.counting.count_folder import (
    BOXES,
    COUNT_FILES,
    SOURCE,
    VIDEOS,
    claim_for_count,
)
from polyplink.counting.count_part import ASSIGNMENT, VIEWS, count_part, views_table
from polyplink.counting.link import link_part, linked_boxes, tracks_of_boxes
from polyplink.counting.result import Count
from polyplink.data.origin import read_origin, read_warnings
from polyplink.data.return_boxes import return_boxes
from polyplink.data.tables import DataSet, csv_text, write_table
from polyplink.encoders.encode import encode, write_embeddings
from polyplink.encoders.load import load_named
from polyplink.report.contents import Report, build_report
from polyplink.report.formats import Texts, figure_text, number
from polyplink.report.page import render_fragment, write_report
from polyplink.tracklets.box_runs import BOX, one_box_a_frame

_COMMAND_LINE = subprocess.list2cmdline if os.name == "nt" else shlex.join
# Columns of counts.csv.
COUNTS = {
    "procedure_id": pl.String,
    "polyps": pl.Int64,
    "low": pl.Int64,  # null without an interval
    "high": pl.Int64,
    "tracklets": pl.Int64,
    "false_alarms": pl.Int64,
    "converged": pl.Boolean,
}


@dataclass(frozen=True)
class Counted:
    """A finished count; a notebook shows the counts, the time lines and the views.

    Attributes:
        report: The report's file.
        polyps: Polyps counted in all procedures.
        page: The contents of the report.
        count: The contents of count.json.
        boxes: The linked boxes: procedure_id, frame, x, y, w, h, score, polyp and
            tracklet (both from 1 in a procedure), and interpolated (in a gap of the tracklet).
        data: The data set that was counted.
        tracks: track_id and polyp of each detection of `data`; null for none.
        views: The contents of views.csv, a row for each tracklet.
    """

    report: Path
    polyps: int
    page: Report = field(repr=False)
    count: Count = field(repr=False)
    boxes: pl.DataFrame = field(repr=False)
    data: DataSet = field(repr=False)
    tracks: pl.DataFrame = field(repr=False)
    views: pl.DataFrame = field(repr=False)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The contents of count.json."""
        return self.count.plain()

    @property
    def all_boxes(self) -> pl.DataFrame:
        """The linked boxes, and the detections without a polyp (null), for drawing."""
        columns = ("procedure_id", "frame", *BOX, "polyp", "interpolated")
        others = self.data.detections.filter(self.tracks["polyp"].is_null()).with_columns(
            polyp=pl.lit(None, pl.Int64), interpolated=pl.lit(False)
        )
        return pl.concat([self.boxes.select(columns), others.select(columns)])

    @property
    def counts(self) -> pl.DataFrame:
        """The contents of counts.csv, a row for each procedure."""
        rows = [
            {name: getattr(procedure, name) for name in COUNTS}
            for procedure in self.count.procedures
        ]
        return pl.DataFrame(rows, COUNTS)

    @property
    def html_warnings(self) -> list[str]:
        """The warnings that a notebook shows with the counts, in English."""
        return list(map(str, self.page.warnings))

    def _repr_html_(self) -> str:
        return render_fragment(self.page)


def return_data(
    counted: Result[Counted], data: Path, out: Path, progress: Progress, *, video: bool
) -> Result[Counted]:
    """Write imported boxes back in their format, with the tracks of a count, and draw videos.

    Args:
        counted: The count.
        data: The data folder.
        out: The output folder.
        progress: Called for frames of videos.
        video: Whether to draw videos with the boxes.

    Returns:
        The count, with the written files among its facts and printed lines.
    """
    result = counted.value
    facts, printed, warnings = dict(counted.json), [*counted.printed], [*counted.warnings]
    returned = return_boxes(data, result.data, result.tracks, out / BOXES)
    if returned is not None:
        facts["boxes"] = str(returned.folder)
        printed.append(f"your boxes with tracks ({returned.format}): {returned.folder}")
        if returned.warning is not None:
            warnings.append(returned.warning)
    if video:
        from polyplink.pipeline.draw_video import draw_videos  # noqa: PLC0415 - its fonts are slow

        names = [procedure.procedure_id for procedure in result.count.procedures]
        procedures = result.data.procedures.filter(pl.col("procedure_id").is_in(names))
        files, without_video = draw_videos(
            procedures,
            result.all_boxes,
            result.data.detections,
            data,
            out / VIDEOS,
            progress=progress,
        )
        facts["videos"] = [str(file) for file in files]
        printed += [f"video: {file}" for file in files]
        warnings += without_video
    elif (out / VIDEOS).exists():
        warnings.append(
            f"{out / VIDEOS} is of an earlier run and may show another count; draw it again "
            "with --video"
        )
    return Result(result, facts, printed, warnings)


def count_data(
    weights: Path,
    data: Path,
    out: Path,
    *,
    replace: bool = False,
    part: str | None = None,
    truth: Path | None = None,
    alarms: Literal["drop", "keep"] = "drop",
    purpose: Purpose = "count",
    device: str = "auto",
    workers: int = 2,
    tracklets: Mapping[str, Any] | None = None,
    language: str = "en",
    progress: Progress = silent,
) -> Result[Counted]:
    """Count the polyps of a data folder and write the results to `out`.

    Args:
        weights: A file, a folder or a name.
        data: The data folder.
        out: The output folder, see `polyplink.count`.
        replace: Replace the count of another recording.
        part: Part of the data set; None for all of it.
        truth: Data folder with annotated boxes of the same procedures, to compare with.
        alarms: Whether tracklets that are probably false alarms are left out.
        purpose: The purpose for which the price of a polyp was chosen.
        device: Name of the device: auto, cpu, cuda or cuda:N.
        workers: Number of threads.
        tracklets: Options of tracklets, see `with_options`.
        language: Language of the report.
        progress: Called for crops and tracklets.

    Raises:
        PolyplinkError: If the weights, the data folder or an image cannot be used, or `out` holds
            the count of another recording.
    """
    settings: dict[str, Any] = {
        SOURCE: str(data.resolve()),
        "weights": weights,
        "part": part,
        "purpose": purpose,
        "alarms": alarms,
    }
    catalogue(language)  # an unknown one is refused at once
    record = RunRecord("count", settings=settings)
    claim_for_count(record, out, data, COUNT_FILES, replace=replace)
    corrections = read_corrections(out) if (out / LOG).is_file() else []

    # The vectors of the tracklets, linked.
    with record.stage("embed"):
        origin = read_origin(data)
        encoder = load_named(weights, device, tracklets=tracklets, origin=origin)
        settings["tracklets"] = encoder.prepare
        encoded = encode([encoder], data, part, workers=workers, progress=progress)
    prepared = encoded.prepared
    record.inputs |= {"weights": encoder.key, "crops": prepared.key}
    with record.stage("associate"):
        linked = link_part(encoded, purpose=purpose, keep_alarms=alarms == "keep")

    # The count, and its report.
    boxes = linked_boxes(prepared, linked.procedures)
    warnings = read_warnings(data)
    count, notes = count_part(
        linked, boxes, weights, out, truth=truth, purpose=purpose, warnings=warnings
    )
    hand_off = _COMMAND_LINE(["polyplink", "hand-off", str(out)])
    review_notes, outdated = (
        review_messages(corrections, prepared.procedures, prepared.tracklets, hand_off)
        if corrections
        else ([], [])
    )
    page = build_report(
        Message("report.title"),
        weights,
        linked,
        count.procedures,
        seconds=record.seconds,
        notes=notes,
        messages=(*review_notes, *outdated, *count.messages),
        language=language,
    )

    # Their files.
    report = out / "report.html"
    with record.results(out) as new, record.stage("report"):
        views = views_table(linked)
        counted = Counted(
            report=report,
            polyps=count.polyps,
            page=page,
            count=count,
            boxes=boxes,
            data=prepared.data,
            tracks=tracks_of_boxes(prepared, linked.procedures),
            views=views.select(VIEWS),
        )
        write_embeddings(new / "vectors.parquet", encoded.embeddings[encoder.name])
        _write_tables(new, counted, views)
        write_report(new / report.name, page)
    correct = _COMMAND_LINE(["polyplink", "review", str(out)])
    printed = [
        _count_table(page),
        *_lines_below(count, notes),
        f"report: {report}",
        f"to correct it: {correct}",
        *map(str, review_notes),
    ]
    return Result(counted, counted.summary, printed, [*map(str, outdated), *count.warnings])


def _count_table(report: Report) -> Table:
    """A table with a row per procedure: views, counted polyps and, if known, true polyps."""
    table = Table(title="Polyps per procedure", title_justify="left")
    table.add_column("procedure")
    with_truth = any(procedure.n_polyps is not None for procedure in report.procedures)
    true_column = ["true"] if with_truth else []
    for name in ("views", "polyps", *true_column, "open questions"):
        table.add_column(name, justify="right")
    for procedure in report.procedures:
        counted = procedure.counted
        true = [number(procedure.n_polyps, 0)] if with_truth else []
        table.add_row(
            Text(counted.procedure_id),
            str(counted.tracklets),
            Texts().count(counted.polyps, counted.low, counted.high),
            *true,
            str(counted.questions),
        )
    return table


def _lines_below(count: Count, notes: Sequence[Message]) -> list[str]:
    """The lines printed below the table of a count."""
    lines = [] if count.basis is None else [str(count.basis)]
    lines += map(str, notes)
    if count.against_truth is not None:
        figures = count.against_truth["figures"]
        lines += [f"{name}: {figure_text(figure)}" for name, figure in figures.items()]
    if count.coverage is not None:
        lines.append(str(count.coverage))
    return lines


def _write_tables(out: Path, counted: Counted, views: pl.DataFrame) -> None:
    """Write count.json, counts.csv, views.csv and assignment.parquet."""
    write_json(out / "count.json", counted.summary)
    write_text(out / "counts.csv", csv_text(counted.counts))
    write_text(out / "views.csv", csv_text(counted.views))
    assigned = views.drop_nulls("polyp").select(*ASSIGNMENT).rename(ASSIGNMENT)
    write_table(out / "assignment.parquet", assigned)


def count_and_track(
    weights: Path,
    data: Path,
    out: Path,
    *,
    video: bool = False,
    progress: Progress = silent,
    **options: Any,
) -> Result[Counted]:
    """Count the polyps of a data folder and write their tracks, to `out/count` and `out/tracks`.

    Args:
        weights: A file, a folder or a name.
        data: The data folder.
        out: The output folder.
        video: Whether to draw videos with the boxes.
        progress: Called for crops and tracklets.
        options: Further arguments of `count_data`.
    """
    # Callers have checked that the folder holds no count of another recording.
    counted = count_data(weights, data, out / "count", replace=True, progress=progress, **options)
    counted = return_data(counted, data, out, progress, video=video)
    tracks = _write_tracks(counted.value, out / "tracks")
    facts = counted.json | {"out": str(out), "tracks": str(tracks)}
    printed = [*counted.printed, f"tracks: {tracks}"]
    return Result(counted.value, facts, printed, counted.warnings)


def _write_tracks(counted: Counted, folder: Path) -> Path:
    """Write a MOT file per procedure: frame (from 1), polyp, x, y, w, h, score, -1, -1, -1.

    The file of a procedure without a polyp is empty. Boxes that were interpolated in gaps of tracks
    are written to a file of the same name in the folder `interpolated`, with score 0, because no
    detector reported them. Earlier files are removed.
    """
    # `count` and `review`, which write no tracks, then do not load the readers of boxes.
    from polyplink.data.formats.mot import mot_lines  # noqa: PLC0415

    boxes = one_box_a_frame(counted.boxes, "procedure_id", "frame", "polyp")
    boxes = boxes.with_columns(pl.col(BOX).round(2), pl.col("score").round(4), track="polyp")
    of_procedure = boxes.partition_by("procedure_id", as_dict=True)
    with change_folder(folder.parent, (folder.name,)) as change:
        new = change / folder.name
        for name in (procedure.procedure_id for procedure in counted.count.procedures):
            rows = of_procedure.get((name,), boxes.clear())
            for home, interpolated in ((new, False), (new / "interpolated", True)):
                written = rows.filter(interpolated=interpolated)
                confidence = pl.col("score").fill_null(0.0 if interpolated else 1.0)
                text = mot_lines(written, confidence, (-1, -1, -1))
                write_text(readable_path(home, name, ".txt"), text)
    return folder
