"""The evaluator: retrieval, re-identification, counting and tracking from one set of embeddings.

Every verb that scores vectors uses it. The metrics of each task are computed in a separate file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from polyplink.associate.clusterers import Clusterings, TemporalAP
from polyplink.associate.grid_search import Grid, find_grid, search, without_links
from polyplink.associate.identities import Purpose
from polyplink.associate.links import NotFitted, Views, fit_and_cross_fit
from polyplink.associate.similarity import VisualForm, visual
from polyplink.core.arrays import Floats, Ints
from polyplink.core.errors import PolyplinkError, find_named
from polyplink.core.text import short_repr
from polyplink.evaluate.counting import Clinic, clinic_figures, clinic_row, count_procedure
from polyplink.evaluate.counting_figures import (
    CountedProcedure,
    CountingFigures,
    counting_figures,
    counting_measures,
    operating_curve,
)
from polyplink.evaluate.intervals import (
    RESAMPLES,
    Figure,
    Resampled,
    Weights,
    draw_weights,
    no_different,
)
from polyplink.evaluate.metric import TASKS, ideal_of, metrics_of
from polyplink.evaluate.reid import published_reid, reid_measures, reid_rows, reidentify
from polyplink.evaluate.retrieval import (
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

TimeUnit = Literal["normalised", "frames"]


@dataclass(frozen=True)
class EvaluationSettings:
    """Settings of an evaluation.

    Attributes:
        grid: The settings to search, by clusterer in the order of the figures; by default the
            paper's, of all that are built in.
        form: The form of the visual similarity, see `visual`.
        time: Unit of the distance in time that gamma multiplies: "normalised", the procedure's
            annotated span (temporally-aware counting), or "frames" (thesis, 2.3).
        resamples: Number of resamples of the bootstrap over procedures.
        seed: Seed of the bootstrap.
        threads: Number of threads for the search; the figures do not depend on it.
        tasks: Tasks of `TASKS`; tracking needs boxes.
        chosen_on: Procedures on which the clusterers' settings are chosen and links are fitted;
            only the others are evaluated. If empty, each procedure's setting is chosen on all
            others, and its links are those of a model fitted without it.
        purpose: Purpose for which settings are chosen, see `choose`.
        without_own: Also evaluate retrieval without the other polyps of the query's procedure.
        metrics: Names of metrics of packages or files, in addition to the built-in ones.
    """

    grid: Grid = field(default_factory=lambda: find_grid("paper"), repr=False)
    form: VisualForm = "l2"
    time: TimeUnit = "normalised"
    resamples: int = RESAMPLES
    seed: int = 0
    threads: int = 1
    tasks: tuple[str, ...] = ("retrieval", "reid", "counting")
    chosen_on: tuple[str, ...] = ()
    purpose: Purpose = "published"
    without_own: bool = False
    metrics: tuple[str, ...] = ()

    def draws(self, procedures: int) -> Weights:
        """The bootstrap's draws, the same for every encoder."""
        return draw_weights(procedures, resamples=self.resamples, seed=self.seed)


@dataclass(frozen=True)
class EncoderFigures:
    """All tasks of one encoder; tasks that were not requested are None or empty.

    Attributes:
        figures: Every figure with its interval, by name: "mAP", "threshold/FR",
            "tracking/threshold/HOTA" and so on.
        retrieval: Queries, and retrieval by procedure, see `retrieval_figures`.
        pairs: Numbers of pairs in re-identification: of the same polyp, and of different ones.
        reid: Re-identification within each procedure, see `reid_rows`.
        counting: Counting by clusterer.
        converged: Whether each fold's clustering converged under its setting, by clusterer.
        clinic: True and counted polyps and adenomas per colonoscopy, by clusterer.
        tracking: Tracking by clusterer, see `tracking_rows`.
        not_converged: Share of affinity propagations (settings x procedures) that did not
            converge.
        not_counted: Procedures left out of counting because none of their polyps is known.
        no_links: Why there are no learned links; empty if there are, or none were requested.
    """

    __repr__ = short_repr

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
    no_links: str = ""


@dataclass(frozen=True)
class Evaluation:
    """Comparison of encoders on the same tracklets.

    Attributes:
        encoders: Figures by the encoder's name.
        reference: Name of the first encoder, with which the others are compared.
        minus_reference: Paired differences to the reference, by encoder and figure.
        no_different: The best encoder and those that do not differ from it, by figure; see the
            function of the same name.
        minus_clusterer: Paired differences to the first clusterer on the same vectors, by encoder,
            clusterer and figure; see `minus_first_clusterer`.
        tracklets: Number of tracklets of the evaluated procedures.
        procedures: Number of evaluated procedures: those on which settings were chosen are not.
        tasks: The evaluated tasks.
    """

    encoders: dict[str, EncoderFigures] = field(repr=False)
    reference: str
    minus_reference: dict[str, dict[str, Figure]] = field(repr=False)
    no_different: dict[str, tuple[str, ...]] = field(repr=False)
    minus_clusterer: dict[str, dict[str, dict[str, Figure]]] = field(repr=False)
    tracklets: int
    procedures: int
    tasks: tuple[str, ...]


def evaluate_embeddings(
    vectors: Mapping[str, npt.ArrayLike],
    samples: Samples,
    settings: EvaluationSettings | None = None,
    *,
    boxes: TrackletBoxes | None = None,
    adenoma: Sequence[bool | None] | None = None,
) -> tuple[Evaluation, dict[str, pl.DataFrame]]:
    """Evaluate encoders on the same tracklets; only the requested tasks run.

    To get single figures by name, request the tasks and clusterers that they need. Figures with an
    interval ("mAP", "threshold/FR") are in `EncoderFigures.figures`; those that papers print as
    mean ± sd over procedures are in its `counting[clusterer].summary` and
    `tracking[clusterer]["spreads"]`.

    Args:
        vectors: Embeddings (n, d) in the order of the samples, by encoder; the others are compared
            with the first.
        samples: The tracklets of these vectors; those of unknown polyp are clustered, then left
            out.
        settings: Settings; by default the paper's grid and 10,000 resamples.
        boxes: Boxes of all samples, in their order; for tracking.
        adenoma: Whether each sample's polyp is an adenoma (n,), None if unknown; for the adenoma
            detection rate.

    Returns:
        Figures of every encoder with paired differences to the first; and, depending on the
        tasks, long tables with a column of methods: "queries", one row per query, see
        `query_table`; "curve", the parameters and figures of every setting of each clusterer, see
        `operating_curve` and `tracking_curve`; "assignment", the cluster and track of every
        tracklet of known polyp under its fold's setting.

    Raises:
        PolyplinkError: If there is no encoder, the vectors do not match the samples, a vector is
            zero or not finite, or an input of a task is missing.

    Example:
        >>> samples = Samples.of("abcd", "vvww", ["p", "p", "q", "q"], [0, 1, 0, 1])
        >>> vectors = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
        >>> settings = EvaluationSettings(tasks=("retrieval", "reid"), resamples=100)
        >>> evaluation, tables = evaluate_embeddings({"A": vectors}, samples, settings)
        >>> evaluation.encoders["A"].figures["mAP"]
        Figure(value=1.0, low=None, high=None, n=2, sd=None, why='')
        >>> tables["queries"]["nearest"].to_list()
        ['b', 'a', 'd', 'c']
    """
    settings = settings or EvaluationSettings()
    _check_tasks(samples, settings, boxes, adenoma)
    unit = _unit_vectors(vectors, samples)
    if not unit:
        raise PolyplinkError("no encoder to evaluate", "give the embeddings of at least one")

    # Each encoder alone.
    truths = _truths(samples, settings, boxes)
    encoders, measures = {}, {}
    parts: dict[str, list[pl.DataFrame]] = {}
    for name, rows in unit.items():
        raw = np.asarray(vectors[name], dtype=np.float64)
        encoders[name], measures[name], tables = _evaluate_encoder(
            raw, rows, samples, settings, adenoma=adenoma, truths=truths
        )
        method = pl.lit(name).alias("method")
        for table, pieces in tables.items():
            parts.setdefault(table, []).extend(part.select(method, pl.all()) for part in pieces)

    # Encoders compared with each other. The best value of a clinical rate is the true one.
    base = next(iter(encoders))
    ideals: dict[str, float] = {}
    for clusterer, clinic in encoders[base].clinic.items():
        ideals[f"{clusterer}/PPC"] = clinic.ppc
        if clinic.adr is not None:
            ideals[f"{clusterer}/ADR"] = clinic.adr
    minus_reference = {}
    for name, values in measures.items():
        if name != base:
            gaps = {key: value.minus(measures[base][key]) for key, value in values.items()}
            minus_reference[name] = gaps
    alike = {}
    for key in measures[base]:
        of_encoders = {name: values[key] for name, values in measures.items()}
        alike[key] = no_different(of_encoders, ideals.get(key, ideal_of(key, settings.metrics)))
    evaluated = ~np.isin(np.asarray(samples.procedures), settings.chosen_on)  # (procedures,)
    evaluation = Evaluation(
        encoders=encoders,
        reference=base,
        minus_reference=minus_reference,
        no_different=alike,
        minus_clusterer={name: minus_first_clusterer(values) for name, values in measures.items()},
        tracklets=int(evaluated[samples.procedure].sum()),
        procedures=int(evaluated.sum()),
        tasks=settings.tasks,
    )
    return evaluation, {
        name: pl.concat(pieces, how="diagonal") for name, pieces in parts.items() if pieces
    }


def _unit_vectors(vectors: Mapping[str, npt.ArrayLike], samples: Samples) -> dict[str, Floats]:
    """Vectors (n, d) of each encoder scaled to length 1; an error names the encoder."""
    unit = {}
    for name, rows in vectors.items():
        try:
            unit[name] = samples.unit_rows(rows)
        except PolyplinkError as error:
            raise PolyplinkError(f"encoder {name!r}: {error.what}", error.hint) from None
    return unit


def minus_first_clusterer(measures: Mapping[str, Resampled]) -> dict[str, dict[str, Figure]]:
    """Compare clusterers with the first one on the same vectors and the same draws.

    Args:
        measures: All figures of one encoder ("threshold/FR", "tracking/threshold/HOTA").

    Returns:
        Differences with their intervals, by other clusterer and figure ("FR", "tracking/HOTA").
    """
    differences: dict[str, dict[str, Figure]] = {}
    split = {tuple(key.split("/")): measure for key, measure in measures.items() if "/" in key}
    first = next((key[-2] for key in split), "")
    for (*group, clusterer, figure), measure in split.items():
        if clusterer != first:
            gap = measure.minus(split[*group, first, figure])
            differences.setdefault(clusterer, {})["/".join([*group, figure])] = gap
    return differences


def evaluate_encoder(
    vectors: npt.ArrayLike,
    samples: Samples,
    settings: EvaluationSettings,
    boxes: TrackletBoxes | None = None,
) -> tuple[EncoderFigures, dict[str, Resampled]]:
    """Evaluate one encoder; arguments and errors are as for `evaluate_embeddings`.

    Returns:
        Its figures, and the resamples by figure, for paired comparisons (`no_different`).
    """
    _check_tasks(samples, settings, boxes, None)
    raw, truths = np.asarray(vectors, dtype=np.float64), _truths(samples, settings, boxes)
    unit = samples.unit_rows(vectors)
    figures, measures, _ = _evaluate_encoder(
        raw, unit, samples, settings, adenoma=None, truths=truths
    )
    return figures, measures


def _truths(
    samples: Samples, settings: EvaluationSettings, boxes: TrackletBoxes | None
) -> dict[str, TrackingTruth]:
    """The true tracks of procedures with labels, by procedure; empty without tracking."""
    if boxes is None or "tracking" not in settings.tasks:
        return {}
    truths = {}
    for place in np.flatnonzero(samples.labelled_procedures):
        name = samples.procedures[place]
        rows = np.flatnonzero((samples.procedure == place) & samples.labelled)
        truths[name] = TrackingTruth.of(name, boxes.take(rows))
    return truths


def _check_tasks(
    samples: Samples,
    settings: EvaluationSettings,
    boxes: TrackletBoxes | None,
    adenoma: Sequence[bool | None] | None,
) -> None:
    """Check settings and inputs before anything is computed."""
    for task in settings.tasks:
        find_named("task", task, dict.fromkeys(TASKS))
    if "tracking" in settings.tasks and boxes is None:
        raise PolyplinkError(
            "tracking needs boxes, and none were given", "give boxes=..., or leave tracking out"
        )
    n = len(samples.tracklet_ids)
    lengths = (boxes.polyp.size if boxes else n, len(adenoma or [None] * n))
    if lengths != (n, n):
        raise PolyplinkError(
            f"boxes of {lengths[0]} and histology of {lengths[1]} tracklets for {n} samples",
            "give them for all samples, in their order",
        )
    unknown = sorted(set(settings.chosen_on) - set(samples.procedures))
    if unknown:
        raise PolyplinkError(
            f"procedure {min(unknown)} to choose settings on is not among the samples",
            "name procedures that have tracklets",
        )
    if settings.time != "normalised" and not set(samples.procedures) <= set(samples.spans):
        raise PolyplinkError(
            "times in frames need the length of every procedure's annotated span",
            "give Samples.of(..., spans=...), or use normalised times",
        )
    if settings.chosen_on and set(settings.chosen_on) == set(samples.procedures):
        raise PolyplinkError(
            "settings are chosen on all procedures, so none is left to evaluate",
            "name other procedures to choose on",
        )


Tables = dict[str, list[pl.DataFrame]]  # the parts of each table, by name


def _evaluate_encoder(
    vectors: Floats,
    unit: Floats,
    samples: Samples,
    settings: EvaluationSettings,
    *,
    adenoma: Sequence[bool | None] | None,
    truths: Mapping[str, TrackingTruth],
) -> tuple[EncoderFigures, dict[str, Resampled], Tables]:
    """Evaluate all requested tasks, from vectors (n, d), unscaled and scaled to length 1.

    Returns:
        The figures; the same with their resamples; the parts of each table.
    """
    measures: dict[str, Resampled] = {}
    fields: dict[str, Any] = {}
    tables: Tables = {}
    chosen_on = np.isin(np.array(samples.procedures), settings.chosen_on)
    evaluated = np.flatnonzero(~chosen_on[samples.procedure])
    unit_there, part = unit[evaluated], samples.take(evaluated)
    if "retrieval" in settings.tasks:
        retrieval = retrieve(unit_there, part)
        measures |= retrieval_measures(
            retrieval,
            part,
            settings.draws(len(part.procedures)),
            metrics_of("retrieval", settings.metrics),
            without_own=settings.without_own,
        )
        fields["retrieval"] = retrieval_figures(retrieval, part)
        tables["queries"] = [query_table(retrieval, part)]
    if "reid" in settings.tasks:
        reid, published = reidentify(unit_there, part), published_reid(unit_there, part)
        measures |= reid_measures(reid, published, part, settings.draws(len(part.procedures)))
        fields |= {"pairs": (reid.positives, reid.negatives), "reid": reid_rows(unit_there, part)}
    if {"counting", "tracking"} & set(settings.tasks):
        clustered, counts, clusterer_tables = _count_and_track(
            vectors, samples, settings, adenoma, truths
        )
        measures, fields, tables = measures | clustered, fields | counts, tables | clusterer_tables
    figures = {key: measure.figure() for key, measure in measures.items()}
    return EncoderFigures(figures, **fields), measures, tables


def _polyps(samples: Samples, rows: Ints) -> list[int | None]:
    """The polyps (k,) of some samples; None if unknown."""
    codes = zip(samples.polyp[rows].tolist(), samples.labelled[rows], strict=True)
    return [code if is_known else None for code, is_known in codes]


def _links(
    vectors: Floats,
    samples: Samples,
    rows: Mapping[str, Ints],
    settings: EvaluationSettings,
) -> tuple[dict[str, Floats], str]:
    """Link probabilities (n, n) of labelled procedures, by models fitted on other procedures.

    Returns:
        The probabilities by procedure, in the order of the rows; or none, and the reason why.
    """
    if samples.moments is None:
        return {}, "the times of the tracklets are unknown"
    views_of = {}
    for procedure, tracklets in rows.items():
        polyps = [None if polyp is None else str(polyp) for polyp in _polyps(samples, tracklets)]
        frames = None if samples.frames is None else samples.frames[tracklets]
        views = Views(vectors[tracklets], *samples.moments[tracklets].T, frames=frames)
        views_of[procedure] = (views, polyps)
    fitted_on = [name for name in views_of if not settings.chosen_on or name in settings.chosen_on]
    try:
        model, crossed = fit_and_cross_fit([[views_of[name]] for name in fitted_on])
    except NotFitted as error:
        return {}, str(error)
    left_out = dict(zip(fitted_on, crossed, strict=True))
    return {
        name: left_out[name][0] if name in left_out else model.probability(views)
        for name, (views, _) in views_of.items()
    }, ""


Searched = dict[str, dict[str, Clusterings]]  # by procedure and clusterer


def _search(
    vectors: Floats, samples: Samples, settings: EvaluationSettings
) -> tuple[Grid, dict[str, Ints], Searched, str]:
    """Cluster every labelled procedure under the whole grid.

    Returns:
        The searched grid; rows of each procedure's tracklets; its clusterings; and why there are no
        learned links, if they were requested.
    """
    clusterings = {}
    rows = {
        samples.procedures[place]: np.flatnonzero(samples.procedure == place)
        for place in np.flatnonzero(samples.labelled_procedures)
    }
    with_links = "links" in settings.grid
    probabilities, no_links = _links(vectors, samples, rows, settings) if with_links else ({}, "")
    grid = settings.grid if probabilities else without_links(settings.grid)
    if not grid and no_links:
        raise PolyplinkError(
            f"there are no learned links: {no_links}", "name another --clusterer too"
        )
    for procedure, tracklets in rows.items():
        clusterings[procedure] = search(
            visual(vectors[tracklets], settings.form),
            samples.positions[tracklets],
            _per_frame_grid(grid, samples.spans[procedure]) if settings.time == "frames" else grid,
            P=probabilities.get(procedure),
            threads=settings.threads,
        )
    return grid, rows, clusterings, no_links


def _per_frame_grid(grid: Grid, span: float) -> Grid:
    """The grid with gammas per frame converted to gammas for positions in a span of frames."""
    return {
        name: [s.in_frames(span) if isinstance(s, TemporalAP) else s for s in settings]
        for name, settings in grid.items()
    }


def _count_and_track(
    vectors: Floats,
    samples: Samples,
    settings: EvaluationSettings,
    adenoma: Sequence[bool | None] | None,
    truths: Mapping[str, TrackingTruth],
) -> tuple[dict[str, Resampled], dict[str, Any], Tables]:
    """Cluster every procedure under the whole grid; count, and track with the same settings.

    Returns:
        Figures with their resamples; fields of `EncoderFigures`; the parts of each table.
    """
    grid, rows, searched, no_links = _search(vectors, samples, settings)
    polyps = {procedure: _polyps(samples, tracklets) for procedure, tracklets in rows.items()}
    measures: dict[str, Resampled] = {}
    unlabelled = np.array(samples.procedures)[~samples.labelled_procedures].tolist()
    fields: dict[str, Any] = {"not_counted": tuple(unlabelled), "no_links": no_links}
    fields["tracking"] = {}
    if "counting" in settings.tasks:
        fields |= {"counting": {}, "converged": {}, "clinic": {}}
    curves, assignments = [], []
    for name, grid_settings in grid.items():
        # Every procedure under every setting.
        counts = [
            count_procedure(searched[procedure][name].labels, polyps[procedure], procedure)
            for procedure in rows
        ]
        converged = [searched[procedure][name].converged for procedure in rows]
        if name == "temporal_ap":
            fields["not_converged"] = float(1 - np.concatenate(converged).mean())
        figures = counting_figures(counts, grid_settings, settings.chosen_on, settings.purpose)
        folds, weights = figures.folds, settings.draws(len(figures.folds) or len(counts))
        scores_of = {
            c.procedure: truths[c.procedure].score(c.partitions.labels) for c in counts if truths
        }
        partition_rows = {c.procedure: c.partitions.row_of for c in counts}

        # Every procedure under the setting chosen on others.
        counted_procedures, has_converged, tracks = list[CountedProcedure](), [], []
        for fold in folds:
            procedure, setting = fold["procedure"], fold["choice"].row
            clusterings, is_labelled = searched[procedure][name], samples.labelled[rows[procedure]]
            tracklets = rows[procedure][is_labelled].tolist()
            labels = clusterings.labels[setting][is_labelled]
            has_converged.append(bool(clusterings.converged[setting]))
            adenomas = [adenoma[row] if adenoma else None for row in tracklets]
            truth = samples.polyp[tracklets].tolist()
            clinic = clinic_row(procedure, labels, truth, adenomas)
            counted_procedures.append(CountedProcedure(fold, labels, np.asarray(truth), clinic))
            if truths:
                tracks.append(scores_of[procedure].take(partition_rows[procedure][setting]))
            columns = {
                "clusterer": name,
                "procedure_id": procedure,
                "tracklet_id": [samples.tracklet_ids[row] for row in tracklets],
                "cluster": pl.Series(labels, dtype=pl.Int64),
                "track": pl.Series(tracks[-1].track, dtype=pl.Int64) if truths else None,
                "converged": has_converged[-1],
            }
            assignments.append(pl.DataFrame(columns, schema_overrides={"track": pl.Int64}))

        # Figures of these settings, and of each setting for all procedures.
        curve: dict[str, Floats] = {}
        if "counting" in settings.tasks:
            rates = clinic_figures([dict(procedure.clinic) for procedure in counted_procedures])
            counting = metrics_of("counting", settings.metrics)
            measures |= counting_measures(name, counted_procedures, weights, counting)
            curve |= operating_curve(counts, converged)
            fields["counting"][name], fields["converged"][name] = figures, tuple(has_converged)
            fields["clinic"] |= {name: rates} if rates else {}
        if truths:
            tracking = metrics_of("tracking", settings.metrics)
            measures |= tracking_measures(name, tracks, weights, tracking)
            curve |= tracking_curve(
                [scores_of[p] for p in rows], [partition_rows[p] for p in rows], tracking
            )
            fields["tracking"][name] = tracking_rows(tracks, truths, tracking)
        # One row per setting: its parameters, then its figures; undefined is null.
        setting_rows = [{"clusterer": name} | vars(setting) for setting in grid_settings]
        curves.append(pl.DataFrame(setting_rows).hstack(pl.DataFrame(curve).fill_nan(None)))
    return measures, fields, {"curve": curves, "assignment": assignments}
