"""Online linking: against plain loops, revised within its window only, in bounded memory."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from polyplink.associate.clusterers import LearnedLinks
from polyplink.associate.identities import OperatingPoint, identify, untuned
from polyplink.associate.links import LinkModel, Views, term_names
from polyplink.associate.online import OnlineLinker, OnlineSettings
from polyplink.associate.partition import TOLERANCE, partition
from polyplink.core.errors import PolyplinkError

WEIGHTS = dict.fromkeys(term_names(), 0.0) | {
    "cosine": 5.0,
    "cosine in standard deviations": 1.0,
    "gap as a share": -1.0,
    "log gap": -0.2,
    "log views in between": -0.3,
}
POINT = OperatingPoint(LearnedLinks(1.5), LinkModel(-3.0, WEIGHTS, 1, 1), "by hand", spread=2.0)


def stream(seed: int, n: int, polyps: int = 4) -> Views:
    """Views of a few polyps, in the order of their ends."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(polyps, 6))
    vectors = centres[rng.integers(0, polyps, n)] + rng.normal(0, 0.8, (n, 6))
    start = np.sort(rng.uniform(0, 20 * n, n))
    end = start + rng.exponential(8, n)
    order = np.argsort(end, kind="stable")
    frames = np.empty(n, dtype=np.object_)  # every tenth of a second, in some of the frames
    for i, (first, last) in enumerate(zip(10 * start[order], 10 * end[order], strict=True)):
        inside = np.arange(int(first) + 1, int(last))
        frames[i] = inside[rng.random(inside.size) < 0.05] if i % 3 else None
    return Views(vectors[order], start[order], end[order], frames=frames)


def feed(linker: OnlineLinker, views: Views) -> list[int]:
    """Polyp of every view after the last revision."""
    assert views.frames is not None
    polyp: dict[str, int] = {}
    for i, vector in enumerate(views.vectors):
        decision = linker.add(str(i), vector, views.start[i], views.end[i], views.frames[i])
        polyp[str(i)] = decision.polyp
        for revision in decision.revisions:
            assert polyp[revision.tracklet] == revision.before != revision.now
            polyp[revision.tracklet] = revision.now
        assert decision.count == len(set(polyp.values()))
    return list(polyp.values())


@pytest.mark.parametrize("seed", range(2))
def test_linking_without_a_window_equals_a_plain_loop(seed: int) -> None:
    views, polyps = stream(seed, 25), list[int]()
    assert views.frames is not None
    for n in range(1, 26):  # each view joins the cheapest polyp or starts a new one
        views_so_far = Views(
            views.vectors[:n], views.start[:n], views.end[:n], frames=views.frames[:n]
        )
        assert POINT.links is not None
        P = POINT.links.probability(views_so_far)[-1]
        cost = {}
        for polyp in sorted(set(polyps)):
            mates = [i for i, label in enumerate(polyps) if label == polyp]
            cost[polyp] = sum(1e6 if P[i] == 0 else TOLERANCE - P[i] for i in mates)
        cheapest = min(cost, key=lambda mate: cost[mate], default=0)
        polyps.append(cheapest if cost and cost[cheapest] < 1.5 else max(polyps, default=0) + 1)
    online = feed(OnlineLinker(POINT, OnlineSettings(window=0, views=99)), views)
    assert online == polyps


def test_linking_with_an_unlimited_window_agrees_with_the_offline_partition() -> None:
    agreement = []
    for seed in range(3):
        views = stream(seed, 30)
        online = np.array(feed(OnlineLinker(POINT, OnlineSettings(window=1e9)), views))
        offline = identify(views, np.zeros(30), POINT).labels
        pairs = np.triu_indices(30, 1)
        same = [(labels[:, None] == labels[None, :])[pairs] for labels in (online, offline)]
        agreement.append((same[0] == same[1]).mean())
    assert np.mean(agreement) > 0.97


def test_the_interval_is_that_of_counts_within_the_spread_of_the_price() -> None:
    views, point = stream(0, 30), replace(POINT, margin=1)
    assert views.frames is not None
    linker = OnlineLinker(point, OnlineSettings(window=1e9, views=99))
    for i, vector in enumerate(views.vectors):
        decision = linker.add(str(i), vector, views.start[i], views.end[i], views.frames[i])
    assert point.links is not None
    P = point.links.probability(views)
    counts = partition(P, [0.75, 1.5, 3.0]).max(axis=1) + 1  # the price is 1.5, the spread 2
    assert decision.interval == (min(counts[[0, 2]]) - 1, max(counts[[0, 2]]) + 1)
    assert decision.interval[1] - decision.interval[0] > 2


@settings(max_examples=6)
@given(st.integers(0, 99), st.sampled_from([0.0, 60.0, 400.0]), st.integers(1, 6))
def test_memory_is_bounded_and_nothing_is_revised_outside_the_window(
    seed: int, window: float, revisable: int
) -> None:
    limits = OnlineSettings(window, revisable, views=2, rows=12)
    views, linker, closed = stream(seed, 40, polyps=8), OnlineLinker(POINT, limits), list[str]()
    used: set[int] = set()
    assert views.frames is not None
    for i, vector in enumerate(views.vectors):
        decision = linker.add(str(i), vector, views.start[i], views.end[i], views.frames[i])
        memory = linker.stored
        assert memory is not None
        assert len(memory.start) <= 12
        for revision in decision.revisions:
            assert views.end[int(revision.tracklet)] >= views.end[i] - window
            assert revision.tracklet in closed[-revisable:]
        new = {decision.polyp, *(revision.now for revision in decision.revisions)} - used
        assert all(number > max(used, default=0) for number in new)  # numbers are not reused
        used |= new
        assert decision.interval is not None
        assert decision.interval[0] <= decision.count <= decision.interval[1]
        # Polyps that are no longer recognised are counted in any case.
        assert decision.interval[0] > decision.count - len(np.unique(memory.polyp))
        if decision.earlier is not None:
            name, since = decision.earlier
            assert views.start[int(name)] == since <= views.end[int(name)] < views.start[i]
        closed.append(str(i))
    assert memory is not None
    assert memory.weight.sum() <= 40


def test_of_two_merged_tracklets_the_later_one_stays_and_represents_both() -> None:
    linker = OnlineLinker(POINT, OnlineSettings(window=0, views=1))
    for i, name in enumerate("abc"):
        assert linker.add(name, [1.0, 0.1 * i], 10.0 * i, 10.0 * i + 1).polyp == 1
    assert linker.stored is not None
    assert linker.stored.name.tolist() == ["b", "c"]
    assert linker.stored.weight.tolist() == [2, 1]


def test_all_tracklets_of_the_procedure_are_counted_between_two_stored_ones() -> None:
    linker = OnlineLinker(POINT, OnlineSettings(window=0, revisable=1, views=1, rows=4))
    start = [0.0, 1.0, 2.0, 3.0, 3.0, 2.5, 4.0]  # two begin together, one closes late
    for i, begun in enumerate(start):
        linker.add(str(i), np.eye(8)[i], begun, 5.0 + i, [100 * i])
    stored = linker.stored
    assert stored is not None
    assert len(stored.start) < len(start)
    expected = [
        [sum(min(a, b) < s < max(a, b) for s in start) for b in stored.start] for a in stored.start
    ]
    assert stored.n_between.tolist() == expected


def test_weights_without_links_and_invalid_settings_are_refused() -> None:
    with pytest.raises(PolyplinkError, match="polyplink calibrate"):
        OnlineLinker(untuned("no labels"))
    with pytest.raises(PolyplinkError, match="twice as many"):
        OnlineSettings(revisable=10, rows=12)
    with pytest.raises(PolyplinkError, match="not finite"):
        OnlineLinker(POINT).add("t", [np.nan, 1.0], 0.0, 1.0)
    with pytest.raises(PolyplinkError, match="ends before"):
        OnlineLinker(POINT).add("t", [0.0, 1.0], 2.0, 1.0)
