import numpy as np
import pytest
import torch
from torch import nn

from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.probe import ProbeSettings, build_probe, fit_probe, probe_scores

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
    x[3, 2] = np.nan
    with pytest.raises(PolyplinkError, match="not finite"):
        fit_probe(x, y, FAST, seed=0)
    with pytest.raises(PolyplinkError, match=r"probe\.rate"):
        ProbeSettings(rate=0.0)
    with pytest.raises(PolyplinkError, match=r"probe\.epochs"):
        ProbeSettings(epochs=0)
