import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from polyplink.associate.links import (
    COMMON,
    PENALTY,
    TERMS_OF_LENGTH,
    LinkModel,
    NotFitted,
    UsualCosines,
    Views,
    cross_probabilities,
    fit_and_cross_fit,
    fit_links,
    fit_unlabelled,
    link_terms,
    short_runs,
    term_names,
    unlabelled_price,
)
from polyplink.associate.partition import partition
from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError


def procedure(seed: int, n: int = 12) -> tuple[Views, list[str | None]]:
    """Views of three polyps, one polyp after another, with one return and one unnamed view."""
    rng = np.random.default_rng(seed)
    polyp = np.sort(rng.integers(0, 3, n))
    polyp[n // 2] = 0  # a return
    start = np.cumsum(rng.exponential(4.0, n))
    vectors = rng.normal(size=(3, 6))[polyp] + rng.normal(scale=0.8, size=(n, 6))
    names: list[str | None] = [f"p{code}" for code in polyp]
    names[1] = None
    return Views(vectors, start, start + 1.0), names


@pytest.mark.parametrize("usual", [None, UsualCosines(0.2, 0.3)])
def test_terms_equal_a_naive_loop(usual: UsualCosines | None) -> None:
    views, polyps = procedure(0, 7)
    terms, same = link_terms((views, polyps), usual)
    unit = views.vectors / np.linalg.norm(views.vectors, axis=1, keepdims=True)
    cosines = unit @ unit.T
    others = [cosines[i, j] for i in range(7) for j in range(i)]
    if usual is not None:  # three pairs of the usual mean and standard deviation
        others = [
            *others,
            usual.mean - usual.spread * 1.5**0.5,
            usual.mean,
            usual.mean + usual.spread * 1.5**0.5,
        ]
    expected, labels = [], []
    for i in range(7):
        for j in range(i + 1, 7):
            if polyps[i] is None or polyps[j] is None or views.start[j] <= views.end[i]:
                continue
            z = (cosines[i, j] - np.mean(others)) / np.std(others)
            gap = views.start[j] - views.end[i]
            between, log_gap = j - i - 1, np.log(gap + 0.04)
            ranks = [
                sum(cosines[a, k] > cosines[a, b] for k in range(7) if k != a) / 6
                for a, b in ((i, j), (j, i))
            ]
            log_between = np.log(1 + between)
            row = [cosines[i, j], sum(ranks) / 2, z, *(max(z - k, 0) for k in (-0.5, 0.5, 1.2))]
            row += [gap / (views.end.max() - views.start.min())]
            row += [log_gap, *(max(log_gap - k, 0) for k in (-1, 0, 1, 2))]
            row += [log_between, *(max(log_between - k, 0) for k in (0.5, 1.2, 2))]
            expected.append(row)
            labels.append(polyps[i] == polyps[j])
    np.testing.assert_allclose(terms, expected, atol=1e-9)
    assert same.tolist() == labels


def test_views_that_begin_together_may_come_in_any_order() -> None:
    views, polyps = procedure(0)
    start = views.start.copy()
    start[[4, 8]] = start[[5, 9]]
    views = Views(views.vectors, start, start + 1.0)
    model, order = (
        fit_links([[link_terms((views, polyps))]]),
        np.random.default_rng(0).permutation(12),
    )
    expected = model.probability(views)[np.ix_(order, order)]
    np.testing.assert_allclose(model.probability(views.take(order)), expected, atol=1e-12)


def test_too_many_tracklets_are_refused_before_their_tables_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    views, polyps = procedure(0)
    model = fit_links([[link_terms((views, polyps))]])
    monkeypatch.setattr("polyplink.associate.partition.MOST", 11)
    monkeypatch.setattr("polyplink.associate.links.cosine", None)
    for call in (
        lambda: model.probability(views),
        lambda: fit_and_cross_fit([[(views, polyps)]] * 2),
        lambda: fit_unlabelled([views]),
    ):
        with pytest.raises(PolyplinkError, match="12 tracklets"):
            call()


def test_fit_links_maximises_the_penalised_likelihood() -> None:
    pairs = [link_terms(procedure(seed, 8 + seed)) for seed in range(6)]
    # The second entry has pairs of the first procedure again: fitted on, and not counted.
    model = fit_links([pairs[:2], *([entry] for entry in pairs[2:])])
    assert isinstance(model, LinkModel)
    assert LinkModel(**json.loads(json.dumps(to_plain(model)))) == model
    terms, same = np.concatenate([x for x, _ in pairs]), np.concatenate([y for _, y in pairs])
    sizes = [y.size for _, y in pairs]
    standard = (terms - terms.mean(axis=0)) / terms.std(axis=0)

    def loss(weights: np.ndarray) -> float:
        log_odds = weights[0] + standard @ weights[1:]
        surprise = np.where(same, np.logaddexp(0, -log_odds), np.logaddexp(0, log_odds))
        means = [part.mean() for part in np.split(surprise, np.cumsum(sizes)[:-1])]
        return float(np.mean(means) * same.size + PENALTY * (weights[1:] ** 2).sum() / 2)

    optimum = minimize(loss, np.zeros(terms.shape[1] + 1)).x
    fitted_weights = np.array([model.weights[name] for name in term_names()]) * terms.std(axis=0)
    np.testing.assert_allclose(fitted_weights, optimum[1:], atol=2e-3)
    counted = np.concatenate([y for _, y in (pairs[0], *pairs[2:])])
    assert (model.pairs, model.positives) == (counted.size, counted.sum())
    views, _ = procedure(9)
    P = model.probability(views)
    np.testing.assert_allclose(P, P.T)
    together = Views(views.vectors, views.start, views.start + 100.0)
    assert (model.probability(together)[~np.eye(12, dtype=bool)] == 0).all()


@pytest.mark.parametrize("seed", range(2))
def test_tracklets_overlap_where_one_frame_has_a_box_of_both(seed: int) -> None:
    rng, frames = np.random.default_rng(seed), np.empty(9, dtype=np.object_)
    for i in range(9):
        first, last = sorted(rng.choice(40, 2, replace=False).tolist())
        inside = [frame for frame in range(first + 1, last) if rng.random() < 0.2]
        frames[i] = np.array([first, *inside, last])
    start, end = (np.array([seen[at] / 25 for seen in frames]) for at in (0, -1))
    views = Views(rng.normal(size=(9, 3)), start, end, frames=frames)
    expected = [
        [i != j and bool({*a} & {*b}) for j, b in enumerate(frames)] for i, a in enumerate(frames)
    ]
    assert views.overlap.tolist() == expected
    spans = Views(views.vectors, start, end).overlap  # every frame has a box
    assert (spans | ~views.overlap).all()
    assert (spans & ~views.overlap).any()  # tracks that alternate
    mixed = Views(views.vectors, start, end, frames=np.array([None] * 9, dtype=np.object_))
    assert (mixed.overlap == spans).all()


def test_cross_probabilities_come_from_a_fit_without_the_procedure() -> None:
    procedures = [procedure(seed) for seed in range(4)]
    variants = [[(views, polyps), (views.with_common(0.5), polyps)] for views, polyps in procedures]
    pairs = [[link_terms(variant) for variant in group] for group in variants]
    probabilities = cross_probabilities(variants, pairs)
    for left_out, of_variants in enumerate(probabilities):
        model = fit_links(pairs[:left_out] + pairs[left_out + 1 :])
        assert isinstance(model, LinkModel)
        for P, (views, _) in zip(of_variants, variants[left_out], strict=True):
            np.testing.assert_allclose(P, model.probability(views))
    assert cross_probabilities([], []) == []

    # Procedures of one patient are left out together.
    patients = ["ann", "bob"] * 2
    by_patient = cross_probabilities(variants, pairs, patients=patients)
    model = fit_links(pairs[1::2])
    assert isinstance(model, LinkModel)
    np.testing.assert_allclose(by_patient[2][0], model.probability(variants[2][0][0]))
    with pytest.raises(NotFitted):
        cross_probabilities(variants[:2], pairs[:2], patients=["ann"] * 2)


def test_runs_and_a_common_component_prepare_links_for_short_recordings_of_another_camera() -> None:
    def recording(seed: int, polyps: list[int], common: float) -> tuple[Views, list[str | None]]:
        rng = np.random.default_rng(seed)
        vectors = np.eye(40)[rng.permutation(40)[polyps]] + rng.normal(0, 0.1, (len(polyps), 40))
        start = np.arange(0.0, 9.0 * len(polyps), 9.0)
        views = Views(vectors, start, start + 1.0).with_common(common)
        return views, [f"p{polyp}" for polyp in polyps]

    courses = np.random.default_rng(0).integers(0, 5, (12, 12)).tolist()
    procedures = [recording(seed, polyps, 0.0) for seed, polyps in enumerate(courses)]
    new = [recording(99 + k, polyps, COMMON) for k in range(40) for polyps in ([0, 1, 2], [0] * 4)]
    wrong = {}
    for runs, commons in ((False, [0.0]), (True, [0.0, COMMON])):
        variants = [[(v.with_common(size), polyps) for size in commons] for v, polyps in procedures]
        fitted = fit_and_cross_fit(variants, any_length=runs)
        counts = [
            int(partition(fitted[0].probability(views), [0.2], tolerance=0.5).max()) + 1
            for views, _ in new
        ]
        wrong[runs] = sum(
            count != len(set(polyps)) for count, (_, polyps) in zip(counts, new, strict=True)
        )
    assert wrong[True] < wrong[False] / 2


def test_short_runs_are_consecutive_in_time() -> None:
    views, polyps = procedure(0, 7)
    order = np.random.default_rng(0).permutation(7)
    frames = np.array([np.arange(k, k + 3) for k in range(7)] + [None], dtype=np.object_)[:-1]
    shuffled = Views(views.vectors[order], views.start[order], views.end[order], frames=frames)
    runs = short_runs((shuffled, [polyps[row] for row in order]))
    spans = [(k, k + n) for n in (2, 3, 4, 6) for k in range(0, 7 - n + 1, n // 2)]
    assert len(runs) == len(spans)
    for (run, of_run), (first, last) in zip(runs, spans, strict=True):
        np.testing.assert_array_equal(run.vectors, views.vectors[first:last])
        assert (run.start == views.start[first:last]).all()
        assert of_run == polyps[first:last]
        assert run.frames is not None
        rows = np.argsort(order)[first:last]
        assert all((a == frames[row]).all() for a, row in zip(run.frames, rows, strict=True))


def test_one_polyp_seen_a_few_times_is_linked_and_several_polyps_are_not() -> None:
    rng = np.random.default_rng(0)

    def views_of(polyps: np.ndarray) -> Views:
        vectors = np.eye(16)[polyps] + rng.normal(scale=0.1, size=(len(polyps), 16))
        start = np.cumsum(rng.exponential(9.0, len(polyps)) + 1.0)
        return Views(vectors, start, start + 1.0)

    every = [rng.integers(0, rng.integers(2, 6), 12) for _ in range(30)]
    procedures = [(views_of(polyps), [str(polyp) for polyp in polyps]) for polyps in every]
    usual = UsualCosines.of([views for views, _ in procedures])
    model = fit_links([[link_terms(labelled, usual)] for labelled in procedures], usual)
    assert isinstance(model, LinkModel)
    for n in (2, 3):
        same_polyp, different_polyps = np.zeros(n, dtype=int), np.arange(n)
        assert model.probability(views_of(same_polyp)).min() > 0.5
        assert model.probability(views_of(different_polyps))[np.triu_indices(n, 1)].max() < 0.5
    assert UsualCosines.of([views_of(np.zeros(1, dtype=int))]) is None


def test_usual_cosines_equal_a_naive_mean_over_procedures() -> None:
    cosines = []
    for seed in range(4):
        unit = procedure(seed, 3 + seed)[0].vectors
        unit = unit / np.linalg.norm(unit, axis=1, keepdims=True)
        cosines.append([unit[i] @ unit[j] for i in range(len(unit)) for j in range(i)])
    mean = np.mean([np.mean(values) for values in cosines])
    variance = np.mean([np.mean([(value - mean) ** 2 for value in values]) for values in cosines])
    usual = UsualCosines.of([procedure(seed, 3 + seed)[0] for seed in range(4)])
    assert usual is not None
    assert (usual.mean, usual.spread) == pytest.approx((mean, variance**0.5))


def test_fit_without_labels_gives_higher_probabilities_to_true_links() -> None:
    procedures = [procedure(seed, 16) for seed in range(24)]
    model = fit_unlabelled([views for views, _ in procedures])
    margins = []
    for views, polyps in procedures:
        P, names = model.probability(views), np.asarray(polyps, dtype=object)
        same = names[:, None] == names[None, :]
        upper = np.triu(np.ones_like(P, dtype=bool), k=1)
        margins.append(P[upper & same].mean() - P[upper & ~same].mean())
    assert np.mean(margins) > 0.2
    with pytest.raises(NotFitted, match=r"^no procedure has two tracklets$"):
        fit_unlabelled([])


@pytest.mark.parametrize("n", [16, 60])
def test_count_without_labels_does_not_grow_with_the_number_of_views(n: int) -> None:
    procedures = [procedure(seed, n) for seed in range(6)]
    all_views = [views for views, _ in procedures]
    model, price = fit_unlabelled(all_views), unlabelled_price(all_views)
    counts = [partition(model.probability(views), [price])[0].max() + 1 for views in all_views]
    assert abs(np.mean(counts) - 3.0) <= 1.0  # a fixed price gives 11 polyps for 60 tracklets


def test_pairs_that_cannot_be_fitted_and_invalid_views_are_refused() -> None:
    names = term_names()
    for same, reason in (
        ([True, True], "all 2 labelled pairs of views without a common frame show one polyp"),
        ([False], "none of 1 labelled pairs of views without a common frame shows one polyp"),
        ([], "none of 0 labelled pairs"),
    ):
        pairs = (np.zeros((len(same), len(names))), np.array(same, dtype=bool))
        with pytest.raises(NotFitted, match=reason):
            fit_links([[pairs, pairs]])
    views, _ = procedure(0)
    for call, match in (
        (lambda: link_terms((views, ["a"])), "1 polyps of 12 tracklets"),
        (lambda: Views(views.vectors, views.start, views.end[1:]), "12 starts and 11 ends"),
        (lambda: Views(views.vectors, views.end, views.start), "tracklet 0 has no finite time"),
        (lambda: LinkModel(0.0, {}, 1, 1).probability(views), "has no term 'cosine'"),
        (lambda: link_terms((Views(np.zeros((2, 3)), *np.ones((2, 2))), ["a", "b"])), "is zero"),
    ):
        with pytest.raises(PolyplinkError, match=match):
            call()


def test_links_for_any_length_know_neither_rank_nor_share_of_the_procedure() -> None:
    rng = np.random.default_rng(3)
    start = np.arange(12.0)
    views = [Views(rng.normal(size=(12, 8)), start, start + 0.5) for _ in range(6)]
    procedures = [[(of_one, [f"p{k // 4}" for k in range(12)])] for of_one in views]
    model, _ = fit_and_cross_fit(procedures, any_length=True)
    assert set(term_names()) - set(model.weights) == set(TERMS_OF_LENGTH)
    other_model, _ = fit_and_cross_fit(procedures)
    assert set(other_model.weights) == set(term_names())
    incomplete = replace(model, weights={"cosine": 1.0})
    with pytest.raises(PolyplinkError, match="no term"):
        incomplete.probability(views[0])
