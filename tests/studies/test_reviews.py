"""Reviews: answers until the count is right, and links learned from answers.

Procedures and vectors are those of `test_intervals`: tables of the preset `small`, random vectors.
A scripted reviewer answers from the truth. Each half of the procedures of a seed is counted with
links fitted on the other half. Learning starts from links that are fitted without labels.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from polyplink.associate.clusterers import LearnedLinks
from polyplink.associate.identities import (
    Constraints,
    OperatingPoint,
    Question,
    identify,
    possible_questions,
)
from polyplink.associate.partition import PRICES, partition
from polyplink.counting.link import ProcedureTracklets
from polyplink.counting.operating_point import find_operating_point
from polyplink.evaluate.counting import count_procedure
from tests.studies.test_intervals import procedures

SEEDS = range(100, 106)
MOST = 60  # answers
Pick = Callable[[Sequence[Question]], Question]


def errors(procedure: ProcedureTracklets, point: OperatingPoint, pick: Pick) -> list[int]:
    """Count minus truth after 0, 1, ... answers."""
    assert isinstance(point.setting, LearnedLinks)
    spread = point.spread or 2.0
    must: list[tuple[int, int]] = []
    cannot: list[tuple[int, int]] = []
    count_errors = []
    while True:
        decided = Constraints(tuple(must), tuple(cannot))
        identities = identify(procedure.views, procedure.positions, point, decided)
        count_errors.append(len(identities.names) - len(set(procedure.polyps)))
        questions = possible_questions(
            identities.labels,
            identities.similarity,
            point.setting,
            spread=spread,
            decided=decided,
        )
        if not questions or len(count_errors) > MOST:
            return count_errors
        a, b = pick(questions).pair
        (must if procedure.polyps[a] == procedure.polyps[b] else cannot).append((a, b))


def review(procedure: ProcedureTracklets, point: OperatingPoint) -> tuple[ProcedureTracklets, int]:
    """A procedure with its identities after all close questions, and the number of answers."""
    must: list[tuple[int, int]] = []
    cannot: list[tuple[int, int]] = []
    while True:
        identities = identify(
            procedure.views, procedure.positions, point, Constraints(tuple(must), tuple(cannot))
        )
        close_questions = [question for question in identities.questions if question.close]
        if not close_questions or len(must) + len(cannot) >= MOST:
            names = pl.Series([f"P{label}" for label in identities.labels])
            table = procedure.table.with_columns(polyp_id=names)
            return replace(procedure, table=table), len(must) + len(cannot)
        a, b = close_questions[0].pair
        (must if procedure.polyps[a] == procedure.polyps[b] else cannot).append((a, b))


def rates(point: OperatingPoint, counted: Sequence[ProcedureTracklets]) -> np.ndarray:
    """FR of each procedure at the price with a mean FPR nearest to 0.05."""
    assert point.links is not None
    rates_of_procedures = [
        count_procedure(
            partition(point.links.probability(procedure.views), PRICES),
            procedure.polyps,
            procedure.procedure_id,
        ).rates
        for procedure in counted
    ]
    fpr = np.nanmean([procedure["fpr"] for procedure in rates_of_procedures], axis=0)
    row = int(np.abs(fpr - 0.05).argmin())
    return np.array([procedure["fr"][row] for procedure in rates_of_procedures])


@pytest.mark.study
def test_the_order_of_questions_saves_answers_and_answers_improve_links(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    picks: dict[str, Pick] = {
        "in the order of the page": lambda questions: questions[0],
        "in random order": lambda questions: questions[int(rng.integers(len(questions)))],
    }
    errors_by_order: dict[str, list[list[int]]] = {name: [] for name in picks}
    fr_by_links, answers = [], 0
    for seed in SEEDS:
        all_procedures = procedures(tmp_path / str(seed), seed)
        halves = all_procedures[::2], all_procedures[1::2]
        for calibration_half, counted in (halves, halves[::-1]):
            point = find_operating_point(calibration_half)
            for name, pick in picks.items():
                errors_by_order[name] += [errors(procedure, point, pick) for procedure in counted]
            no_polyp = pl.lit(None, pl.String)
            unlabelled = [
                replace(procedure, table=procedure.table.with_columns(polyp_id=no_polyp))
                for procedure in calibration_half
            ]
            first = find_operating_point(unlabelled)
            reviewed = [review(procedure, first) for procedure in calibration_half]
            answers += sum(n_answers for _, n_answers in reviewed)
            after = find_operating_point([procedure for procedure, _ in reviewed])
            fr_by_links.append(np.stack([rates(p, counted) for p in (first, after, point)]))
    print()
    mean_answers: list[float] = []
    for name, sequences in errors_by_order.items():
        wrong_at_first = [sequence for sequence in sequences if sequence[0]]
        answers_needed = [
            next((i for i, e in enumerate(sequence) if e == 0), len(sequence))
            for sequence in wrong_at_first
        ]
        mean_answers.append(float(np.mean(answers_needed)))
        mean_errors = [
            np.mean([abs(sequence[min(k, len(sequence) - 1)]) for sequence in sequences])
            for k in (0, 3, 10)
        ]
        print(
            f"{name}: {len(wrong_at_first)} of {len(sequences)} counts wrong at first; right after "
            f"{np.mean(answers_needed):.1f} answers (median {np.median(answers_needed):.0f}); "
            "count error {:.2f}, after 3 answers {:.2f}, after 10 {:.2f}".format(*mean_errors)
        )
    fr = np.concatenate(fr_by_links, axis=1)  # 3 n
    change = fr[1] - fr[0]
    means = change[rng.integers(0, change.size, (10_000, change.size))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    print(
        f"FR at FPR 0.05 on {fr.shape[1]} procedures never reviewed: {fr[0].mean():.2f} without "
        f"labels, {fr[1].mean():.2f} learned from {answers} answers ({change.mean():+.2f}, "
        f"{low:+.2f} to {high:+.2f}), {fr[2].mean():.2f} from true identities"
    )
    assert mean_answers[0] < mean_answers[1]
    assert fr[2].mean() <= fr[0].mean()
