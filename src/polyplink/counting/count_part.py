"""Count the linked procedures of a part: the result, its warnings and the table of its views."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl

from polyplink.associate.identities import OperatingPoint, Purpose
from polyplink.core.artefacts import file_key, to_plain
from polyplink.core.messages import BROKE_OFF, Message
from polyplink.core.text import first_names, relative_path, rounded_probability
from polyplink.counting.link import (
    LinkedPart,
    LinkedProcedure,
    alike_messages,
    alike_together,
    coverage_of,
    known_counts,
    link_messages,
)
from polyplink.counting.result import (
    Count,
    CountedPolyp,
    CountedProcedure,
    CountedQuestion,
    CountedTracklet,
    doubt_of,
)
from polyplink.data.faults import LEFT_OUT
from polyplink.data.origin import read_origin
from polyplink.data.vocabulary import is_simulated
from polyplink.encoders.weights import WeightsRecord, made_with, seen_procedures, weights_path
from polyplink.models.shipped import models
from polyplink.tracklets.box_runs import USUAL_FPS
from polyplink.tracklets.prepare import Prepared, lost_boxes
from polyplink.tracklets.settings import PrepareSettings

# Columns of assignment.parquet, and the columns of the views table that they are taken from.
ASSIGNMENT = {
    "procedure": "procedure_id",
    "tracklet": "tracklet_id",
    "polyp": "label",
    "probability": "score",
    "converged": "converged",
}
# Columns of views.csv.
VIEWS = (
    *("procedure", "polyp", "tracklet", "start_s", "end_s", "start_frame", "end_frame"),
    *("probability", "shows_polyp", "bridged", "size_mm", "adenoma", "track_id"),
)


def count_part(
    part: LinkedPart,
    boxes: pl.DataFrame,
    weights: Path,
    out: Path,
    *,
    truth: Path | None,
    purpose: Purpose,
    warnings: Sequence[str | Message],
) -> tuple[Count, list[Message]]:
    """The result of a count, and notes for its report.

    Args:
        part: The counted part.
        boxes: The linked boxes, from `link.linked_boxes`.
        weights: The weights, as named by the user.
        out: The folder of the count.
        truth: Data folder with annotated boxes of the same procedures, to compare with.
        purpose: The purpose for which the price of a polyp was chosen.
        warnings: Warnings of earlier stages.
    """
    encoded, prepared, encoder = part.encoded, part.encoded.prepared, part.encoded.first
    # Its models, and all warnings.
    file = weights_path(weights)
    used = used_models(file, encoder.name, encoder.record, encoded.folder)
    lost = lost_boxes(prepared)
    earlier = [Message.of(warning) for warning in warnings]
    part_messages, notes = count_messages(part, lost, earlier)
    messages = [
        *part.cover.warnings(part.point),
        *shipped_messages(used, part.point),
        *earlier,
        *part_messages,
    ]
    messages.sort(key=lambda message: message.kind not in BROKE_OFF)

    # Its procedures, compared with the truth if that is known.
    against_truth = None
    if truth is not None:
        from polyplink.counting.labels import compare_with_truth  # noqa: PLC0415 - for this alone

        against_truth = compare_with_truth(truth, boxes, prepared)
    procedures = counted_procedures(part)
    if part.cover.has_intervals and not all(procedure.polyps for procedure in procedures):
        notes.append(Message("notes.zero"))

    # The result.
    point = to_plain(part.point)
    if point["alarms"] is not None:
        del point["alarms"]["vector"]  # coefficients, as many as a vector has numbers
    count = Count(
        weights=encoder.key,
        crops=prepared.key,
        tracklets=prepared.settings,
        operating_point=point,
        procedures=tuple(procedures),
        cover=part.cover,
        messages=tuple(messages),
        warnings=tuple(map(str, messages)),
        weights_file=relative_path(file.resolve(), out.resolve()),
        data=relative_path(encoded.folder.resolve(), out.resolve()),
        purpose=purpose if part.point.prices else None,
        lost_boxes=lost,
        polyps=sum(procedure.polyps for procedure in procedures),
        false_alarms=part.screened.alarms.height,
        against_truth=against_truth,
        models=tuple(to_plain(used)),
        coverage=coverage_of(part.procedures, known_counts(prepared, truth)),
    )
    return count, [*notes, Message("notes.models", {"models": [model.message for model in used]})]


def count_messages(
    part: LinkedPart, lost: Mapping[str, int], earlier: Sequence[Message] = ()
) -> tuple[list[Message], list[Message]]:
    """Warnings about a count, and notes on boxes and tracklets that were left out.

    Args:
        part: The counted part.
        lost: Boxes in no tracklet by reason, from `tracklets.prepare.lost_boxes`.
        earlier: Warnings of earlier stages; an empty count names first what an import left out.
    """
    prepared, record = part.encoded.prepared, part.encoded.first.record
    alike = {
        procedure.procedure_id: alike_together(
            part.point, procedure.tracklets.views, procedure.identities.labels
        )
        for procedure in part.procedures
    }
    warnings = link_messages(part.point, part.procedures) + alike_messages(alike)

    # What the models were fitted on.
    seen_names = [
        name for name, _ in seen_procedures(record.seen, prepared.data, prepared.procedures)
    ]
    if seen_names:
        warnings.append(Message("seen_in_training", {"n": len(seen_names), "first": seen_names[0]}))
    warnings += simulated_messages(record, part.point, prepared.data.procedures["dataset"])
    if part.screened.unscreened:
        warnings.append(Message("unscreened", {"n": part.screened.unscreened}))

    # What was left out.
    omitted = _left_out_messages(lost, part.screened.alarms, prepared.settings)

    # Procedures of one view that no question is about, without a frame rate, without a polyp.
    with_views = {procedure.procedure_id for procedure in part.procedures}
    with_doubtful_alarms = {*part.screened.alarms.filter("in_doubt")["procedure_id"]}
    single = [
        procedure.procedure_id
        for procedure in part.procedures
        if procedure.table.height == 1
        and doubt_of(procedure.table["shows_polyp"]) is None
        and procedure.procedure_id not in with_doubtful_alarms
    ]
    if single:
        warnings.append(Message("one_view", named_procedures(single)))
    without_rate = _procedures_without_rate(prepared)
    warnings += rate_messages(without_rate)
    empty = [name for name in prepared.procedures if name not in with_views]
    if empty:
        lost_there = lost_boxes(prepared.select(empty))
        alarms = part.screened.alarms.filter(pl.col("procedure_id").is_in(empty))
        reasons = _left_out_messages(lost_there, alarms, prepared.settings) or [Message("no_box")]
        unread, boxes = _left_out_of_import(earlier), prepared.data.detections.height
        if unread > boxes:
            reasons.insert(0, Message("most_left_out", {"n": unread, "boxes": boxes}))
        if {*empty} & {*without_rate}:
            reasons.append(Message("rate_assumed", {"rate": USUAL_FPS}))
        warnings.append(Message("counted_none", named_procedures(empty) | {"why": reasons}))
    return warnings, [Message("notes.left_out", {"lines": omitted})] if omitted else []


def simulated_messages(
    record: WeightsRecord, point: OperatingPoint, datasets: Iterable[str]
) -> list[Message]:
    """Warnings about an encoder and probes that were fitted on simulated pictures alone.

    Args:
        record: The record of the weights.
        point: Their operating point.
        datasets: Names of the data sets that are counted.
    """
    messages = []
    sets = [dataset for dataset, *_ in record.seen.trained]
    real = [name for name in datasets if not is_simulated(name)]
    if real and sets and all(map(is_simulated, sets)):
        messages.append(Message("encoder_simulated", {"dataset": real[0]}))
    if any(probe.simulated for probe in point.probes):
        messages.append(Message("probes_simulated"))
    return messages


def _left_out_of_import(warnings: Sequence[Message]) -> int:
    """Number of faulty entries of a source that its import left out, by its warnings."""
    lines = [warning.values["line"] for warning in warnings if warning.kind == "boxes_read"]
    left_out = [line for line in lines if isinstance(line, Message) and line.kind == LEFT_OUT]
    return sum(cast("int", line.values["n"]) for line in left_out)


def _left_out_messages(
    lost: Mapping[str, int], alarms: pl.DataFrame, settings: PrepareSettings
) -> list[Message]:
    """What was left out of a count: boxes in no tracklet, and rejected tracklets."""
    rejected = [Message("alarms_left_out", {"n": alarms.height})] if alarms.height else []
    return lost_messages(lost, settings) + rejected


def _procedures_without_rate(prepared: Prepared) -> list[str]:
    """The counted procedures of unknown frame rate with boxes that tracks had to be built of."""
    rows = prepared.data.procedures.filter(
        pl.col("fps").is_null() & pl.col("procedure_id").is_in(prepared.procedures)
    )
    tracked = prepared.data.detections.filter(pl.col("polyp_id").is_null())
    rows = rows.join(tracked, on="procedure_id", how="semi", maintain_order="left")
    return rows["procedure_id"].to_list()


def rate_messages(procedures: Sequence[str]) -> list[Message]:
    """The warning that the frame rate of procedures is assumed, if there are any."""
    if not procedures:
        return []
    return [Message("rate_unknown", named_procedures(procedures) | {"rate": USUAL_FPS})]


def named_procedures(procedures: Sequence[str]) -> dict[str, Any]:
    """Values for a message about procedures: their number, and the names of the first three."""
    names = first_names(procedures)
    return {"n": len(procedures), "names": names}


def lost_messages(lost: Mapping[str, int], settings: PrepareSettings) -> list[Message]:
    """Boxes that were left out, by reason, each with the option that keeps them.

    Args:
        lost: Boxes in no tracklet by reason, from `tracklets.prepare.lost_boxes`.
        settings: The settings with the thresholds.

    Example:
        >>> from polyplink.tracklets.settings import PrepareSettings
        >>> lost = {"boxes": 90, "min_length": 9, "min_seconds": 0, "low": 0}
        >>> list(map(str, lost_messages(lost, PrepareSettings())))
        ['9 of 90 boxes in views of fewer than 30 boxes (--min-length)']
    """
    thresholds = {
        "min_length": settings.min_length,
        "min_seconds": settings.min_seconds,
        "low": settings.tracks.low,
    }
    shared = {
        "boxes": lost["boxes"],
        "frames": settings.fewest_frames,
    }
    return [
        Message(f"lost.{name}", shared | {"lost": lost[name], "least": least})
        for name, least in thresholds.items()
        if lost[name]
    ]


def views_table(part: LinkedPart) -> pl.DataFrame:
    """The table of views: a row for each tracklet of a polyp, with times and confidences.

    These rows are followed by one for each tracklet rejected as a false alarm, without a polyp.

    Returns:
        Columns procedure, polyp, tracklet, start_s and end_s (seconds; null if the frame rate is
        unknown), start_frame and end_frame (inclusive), probability (of the link), shows_polyp
        (probability, null if unknown), bridged (share of frames without a box), size_mm and adenoma
        (estimate and probability from this view alone, null without probes), track_id (see
        `link.tracks_of_boxes`) and converged (the procedure's clustering); sorted by time in each
        procedure.
    """
    prepared = part.encoded.prepared
    schema = {
        "polyp": pl.String,
        "probability": pl.Float64,
        "converged": pl.Boolean,
        "size_mm": pl.Float64,
        "adenoma": pl.Float64,
    }
    # The tracklets of polyps.
    tables = []
    for procedure in part.procedures:
        identities, names = procedure.identities, procedure.identities.names
        n = len(identities.labels)
        of_views = part.point.read(procedure.tracklets.views.vectors, np.arange(n))
        columns = {
            "polyp": [names[label] for label in identities.labels],
            "probability": [_or_none(score) for score in identities.scores.tolist()],
            "converged": [identities.converged] * n,
            "size_mm": [reading.size_mm for reading in of_views],
            "adenoma": [reading.adenoma for reading in of_views],
        }
        table = procedure.table.hstack(pl.DataFrame(columns, schema=schema))
        tables.append(table.sort("first_frame", maintain_order=True))
    # Those rejected as false alarms.
    nothing = (pl.lit(None, kind).alias(name) for name, kind in schema.items())
    tables.append(part.screened.alarms.with_columns(*nothing))

    rates = dict(prepared.data.procedures.select("procedure_id", "fps").rows())
    fps = pl.col("procedure_id").replace_strict(rates)
    number = {name: i for i, name in enumerate(prepared.tracklets["tracklet_id"], start=1)}
    return pl.concat(tables).select(
        "polyp",
        "converged",
        "probability",
        "size_mm",
        "adenoma",
        procedure="procedure_id",
        tracklet="tracklet_id",
        start_s=(pl.col("first_frame") / fps).round(2),
        end_s=((pl.col("last_frame") + 1) / fps).round(2),
        start_frame="first_frame",
        end_frame="last_frame",
        shows_polyp=pl.col("shows_polyp").map_elements(_or_none, pl.Float64),
        bridged=pl.col("bridged").round(4),
        track_id=pl.col("tracklet_id").replace_strict(number, return_dtype=pl.Int64),
    )


def counted_procedures(part: LinkedPart) -> list[CountedProcedure]:
    """The count of each procedure: polyps with their tracklets, and links to review."""
    by_name = {procedure.procedure_id: procedure for procedure in part.procedures}
    procedures = []
    for name in part.encoded.prepared.procedures:
        rows = part.screened.alarms.filter(procedure_id=name).iter_rows(named=True)
        alarms = tuple(_tracklet(row, None) for row in rows)
        counted = CountedProcedure(name, false_alarms=len(alarms), alarms=alarms)
        procedure = by_name.get(name)
        procedures.append(counted if procedure is None else _linked_procedure(counted, procedure))
    return procedures


def _linked_procedure(counted: CountedProcedure, linked: LinkedProcedure) -> CountedProcedure:
    """The count of a procedure with the polyps that its tracklets were linked to."""
    # The tracklets of each polyp.
    rows = list(linked.table.iter_rows(named=True))
    identities, labels = linked.identities, linked.identities.labels.tolist()
    views = [_tracklet(row, score) for row, score in zip(rows, identities.scores, strict=True)]
    groups = [
        CountedPolyp(
            polyp,
            tuple(view for view, label in zip(views, labels, strict=True) if label == place),
            **asdict(reading),
        )
        for place, (polyp, reading) in enumerate(
            zip(identities.names, linked.readings, strict=True)
        )
    ]

    # The links that could change the number.
    questions = [
        CountedQuestion(
            tuple(rows[i]["tracklet_id"] for i in question.members),
            tuple(rows[i]["tracklet_id"] for i in question.others),
            question.joined,
            rounded_probability(question.probability),
        )
        for question in identities.questions
        if question.close
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
        to_look_at=tuple(questions),
    )


def _tracklet(row: Mapping[str, Any], score: float | None) -> CountedTracklet:
    return CountedTracklet(
        row["tracklet_id"],
        row["first_frame"],
        row["last_frame"],
        _or_none(row["shows_polyp"]),
        round(row["bridged"], 4),
        _or_none(score),
        row["in_doubt"],
    )


def _or_none(score: float | None) -> float | None:
    return None if score is None or math.isnan(score) else rounded_probability(score)


@dataclass(frozen=True)
class UsedModel:
    """A model that a count was made with.

    Attributes:
        kind: "detector" or "encoder".
        name: Name for display.
        sha256: SHA-256 of the file; None for a model without a file.
        shipped: Whether it is shipped with polyplink, or was made with a shipped one.
    """

    kind: str
    name: str
    sha256: str | None
    shipped: bool

    @property
    def message(self) -> Message:
        """The model with the first digits of its hash."""
        digest = "" if self.sha256 is None else f" (SHA-256 {self.sha256[:16]})"
        return Message(f"model.{self.kind}", {"name": f"{self.name}{digest}"})


def used_models(
    weights: Path, name: str, record: WeightsRecord, data: Path
) -> tuple[UsedModel, ...]:
    """The models that a count was made with: the detector, if one is recorded, and the encoder.

    Args:
        weights: The weights file.
        name: Name of the encoder.
        record: The record of the weights.
        data: The data folder of the boxes.
    """
    origin = read_origin(data)
    hashes = {model.sha256 for model in models()}
    digest = file_key(weights)
    is_shipped = digest in hashes or made_with(record) is not None
    encoder = UsedModel("encoder", name, digest, is_shipped)
    if origin is None:
        return (encoder,)
    is_shipped = origin.sha256 in hashes or origin.made_with is not None
    detector = UsedModel("detector", origin.name, origin.sha256, is_shipped)
    return detector, encoder


def shipped_messages(used: tuple[UsedModel, ...], point: OperatingPoint) -> list[Message]:
    """The notice that a count with shipped models must carry; nothing without them.

    Args:
        used: The models of the count.
        point: The operating point of the weights.
    """
    shipped = [model for model in used if model.shipped]
    if not shipped:
        return []
    trained_on = {str(model.kind): model.trained_on for model in models()}
    sets = dict.fromkeys(name for model in shipped for name in trained_on[model.kind])
    calibration = point.calibration
    if calibration is None:
        calibrated = Message("shipped.not_calibrated")
    else:
        material = Message(f"material.{calibration.material}", {"n": calibration.procedures})
        calibrated = Message("shipped.calibrated", {"material": material})
    names = ", ".join(model.name for model in shipped)
    return [
        Message("shipped", {"models": names, "sets": ", ".join(sets), "calibrated": calibrated})
    ]
