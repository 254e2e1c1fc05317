import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.associate.similarity import unit_rows
from polyplink.core._torchvision import heal_torchvision
from polyplink.evaluate.published import published_precision, published_reid, squashed
from polyplink.evaluate.retrieval import retrieve
from polyplink.evaluate.samples import Samples
from tests.evaluate.made import made

heal_torchvision()
from torchmetrics.functional.classification import (  # noqa: E402
    binary_auroc,
    binary_average_precision,
)
from torchmetrics.retrieval import RetrievalHitRate, RetrievalMAP  # noqa: E402


def by_torchmetrics(vectors: np.ndarray, samples: Samples) -> dict[str, float]:
    """MAP and hit rates of torchmetrics on raw cosines; queries without a match left out."""
    unit = torch.from_numpy(unit_rows(vectors))
    known = np.flatnonzero(samples.known)
    same = torch.from_numpy(samples.polyp[:, None] == samples.polyp[None, :])
    parts = []
    for row in known:
        others = torch.from_numpy(known[known != row])
        if same[row, others].any():
            scores = unit[others] @ unit[row]
            parts.append((scores, same[row, others], torch.full((len(others),), int(row))))
    preds, target, index = (torch.cat(part) for part in zip(*parts, strict=True))
    metrics = {"mAP": RetrievalMAP(), "HR@1": RetrievalHitRate(top_k=1)}
    metrics["HR@5"] = RetrievalHitRate(top_k=5)
    return {name: float(m(preds, target, indexes=index)) for name, m in metrics.items()}


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 1000), st.integers(0, 4), st.floats(0.5, 6))
def test_map_as_published_is_that_of_torchmetrics(seed: int, unknown: int, noise: float) -> None:
    vectors, samples, _ = made(seed, unknown, noise)
    exact = retrieve(vectors, samples)
    theirs = by_torchmetrics(vectors, samples)
    found = published_precision(vectors, samples, exact)
    assert np.nanmean(found) == pytest.approx(theirs["mAP"], abs=1e-6)
    assert exact.hr1 == pytest.approx(theirs["HR@1"], abs=1e-6)
    assert exact.hr5 == pytest.approx(theirs["HR@5"], abs=1e-6)
    assert (np.isnan(found) == np.isnan(exact.ap)).all()


def test_it_flatters_where_matches_point_away() -> None:
    vectors, samples, _ = made(3, noise=6.0)
    exact = retrieve(vectors, samples)
    assert exact.mean_ap is not None
    assert np.nanmean(published_precision(vectors, samples, exact)) > exact.mean_ap + 0.01
    away = Samples.of(["a", "b", "c"], ["v"] * 3, ["p", "p", "q"], [0, 0.5, 1])
    opposite = np.array([[1.0, 0.0], [-1.0, 0.1], [0.0, 1.0]])
    dropped = published_precision(opposite, away, retrieve(opposite, away))
    assert dropped[:2].tolist() == [0.0, 0.0]


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 1000), st.integers(0, 4))
def test_reid_as_published_is_that_of_torchmetrics(seed: int, unknown: int) -> None:
    vectors, samples, _ = made(seed, unknown, 3.0)
    known = np.flatnonzero(samples.known)
    i, j = np.tril_indices(known.size, -1)
    i, j = known[i], known[j]
    unit = unit_rows(vectors)
    scores = torch.from_numpy((unit[i] * unit[j]).sum(axis=1)).float().sigmoid()
    same = torch.from_numpy(samples.polyp[i] == samples.polyp[j]).int()
    found = published_reid(vectors, samples)
    assert found is not None
    assert found[0] == pytest.approx(float(binary_auroc(scores, same)), abs=1e-5)
    assert found[1] == pytest.approx(float(binary_average_precision(scores, same)), abs=1e-5)


def test_without_a_pair_of_each_kind_there_is_none() -> None:
    one = Samples.of(["a", "b"], ["v", "v"], ["p", "p"], [0, 1])
    two = Samples.of(["a", "b"], ["v", "v"], ["p", "q"], [0, 1])
    assert published_reid(np.eye(2), one) is None
    assert published_reid(np.eye(2), two) is None


def test_the_sigmoid_is_single_precision() -> None:
    scores = np.linspace(-1, 1, 9)
    expected = torch.sigmoid(torch.from_numpy(scores).float()).numpy()
    np.testing.assert_allclose(squashed(scores), expected, atol=1e-7)
    assert squashed(np.array([0.5]))[0] == squashed(np.array([0.5 + 1e-9]))[0]
