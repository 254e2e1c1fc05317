"""The evaluator: retrieval, re-identification, counting and tracking from one set of embeddings.

Every verb that scores vectors asks here. `evaluate_embeddings` compares encoders on the same
tracklets and gives every figure with its interval; `evaluate_with_tables` gives the long tables too
(queries, the whole grid, tracks). Each task's mathematics is in the task's own file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from polyplink.associate.search import Grid, paper_grid
from polyplink.associate.similarity import Reals, VisualForm
from polyplink.core.errors import PolyplinkError, find_named
from polyplink.evaluate.choosing import CountingFigures, curve_table, operating_curve
from polyplink.evaluate.counting_task import (
    Clinic,
    Counted,
    count_task,
    counting_measures,
)
from polyplink.evaluate.intervals import (
    RESAMPLES,
    Figure,
    Resampled,
    Weights,
    draw_weights,
    no_different,
)
from polyplink.evaluate.reid import (
    published_reid,
    reid_measures,
    reid_rows,
    reidentify,
)
from polyplink.evaluate.retrieval import (
    RETRIEVAL,
    query_table,
    retrieval_figures,
    retrieval_measures,
    retrieve,
)
from polyplink.evaluate.samples import Samples, TrackletBoxes
from polyplink.evaluate.tracking import (
    TrackingTruth,
    tracking_curve,
    tracking_measures,
    tracking_rows,
)

TASKS = ("retrieval", "reid", "counting", "tracking")


@dataclass(frozen=True)
class EvaluationSettings:
    """How to evaluate.

    Attributes:
        grid: The clusterers' settings to search; the paper's by default.
        form: The form of the visual similarity, see `visual`.
        resamples: Resamples of the bootstrap over procedures.
        seed: Seed of the bootstrap.
        threads: Threads for the search; the figures do not depend on it.
        tasks: Which of `TASKS`; tracking needs boxes.
        clusterers: Those to report; none: all of the grid.
        chosen_on: Procedures to choose the clusterers' settings on. The others alone are
            evaluated. None: each procedure's setting is chosen on all others.
        without_own: Also retrieval without the other polyps of the query's own procedure.
    """

    grid: Grid = field(default_factory=paper_grid)
    form: VisualForm = "l2"
    resamples: int = RESAMPLES
    seed: int = 0
    threads: int = 1
    tasks: tuple[str, ...] = ("retrieval", "reid", "counting")
    clusterers: tuple[str, ...] = ()
    chosen_on: tuple[str, ...] = ()
    without_own: bool = False

    def draws(self, procedures: int) -> Weights:
        """The bootstrap's draws, the same for every encoder."""
        return draw_weights(procedures, resamples=self.resamples, seed=self.seed)


@dataclass(frozen=True)
class Facts:
    """Additional inputs of some tasks.

    Attributes:
        boxes: Boxes of all samples, in their order; for tracking.
        adenoma: Whether each sample's polyp is an adenoma (n,), None where unknown; for the
            adenoma detection rate.
    """

    boxes: TrackletBoxes | None = None
    adenoma: Sequence[bool | None] | None = None


@dataclass(frozen=True)
class EncoderFigures:
    """All tasks of one encoder; those not asked for are None or empty.

    Attributes:
        figures: Every figure with its interval, by name: "mAP", "threshold/FR",
            "tracking/threshold/HOTA" and so on.
        retrieval: Queries, and retrieval by procedure, see `retrieval_figures`.
        pairs: Pairs that re-identification rests on: of one polyp, and of two.
        reid: Re-identification within each procedure, see `reid_rows`.
        counting: By clusterer, as far as the grid has them.
        converged: By clusterer, whether each fold's clustering converged under its setting.
        clinic: By clusterer, polyps and adenomas per colonoscopy, as they are and as counted.
        tracking: By clusterer, see `tracking_rows`.
        not_converged: Share of affinity propagations (settings x procedures) that did not
            converge.
        not_counted: Procedures left out of counting because no polyp of theirs is known.
    """

    figures: dict[str, Figure]
    retrieval: dict[str, Any] | None = None
    pairs: tuple[int, int] | None = None
    reid: tuple[dict[str, Any], ...] = ()
    counting: dict[str, CountingFigures] = field(default_factory=dict)
    converged: dict[str, tuple[bool, ...]] = field(default_factory=dict)
    clinic: dict[str, Clinic] = field(default_factory=dict)
    tracking: dict[str, dict[str, Any]] = field(default_factory=dict)
    not_converged: float = 0.0
    not_counted: tuple[str, ...] = ()


@dataclass(frozen=True)
class Evaluation:
    """Comparison of encoders on the same tracklets.

    Attributes:
        encoders: Figures by the encoder's name.
        reference: The encoder the others are compared with.
        minus_reference: By every other encoder's name and figure: it minus the reference, paired.
        no_different: By figure: the best encoder and those no different from it, see the function
            of that name.
        tracklets: Tracklets given.
        procedures: Procedures evaluated.
        tasks: What was evaluated.
    """

    encoders: dict[str, EncoderFigures]
    reference: str
    minus_reference: dict[str, dict[str, Figure]]
    no_different: dict[str, tuple[str, ...]]
    tracklets: int
    procedures: int
    tasks: tuple[str, ...]


@dataclass(frozen=True)
class EvaluationTables:
    """What is too long for a record: one table each, every row with its method's name.

    Attributes:
        queries: One row per query, see `query_table`.
        curve: One row per setting of each clusterer, see `curve_table`.
        assignment: The cluster and track of every tracklet under its fold's setting.
    """

    queries: pl.DataFrame
    curve: pl.DataFrame
    assignment: pl.DataFrame


def evaluate_embeddings(
    vectors: Mapping[str, npt.ArrayLike],
    samples: Samples,
    settings: EvaluationSettings | None = None,
    *,
    reference: str | None = None,
    facts: Facts | None = None,
) -> Evaluation:
    """Evaluate encoders on the same tracklets; arguments as of `evaluate_with_tables`.

    To get single figures by name, ask for the tasks and clusterers that they need and look them
    up: in `EncoderFigures.figures` those with an interval ("mAP", "threshold/FR"), in its
    `counting[clusterer].summary` and `tracking[clusterer].spreads` those that papers print as
    mean ± sd over procedures. Only requested tasks run.

    Example:
        >>> samples = Samples.of("abcd", "vvww", ["p", "p", "q", "q"], [0, 1, 0, 1])
        >>> vectors = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
        >>> settings = EvaluationSettings(tasks=("retrieval", "reid"), resamples=100)
        >>> found = evaluate_embeddings({"ours": vectors}, samples, settings)
        >>> found.encoders["ours"].figures["mAP"]
        Figure(value=1.0, low=1.0, high=1.0, n=2, sd=None, why='')
    """
    return evaluate_with_tables(vectors, samples, settings, reference=reference, facts=facts)[0]


def evaluate_with_tables(
    vectors: Mapping[str, npt.ArrayLike],
    samples: Samples,
    settings: EvaluationSettings | None = None,
    *,
    reference: str | None = None,
    facts: Facts | None = None,
) -> tuple[Evaluation, EvaluationTables]:
    """Evaluate encoders on the same tracklets.

    Args:
        vectors: By encoder's name, embeddings (n, d) in the order of the samples.
        samples: The tracklets of these vectors; those of unknown polyp are clustered,
            then left out.
        settings: How to evaluate; the paper's grid and 10,000 resamples by default.
        reference: The encoder to compare the others with; the first by default.
        facts: What tracking and the adenoma detection rate need.

    Returns:
        Figures of every encoder with the paired differences to the reference, and tables.

    Raises:
        PolyplinkError: If there is no encoder, the reference is none of them, the vectors do not
            match the samples, a vector is zero or not finite, or a task lacks what it needs.
    """
    settings, facts = settings or EvaluationSettings(), facts or Facts()
    _check_tasks(samples, settings, facts)
    checked = _checked(vectors, samples)
    base = next(iter(checked)) if reference is None else reference
    PolyplinkError.unless(
        base in checked,
        f"reference encoder {base!r} is not among those given",
        f"choose one of: {', '.join(checked)}",
    )
    truths = _truths(samples, facts.boxes) if facts.boxes and "tracking" in settings.tasks else {}
    done = {
        name: _evaluate_encoder(rows, samples, settings, facts.adenoma, truths)
        for name, rows in checked.items()
    }
    measures = {name: found for name, (found, _, _) in done.items()}
    ideals: dict[str, float] = {}  # what a clinic's rates are in truth: the best a count can say
    for name, clinic in done[base][1].clinic.items():
        ideals[f"{name}/PPC"] = clinic.ppc
        if clinic.adr is not None:
            ideals[f"{name}/ADR"] = clinic.adr
    evaluation = Evaluation(
        encoders={name: figures for name, (_, figures, _) in done.items()},
        reference=base,
        minus_reference={
            name: {key: value.minus(measures[base][key]) for key, value in own.items()}
            for name, own in measures.items()
            if name != base
        },
        no_different={
            key: no_different(key, {name: own[key] for name, own in measures.items()}, ideals)
            for key in measures[base]
        },
        tracklets=len(samples.tracklet_ids),
        procedures=len(samples.procedures) - len(settings.chosen_on),
        tasks=settings.tasks,
    )

    def stacked(table: str) -> pl.DataFrame:
        parts = [
            part.select(pl.lit(method).alias("method"), pl.all())
            for method, (_, _, tables) in done.items()
            for part in tables.get(table, ())
            if part.width
        ]
        return pl.concat(parts, how="diagonal") if parts else pl.DataFrame()

    return evaluation, EvaluationTables(stacked("queries"), stacked("curve"), stacked("assignment"))


def _check_tasks(samples: Samples, settings: EvaluationSettings, facts: Facts) -> None:
    """Refuse what cannot be done before anything is computed."""
    for task in settings.tasks:
        find_named("task", task, dict.fromkeys(TASKS))
    PolyplinkError.unless(bool(settings.tasks), "no task", f"name some of: {', '.join(TASKS)}")
    PolyplinkError.unless(
        "tracking" not in settings.tasks or facts.boxes is not None,
        "tracking needs boxes, and none were given",
        "give Facts(boxes=...), or leave tracking out",
    )
    n = len(samples.tracklet_ids)
    given = (facts.boxes.polyp.size if facts.boxes else n, len(facts.adenoma or [None] * n))
    PolyplinkError.unless(
        given == (n, n),
        f"boxes of {given[0]} and histology of {given[1]} tracklets for {n} samples",
        "give them for all samples, in their order",
    )
    strange = sorted(set(settings.chosen_on) - set(samples.procedures))
    PolyplinkError.unless(
        not strange,
        f"procedure {strange[:1]} to choose settings on is not among the samples",
        "name procedures that have tracklets",
    )
    PolyplinkError.unless(
        not settings.chosen_on or set(settings.chosen_on) != set(samples.procedures),
        "settings are chosen on all procedures, and none is left to evaluate",
        "name other procedures to choose on",
    )


def _checked(
    vectors: Mapping[str, npt.ArrayLike], samples: Samples
) -> dict[str, tuple[Reals, Reals]]:
    """By encoder, vectors (n, d) in float64 as they are, and scaled to length 1."""
    if not vectors:
        raise PolyplinkError("no encoder to evaluate", "give the embeddings of at least one")
    checked = {}
    for name, rows in vectors.items():
        try:
            checked[name] = np.asarray(rows, dtype=np.float64), samples.unit_rows(rows)
        except PolyplinkError as error:
            raise PolyplinkError(f"encoder {name!r}: {error.what}", error.mend) from None
    return checked


def _truths(samples: Samples, boxes: TrackletBoxes) -> dict[str, TrackingTruth]:
    """By procedure with labels, what the tracks of all encoders are scored against."""
    truths = {}
    for place in np.flatnonzero(samples.labelled):
        rows = np.flatnonzero((samples.procedure == place) & samples.known)
        name = samples.procedures[place]
        truths[name] = TrackingTruth.of(name, boxes.take(rows))
    return truths


Tables = dict[str, list[pl.DataFrame]]


def _evaluate_encoder(
    rows: tuple[Reals, Reals],
    samples: Samples,
    settings: EvaluationSettings,
    adenoma: Sequence[bool | None] | None,
    truths: Mapping[str, TrackingTruth],
) -> tuple[dict[str, Resampled], EncoderFigures, Tables]:
    """All tasks that are asked for, of one encoder.

    Args:
        rows: Embeddings (n, d) as they are, and scaled to length 1.
        samples: The tracklets of these vectors.
        settings: How to evaluate.
        adenoma: Whether each sample's polyp is an adenoma (n,), None where unknown.
        truths: By procedure, what tracks are scored against; empty without tracking.

    Returns:
        Figures with their resamples, the encoder's figures, and the parts of each table.
    """
    measures: dict[str, Resampled] = {}
    fields: dict[str, Any] = {}  # of `EncoderFigures`
    tables: Tables = {}
    chosen_on = np.isin(np.array(samples.procedures), settings.chosen_on)
    vectors, unit = rows
    evaluated = np.flatnonzero(~chosen_on[samples.procedure])
    own, part = unit[evaluated], samples.take(evaluated)
    if "retrieval" in settings.tasks:
        names = [*RETRIEVAL, "mAP (as published)"]
        names += [f"{name} (without own)" for name in RETRIEVAL] if settings.without_own else []
        retrieval = retrieve(own, part)
        measures |= retrieval_measures(retrieval, part, settings.draws(len(part.procedures)), names)
        fields["retrieval"] = retrieval_figures(retrieval, part)
        tables["queries"] = [query_table(retrieval, part)]
    if "reid" in settings.tasks:
        reid, published = reidentify(own, part), published_reid(own, part)
        measures |= reid_measures(reid, published, part, settings.draws(len(part.procedures)))
        fields |= {"pairs": (reid.positives, reid.negatives), "reid": reid_rows(own, part)}
    if {"counting", "tracking"} & set(settings.tasks):
        counted = count_task(
            vectors,
            samples,
            settings.grid,
            form=settings.form,
            clusterers=settings.clusterers,
            chosen_on=settings.chosen_on,
            adenoma=adenoma,
            threads=settings.threads,
        )
        unlabelled = np.flatnonzero(~samples.labelled)
        fields["not_counted"] = tuple(samples.procedures[place] for place in unlabelled)
        found, more, tables["curve"], tables["assignment"] = _clustered(counted, settings, truths)
        measures |= found
        fields |= more
    figures = {name: measure.figure() for name, measure in measures.items()}
    return measures, EncoderFigures(figures, **fields), tables


def _clustered(
    counted: Mapping[str, Counted],
    settings: EvaluationSettings,
    truths: Mapping[str, TrackingTruth],
) -> tuple[dict[str, Resampled], dict[str, Any], list[pl.DataFrame], list[pl.DataFrame]]:
    """Counting, and tracking under the settings chosen for it, as far as each is asked for.

    Returns:
        Figures with their resamples, fields of `EncoderFigures`, and of each clusterer the table
        of all settings and that of the clusters.
    """
    measures: dict[str, Resampled] = {}
    curves, assignments, tracking = [], [], {}
    for name, one in counted.items():
        weights = settings.draws(len(one.figures.folds) or len(one.counts))
        curve: dict[str, Reals] = {}
        assignment = one.assignment
        if "counting" in settings.tasks:
            measures |= counting_measures(name, one, weights)
            curve |= operating_curve(one.counts, one.converged)
        if truths:
            tracked = {
                counts.procedure: (truths[counts.procedure].score(cut.labels), cut.of)
                for counts, cut in zip(one.counts, one.cuts, strict=True)
            }
            curve |= tracking_curve(*zip(*tracked.values(), strict=True))
            folds = []
            for fold in one.figures.folds:
                every, of = tracked[fold["procedure"]]
                folds.append(every.take(of[fold["choice"].row]))
            measures |= tracking_measures(name, folds, weights)
            tracking[name] = tracking_rows(folds, truths)
            if folds:
                tracks = np.concatenate([fold.track for fold in folds])
                assignment = assignment.with_columns(track=pl.Series(tracks, dtype=pl.Int64))
        table = curve_table(one.settings, curve)
        curves.append(table.select(pl.lit(name).alias("clusterer"), pl.all()))
        assignments.append(assignment)
    fields: dict[str, Any] = {"tracking": tracking}
    if "temporal_ap" in counted:
        fields["not_converged"] = counted["temporal_ap"].not_converged
    if "counting" in settings.tasks:
        fields["counting"] = {name: one.figures for name, one in counted.items()}
        fields["converged"] = {name: one.fold_converged for name, one in counted.items()}
        fields["clinic"] = {name: one.clinic for name, one in counted.items() if one.clinic}
    return measures, fields, curves, assignments


def nothing_evaluated(names: Sequence[str], samples: Samples) -> Evaluation:
    """Encoders, the reference first, without any of these tasks: figures come from elsewhere."""
    many = len(samples.tracklet_ids), len(samples.procedures)
    others: dict[str, dict[str, Figure]] = {name: {} for name in names[1:]}
    return Evaluation({name: EncoderFigures({}) for name in names}, names[0], others, {}, *many, ())
