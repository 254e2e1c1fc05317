import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.bench.harness import against, best_of, fitted_exponent, growth, most_memory
from polyplink.core.errors import PolyplinkError


def test_best_of_takes_the_fastest_call(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 5.0, 10.0, 12.0, 20.0, 29.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    calls: list[int] = []
    assert best_of(lambda: calls.append(1), 3) == 2.0
    assert len(calls) == 3


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(1, 1e6), st.floats(1e-6, 1e3)),
        min_size=2,
        max_size=8,
        unique_by=lambda pair: round(np.log(pair[0]), 2),
    )
)
def test_the_exponent_equals_numpys_fit(points: list[tuple[float, float]]) -> None:
    sizes, seconds = zip(*points, strict=True)
    expected = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    assert fitted_exponent(sizes, seconds) == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_a_square_has_the_exponent_two() -> None:
    assert fitted_exponent([1, 2, 4], [3, 12, 48]) == pytest.approx(2.0)


def test_growth_times_an_eighth_to_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    now, sizes = [0.0], []
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def of(size: int) -> object:
        sizes.append(size)

        def call() -> None:
            now[0] += size**1.5

        return call

    assert growth(of, 800) == pytest.approx(1.5)  # type: ignore[arg-type]
    assert sizes == [100, 200, 400, 800]


def test_the_ratio_is_how_many_times_faster_ours_is() -> None:
    result = against("x", "loop", 8, ours_s=2.0, rival_s=6.0, exponent=None, equal=True)
    assert (result.ratio, result.rival, result.equal) == (3.0, "loop", True)


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(PolyplinkError, match="0 repeats; give 1 or more"):
        best_of(lambda: None, 0)
    with pytest.raises(PolyplinkError, match="at least two different sizes"):
        fitted_exponent([4, 4], [1.0, 2.0])
    with pytest.raises(PolyplinkError, match="values above 0"):
        fitted_exponent([1, 2], [0.0, 2.0])
    with pytest.raises(PolyplinkError, match="size 7 has no eighth; give 8 or more"):
        growth(lambda size: lambda: size, 7)


def test_the_most_memory_is_that_of_what_is_held_at_once() -> None:
    def call() -> None:
        for _ in range(3):
            np.zeros(1_000_000)  # 8 MB, given back each time

    assert 8.0 <= most_memory(call) < 10.0
