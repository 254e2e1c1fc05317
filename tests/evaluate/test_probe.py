from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, strategies as st
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score
from torch import nn

from polyplink.core.errors import PolyplinkError
from polyplink.data.tables import DataSet
from polyplink.evaluate.intervals import draw_weights
from polyplink.evaluate.probe import (
    HISTOLOGY_PROBE,
    SIZE_PROBE,
    PolypCounts,
    ProbeSettings,
    accuracy,
    auroc,
    build_probe,
    fit_probe,
    histology_labels,
    macro_f1,
    majority,
    polyp_counts,
    probe_figures,
    probe_scores,
    size_labels,
)

FAST = ProbeSettings(rate=1e-2, hidden=8, epochs=10, batch=16)


def two_clouds(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 2 == 0
    return (rng.normal(size=(n, 6)) + 2.0 * labels[:, None] * np.eye(6)[0]).astype(
        np.float32
    ), labels


def test_the_probe_has_the_layers_and_defaults_of_the_paper() -> None:
    probe = build_probe(128, ProbeSettings())
    assert [type(layer) for layer in probe] == [
        nn.LayerNorm,
        nn.Linear,
        nn.GELU,
        nn.Dropout,
        nn.Linear,
    ]
    assert probe[1].weight.shape == (256, 128)
    assert probe[4].weight.shape == (1, 256)
    assert probe[3].p == 0.1
    settings = ProbeSettings()
    assert (settings.epochs, settings.batch, settings.weight_decay) == (20, 64, 0.0)
    assert (settings.rate, settings.warm_up) == (1e-4, 0.1)


def test_the_probe_learns_and_depends_only_on_the_seed() -> None:
    x, y = two_clouds()
    first = probe_scores(fit_probe(x, y, FAST, seed=3), x)
    assert ((first > 0.5) == y).mean() > 0.8
    torch.manual_seed(99)
    assert np.array_equal(first, probe_scores(fit_probe(x, y, FAST, seed=3), x))
    assert not np.array_equal(first, probe_scores(fit_probe(x, y, FAST, seed=4), x))


def test_fitting_equals_a_plain_loop_without_dropout_in_one_batch() -> None:
    """With one batch per epoch the order does not matter; the loop computes the schedule."""
    x, y = two_clouds(20)
    settings = ProbeSettings(rate=1e-2, hidden=4, dropout=0.0, epochs=30, batch=64)
    scores = probe_scores(fit_probe(x, y, settings, seed=1), x)
    torch.manual_seed(1)
    naive = build_probe(6, settings)
    optimiser = torch.optim.AdamW(naive.parameters(), lr=1e-2, weight_decay=0.0)
    peak = 30 * 0.1 - 1  # steps of warm-up
    for step in range(30):
        if step <= peak:
            start, end, part = 1e-2 / 25, 1e-2, step / peak
        else:
            start, end, part = 1e-2, 1e-2 / 25 / 1e4, (step - peak) / (30 - 1 - peak)
        swing = (1 + np.cos(np.pi * part)) / 2
        # One-cycle moves beta1 opposite to the rate, from 0.95 to 0.85 and back.
        low, high = (0.95, 0.85) if step <= peak else (0.85, 0.95)
        for group in optimiser.param_groups:
            group["lr"] = end + (start - end) * swing
            group["betas"] = (high + (low - high) * swing, 0.999)
        probability = naive(torch.from_numpy(x)).squeeze(1).sigmoid()
        t = torch.from_numpy(y.astype(np.float32))
        loss = -(t * probability.log() + (1 - t) * (1 - probability).log()).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert np.allclose(scores, probe_scores(naive.eval(), x), atol=1e-4)


@pytest.mark.parametrize(("n", "epochs"), [(2, 1), (3, 2), (65, 1)])
def test_the_smallest_sets_can_be_fitted(n: int, epochs: int) -> None:
    x, y = two_clouds(n)
    probe = fit_probe(x, y, ProbeSettings(epochs=epochs), seed=0)
    assert np.isfinite(probe_scores(probe, x)).all()


def test_invalid_inputs_of_a_probe_are_refused() -> None:
    x, y = two_clouds()
    with pytest.raises(PolyplinkError, match="one class"):
        fit_probe(x, np.ones_like(y), FAST, seed=0)
    counts = polyp_counts(np.array([0.2, 0.7]), np.array([0, 1]), np.array([True, True]))
    for tested in ([counts], []):
        with pytest.raises(PolyplinkError, match="one class"):
            probe_figures(tested, draw_weights(2, resamples=10))
    x[3, 2] = np.nan
    with pytest.raises(PolyplinkError, match="not finite"):
        fit_probe(x, y, FAST, seed=0)
    with pytest.raises(PolyplinkError, match=r"probe\.rate"):
        ProbeSettings(rate=0.0)
    with pytest.raises(PolyplinkError, match=r"probe\.epochs"):
        ProbeSettings(epochs=0)


def random_fragments(seed: int, polyps: int = 8) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores and polyps of fragments, and labels of polyps, with both classes."""
    rng = np.random.default_rng(seed)
    label = rng.permutation(np.arange(polyps) < rng.integers(1, polyps))
    polyp = np.concatenate([np.arange(polyps), rng.integers(0, polyps, 20)])
    scores = np.round(rng.uniform(size=len(polyp)) + 0.2 * label[polyp], 1) - 0.03
    return scores, polyp, label


@given(st.integers(0, 200))
def test_weighted_figures_equal_scikit_learn_on_copied_fragments(seed: int) -> None:
    scores, polyp, label = random_fragments(seed)
    counts = polyp_counts(scores, polyp, label)
    draw = np.random.default_rng(seed).multinomial(8, np.full(8, 1 / 8)).astype(float)
    if not (draw @ label and draw @ ~label):
        return
    rows = np.concatenate(  # the fragments of a drawn polyp, as often as it is drawn
        [np.tile(np.flatnonzero(polyp == p), int(draw[p])) for p in range(8)]
    ).astype(int)
    true, predicted = label[polyp[rows]], scores[rows] > 0.5
    weight = 1 / np.bincount(polyp, minlength=8)[polyp[rows]]
    expected = f1_score(true, predicted, average="macro", sample_weight=weight, zero_division=0)
    assert macro_f1(counts, draw[None])[0] == pytest.approx(expected)
    assert accuracy(counts, draw[None])[0] == pytest.approx(accuracy_score(true, predicted))
    polyps = np.repeat(np.arange(8), draw.astype(int))
    means = np.array([scores[polyp == p].mean() for p in range(8)])
    expected = roc_auc_score(label[polyps], np.round(means[polyps], 12))
    exact = PolypCounts(counts.label, counts.fragments, counts.called, np.round(counts.score, 12))
    assert auroc(exact, draw[None])[0] == pytest.approx(expected)


def test_majority_is_per_polyp_and_a_tie_counts_half() -> None:
    scores = np.array([0.9, 0.9, 0.1, 0.9, 0.1, 0.2])
    polyp = np.array([0, 0, 0, 1, 1, 2])
    counts = polyp_counts(scores, polyp, np.array([True, True, False]))
    assert majority(counts, np.ones((1, 3)))[0] == pytest.approx((1 + 0.5 + 1) / 3)
    assert majority(counts, np.array([[0.0, 2.0, 0.0]]))[0] == 0.5


def test_undefined_resamples_are_nan_and_values_are_means_over_seeds() -> None:
    scores, polyp, label = random_fragments(1)
    counts = polyp_counts(scores, polyp, label)
    positives_only = label.astype(float)[None]  # only the positive polyps
    assert np.isnan(macro_f1(counts, positives_only)[0])
    assert np.isnan(auroc(counts, positives_only)[0])
    other = polyp_counts(scores[::-1].copy(), polyp, label)
    figures = probe_figures([counts, other], draw_weights(8, resamples=500))
    assert figures.polyps == (int((~label).sum()), int(label.sum()))
    assert figures.fragments == len(scores)
    for name, interval in figures.figures.items():
        assert interval.n == 8
        assert interval.value == pytest.approx(np.mean(figures.per_seed[name]))
        assert interval.low is not None
        assert interval.high is not None
        assert interval.low <= interval.high


def data_of(column: str, values: Sequence[float | str | None]) -> DataSet:
    """One procedure with a polyp per value of a column of the table of polyps."""
    n = len(values)
    names, procedures = [f"p{i}" for i in range(n)], ["v"] * n
    box = {"x": 0.0, "y": 0.0, "w": 4.0, "h": 4.0}
    frames = {"procedure_id": procedures, "frame": range(n), "polyp_id": names}
    size = {"n_frames": [n], "fps": [25.0], "width": [32], "height": [32]}
    origin = {"procedure_id": ["v"], "dataset": ["real-colon"], "patient": ["v"], "source": ["."]}
    kinds = {"size_mm": pl.Float64, "histology_class": pl.String}
    polyps = {
        name: pl.Series(values if name == column else [None] * n, dtype=kind)
        for name, kind in kinds.items()
    }
    return DataSet.of(
        pl.DataFrame(frames).with_columns(**{name: pl.lit(v) for name, v in box.items()}),
        pl.DataFrame(origin | size),
        pl.DataFrame({"polyp_id": names, "procedure_id": procedures} | polyps),
    )


@pytest.mark.parametrize(
    ("labels", "column", "values", "expected"),
    [
        # Five millimetres is not large.
        (size_labels, "size_mm", [5.0, 5.01, None, 2.0], {"p0": False, "p1": True, "p3": False}),
        (
            histology_labels,
            "histology_class",
            ["AD", "HP", "NO POLYP", None, "TSA"],
            {"p0": True, "p1": False, "p4": False},
        ),
    ],
)
def test_labels_of_polyps_leave_out_unknown_ones(
    labels: Callable[[DataSet], pl.DataFrame],
    column: str,
    values: list[float | str | None],
    expected: dict[str, bool],
) -> None:
    table = labels(data_of(column, values))
    assert dict(zip(table["polyp_id"], table["label"], strict=True)) == expected
    assert table.schema["label"] == pl.Boolean
    assert (SIZE_PROBE.rate, HISTOLOGY_PROBE.rate) == (1e-4, 1e-5)


def test_empty_columns_and_unknown_classes_are_refused() -> None:
    with pytest.raises(PolyplinkError, match="column size_mm is empty"):
        size_labels(data_of("size_mm", [None, None]))
    with pytest.raises(PolyplinkError, match="column histology_class is empty"):
        histology_labels(data_of("histology_class", [None, "OTHER"]))
    with pytest.raises(PolyplinkError, match="histology class 'ADX'"):
        histology_labels(data_of("histology_class", ["ADX", "AD"]))
