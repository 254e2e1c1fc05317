"""The contents of a report, the page of a count or an evaluation, and how they are filled.

The contents are the counted procedures, as count.json stores them, with pictures, similarities and
true polyps for one page. The other modules here turn contents into pages, tables and plots.
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
from polyplink.associate.identities import OperatingPoint
from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message, catalogue
from polyplink.core.runs import machine
from polyplink.counting.link import LinkedPart, LinkedProcedure, true_counts
from polyplink.counting.result import CountedProcedure, CountedTracklet
from polyplink.data.vocabulary import is_simulated
from polyplink.encoders.weights import weights_path
from polyplink.tracklets.prepare import Prepared

if TYPE_CHECKING:
    from polyplink.report.comparison import Comparison

Values = tuple[float | None, ...]
Line = str | Message  # a sentence in the language of the page, or text to show verbatim
Fact = tuple[Line, float | Line | Sequence[Message]]  # name and value of a setting


@dataclass(frozen=True)
class ReportedProcedure:
    """A counted procedure, with what only the report shows of it.

    Attributes:
        counted: Its count.
        n_frames: Frames in the recording.
        fps: Frames per second; None if unknown, the time line then shows frame numbers.
        n_polyps: True number of polyps, or None if unknown.
        true_polyps: Id of a counted tracklet -> the true polyp that it shows, where known.
        crops: Id of a tracklet -> one view of it, uint8 (height, width, 3) RGB.
        similarity: float (n, n), as clustered, ordered by counted polyp, then time; or None.

    Raises:
        PolyplinkError: If a tracklet ends after the recording.
    """

    counted: CountedProcedure
    n_frames: int
    fps: float | None = None
    n_polyps: int | None = None
    true_polyps: Mapping[str, str] = field(default_factory=dict, repr=False)
    crops: Mapping[str, NDArray[np.uint8]] = field(default_factory=dict, repr=False)
    similarity: NDArray[np.floating] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for tracklet in (*self.tracklets, *self.counted.alarms):
            if tracklet.last_frame >= self.n_frames:
                raise PolyplinkError(
                    f"procedure {self.counted.procedure_id!r}: tracklet {tracklet.tracklet_id!r} "
                    f"ends at frame {tracklet.last_frame} of {self.n_frames}",
                    "correct n_frames",
                )

    @property
    def tracklets(self) -> tuple[CountedTracklet, ...]:
        """The tracklets of all polyps."""
        return tuple(tracklet for polyp in self.counted.groups for tracklet in polyp.tracklets)


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
    part: LinkedPart,
    counted: Sequence[CountedProcedure],
    *,
    seconds: Mapping[str, float],
    comparison: "Comparison | None" = None,
    notes: Sequence[Line] = (),
    messages: Sequence[Message] = (),
    language: str = "en",
) -> Report:
    """The page of a count or an evaluation.

    Args:
        title: Headline.
        weights: Path or name of the weights; a training history in the same folder is shown.
        part: The linked part.
        counted: The count of each of its procedures, from `count_part.counted_procedures`.
        seconds: Time per stage.
        comparison: Table of methods; None for a count.
        notes: Notes.
        messages: Warnings.
        language: Language of the page.

    Raises:
        PolyplinkError: If the training history is broken.
    """
    prepared, encoder = part.encoded.prepared, part.encoded.first
    record = encoder.record
    linked = {procedure.procedure_id: procedure for procedure in part.procedures}
    true_numbers = true_counts(prepared.data, _annotated_procedures(prepared), every=True)
    seed = record.recipe.get("seed")
    selection_loss = "loss_bags" if record.origin.get("selected_by") == "bags" else "loss_labels"
    curves = _training_curves(weights_path(weights).parent, selection_loss)
    best = record.origin.get("epoch")
    return Report(
        title=title,
        weights=encoder.key,
        crops=prepared.key,
        seed=seed if isinstance(seed, int) else None,
        procedures=tuple(
            _procedure(
                procedure,
                linked.get(procedure.procedure_id),
                prepared,
                true_numbers.get(procedure.procedure_id),
            )
            for procedure in counted
        ),
        comparison=comparison,
        curves=curves,
        best_epoch=int(best) if curves and best is not None else None,
        operating_point=setting_facts(part.point),
        seconds=named_stages(seconds),
        notes=tuple(notes),
        warnings=tuple(messages),
        basis=part.cover.basis_of(procedure.low for procedure in counted) or "",
        ask_below=part.point.ask_below,
        language=language,
        **provenance(prepared),
    )


def provenance(prepared: Prepared) -> dict[str, Any]:
    """The data sets, date, machine and crop settings of a page, as fields of `Report`."""
    names, computer = prepared.data.procedures["dataset"].unique().sort().to_list(), machine()
    return {
        "dataset": ", ".join(names),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": Message("report.computer", computer | {"n": computer["cores"]}),
        "simulated": any(map(is_simulated, names)),
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
    if point.missed:
        rule.append(Message("spread.missed", {"n": point.missed}))
    return rule


def _annotated_procedures(prepared: Prepared) -> list[str]:
    """The procedures of data sets with a known polyp: any other data set is not annotated."""
    datasets = dict(prepared.data.procedures.select("procedure_id", "dataset").iter_rows())
    annotated = {datasets[name] for name in prepared.data.polyps["procedure_id"]}
    return [name for name in prepared.procedures if datasets[name] in annotated]


def _procedure(
    counted: CountedProcedure,
    linked: LinkedProcedure | None,
    prepared: Prepared,
    n_polyps: int | None,
) -> ReportedProcedure:
    """A procedure of the report; without linked tracklets its time line is empty."""
    name, data = counted.procedure_id, prepared.data
    row = data.procedures.row(by_predicate=pl.col("procedure_id") == name, named=True)
    crops, table = prepared.crops(name), prepared.tracklets.filter(procedure_id=name)
    middle = table.select("tracklet_id", pl.col("crop_first") + pl.col("n_crops") // 2)
    reported = ReportedProcedure(
        counted,
        row["n_frames"],
        fps=row["fps"],
        n_polyps=n_polyps,
        crops={tracklet_id: np.array(crops[i]) for tracklet_id, i in middle.iter_rows()},
    )
    if linked is None:
        return reported
    labels, first_frames = linked.identities.labels, linked.table["first_frame"].to_numpy()
    order = np.lexsort((first_frames, labels))
    return replace(
        reported,
        true_polyps=dict(linked.table.select("tracklet_id", "polyp_id").drop_nulls().iter_rows()),
        similarity=linked.identities.similarity[np.ix_(order, order)],
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
