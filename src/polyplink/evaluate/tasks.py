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
    ReidRow,
    RetrievalFigures,
    counting_figures,
    reid_rows,
    retrieval_figures,
)
from polyplink.evaluate.intervals import RESAMPLES, Interval, draw_weights
from polyplink.evaluate.measures import (
    Measures,
    counting_measures,
    reid_measures,
    retrieval_measures,
)
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
        figures: Every figure with its interval, by the names of `measures`.
        retrieval: Queries, and retrieval by procedure.
        pairs: Pairs that re-identification rests on: of one polyp, and of two.
        reid: Re-identification within each procedure.
        counting: By clusterer: `"temporal_ap"` and `"threshold"`, as far as the grid has them.
        not_converged: Share of affinity propagations (settings x procedures) that did not settle.
        not_counted: Procedures left out of counting because no polyp of theirs is known.
    """

    figures: dict[str, Interval]
    retrieval: RetrievalFigures
    pairs: tuple[int, int]
    reid: tuple[ReidRow, ...]
    counting: dict[str, CountingFigures]
    not_converged: float
    not_counted: tuple[str, ...]


@dataclass(frozen=True)
class Evaluation:
    """Encoders side by side on the same tracklets.

    Attributes:
        encoders: Figures by the encoder's name.
        reference: The encoder the others are compared with.
        minus_reference: By every other encoder's name and figure: it minus the reference, paired.
        tracklets: Tracklets given.
        procedures: Procedures given.
    """

    encoders: dict[str, EncoderFigures]
    reference: str
    minus_reference: dict[str, dict[str, Interval]]
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
        converged.append(found.converged[: len(settings.grid.temporal_ap())])
    failed = ~np.concatenate(converged) if converged else np.zeros(0)
    return _Swept(counts, float(failed.mean()) if failed.size else 0.0, tuple(without))


def _evaluate_one(
    unit: Reals, samples: Samples, settings: EvaluationSettings
) -> tuple[EncoderFigures, Measures]:
    draws = {"resamples": settings.resamples, "seed": settings.seed}
    weights = draw_weights(len(samples.procedures), **draws)
    retrieval, reid = retrieve(unit, samples), reidentify(unit, samples)
    measures = retrieval_measures(retrieval, samples, weights)
    measures |= reid_measures(reid, samples, weights)
    swept = _sweep_all(unit, samples, settings)
    counted = draw_weights(len(swept.counts), **draws)
    ap, thresholds = settings.grid.temporal_ap(), settings.grid.threshold()
    counting = {}
    for name, kind, part in (
        ("temporal_ap", ap, slice(0, len(ap))),
        ("threshold", thresholds, slice(len(ap), None)),
    ):
        if kind:
            found = counting_figures([c.under(part) for c in swept.counts], kind)
            counting[name] = found
            measures |= counting_measures(name, found.folds, len(swept.counts), counted)
    figures = EncoderFigures(
        figures={name: measure.interval() for name, measure in measures.items()},
        retrieval=retrieval_figures(retrieval, samples),
        pairs=(reid.positives, reid.negatives),
        reid=reid_rows(unit, samples),
        counting=counting,
        not_converged=swept.not_converged,
        not_counted=swept.not_counted,
    )
    return figures, measures


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
        Figures of every encoder, and the paired differences to the reference.

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
    done = {name: _evaluate_one(unit, samples, settings) for name, unit in units.items()}
    reference_measures = done[base][1]
    return Evaluation(
        encoders={name: figures for name, (figures, _) in done.items()},
        reference=base,
        minus_reference={
            name: {key: value.minus(reference_measures[key]) for key, value in measures.items()}
            for name, (_, measures) in done.items()
            if name != base
        },
        tracklets=len(samples.tracklet_ids),
        procedures=len(samples.procedures),
    )
