"""What a benchmark measures, and the clock it measures with."""

import time
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from polyplink.core.errors import PolyplinkError

EIGHTHS = (8, 4, 2, 1)  # growth is measured from an eighth of the size to the whole


@dataclass(frozen=True)
class BenchResult:
    """One hot path against its rival.

    Attributes:
        name: Of the benchmark.
        rival: What it is compared with, in words; "-" where there is nothing.
        size: Of the input, in the unit the benchmark's docstring names.
        ours_s: Seconds, the best of several runs.
        rival_s: Seconds of the rival; null without one.
        ratio: rival_s / ours_s: how many times faster ours is; null without a rival.
        exponent: Of ours_s as a power of size; 1 is linear. Null where size does not vary.
        equal: Whether outputs were compared in this very run and were equal. A benchmark without
            a rival compares with what its docstring promises.
        rate: Of size a second with all that ours may use, several processes perhaps; null where
            nobody asks for it.
        peak_mb: Most memory that ours took in the measured path, in millions of bytes; null where
            nobody asks for it.
        also: Other figures, by what they are.
    """

    name: str
    rival: str
    size: int
    ours_s: float
    rival_s: float | None
    ratio: float | None
    exponent: float | None
    equal: bool
    rate: float | None = None
    peak_mb: float | None = None
    also: Mapping[str, float] = field(default_factory=dict)

    def line(self) -> str:
        """The result on one line, for reading."""
        said = [f"{self.name:<12} size {self.size:<9} {self.ours_s:9.4f} s"]
        if self.rival_s is not None and self.ratio is not None:
            said.append(f"{self.ratio:8.1f} x faster than {self.rival} ({self.rival_s:.3f} s)")
        if self.exponent is not None:
            said.append(f"grows as size^{self.exponent:.2f}")
        if self.rate is not None:
            said.append(f"{self.rate:.1f} a second")
        if self.peak_mb is not None:
            said.append(f"{self.peak_mb:.0f} MB at most")
        said.extend(f"{what}: {value:.4g}" for what, value in self.also.items())
        said.append("equal" if self.equal else "NOT EQUAL")
        return ", ".join(said)


def against(
    name: str,
    rival: str,
    size: int,
    *,
    ours_s: float,
    rival_s: float,
    exponent: float | None,
    equal: bool,
    rate: float | None = None,
    peak_mb: float | None = None,
    also: Mapping[str, float] | None = None,
) -> BenchResult:
    """A result with its ratio filled in."""
    ratio = rival_s / ours_s
    return BenchResult(
        name, rival, size, ours_s, rival_s, ratio, exponent, equal, rate, peak_mb, also or {}
    )


def most_memory(fn: Callable[[], object]) -> float:
    """Most memory that a call holds at a time, in millions of bytes, as Python and numpy tell."""
    tracemalloc.start()
    try:
        fn()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def best_of(fn: Callable[[], object], repeats: int = 3) -> float:
    """Seconds of the fastest of several calls: the one that the machine disturbed least.

    Raises:
        PolyplinkError: If `repeats` is below 1.
    """
    if repeats < 1:
        raise PolyplinkError(f"{repeats} repeats", "give 1 or more")
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        fn()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def fitted_exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Slope of log seconds over log size, by least squares.

    Args:
        sizes: Two different ones or more, above 0.
        seconds: One for each, above 0.

    Returns:
        1 for what grows linearly, 2 for what grows with the square.

    Raises:
        PolyplinkError: If there are not two different sizes, or a value is not above 0.
    """
    if len(sizes) != len(seconds) or len(set(sizes)) < 2 or min(*sizes, *seconds) <= 0:
        raise PolyplinkError(
            f"no exponent from sizes {list(sizes)} and seconds {list(seconds)}",
            "give at least two different sizes, and values above 0",
        )
    x, y = np.log(np.asarray(sizes, float)), np.log(np.asarray(seconds, float))
    x, y = x - x.mean(), y - y.mean()
    return float((x @ y) / (x @ x))


def growth(prepare: Callable[[int], Callable[[], object]], size: int, repeats: int = 3) -> float:
    """Exponent of a path's time, from an eighth of `size` to the whole.

    Args:
        prepare: Makes the input of a size, and returns the call to be timed.
        size: The largest, at least 8.
        repeats: Calls per size, of which the fastest counts.

    Raises:
        PolyplinkError: If `size` is below 8.
    """
    if size < max(EIGHTHS):
        raise PolyplinkError(f"size {size} has no eighth", "give 8 or more")
    sizes = [size // part for part in EIGHTHS]
    return fitted_exponent(sizes, [best_of(prepare(n), repeats) for n in sizes])
