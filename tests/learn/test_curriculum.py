"""The cosine curriculum."""

import math

import pytest

from polyplink.learn.curriculum import cosine_tau


def test_ends_and_middle() -> None:
    assert cosine_tau(0.0, 0.3, 12.0) == pytest.approx(0.3)
    assert cosine_tau(0.5, 0.3, 12.0) == pytest.approx(6.15)
    assert cosine_tau(1.0, 0.3, 12.0) == pytest.approx(12.0)


def test_last_epoch_of_the_reference_stays_below_the_maximum() -> None:
    assert cosine_tau(49 / 50, 0.3, 12.0) == pytest.approx(11.988, abs=1e-3)


def test_it_rises_all_the_way_and_a_fixed_tau_stays() -> None:
    values = [cosine_tau(c / 10, 0.3, 12.0) for c in range(11)]
    assert all(math.isfinite(v) for v in values)
    assert values == sorted(values)
    assert cosine_tau(0.37, 4.0, 4.0) == 4.0
