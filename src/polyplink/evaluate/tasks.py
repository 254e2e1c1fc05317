"""All tasks for one or several encoders on the same tracklets.

Retrieval, re-identification, counting and tracking, from one set of embeddings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import polars as pl

from polyplink.associate.similarity import Reals, unit_rows
from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.alike import no_different
from polyplink.evaluate.asked import EvaluationSettings, Facts, check_tasks
from polyplink.evaluate.clinic import Clinic
from polyplink.evaluate.figures import CountingFigures, ReidRow
from polyplink.evaluate.intervals import Figure
from polyplink.evaluate.one_encoder import Done, Work, evaluate_one
from polyplink.evaluate.retrieval import RetrievalFigures
from polyplink.evaluate.samples import Samples
from polyplink.evaluate.tracking import TrackingFigures


@dataclass(frozen=True)
class EncoderFigures:
    """All tasks of one encoder; those not asked for are None or empty.

    Attributes:
        figures: Every figure with its interval, by the names of `measures`.
        retrieval: Queries, and retrieval by procedure.
        pairs: Pairs that re-identification rests on: of one polyp, and of two.
        reid: Re-identification within each procedure.
        counting: By clusterer, as far as the grid has them.
        converged: By clusterer, whether each fold's clustering settled under its setting.
        clinic: By clusterer, polyps and adenomas per colonoscopy, as they are and as counted.
        tracking: By clusterer.
        not_converged: Share of affinity propagations (settings x procedures) that did not settle.
        not_counted: Procedures left out of counting because no polyp of theirs is known.
    """

    figures: dict[str, Figure]
    retrieval: RetrievalFigures | None
    pairs: tuple[int, int] | None
    reid: tuple[ReidRow, ...]
    counting: dict[str, CountingFigures]
    converged: dict[str, tuple[bool, ...]]
    clinic: dict[str, Clinic]
    tracking: dict[str, TrackingFigures]
    not_converged: float
    not_counted: tuple[str, ...]


@dataclass(frozen=True)
class Evaluation:
    """Encoders side by side on the same tracklets.

    Attributes:
        encoders: Figures by the encoder's name.
        reference: The encoder the others are compared with.
        minus_reference: By every other encoder's name and figure: it minus the reference, paired.
        no_different: By figure: the best encoder and those no different from it, see `alike`.
        tracklets: Tracklets given.
        procedures: Procedures given.
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


_EMPTY: Mapping[str, Any] = {
    "retrieval": None,
    "pairs": None,
    "reid": (),
    "counting": {},
    "converged": {},
    "clinic": {},
    "tracking": {},
    "not_converged": 0.0,
    "not_counted": (),
}


def _figures(done: Done) -> EncoderFigures:
    intervals = {name: measure.figure() for name, measure in done.measures.items()}
    return EncoderFigures(figures=intervals, **{**_EMPTY, **done.parts})


def _stack(done: Mapping[str, Done], name: str) -> pl.DataFrame:
    """One table of all encoders, the method's name first."""
    parts = [
        table.select(pl.lit(method).alias("method"), pl.all())
        for method, one in done.items()
        for table in one.tables.get(name, [])
        if table.width
    ]
    return pl.concat(parts, how="diagonal") if parts else pl.DataFrame()


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
    facts: Facts | None = None,
) -> Evaluation:
    """Evaluate encoders on the same tracklets; see `evaluate_with_tables`."""
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
        samples: Whose they are; tracklets of unknown polyp are clustered, and counted out.
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
    check_tasks(samples, settings, facts)
    units = _checked(vectors, samples)
    base = next(iter(units)) if reference is None else reference
    find_reference(base, units)
    work = Work(settings, facts)
    done = {name: evaluate_one(unit, samples, work) for name, unit in units.items()}
    measures = {name: one.measures for name, one in done.items()}
    true = true_rates(done[base].parts.get("clinic", {}))
    evaluation = Evaluation(
        encoders={name: _figures(one) for name, one in done.items()},
        reference=base,
        minus_reference={
            name: {key: value.minus(measures[base][key]) for key, value in own.items()}
            for name, own in measures.items()
            if name != base
        },
        no_different={
            key: no_different(key, {name: own[key] for name, own in measures.items()}, true)
            for key in measures[base]
        },
        tracklets=len(samples.tracklet_ids),
        procedures=len(samples.procedures) - len(settings.chosen_on),
        tasks=settings.tasks,
    )
    tables = {name: _stack(done, name) for name in ("queries", "curve", "assignment")}
    return evaluation, EvaluationTables(**tables)


def true_rates(clinics: Mapping[str, Clinic]) -> dict[str, float]:
    """What a clinic's rates are in truth, by the names of `measures`: the best a count can say.

    Args:
        clinics: By clusterer.
    """
    rates: dict[str, float] = {}
    for name, clinic in clinics.items():
        rates |= {f"{name}/PPC": clinic.ppc}
        rates |= {} if clinic.adr is None else {f"{name}/ADR": clinic.adr}
    return rates


def nothing_evaluated(names: Sequence[str], samples: Samples) -> Evaluation:
    """Encoders side by side without any of these tasks, for figures that come from elsewhere.

    Args:
        names: The encoders, the reference first.
        samples: The tracklets.
    """
    empty = {name: _figures(Done()) for name in names}
    others: dict[str, dict[str, Figure]] = {name: {} for name in names[1:]}
    many = len(samples.tracklet_ids), len(samples.procedures)
    return Evaluation(empty, names[0], others, {}, *many, ())


def find_reference(base: str, names: Mapping[str, object]) -> None:
    """Refuse a reference that is no encoder.

    Raises:
        PolyplinkError: Naming those there are.
    """
    if base not in names:
        raise PolyplinkError(
            f"reference encoder {base!r} is not among those given",
            f"choose one of: {', '.join(names)}",
        )
