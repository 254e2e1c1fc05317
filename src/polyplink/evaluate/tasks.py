"""All tasks for one or several encoders on the same tracklets: retrieval, reid and counting."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from polyplink.associate.settings import Grid, paper_grid
from polyplink.associate.similarity import Reals, VisualForm, unit_rows, visual
from polyplink.associate.sweep import sweep
from polyplink.errors import PolyplinkError
from polyplink.evaluate.counting import ProcedureCounts, count_procedure
from polyplink.evaluate.figures import (
    CountingFigures,
    ReidFigures,
    RetrievalFigures,
    counting_figures,
    reid_figures,
    retrieval_figures,
)
from polyplink.evaluate.intervals import RESAMPLES, Interval, draw_weights, paired_difference
from polyplink.evaluate.reid import reidentify
from polyplink.evaluate.retrieval import retrieve
from polyplink.evaluate.samples import Samples


@dataclass(frozen=True)
class EvaluationSettings:
    """How to evaluate.

    Attributes:
        grid: The clusterers' settings to search; the paper's by default.
        form: The form of the visual similarity, see `visual`.
        resamples: Resamples of the bootstrap over procedures.
        seed: Seed of the bootstrap.
        threads: Threads for the sweep; the figures do not depend on it.
    """

    grid: Grid = field(default_factory=paper_grid)
    form: VisualForm = "l2"
    resamples: int = RESAMPLES
    seed: int = 0
    threads: int = 1


@dataclass(frozen=True)
class EncoderFigures:
    """All tasks of one encoder.

    Attributes:
        retrieval: MAP, HR@1 and HR@5.
        reid: AUROC and AUPR.
        counting: By clusterer: `"temporal_ap"` and `"threshold"`, as far as the grid has them.
        not_converged: Share of all clusterings (settings x procedures) that did not settle.
        not_counted: Procedures left out of counting because no polyp of theirs is known.
    """

    retrieval: RetrievalFigures
    reid: ReidFigures
    counting: dict[str, CountingFigures]
    not_converged: float
    not_counted: tuple[str, ...]


@dataclass(frozen=True)
class Evaluation:
    """Encoders side by side on the same tracklets.

    Attributes:
        encoders: Figures by the encoder's name.
        reference: The encoder the others are compared with.
        map_minus_reference: MAP of every other encoder minus the reference's, paired.
        tracklets: Tracklets given.
        procedures: Procedures given.
    """

    encoders: dict[str, EncoderFigures]
    reference: str
    map_minus_reference: dict[str, Interval]
    tracklets: int
    procedures: int


@dataclass(frozen=True)
class _Swept:
    """The whole grid on the procedures with labels, and the names of those without."""

    counts: list[ProcedureCounts]
    not_converged: float
    not_counted: tuple[str, ...]


def _sweep_all(unit: Reals, samples: Samples, settings: EvaluationSettings) -> _Swept:
    counts, converged, without = [], [], []
    for place, name in enumerate(samples.procedures):
        rows = np.flatnonzero(samples.procedure == place)
        if not samples.known[rows].any():
            without.append(name)
            continue
        V = visual(unit[rows], settings.form)
        found = sweep(V, samples.positions[rows], settings.grid, threads=settings.threads)
        polyps = [int(samples.polyp[row]) if samples.known[row] else None for row in rows]
        counts.append(count_procedure(found.labels, polyps, name))
        converged.append(found.converged)
    return _Swept(counts, float(1 - np.mean(converged)), tuple(without))


def _evaluate_one(unit: Reals, samples: Samples, settings: EvaluationSettings) -> EncoderFigures:
    draws = {"resamples": settings.resamples, "seed": settings.seed}
    weights = draw_weights(len(samples.procedures), **draws)
    swept = _sweep_all(unit, samples, settings)
    counted = draw_weights(len(swept.counts), **draws)
    ap, thresholds = settings.grid.temporal_ap(), settings.grid.threshold()
    counting = {}
    if ap:
        counts = [c.under(slice(0, len(ap))) for c in swept.counts]
        counting["temporal_ap"] = counting_figures(counts, ap, counted)
    if thresholds:
        counts = [c.under(slice(len(ap), None)) for c in swept.counts]
        counting["threshold"] = counting_figures(counts, thresholds, counted)
    return EncoderFigures(
        retrieval=retrieval_figures(retrieve(unit, samples), samples, weights),
        reid=reid_figures(reidentify(unit, samples), samples, weights),
        counting=counting,
        not_converged=swept.not_converged,
        not_counted=swept.not_counted,
    )


def _differences(
    encoders: Mapping[str, EncoderFigures], reference: str, settings: EvaluationSettings
) -> dict[str, Interval]:
    # The queries depend on the labels alone, so they are the same for every encoder.
    rows = encoders[reference].retrieval.procedures
    queries = [row.queries for row in rows]
    weights = draw_weights(len(rows), resamples=settings.resamples, seed=settings.seed)
    sums = {
        name: [row.queries * (row.mean_ap or 0.0) for row in figures.retrieval.procedures]
        for name, figures in encoders.items()
    }
    return {
        name: paired_difference(own, sums[reference], queries, weights)
        for name, own in sums.items()
        if name != reference
    }


def _checked(vectors: Mapping[str, npt.ArrayLike], samples: Samples) -> dict[str, Reals]:
    if not vectors:
        raise PolyplinkError("no encoder to evaluate", "give the embeddings of at least one")
    checked = {}
    for name, rows in vectors.items():
        try:
            unit = unit_rows(rows)
        except PolyplinkError as error:
            raise PolyplinkError(f"encoder {name!r}: {error.what}", error.mend) from None
        if len(unit) != len(samples.tracklet_ids):
            raise PolyplinkError(
                f"encoder {name!r}: {len(unit)} vectors for {len(samples.tracklet_ids)} tracklets",
                "give one vector per tracklet, in the order of the samples",
            )
        checked[name] = unit
    return checked


def evaluate_embeddings(
    vectors: Mapping[str, npt.ArrayLike],
    samples: Samples,
    settings: EvaluationSettings | None = None,
    *,
    reference: str | None = None,
) -> Evaluation:
    """Evaluate encoders on the same tracklets.

    Args:
        vectors: By encoder's name, embeddings (n, d) in the order of the samples.
        samples: Whose they are; tracklets of unknown polyp are clustered, and counted out.
        settings: How to evaluate; the paper's grid and 10,000 resamples by default.
        reference: The encoder to compare the others with; the first by default.

    Returns:
        Figures of every encoder and the paired differences of mAP.

    Raises:
        PolyplinkError: If there is no encoder, the reference is none of them, the vectors do not
            match the samples, or a vector is zero or not finite.
    """
    settings = settings or EvaluationSettings()
    units = _checked(vectors, samples)
    base = next(iter(units)) if reference is None else reference
    if base not in units:
        raise PolyplinkError(
            f"reference encoder {base!r} is not among those given",
            f"choose one of: {', '.join(units)}",
        )
    encoders = {name: _evaluate_one(unit, samples, settings) for name, unit in units.items()}
    return Evaluation(
        encoders=encoders,
        reference=base,
        map_minus_reference=_differences(encoders, base, settings),
        tracklets=len(samples.tracklet_ids),
        procedures=len(samples.procedures),
    )
