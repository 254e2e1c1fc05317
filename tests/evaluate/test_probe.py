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


def test_the_probe_is_the_papers() -> None:
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


def test_it_learns_and_the_seed_decides_all() -> None:
    x, y = two_clouds()
    first = probe_scores(fit_probe(x, y, FAST, seed=3), x)
    assert ((first > 0.5) == y).mean() > 0.8
    torch.manual_seed(99)
    assert np.array_equal(first, probe_scores(fit_probe(x, y, FAST, seed=3), x))
    assert not np.array_equal(first, probe_scores(fit_probe(x, y, FAST, seed=4), x))


def test_it_equals_a_plain_loop_without_dropout_in_one_batch() -> None:
    """One batch an epoch, so that order does not matter; the schedule is written out."""
    x, y = two_clouds(20)
    settings = ProbeSettings(rate=1e-2, hidden=4, dropout=0.0, epochs=30, batch=64)
    found = probe_scores(fit_probe(x, y, settings, seed=1), x)
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
        # The cycle moves beta1 against the rate, 0.95 to 0.85 and back.
        low, high = (0.95, 0.85) if step <= peak else (0.85, 0.95)
        for group in optimiser.param_groups:
            group["lr"] = end + (start - end) * swing
            group["betas"] = (high + (low - high) * swing, 0.999)
        p = naive(torch.from_numpy(x)).squeeze(1).sigmoid()
        t = torch.from_numpy(y.astype(np.float32))
        loss = -(t * p.log() + (1 - t) * (1 - p).log()).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert np.allclose(found, probe_scores(naive.eval(), x), atol=1e-4)


@pytest.mark.parametrize(("n", "epochs"), [(2, 1), (3, 2), (65, 1)])
def test_the_smallest_sets_go_through(n: int, epochs: int) -> None:
    x, y = two_clouds(n)
    probe = fit_probe(x, y, ProbeSettings(epochs=epochs), seed=0)
    assert np.isfinite(probe_scores(probe, x)).all()


def test_bad_input_is_refused() -> None:
    x, y = two_clouds()
    with pytest.raises(PolyplinkError, match="one class"):
        fit_probe(x, np.ones_like(y), FAST, seed=0)
    with pytest.raises(PolyplinkError, match="labels to train"):
        fit_probe(x[:-1], y, FAST, seed=0)
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


def drawn(seed: int, polyps: int = 8) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores and polyps of fragments, and labels of polyps, both classes among them."""
    rng = np.random.default_rng(seed)
    label = rng.permutation(np.arange(polyps) < rng.integers(1, polyps))
    polyp = np.concatenate([np.arange(polyps), rng.integers(0, polyps, 20)])
    scores = np.round(rng.uniform(size=len(polyp)) + 0.2 * label[polyp], 1) - 0.03
    return scores, polyp, label


@given(st.integers(0, 200))
def test_figures_equal_scikit_learn_on_copied_fragments(seed: int) -> None:
    scores, polyp, label = drawn(seed)
    counts = polyp_counts(scores, polyp, label)
    draw = np.random.default_rng(seed).multinomial(8, np.full(8, 1 / 8)).astype(float)
    if not (draw @ label and draw @ ~label):
        return
    rows = np.concatenate(  # each drawn polyp's fragments, as often as it was drawn
        [np.tile(np.flatnonzero(polyp == p), int(draw[p])) for p in range(8)]
    ).astype(int)
    true, called = label[polyp[rows]], scores[rows] > 0.5
    weight = 1 / np.bincount(polyp, minlength=8)[polyp[rows]]
    expected = f1_score(true, called, average="macro", sample_weight=weight, zero_division=0)
    assert macro_f1(counts, draw[None])[0] == pytest.approx(expected)
    assert accuracy(counts, draw[None])[0] == pytest.approx(accuracy_score(true, called))
    polyps = np.repeat(np.arange(8), draw.astype(int))
    means = np.array([scores[polyp == p].mean() for p in range(8)])
    expected = roc_auc_score(label[polyps], np.round(means[polyps], 12))
    exact = PolypCounts(counts.label, counts.fragments, counts.called, np.round(counts.score, 12))
    assert auroc(exact, draw[None])[0] == pytest.approx(expected)


def test_the_majority_votes_and_a_tie_is_half_right() -> None:
    scores = np.array([0.9, 0.9, 0.1, 0.9, 0.1, 0.2])
    polyp = np.array([0, 0, 0, 1, 1, 2])
    counts = polyp_counts(scores, polyp, np.array([True, True, False]))
    assert majority(counts, np.ones((1, 3)))[0] == pytest.approx((1 + 0.5 + 1) / 3)
    assert majority(counts, np.array([[0.0, 2.0, 0.0]]))[0] == 0.5


def test_undefined_draws_are_nan_and_intervals_hold_the_value() -> None:
    scores, polyp, label = drawn(1)
    counts = polyp_counts(scores, polyp, label)
    only = label.astype(float)[None]  # the positive polyps alone
    assert np.isnan(macro_f1(counts, only)[0])
    assert np.isnan(auroc(counts, only)[0])
    other = polyp_counts(scores[::-1].copy(), polyp, label)
    found = probe_figures([counts, other], draw_weights(8, resamples=500))
    assert found.polyps == (int((~label).sum()), int(label.sum()))
    assert found.fragments == len(scores)
    for name, interval in found.figures.items():
        assert interval.n == 8
        assert interval.value == pytest.approx(np.mean(found.per_seed[name]))
        assert interval.low is not None
        assert interval.high is not None
        assert interval.low <= interval.high


def data_of(column: str, values: Sequence[float | str | None]) -> DataSet:
    """One procedure with a polyp for every value of a column of the table polyps."""
    n = len(values)
    names, procedures = [f"p{i}" for i in range(n)], ["v"] * n
    box = {"x": 0.0, "y": 0.0, "w": 4.0, "h": 4.0}
    frames = {"procedure_id": procedures, "frame": range(n), "polyp_id": names}
    size = {"n_frames": [n], "fps": [25.0], "width": [32], "height": [32]}
    whose = {"procedure_id": ["v"], "dataset": ["real-colon"], "patient": ["v"], "source": ["."]}
    kinds = {"size_mm": pl.Float64, "histology_class": pl.String}
    polyps = {
        name: pl.Series(values if name == column else [None] * n, dtype=kind)
        for name, kind in kinds.items()
    }
    return DataSet.of(
        pl.DataFrame(frames).with_columns(**{name: pl.lit(v) for name, v in box.items()}),
        pl.DataFrame(whose | size),
        pl.DataFrame({"polyp_id": names, "procedure_id": procedures} | polyps),
    )


@pytest.mark.parametrize(
    ("labels", "column", "values", "expected"),
    [
        # Five millimetres are not large.
        (size_labels, "size_mm", [5.0, 5.01, None, 2.0], {"p0": False, "p1": True, "p3": False}),
        (
            histology_labels,
            "histology_class",
            ["AD", "HP", "NO POLYP", None, "TSA"],
            {"p0": True, "p1": False, "p4": False},
        ),
    ],
)
def test_polyps_become_labels_and_unknown_ones_are_left_out(
    labels: Callable[[DataSet], pl.DataFrame],
    column: str,
    values: list[float | str | None],
    expected: dict[str, bool],
) -> None:
    table = labels(data_of(column, values))
    assert dict(zip(table["polyp_id"], table["label"], strict=True)) == expected
    assert table.schema["label"] == pl.Boolean
    assert (SIZE_PROBE.rate, HISTOLOGY_PROBE.rate) == (1e-4, 1e-5)


def test_no_label_names_the_column_and_a_strange_class_is_refused() -> None:
    with pytest.raises(PolyplinkError, match="column size_mm is empty"):
        size_labels(data_of("size_mm", [None, None]))
    with pytest.raises(PolyplinkError, match="column histology_class is empty"):
        histology_labels(data_of("histology_class", [None, "OTHER"]))
    with pytest.raises(PolyplinkError, match="histology class 'ADX'"):
        histology_labels(data_of("histology_class", ["ADX", "AD"]))
