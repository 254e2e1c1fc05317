"""The verb `count`: number of polyps, groups of tracklets, probabilities, and a report."""

import math
import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polyplink.app import options
from polyplink.app.options import TrackletOptions, option
from polyplink.app.outputs import (
    BOXES,
    SOURCE,
    VIDEOS,
    OutOfSource,
    Replace,
    keep_other_counts,
    output_folder,
)
from polyplink.app.request import Result, check_given, inform
from polyplink.app.shipped import models_note, shipped_messages, used_models
from polyplink.core.artefacts import RunRecord, to_plain, write_json, write_text
from polyplink.core.progress import Progress
from polyplink.core.text import relative_path

if TYPE_CHECKING:
    import polars as pl

    from polyplink.app.linked import Linked, Screened
    from polyplink.associate import OperatingPoint
    from polyplink.core.messages import Message
    from polyplink.counting import Count, CountedProcedure, CountedTracklet
    from polyplink.data import DataSet
    from polyplink.encoders.encode import Encoded
    from polyplink.report import Report
    from polyplink.tracklets import Prepared, PrepareSettings


_COMMAND_LINE = subprocess.list2cmdline if os.name == "nt" else shlex.join

# Columns of assignment.parquet, and of the views that they are taken from.
ASSIGNMENT = {
    "procedure": "procedure_id",
    "tracklet": "tracklet_id",
    "polyp": "label",
    "probability": "score",
    "converged": "converged",
}


# What a folder holds of a count; the rest is written whole in its place.
COUNT_FILES = ("count.json", "corrections.jsonl", BOXES, VIDEOS)
# Columns of counts.csv.
COUNTS = ("procedure_id", "polyps", "low", "high", "tracklets", "false_alarms", "converged")
# Columns of views.csv.
VIEWS = (
    *("procedure", "polyp", "tracklet", "start_s", "end_s", "start_frame", "end_frame"),
    *("probability", "shows_polyp", "bridged", "size_mm", "adenoma", "track_id"),
)


@dataclass(frozen=True)
class CountRequest(TrackletOptions):
    """What to count, and with which weights.

    From Python `said` may hold warnings of earlier stages, for count.json and the report.
    """

    weights: options.Weights
    data: options.Data
    out: OutOfSource = None
    replace: Replace = False
    part: options.Part = None
    truth: Path | None = option(
        "Data folder with annotated boxes of the same procedures, to compare with."
    )
    alarms: options.Alarms = "drop"
    purpose: options.Purpose = "count"
    device: options.Device = "auto"
    workers: options.Workers = 2
    video: options.Video = False
    said: "Sequence[str | Message]" = ()


@dataclass(frozen=True)
class Counted:
    """A finished count; a notebook shows the counts, the time lines and the views.

    Attributes:
        report: The report's file.
        polyps: Polyps counted in all procedures.
        page: Its contents.
        count: The record of the count, as written to count.json.
        boxes: The linked boxes: procedure_id, frame, x, y, w, h, score, polyp and
            tracklet (both from 1 in a procedure), and interpolated (in a gap of the tracklet).
        data: The data set that was counted.
        tracks: track_id and polyp of each of its detections, null for none.
        views: What views.csv holds: a row for each tracklet.
    """

    report: Path
    polyps: int
    page: "Report" = field(repr=False)
    count: "Count" = field(repr=False)
    boxes: "pl.DataFrame" = field(repr=False)
    data: "DataSet" = field(repr=False)
    tracks: "pl.DataFrame" = field(repr=False)
    views: "pl.DataFrame" = field(repr=False)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """What count.json holds."""
        return self.count.plain()

    @property
    def counts(self) -> "pl.DataFrame":
        """What counts.csv holds: a row for each procedure."""
        import polars as pl

        rows = [{name: getattr(one, name) for name in COUNTS} for one in self.count.procedures]
        return pl.DataFrame(rows, infer_schema_length=None)

    def _repr_html_(self) -> str:
        from polyplink.report import render_fragment

        return render_fragment(self.page)


def count(request: CountRequest, progress: Progress = inform) -> Result[Counted]:
    """Count the polyps of every procedure; writes count.json, tables and a report.

    Procedures are linked at the operating point stored in the weights. True polyps are shown where
    they are known and are not used.

    Args:
        request: Weights, data folder and output folder, which gets count.json, counts.csv,
            views.csv, assignment.parquet, vectors.parquet (for
            `review`), report.html and run.json, and boxes-with-tracks: the boxes as they were
            imported, each with its track and polyp.
        progress: Called for crops and tracklets.

    Raises:
        PolyplinkError: If weights, data folder or an image is at fault.
    """
    out = output_folder(request.out, "count", request.data)
    counted = count_into(out, request, progress)
    return give_back(counted, request.data, out, progress, video=request.video)


def give_back(
    counted: Result[Counted], data: Path, out: Path, progress: Progress, *, video: bool
) -> Result[Counted]:
    """Write what was imported or recorded with what was counted.

    Args:
        counted: The count.
        data: The data folder.
        out: Gets the boxes that were imported into it, with their tracks.
        progress: Called for frames of videos.
        video: Whether `out` also gets videos with the boxes.
    """
    from polyplink.data import return_boxes

    found = counted.value
    facts, shown, warnings = counted.json, [*counted.shown], [*counted.warnings]
    back = return_boxes(data, found.data, found.tracks, out / BOXES)
    if back is not None:
        facts |= {"boxes": str(back.folder)}
        shown.append(f"your boxes with tracks ({back.format}): {back.folder}")
        warnings += [] if back.warning is None else [back.warning]
    if video:
        from polyplink.app.drawn_video import draw_videos

        files, lines = draw_videos(found, data, out / VIDEOS, progress)
        facts |= {"videos": list(map(str, files))}
        shown += [f"video: {file}" for file in files]
        warnings += lines
    return replace(counted, json=facts, shown=shown, warnings=warnings)


def count_into(out: Path, request: CountRequest, progress: Progress) -> Result[Counted]:
    """As `count`, into `out`; boxes are not given back."""
    weights = request.weights
    check_given(weights, request.data, [request.part], request.device, request.truth)
    asked: dict[str, Any] = {
        SOURCE: str(request.data.resolve()),
        **{name: getattr(request, name) for name in ("weights", "part", "purpose", "alarms")},
    }
    record = RunRecord("count", settings=asked)
    record.claim(out)
    keep_other_counts(out, request.data, COUNT_FILES, replace=request.replace)
    from polyplink.app.linked import (
        build_report,
        coverage_of,
        link_all,
        linked_boxes,
        screen,
        tracks_of_boxes,
    )
    from polyplink.associate import from_record
    from polyplink.core.messages import Message
    from polyplink.counting import Count, cover_of
    from polyplink.data import box_source, read_origin
    from polyplink.encoders import weights_path, write_embeddings
    from polyplink.encoders.encode import encode
    from polyplink.encoders.named import load_named
    from polyplink.report import count_table, write_report
    from polyplink.tracklets import lost_boxes

    with record.stage("embed"):
        encoder = load_named(
            weights,
            request.device,
            tracklets=request.tracklet_options,
            origin=read_origin(request.data),
        )
        asked["tracklets"] = encoder.prepare
        encoded = encode(
            [encoder], request.data, request.part, workers=request.workers, progress=progress
        )
    prepared, own = encoded.prepared, encoder.record
    assert own is not None
    record.inputs |= {"weights": encoder.key, "crops": prepared.key}
    point = from_record(own.operating).at(request.purpose)
    cover = cover_of(
        point,
        box_source(request.data, prepared.data, prepared.procedures),
        purpose=request.purpose,
        alarms_kept=request.alarms == "keep",
    )
    point = cover.applied(point)
    embeddings = encoded.embeddings[encoder.name]
    with record.stage("associate"):
        screened = screen(prepared, embeddings, point.alarms, drop=request.alarms == "drop")
        linked = link_all(screened.prepared, embeddings, point)
    lost = lost_boxes(prepared)
    messages, notes = _said(encoded, linked, lost, screened, point)
    used = used_models(weights_path(weights), encoder.name, request.data)
    messages = [
        *cover.warnings(point),
        *shipped_messages(used, point),
        *map(Message.of, request.said),
        *messages,
    ]
    page = build_report(
        "Polyp count",
        weights,
        encoded,
        point,
        linked,
        seconds=record.seconds,
        alarms=screened.alarms,
        notes=(*notes, models_note(used)),
        messages=messages,
        cover=cover,
    )
    procedures = _counted(prepared.procedures, linked, screened.alarms, point)
    boxes = linked_boxes(prepared, linked)
    compared = None if request.truth is None else _compare(request.truth, boxes, prepared)
    found = Count(
        encoder.key,
        prepared.key,
        prepared.settings,
        _plain(point),
        tuple(procedures),
        cover,
        tuple(messages),
        tuple(map(str, messages)),
        weights_file=relative_path(weights_path(weights).resolve(), out.resolve()),
        data=relative_path(request.data.resolve(), out.resolve()),
        purpose=request.purpose if point.prices else None,
        lost_boxes=lost,
        polyps=sum(one.polyps for one in procedures),
        false_alarms=screened.alarms.height,
        against_truth=compared,
        models=tuple(to_plain(used)),
        coverage=coverage_of(linked, _true_counts(prepared, request.truth)),
    )
    report = out / "report.html"
    with record.results(out) as new, record.stage("report"):
        views = _views(prepared, linked, screened.alarms, point)
        counted = Counted(
            report,
            found.polyps,
            page,
            found,
            boxes,
            prepared.data,
            tracks_of_boxes(prepared, linked),
            views.select(VIEWS),
        )
        write_embeddings(new / "vectors.parquet", embeddings)
        _write_tables(new, counted, views)
        write_report(new / report.name, page)
    shown = [count_table(page), *_said_of(found, page.notes), *_written(report, out)]
    return Result(counted, counted.summary, shown, found.warnings)


def _said_of(count: "Count", notes: Sequence[str]) -> list[str]:
    """What is printed below the table of a count."""
    from polyplink.report.formats import figure_text

    figures = {} if count.against_truth is None else count.against_truth["figures"]
    return [
        *([] if count.basis is None else [str(count.basis)]),
        *notes,
        *(f"{name}: {figure_text(figure)}" for name, figure in figures.items()),
        *([] if count.coverage is None else [str(count.coverage)]),
    ]


def _written(report: Path, out: Path) -> list[str]:
    """Where the report is, and how to correct the count."""
    command = _COMMAND_LINE(["polyplink", "review", str(out)])
    return [f"report: {report}", f"to correct it: {command}"]


def _plain(point: "OperatingPoint") -> dict[str, Any]:
    """The operating point for count.json, without the coefficients of the vector."""
    plain: dict[str, Any] = to_plain(point)
    if plain["alarms"] is not None:
        del plain["alarms"]["vector"]
    return plain


def _write_tables(out: Path, counted: Counted, views: "pl.DataFrame") -> None:
    """Write count.json, counts.csv, views.csv and assignment.parquet."""
    from polyplink.data import csv_text, write_table

    write_json(out / "count.json", counted.summary)
    write_text(out / "counts.csv", csv_text(counted.counts))
    write_text(out / "views.csv", csv_text(counted.views))
    assigned = views.drop_nulls("polyp").select(*ASSIGNMENT).rename(ASSIGNMENT)
    write_table(out / "assignment.parquet", assigned)


def _true_counts(prepared: "Prepared", truth: Path | None) -> dict[str, int]:
    """True number of polyps of the procedures that are annotated."""
    from polyplink.app.linked import true_counts
    from polyplink.data import read_data

    data = prepared.data if truth is None else read_data(truth)
    return true_counts(data, prepared.procedures, every=truth is not None)


def _compare(truth: Path, boxes: "pl.DataFrame", prepared: "Prepared") -> dict[str, Any]:
    """Figures against annotated boxes, and rows of procedures.

    Raises:
        PolyplinkError: If a procedure is not annotated there.
    """
    import polars as pl

    from polyplink.app.linked import annotated_boxes
    from polyplink.evaluate import chain_figures, score_procedure

    known = annotated_boxes(truth, prepared.procedures)
    rows = [
        score_procedure(name, own, boxes.filter(pl.col("procedure_id") == name))
        for name, own in known.items()
    ]
    plain = [{k: v for k, v in to_plain(row).items() if k != "counts"} for row in rows]
    return {"figures": chain_figures(rows), "procedures": plain}


def _said(
    encoded: "Encoded",
    linked: "Sequence[Linked]",
    lost: Mapping[str, int],
    screened: "Screened",
    point: "OperatingPoint",
) -> "tuple[list[Message], list[str]]":
    """Warnings about the count, and notes: what was left out, and why a count is 0."""
    from polyplink.app.linked import link_messages
    from polyplink.core.messages import Message
    from polyplink.data import SIMULATED
    from polyplink.encoders.leakage import seen_procedures

    prepared, own = encoded.prepared, encoded.first.record
    assert own is not None
    warnings = link_messages(point, linked)
    met = [name for name, _ in seen_procedures(own.seen, prepared.data, prepared.procedures)]
    if met:
        warnings.append(Message("seen_in_training", {"n": len(met), "first": met[0]}))
    sets = [dataset for dataset, *_ in own.seen.trained]
    real = [name for name in prepared.data.procedures["dataset"] if not name.startswith(SIMULATED)]
    if real and sets and all(name.startswith(SIMULATED) for name in sets):
        warnings.append(Message("encoder_simulated", {"dataset": real[0]}))
    if any(probe.simulated for probe in point.probes):
        warnings.append(Message("probes_simulated"))
    if screened.unscreened:
        warnings.append(Message("unscreened", {"n": screened.unscreened}))
    lines = lost_messages(lost, prepared.settings)
    if screened.alarms.height:
        lines.append(Message("alarms_left_out", {"n": screened.alarms.height}))
    counted = {one.tracklets.procedure_id for one in linked}
    empty = [name for name in prepared.procedures if name not in counted]
    if empty:
        named = ", ".join(empty[:3]) + (", ..." if len(empty) > 3 else "")
        boxed = prepared.data.detections["procedure_id"].is_in(empty).any()
        why = lines if boxed else [Message("no_box")]
        warnings.append(Message("counted_none", {"n": len(empty), "names": named, "why": why}))
    return warnings, [f"Left out: {'; '.join(map(str, lines))}."] if lines else []


def lost_messages(lost: Mapping[str, int], settings: "PrepareSettings") -> "list[Message]":
    """What was left out, how much, and the option that keeps it.

    Args:
        lost: From `polyplink.tracklets.lost_boxes`.
        settings: The settings that left it out.

    Example:
        >>> from polyplink.tracklets import PrepareSettings
        >>> lost = {"boxes": 90, "min_length": 9, "min_seconds": 0, "low": 0}
        >>> list(map(str, lost_messages(lost, PrepareSettings())))
        ['9 of 90 boxes in views of fewer than 30 boxes (--min-length)']
    """
    from polyplink.core.messages import Message

    least = {
        "min_length": f"{settings.min_length}",
        "min_seconds": f"{settings.min_seconds:g}",
        "low": f"{settings.tracks.low:g}",
    }
    high, boxes = f"{settings.tracks.high:g}", lost["boxes"]
    return [
        Message(
            f"lost.{name}", {"lost": lost[name], "boxes": boxes, "least": least[name], "high": high}
        )
        for name in least
        if lost[name]
    ]


def _views(
    prepared: "Prepared",
    linked: "Sequence[Linked]",
    alarms: "pl.DataFrame",
    point: "OperatingPoint",
) -> "pl.DataFrame":
    """One row for each view of a polyp: when it begins and ends, and how sure it is.

    After them comes a row for each tracklet that was left out as a false alarm, without a polyp.

    Returns:
        procedure, polyp, tracklet, start_s, end_s (seconds; null where the rate is not known),
        start_frame, end_frame (the last one), probability (of the link), shows_polyp (the
        probability, where it is known), bridged (share of its frames without a box), size_mm and
        adenoma (a probability; from this view alone, null without probes), track_id (see
        `linked.tracks_of_boxes`) and whether the procedure's clustering converged, in the order of
        time.
    """
    import numpy as np
    import polars as pl

    rates = dict(prepared.data.procedures.select("procedure_id", "fps").rows())
    tracks = prepared.tracklets.select("tracklet_id").with_row_index("track_id", offset=1)
    number = dict(tracks.select("tracklet_id", "track_id").iter_rows())
    fps = pl.col("procedure_id").replace_strict(rates)
    schema = {"polyp": pl.String, "probability": pl.Float64, "converged": pl.Boolean}
    schema |= {"size_mm": pl.Float64, "adenoma": pl.Float64}
    tables = []
    for one in linked:
        polyps = [one.identities.names[label] for label in one.identities.labels]
        converged = [one.identities.converged] * len(polyps)
        alone = point.read(one.tracklets.views.vectors, np.arange(len(polyps)))
        own = {"polyp": polyps, "probability": one.identities.scores, "converged": converged}
        own |= {name: [getattr(each, name) for each in alone] for name in ("size_mm", "adenoma")}
        table = one.tracklets.table.hstack(pl.DataFrame(own, schema=schema))
        tables.append(table.sort("first_frame", maintain_order=True))
    nothing = (pl.lit(None, kind).alias(name) for name, kind in schema.items())
    return pl.concat([*tables, alarms.with_columns(*nothing)]).select(
        "polyp",
        "converged",
        "size_mm",
        "adenoma",
        procedure="procedure_id",
        tracklet="tracklet_id",
        start_s=(pl.col("first_frame") / fps).round(2),
        end_s=((pl.col("last_frame") + 1) / fps).round(2),
        start_frame="first_frame",
        end_frame="last_frame",
        probability=pl.col("probability").fill_nan(None).round(4),
        shows_polyp=pl.col("shows_polyp").round(4),
        bridged=pl.col("bridged").round(4),
        track_id=pl.col("tracklet_id").replace_strict(number, return_dtype=pl.Int64),
    )


def _counted(
    names: "Sequence[str]",
    linked: "Sequence[Linked]",
    alarms: "pl.DataFrame",
    point: "OperatingPoint",
) -> "list[CountedProcedure]":
    """The record of each procedure: polyps with their tracklets, and what to look at."""
    from polyplink.counting import CountedProcedure

    by_name = {one.tracklets.procedure_id: one for one in linked}
    found = []
    for name in names:
        rows = alarms.filter(procedure_id=name).iter_rows(named=True)
        left = tuple(_tracklet(row, None) for row in rows)
        counted = CountedProcedure(name, false_alarms=len(left), alarms=left)
        one = by_name.get(name)
        found.append(counted if one is None else _linked_procedure(counted, one, point))
    return found


def _linked_procedure(
    counted: "CountedProcedure", one: "Linked", point: "OperatingPoint"
) -> "CountedProcedure":
    """The record of a procedure with the polyps that its tracklets were linked to."""
    from polyplink.counting import CountedPolyp, DoubtfulLink

    rows = list(one.tracklets.table.iter_rows(named=True))
    identities, labels = one.identities, one.identities.labels.tolist()
    views = [_tracklet(row, score) for row, score in zip(rows, identities.scores, strict=True)]
    groups = [
        CountedPolyp(
            polyp,
            tuple(view for view, label in zip(views, labels, strict=True) if label == place),
            **asdict(reading),
        )
        for place, (polyp, reading) in enumerate(
            zip(identities.names, one.readings(point), strict=True)
        )
    ]
    doubts = [
        DoubtfulLink(
            tuple(rows[i]["tracklet_id"] for i in doubt.members),
            tuple(rows[i]["tracklet_id"] for i in doubt.others),
            doubt.joined,
            round(doubt.probability, 4),
        )
        for doubt in identities.doubts
        if doubt.close
    ]
    low, high = identities.interval or (None, None)
    return replace(
        counted,
        polyps=len(identities.names),
        low=low,
        high=high,
        tracklets=len(rows),
        converged=identities.converged,
        groups=tuple(groups),
        to_look_at=tuple(doubts),
    )


def _tracklet(row: Mapping[str, Any], score: float | None) -> "CountedTracklet":
    from polyplink.counting import CountedTracklet

    return CountedTracklet(
        row["tracklet_id"],
        row["first_frame"],
        row["last_frame"],
        _or_none(row["shows_polyp"]),
        round(row["bridged"], 4),
        _or_none(score),
    )


def _or_none(score: float | None) -> float | None:
    return None if score is None or math.isnan(score) else round(float(score), 4)
