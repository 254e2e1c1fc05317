"""The contents of a report, the page of a count or an evaluation, and how they are filled.

The contents are made from the linked procedures, for one page, and not stored; the stored result is
a `counting.result.Count`. The other modules here turn contents into pages, tables and plots.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from polyplink import __version__
from polyplink.associate.clusterers import LearnedLinks
from polyplink.associate.identities import OperatingPoint, Question
from polyplink.associate.probes import Reading
from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message, catalogue
from polyplink.core.runs import machine
from polyplink.counting.link import LinkedProcedure
from polyplink.data.vocabulary import SIMULATED
from polyplink.encoders.weights import weights_path
from polyplink.tracklets.prepare import Prepared

if TYPE_CHECKING:
    from polyplink.encoders.encode import Encoded
    from polyplink.report.comparison import Comparison

Values = tuple[float | None, ...]
Line = str | Message  # a sentence in the language of the page, or text to show verbatim
Fact = tuple[Line, float | Line | Sequence[Message]]  # name and value of a setting


@dataclass(frozen=True)
class ReportedTracklet:
    """A tracklet in the report.

    Attributes:
        tracklet_id: Name, unique in the procedure.
        first: First frame, from 0.
        last: Last frame, inclusive.
        predicted: The counted polyp to which the tracklet is assigned.
        polyp_id: The true polyp, or None if unknown.
        confidence: Confidence of the assignment in [0, 1]; None or NaN if unknown.
        crop: One view, uint8 (height, width, 3) RGB, or None.
        bridged: Share of the frames without a box, in [0, 1].
    """

    tracklet_id: str
    first: int
    last: int
    predicted: str
    polyp_id: str | None = None
    confidence: float | None = None
    crop: NDArray[np.uint8] | None = field(default=None, repr=False)
    bridged: float = 0.0


@dataclass(frozen=True)
class ReportedProcedure:
    """A procedure in the report: its tracklets and their predicted identities.

    Attributes:
        procedure_id: Name of the procedure.
        n_frames: Frames in the recording.
        tracklets: The tracklets, in any order.
        fps: Frames per second; None if unknown, the time line then shows frame numbers.
        n_polyps: True number of polyps, or None if unknown.
        similarity: float (n, n), as clustered, in the order of `tracklets`; or None.
        converged: Whether the clustering converged; None if it does not iterate.
        questions: The links to review; their rows are indices of `tracklets`.
        alarms: Tracklets that were left out as false alarms; `confidence` is the probability that
            they do show a polyp, and `predicted` is meaningless.
        interval: Lowest and highest number of polyps, 90 %, or None.
        readings: Name of a counted polyp -> its size and histology.

    Raises:
        PolyplinkError: If a tracklet ends after the recording.
    """

    procedure_id: str
    n_frames: int
    tracklets: tuple[ReportedTracklet, ...] = field(repr=False)
    fps: float | None = None
    n_polyps: int | None = None
    similarity: NDArray[np.floating] | None = field(default=None, repr=False)
    converged: bool | None = None
    questions: tuple[Question, ...] = field(default=(), repr=False)
    alarms: tuple[ReportedTracklet, ...] = field(default=(), repr=False)
    interval: tuple[int, int] | None = None
    readings: Mapping[str, Reading] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for tracklet in (*self.tracklets, *self.alarms):
            if tracklet.last >= self.n_frames:
                raise PolyplinkError(
                    f"procedure {self.procedure_id!r}: tracklet {tracklet.tracklet_id!r} ends at "
                    f"frame {tracklet.last} of {self.n_frames}",
                    "correct n_frames",
                )

    @property
    def n_counted(self) -> int:
        """Number of counted polyps, that is, groups of tracklets."""
        return len({tracklet.predicted for tracklet in self.tracklets})


@dataclass(frozen=True)
class Report:
    """Everything on the page; empty or None parts are left out or marked as missing.

    Attributes:
        title: Headline.
        dataset: Name of the data set.
        date: Day or time, as text.
        machine: Description of the machine, without names of people or hosts.
        weights: Id of the weights, or None.
        crops: Key of the crops, or None.
        seed: Random seed, or None.
        simulated: Whether the data come from the simulator.
        version: Version of polyplink.
        procedures: The procedures, each with a section.
        comparison: Methods by figures, or None.
        curves: Training curves with one value per epoch; None or NaN leaves a gap: "loss" and
            "validation_loss" (nats), "tau" (bag temperature of the curriculum, in ranks) and
            "purity" (share of bags in which all members show the anchor's polyp, in [0, 1]).
        best_epoch: Selected epoch, from 0; or None.
        operating_point: Names and values of the setting used for the count, with its origin, in
            the order to show.
        settings: Name -> value, in the order to show.
        seconds: Stages, each with its seconds.
        notes: Notes, one sentence each.
        warnings: Warnings, one sentence each.
        basis: A sentence on the data on which the 90 % intervals were calibrated; "" without
            intervals.
        ask_below: Confidence below which a link is listed for review; None if the listed links are
            those that could change the count.
        language: Language of the page; sections that only an evaluation has are in English.
    """

    title: Line
    dataset: str
    date: str
    machine: Line
    weights: str | None = None
    crops: str | None = None
    seed: int | None = None
    simulated: bool = False
    version: str = __version__
    procedures: tuple[ReportedProcedure, ...] = field(default=(), repr=False)
    comparison: "Comparison | None" = field(default=None, repr=False)
    curves: Mapping[str, Values] = field(default_factory=dict, repr=False)
    best_epoch: int | None = None
    operating_point: tuple[Fact, ...] = field(default=(), repr=False)
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    seconds: tuple[tuple[Line, float], ...] = field(default=(), repr=False)
    notes: tuple[Line, ...] = field(default=(), repr=False)
    warnings: tuple[Line, ...] = field(default=(), repr=False)
    basis: Line = field(default="", repr=False)
    ask_below: float | None = field(default=None, repr=False)
    language: str = "en"


def build_report(
    title: Line,
    weights: Path,
    encoded: "Encoded",
    point: OperatingPoint,
    linked: Sequence[LinkedProcedure],
    *,
    seconds: Mapping[str, float],
    alarms: pl.DataFrame | None = None,
    comparison: "Comparison | None" = None,
    notes: Sequence[Line] = (),
    messages: Sequence[Message] = (),
    basis: Line | None = None,
    language: str = "en",
) -> Report:
    """The page of a count or an evaluation.

    Args:
        title: Headline.
        weights: Path or name of the weights; a training history in the same folder is shown.
        encoded: The part and its vectors.
        point: The operating point of the links.
        linked: The linked procedures; procedures of the part that are missing here have no
            tracklets and are shown as empty.
        seconds: Time per stage.
        alarms: Tracklets that were left out as false alarms, from `screen`.
        comparison: Table of methods; None for a count.
        notes: Notes.
        messages: Warnings.
        basis: A sentence on the data of the intervals' calibration; None without intervals.
        language: Language of the page.

    Raises:
        PolyplinkError: If the training history is broken.
    """
    prepared, record = encoded.prepared, encoded.first.record
    by_name = {procedure.procedure_id: procedure for procedure in linked}
    seed = record.recipe.get("seed")
    selection_loss = "loss_bags" if record.origin.get("selected_by") == "bags" else "loss_labels"
    curves = _training_curves(weights_path(weights).parent, selection_loss)
    best = record.origin.get("epoch")
    return Report(
        title=title,
        weights=encoded.first.key,
        crops=prepared.key,
        seed=seed if isinstance(seed, int) else None,
        procedures=tuple(
            _procedure(name, by_name.get(name), prepared, alarms) for name in prepared.procedures
        ),
        comparison=comparison,
        curves=curves,
        best_epoch=int(best) if curves and best is not None else None,
        operating_point=setting_facts(point),
        seconds=named_stages(seconds),
        notes=tuple(notes),
        warnings=tuple(messages),
        basis=basis or "",
        ask_below=point.ask_below,
        language=language,
        **_provenance(prepared),
    )


def comparison_report(
    title: str,
    prepared: Prepared,
    comparison: "Comparison",
    *,
    seconds: Mapping[str, float],
    notes: tuple[str, ...] = (),
    warnings: Sequence[str] = (),
) -> Report:
    """A page with only a table of methods.

    Args:
        title: Headline.
        prepared: The procedures that were measured.
        comparison: The table.
        seconds: Time per stage.
        notes: Notes.
        warnings: Warnings, one sentence each.
    """
    return Report(
        title=title,
        crops=prepared.key,
        comparison=comparison,
        seconds=named_stages(seconds),
        notes=notes,
        warnings=tuple(warnings),
        **_provenance(prepared),
    )


def _provenance(prepared: Prepared) -> dict[str, Any]:
    """The data sets, date, machine and crop settings of a page, as fields of `Report`."""
    names, computer = prepared.data.procedures["dataset"].unique().sort().to_list(), machine()
    return {
        "dataset": ", ".join(names),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": Message("report.computer", computer | {"n": computer["cores"]}),
        "simulated": any(name.startswith(SIMULATED) for name in names),
        "settings": {
            name: str(value)
            for outer, group in to_plain(prepared.settings).items()
            for name, value in (group if isinstance(group, dict) else {outer: group}).items()
        },
    }


def named_stages(seconds: Mapping[str, float]) -> tuple[tuple[Line, float], ...]:
    """The stages of a run with their times; those of a count have names in every language."""
    return tuple(
        (Message(f"stage.{name}") if f"stage.{name}" in catalogue("en") else name, time)
        for name, time in seconds.items()
    )


def setting_facts(point: OperatingPoint) -> tuple[Fact, ...]:
    """The operating point, by the names used in the report."""
    setting = point.setting
    facts: list[Fact]
    if isinstance(setting, LearnedLinks):
        facts = [
            (Message("fact.method"), Message("method.learned")),
            (Message("fact.price"), round(setting.price, 3)),
        ]
        purposes = [name for name, price in point.prices.items() if price == setting.price]
        if purposes:
            facts.append(
                (Message("fact.chosen"), [Message(f"purpose.{name}") for name in purposes])
            )
        if point.spread is not None:
            facts.append((Message("fact.spread"), _interval_rule(point.spread, point)))
    else:
        facts = [
            (Message("fact.method"), Message("method.temporal")),
            ("alpha", setting.alpha),
            ("gamma", setting.gamma),
            ("preference", setting.preference),
            (Message("fact.visual"), Message(f"visual.{point.form}")),
        ]
    facts.append((Message("fact.calibration"), point.origin))
    if point.alarms is not None:
        facts.append((Message("fact.alarms"), point.alarms.origin))
    if point.probes:
        facts.append((Message("fact.probes"), [Message.of(probe.origin) for probe in point.probes]))
    return tuple(facts)


def _interval_rule(spread: float, point: OperatingPoint) -> list[Message]:
    """How the interval of a count is made, see `OperatingPoint.widened`."""
    rule = [
        Message("spread.factor", {"factor": round(spread, 2)})
        if spread > 1
        else Message("spread.count")
    ]
    if point.margin:
        rule.append(Message("spread.margin", {"n": point.margin}))
    elif point.lone:
        rule.append(Message("spread.lone", {"n": point.lone}))
    return rule


def _procedure(
    procedure_id: str,
    linked: LinkedProcedure | None,
    prepared: Prepared,
    alarms: pl.DataFrame | None,
) -> ReportedProcedure:
    """A procedure of the report; without tracklets its time line is empty."""
    row: dict[str, Any] = prepared.data.procedures.row(
        by_predicate=pl.col("procedure_id") == procedure_id, named=True
    )
    polyps = prepared.data.polyps
    # Polyps without a tracklet count too; without any known polyp the true number is unknown.
    n_polyps = None if polyps.is_empty() else polyps.filter(procedure_id=procedure_id).height
    crops = prepared.crops(procedure_id)

    def tracklet_of(tracklet: Mapping[str, Any], predicted: str, score: float) -> ReportedTracklet:
        return ReportedTracklet(
            tracklet_id=tracklet["tracklet_id"],
            first=tracklet["first_frame"],
            last=tracklet["last_frame"],
            predicted=predicted,
            polyp_id=tracklet["polyp_id"],
            confidence=None if np.isnan(score) else float(score),
            crop=np.array(crops[tracklet["crop_first"] + tracklet["n_crops"] // 2]),  # the middle
            bridged=tracklet["bridged"],
        )

    alarm_rows = [] if alarms is None else alarms.filter(procedure_id=procedure_id).rows(named=True)
    empty = ReportedProcedure(
        procedure_id,
        row["n_frames"],
        (),
        fps=row["fps"],
        n_polyps=n_polyps,
        alarms=tuple(tracklet_of(item, "", item["shows_polyp"]) for item in alarm_rows),
    )
    if linked is None:
        return empty
    tracklets = linked.tracklets
    rows = tracklets.table.rows(named=True)
    identities, names = linked.identities, linked.identities.names
    of_each = zip(rows, identities.labels, identities.scores, strict=True)
    return replace(
        empty,
        tracklets=tuple(tracklet_of(item, names[label], score) for item, label, score in of_each),
        interval=identities.interval,
        readings=dict(zip(names, linked.readings, strict=True)),
        similarity=identities.similarity,
        converged=identities.converged,
        questions=tuple(question for question in identities.questions if question.close),
    )


def _training_curves(folder: Path, selection_loss: str) -> dict[str, tuple[float, ...]]:
    """Curves of the report from the history of a training run; none without it."""
    history = read_history(folder)
    columns = {"loss": "loss", "validation_loss": selection_loss, "tau": "tau", "purity": "purity"}
    return {name: tuple(history[key]) for name, key in columns.items() if key in history.columns}


def read_history(folder: Path) -> pl.DataFrame:
    """The history.csv of a training run, a row per epoch; no columns without the file.

    Raises:
        PolyplinkError: If the file is broken.
    """
    path = folder / "history.csv"
    if not path.is_file():
        return pl.DataFrame()
    try:
        history = pl.read_csv(path, infer_schema=False).cast(pl.Float64)
    except pl.exceptions.PolarsError:
        history = pl.DataFrame()
    if "loss" not in history.columns:
        raise PolyplinkError(
            f"{path} is not the history of a training run",
            "remove it; nothing but its curves is lost",
        )
    return history
