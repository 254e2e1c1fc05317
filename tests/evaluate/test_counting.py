import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.counting import (
    ProcedureCounts,
    clinic_figures,
    clinic_row,
    count_procedure,
    partitions,
)

POLYPS = st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=9).filter(any)


@st.composite
def clustered(draw: st.DrawFn) -> tuple[np.ndarray, list[str | None]]:
    polyps = draw(POLYPS)
    row = st.lists(st.integers(0, len(polyps) - 1), min_size=len(polyps), max_size=len(polyps))
    return np.array(draw(st.lists(row, min_size=1, max_size=4))), polyps


def naive(labels: np.ndarray, polyps: list[str | None]) -> dict[str, float]:
    labelled = [i for i, polyp in enumerate(polyps) if polyp is not None]
    tp = fp = fn = tn = 0
    for i, j in combinations(labelled, 2):
        together, same = labels[i] == labels[j], polyps[i] == polyps[j]
        tp += together and same
        fp += together and not same
        fn += same and not together
        tn += not same and not together
    clusters, true = len({labels[i] for i in labelled}), len({polyps[i] for i in labelled})
    # As published: sums over the n x n matrix, with each pair twice and the diagonal.
    all_pairs = [
        (labels[i] == labels[j], polyps[i] == polyps[j]) for i in labelled for j in labelled
    ]
    hits = sum(together and same for together, same in all_pairs)
    predicted, true_pairs = sum(t for t, _ in all_pairs), sum(s for _, s in all_pairs)

    def ratio(part: int, all_pairs: int) -> float:
        return part / all_pairs if all_pairs else math.nan

    return {
        "clusters": clusters,
        "tp": tp,
        "fp": fp,
        "fn": fn,
        "tn": tn,
        "fr": clusters / true,
        "fpr": ratio(fp, fp + tn),
        "precision": ratio(tp, tp + fp),
        "recall": ratio(tp, tp + fn),
        "fpr_published": fp / (fp + tn) if fp + tn else 0.0,
        "precision_with_self": hits / predicted,
        "recall_with_self": hits / true_pairs,
    }


def assert_equal_to_naive(
    counts: ProcedureCounts, labels: np.ndarray, polyps: list[str | None]
) -> None:
    for setting in range(len(labels)):
        for name, value in naive(labels[setting], polyps).items():
            actual = counts.rates[name] if name in counts.rates else getattr(counts, name)
            np.testing.assert_allclose(actual[setting], value, atol=1e-12, err_msg=name)


@given(clustered())
def test_counts_equal_a_naive_double_loop(case: tuple[np.ndarray, list[str | None]]) -> None:
    labels, polyps = case
    counts = count_procedure(labels, polyps)
    assert_equal_to_naive(counts, labels, polyps)
    assert counts.tracklets + counts.unlabelled == len(polyps)
    assert counts.polyps == len({polyp for polyp in polyps if polyp is not None})


@pytest.mark.parametrize(
    ("labels", "polyps", "message"),
    [
        ([[0, 1]], ["a"], r"procedure 'v7': labels \(1, 2\) for 1 tracklets"),
        ([0, 1], ["a", "b"], r"procedure 'v7': labels \(2,\) for 2 tracklets"),
        ([[0, 1]], [None, None], "procedure 'v7' has no tracklet of known polyp"),
        ([[0, -1]], ["a", "b"], r"procedure 'v7': a label is outside \[0, 2\)"),
        ([[0, 2]], ["a", "b"], r"procedure 'v7': a label is outside \[0, 2\)"),
    ],
)
def test_invalid_labels_are_refused(
    labels: list[list[int]], polyps: list[str | None], message: str
) -> None:
    with pytest.raises(PolyplinkError, match=message):
        count_procedure(labels, polyps, "v7")


def same_partition(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(((a[:, None] == a) == (b[:, None] == b)).all())


@given(st.integers(1, 6), st.integers(1, 40), st.integers(0, 1000))
def test_clusterings_share_a_row_exactly_if_their_partitions_are_equal(
    n: int, s: int, seed: int
) -> None:
    labels = np.random.default_rng(seed).integers(0, 4, (s, n))
    unique = partitions(labels)
    restored = unique.labels[unique.row_of]
    assert all(same_partition(restored[i], labels[i]) for i in range(s))
    for i in range(s):
        for j in range(i):
            assert (unique.row_of[i] == unique.row_of[j]) == same_partition(labels[i], labels[j])


def test_clusters_are_numbered_in_the_order_of_their_first_tracklets() -> None:
    unique = partitions(np.array([[7, 7, 2], [0, 1, 1], [3, 3, 9], [1, 0, 0]], dtype=np.int32))
    assert unique.labels.tolist() == [[0, 0, 1], [0, 1, 1]]
    assert unique.row_of.tolist() == [0, 1, 0, 1]
    assert partitions(np.empty((0, 3), dtype=np.int32)).labels.shape == (0, 3)
    without_tracklets = partitions(np.empty((2, 0), dtype=np.int32))
    assert without_tracklets.labels.shape == (1, 0)
    assert without_tracklets.row_of.tolist() == [0, 0]


def test_clinical_rates_of_three_procedures_equal_a_count_by_hand() -> None:
    rows = [
        # An adenoma in two clusters, a hyperplastic polyp alone.
        clinic_row("v", [0, 0, 1, 2], [0, 0, 0, 1], [True, True, True, False]),
        # An adenoma in the cluster of another polyp with more views.
        clinic_row("w", [0, 0, 0], [2, 2, 3], [False, False, True]),
        # No adenoma; one polyp of unknown histology joins the other's cluster.
        clinic_row("x", [5, 5], [4, 5], [False, None]),
    ]
    figures = clinic_figures(rows)
    assert figures is not None
    assert [row["polyps"] for row in rows] == [2, 2, 2]
    assert [row["counted"] for row in rows] == [3, 1, 1]
    assert [row["adenomas"] for row in rows] == [1, 1, 0]
    assert [row["adenomas_counted"] for row in rows] == [2, 0, 0]
    rates = [figures.ppc, figures.ppc_counted, figures.apc, figures.apc_counted, figures.adr]
    assert rates == pytest.approx([2.0, 5 / 3, 2 / 3, 2 / 3, 2 / 3])
    assert figures.adr_counted == pytest.approx(1 / 3)
    assert (figures.procedures, figures.with_histology) == (3, 3)


def test_a_tie_counts_as_an_adenoma_and_unknown_histology_is_left_out() -> None:
    tie = clinic_row("v", [0, 0], [0, 1], [True, False])
    assert tie["adenomas_counted"] == 1
    unknown = clinic_row("w", [0, 1], [2, 3], [None, None])
    assert (unknown["adenomas"], unknown["adenomas_counted"]) == (None, None)
    figures = clinic_figures([tie, unknown])
    assert figures is not None
    assert (figures.adr, figures.with_histology, figures.procedures) == (1.0, 1, 2)
    without_histology = clinic_figures([unknown])
    assert without_histology is not None
    assert (without_histology.adr, without_histology.apc) == (None, None)
    assert clinic_figures([]) is None
