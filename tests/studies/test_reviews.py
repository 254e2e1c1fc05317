"""What a review gives: answers until the count is right, and links learned from answers.

Procedures and vectors are those of `test_intervals`: tables of the preset `small`, vectors drawn.
A scripted reviewer answers from the truth. Each half of a seed's procedures is counted with links
fitted on the other; learning starts from links fitted without labels.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from polyplink.associate.clusterers import LearnedLinks
from polyplink.associate.grid_search import PRICES
from polyplink.associate.identities import Constraints, Doubt, OperatingPoint, identify, uncertain
from polyplink.associate.partition import partition
from polyplink.counting.link import ProcedureTracklets
from polyplink.counting.operating_point import find_operating_point
from polyplink.evaluate.counting import count_procedure
from tests.studies.test_intervals import procedures

SEEDS = range(100, 106)
MOST = 60  # answers
Pick = Callable[[Sequence[Doubt]], Doubt]


def errors(one: ProcedureTracklets, point: OperatingPoint, pick: Pick) -> list[int]:
    """Count minus truth after 0, 1, ... answers."""
    assert isinstance(point.setting, LearnedLinks)
    price, spread = point.setting.price, point.spread or 2.0
    must: list[tuple[int, int]] = []
    cannot: list[tuple[int, int]] = []
    off = []
    while True:
        decided = Constraints(tuple(must), tuple(cannot))
        found = identify(one.views, one.positions, point, decided)
        off.append(len(found.names) - len(set(one.polyps)))
        left = uncertain(
            found.labels, found.similarity, 10**6, price=price, spread=spread, decided=decided
        )
        if not left or len(off) > MOST:
            return off
        a, b = pick(left).pair
        (must if one.polyps[a] == one.polyps[b] else cannot).append((a, b))


def reviewed(one: ProcedureTracklets, point: OperatingPoint) -> tuple[ProcedureTracklets, int]:
    """A procedure with the identities after all pressing questions, and how many there were."""
    must: list[tuple[int, int]] = []
    cannot: list[tuple[int, int]] = []
    while True:
        found = identify(one.views, one.positions, point, Constraints(tuple(must), tuple(cannot)))
        left = [doubt for doubt in found.doubts if doubt.close]
        if not left or len(must) + len(cannot) >= MOST:
            names = pl.Series([f"P{label}" for label in found.labels])
            table = one.table.with_columns(polyp_id=names)
            return replace(one, table=table), len(must) + len(cannot)
        a, b = left[0].pair
        (must if one.polyps[a] == one.polyps[b] else cannot).append((a, b))


def rates(point: OperatingPoint, counted: Sequence[ProcedureTracklets]) -> np.ndarray:
    """FR of each procedure at the price whose mean FPR is nearest to 0.05."""
    assert point.links is not None
    found = [
        count_procedure(
            partition(point.links.probability(one.views), PRICES), one.polyps, one.procedure_id
        ).rates
        for one in counted
    ]
    fpr = np.nanmean([one["fpr"] for one in found], axis=0)
    row = int(np.abs(fpr - 0.05).argmin())
    return np.array([one["fr"][row] for one in found])


@pytest.mark.study
def test_answers_until_the_count_is_right_and_links_learned_from_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    picks: dict[str, Pick] = {
        "in the order of the page": lambda left: left[0],
        "in random order": lambda left: left[int(rng.integers(len(left)))],
    }
    off: dict[str, list[list[int]]] = {name: [] for name in picks}
    gained, answers = [], 0
    for seed in SEEDS:
        every = procedures(tmp_path / str(seed), seed)
        halves = every[::2], every[1::2]
        for known, counted in (halves, halves[::-1]):
            point = find_operating_point(known)
            for name, pick in picks.items():
                off[name] += [errors(one, point, pick) for one in counted]
            nameless = pl.lit(None, pl.String)
            blank = [replace(one, table=one.table.with_columns(polyp_id=nameless)) for one in known]
            first = find_operating_point(blank)
            taught = [reviewed(one, first) for one in known]
            answers += sum(asked for _, asked in taught)
            after = find_operating_point([one for one, _ in taught])
            gained.append(np.stack([rates(p, counted) for p in (first, after, point)]))
    print()
    needed: list[float] = []
    for name, sequences in off.items():
        wrong = [each for each in sequences if each[0]]
        until = [next((i for i, e in enumerate(each) if e == 0), len(each)) for each in wrong]
        needed.append(float(np.mean(until)))
        left = [
            np.mean([abs(each[min(k, len(each) - 1)]) for each in sequences]) for k in (0, 3, 10)
        ]
        print(
            f"{name}: {len(wrong)} of {len(sequences)} counts wrong at first; right after "
            f"{np.mean(until):.1f} answers (median {np.median(until):.0f}); "
            "count error {:.2f}, after 3 answers {:.2f}, after 10 {:.2f}".format(*left)
        )
    fr = np.concatenate(gained, axis=1)  # 3 n
    change = fr[1] - fr[0]
    means = change[rng.integers(0, change.size, (10_000, change.size))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    print(
        f"FR at FPR 0.05 on {fr.shape[1]} procedures never reviewed: {fr[0].mean():.2f} without "
        f"labels, {fr[1].mean():.2f} learned from {answers} answers ({change.mean():+.2f}, "
        f"{low:+.2f} to {high:+.2f}), {fr[2].mean():.2f} from true identities"
    )
    assert needed[0] < needed[1]
    assert fr[2].mean() <= fr[0].mean()
