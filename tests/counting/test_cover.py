"""An interval only where it was calibrated on such boxes, and wide enough to hold the truth."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from polyplink.associate.clusterers import LearnedLinks
from polyplink.associate.identities import (
    SPREADS,
    Calibration,
    OperatingPoint,
    count_intervals,
    identify,
)
from polyplink.associate.links import LinkModel, Views, term_names
from polyplink.counting.cover import ASK_BELOW, cover_of
from polyplink.counting.interval import Coverage, fit_interval
from polyplink.data.origin import BoxSource

MADE = Calibration("annotated", None, "simulated procedures", 40)
LINKS = LinkModel(-3.0, dict.fromkeys(term_names(), 0.0) | {"cosine": 6.0}, 1, 1)
POINT = OperatingPoint(
    LearnedLinks(0.5), LINKS, "by hand", {"count": 0.5}, spread=2.0, calibration=MADE
)
SAME = BoxSource("annotated", None, "simulated procedures")


@pytest.mark.parametrize(
    ("change", "source", "gap"),
    [
        ({}, SAME, ""),
        ({}, replace(SAME, boxes="9f", detector="YOLO"), "boxes"),
        ({}, replace(SAME, material="recordings"), "material"),
        ({}, replace(SAME, material="mixed"), "material"),
        ({"spread": None}, SAME, "few"),
        ({"calibration": None}, SAME, "not recorded"),
        ({"calibration": None, "prices": {}}, SAME, "no labels"),
        ({"calibration": replace(MADE, boxes="9f")}, replace(SAME, boxes="9f"), ""),
        ({"calibration": replace(MADE, boxes="unknown")}, replace(SAME, boxes="unknown"), "boxes"),
        (
            {"calibration": replace(MADE, material="stills in motion")},
            replace(SAME, material="recordings"),
            "",
        ),
    ],
)
def test_an_interval_is_given_only_for_what_was_calibrated_on(
    change: dict[str, Any], source: BoxSource, gap: str
) -> None:
    point = replace(POINT, **change)
    cover = cover_of(point, source)
    assert cover.gap == gap
    used = cover.applied(point)
    rng = np.random.default_rng(3)
    start = np.arange(9, dtype=np.float64)
    views = Views(rng.normal(size=(9, 3)), start, start + 0.5)
    found = identify(views, start / 9, used)
    if not gap:
        assert found.interval is not None
        assert str(cover.basis).startswith("A 90 % interval holds the true number in 9 of 10")
        assert cover.warnings(used) == []
        return
    assert found.interval is None
    assert cover.basis is None
    assert [one.kind for one in cover.warnings(used)] == [f"cover.{gap}"]
    # Every decision below the stated confidence is asked, and none above it.
    P = LINKS.probability(views)
    labels = found.labels
    apart = {
        (a, b)
        for a in range(labels.max() + 1)
        for b in range(a)
        if P[np.ix_(labels == a, labels == b)].mean() > 1 - ASK_BELOW
    }
    asked = [one for one in found.doubts if one.close]
    assert {
        tuple(sorted((labels[one.pair[0]], labels[one.pair[1]]), reverse=True))
        for one in asked
        if not one.joined
    } == apart
    assert all(one.confidence < ASK_BELOW for one in asked)
    unsure = {
        i
        for i, score in enumerate(found.scores)
        if (labels == labels[i]).sum() > 2 and score < ASK_BELOW
    }
    assert unsure <= {one.members[0] for one in asked if one.joined}


def test_intervals_are_not_for_other_purposes_or_for_false_alarms() -> None:
    assert cover_of(POINT, SAME, purpose="link").gap == "purpose"
    assert cover_of(POINT, SAME, alarms_kept=True).gap == ""  # there is no model that they failed


def test_the_interval_holds_what_links_cannot_see() -> None:
    """Polyps that the detector misses: no price of a polyp counts them."""
    rng = np.random.default_rng(0)
    links = []
    for _ in range(60):
        P = np.full((4, 4), 0.01)
        P[:2, :2] = P[2:, 2:] = 0.99
        links.append(P)
    missed = rng.binomial(2, 0.5, size=60)
    found = fit_interval(links, (2 + missed).tolist(), 0.5)
    assert found is not None
    assert found.margin == 2
    assert found.held >= 0.9
    none = fit_interval(links, [2] * 60, 0.5)
    assert none is not None
    assert (none.margin, none.lone, none.held) == (0, 0, 1.0)
    for wrong, enough in ((0, 22), (1, 38), (2, 52)):  # with 90 % confidence at most a tenth
        for n in (enough - 1, enough):
            one = fit_interval(links[:n], [2] * (n - wrong) + [3] * wrong, 0.5)
            assert one is not None
            assert (one.margin, one.lone) == (0, int(n < enough))
    assert fit_interval(links[:8], [2] * 8, 0.5) is None


@pytest.mark.parametrize("seed", range(4))
def test_nine_of_ten_hold_and_so_do_nine_of_ten_single_numbers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    links, true = [], []
    for _ in range(40):
        polyp = rng.integers(0, 3, size=6)
        noise = rng.normal(scale=0.25, size=(6, 6))
        same = polyp[:, None] == polyp[None, :]
        links.append(np.clip(np.where(same, 0.75, 0.25) + (noise + noise.T) / 2, 0.01, 0.99))
        true.append(len(set(polyp.tolist())) + int(rng.random() < 0.2))
    found = fit_interval(links, true, 0.5)
    assert found is not None
    rows = []
    for P, number in zip(links, true, strict=True):
        low, high = count_intervals(P, 0.5, [f for f in SPREADS if f <= found.spread])
        point = replace(POINT, margin=found.margin, lone=found.lone)
        rows.append((number, *point.widened(int(low[-1]), int(high[-1]))))
    coverage = Coverage.of(rows)
    assert coverage.held >= 36
    assert coverage.single_wrong <= 0.1 * coverage.single


def test_coverage_counts_single_numbers_apart() -> None:
    found = Coverage.of([(2, 1, 3), (2, 2, 2), (3, 2, 2), (0, 1, 1)])
    assert found == Coverage(procedures=4, held=2, single=3, single_wrong=2)
