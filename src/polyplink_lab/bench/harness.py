"""Timing one case: measurement, comparison with the rival, result and recorded ratios."""

import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from polyplink.core.artefacts import read_json, write_json
from polyplink.core.errors import PolyplinkError

EIGHTHS = (8, 4, 2, 1)  # divisors: growth is measured from an eighth of the size to the whole
SLOWER = 0.75  # share of the recorded ratio below which a path counts as slower

Call = Callable[[], Any]
Ratios = Mapping[str, Mapping[str, float]]
"""Name of a case -> "size" and "ratio"."""


@dataclass(frozen=True)
class Work:
    """A case prepared at one size, with inputs and imports; only the calls are timed.

    Attributes:
        ours: The measured call.
        rival: The reference call; None for none.
        equal: Compares the outputs of `ours` and `rival`.
        scale: The rival does 1 / `scale` of the work, so its time is multiplied by `scale`.
        seconds: Extracts the time from an output, if only a part of the call counts.
        at: Returns the call to time at a smaller size, for the growth; None to prepare the case
            at that size and time its `ours`.
        more: Further fields of the result ("rate", "peak_mb", "also"), from the output and the
            seconds of `ours`.
    """

    ours: Call
    rival: Call | None
    equal: Callable[[Any, Any], bool]
    scale: float = 1.0
    seconds: Callable[[Any], float] | None = None
    at: Callable[[int], Call] | None = None
    more: Callable[[Any, float], dict[str, Any]] | None = None


@dataclass(frozen=True)
class Case:
    """A row of the table of benchmarks, see `cases`.

    Attributes:
        name: Name on the command line and in the record.
        prepare: Prepares the inputs of a size, on a device, in an empty folder; its docstring
            describes what is timed and compared.
        rival: Description of the reference; "{device}" is replaced. "-" without one.
        size: Default size of the input.
        unit: Unit of `size`.
        least: Smallest size that can be measured.
        repeats: Number of calls (the fastest counts) of ours, of the rival, and of ours at each
            size of the growth fit; 0 for not measured.
        memory: Whether the peak of allocated memory is measured.
        gpu: Whether the case can use a GPU.
    """

    name: str
    prepare: Callable[[int, torch.device, Path], Work]
    rival: str
    size: int
    unit: str
    least: int = 8
    repeats: tuple[int, int, int] = (5, 1, 2)
    memory: bool = False
    gpu: bool = False


@dataclass(frozen=True)
class BenchResult:
    """The result of one case.

    Attributes:
        name: Name of the case.
        rival: The reference implementation; "-" without one.
        size: Size of the input, in the case's unit.
        ours_s: Seconds of ours, the best of several runs.
        rival_s: Seconds of the rival; null without one.
        ratio: rival_s / ours_s: how many times faster ours is; null without a rival.
        exponent: Exponent of ours_s as a power of size; 1 is linear. Null if not measured.
        equal: Whether the outputs of this run were equal; without a rival, whether the output is as
            specified by the case.
        rate: Units of work per second with all resources (several processes, a whole GPU).
        peak_mb: Peak memory of ours, in millions of bytes.
        also: Other figures by name.
        unit: Unit of `size`.
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
    unit: str = ""

    def line(self) -> str:
        """The result as one readable line."""
        parts = [f"{self.name:<16} {self.size:>7} {self.unit} {self.ours_s:9.4f} s"]
        if self.rival_s is not None and self.ratio is not None:
            parts.append(f"{self.ratio:8.1f} x faster than {self.rival} ({self.rival_s:.3f} s)")
        if self.exponent is not None:
            parts.append(f"grows as size^{self.exponent:.2f}")
        if self.rate is not None:
            parts.append(f"{self.rate:.1f} a second")
        if self.peak_mb is not None:
            parts.append(f"{self.peak_mb:.0f} MB at most")
        parts.extend(f"{name}: {value:.4g}" for name, value in self.also.items())
        parts.append("equal" if self.equal else "NOT EQUAL")
        return ", ".join(parts)


def measure(case: Case, size: int, device: torch.device) -> BenchResult:
    """Time a case against its rival at a size, and compare their outputs."""
    repeats, rival_repeats, growth_repeats = case.repeats
    with tempfile.TemporaryDirectory(prefix="polyplink-bench-") as folder:
        work = case.prepare(size, device, Path(folder))
        if repeats > 1:
            work.ours()  # compiles code, once per machine
        expected, rival_s = None, None
        if work.rival is not None:
            expected, rival_s = time_calls(work.rival, rival_repeats)
            rival_s = work.scale * (work.seconds(expected) if work.seconds else rival_s)
        output, ours_s = time_calls(work.ours, repeats)
        ours_s = work.seconds(output) if work.seconds else ours_s
        exponent = None
        if growth_repeats:

            def prepared(n: int) -> Call:
                subfolder = Path(folder) / f"size-{n}"
                subfolder.mkdir()
                return case.prepare(n, device, subfolder).ours

            exponent = growth(work.at or prepared, size, growth_repeats)
        extra = work.more(output, ours_s) if work.more else {}
        if case.memory:
            extra["peak_mb"] = most_memory(work.ours)
        return BenchResult(
            case.name,
            case.rival.format(device=device.type),
            size,
            ours_s,
            rival_s,
            None if rival_s is None else rival_s / ours_s,
            exponent,
            bool(work.equal(output, expected)),
            unit=case.unit,
            **extra,
        )


def time_calls(call: Call, repeats: int = 3) -> tuple[Any, float]:
    """Output of the last and seconds of the fastest of `repeats` calls, at least one."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        output = call()
        seconds.append(time.perf_counter() - start)
    return output, min(seconds)


def growth(at: Callable[[int], Call], size: int, repeats: int) -> float:
    """Exponent of the run time as a power of the size, fitted from `size` / 8 to `size`.

    It is the least-squares slope of log seconds over log size: 1 is linear, 2 quadratic.

    Args:
        at: Creates the input of a size, and returns the call to time.
        size: The largest size, at least 8 (see `Case.least`).
        repeats: Calls per size, of which the fastest counts.
    """
    sizes = [size // part for part in EIGHTHS]
    seconds = [time_calls(at(n), repeats)[1] for n in sizes]
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def most_memory(call: Call) -> float:
    """Peak memory of a call, in millions of bytes, as reported by tracemalloc."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def read_ratios(path: Path) -> dict[str, Mapping[str, float]]:
    """The ratios in a file that `record` wrote.

    Raises:
        PolyplinkError: If the file is missing, or has something else.
    """
    stored = read_json(path, "make it with --record")
    try:
        return {
            name: {"size": int(row["size"]), "ratio": float(row["ratio"])}
            for name, row in stored.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError):
        raise PolyplinkError(f"{path} is not a file of --record", "name another file") from None


def record(results: Iterable[BenchResult], path: Path) -> None:
    """Write the ratios of these cases to a file; those of other cases in it are unchanged.

    Raises:
        PolyplinkError: If the file has something else, see `read_ratios`.
    """
    ratios = read_ratios(path) if path.is_file() else {}
    for result in results:
        if result.ratio is not None:
            rounded = round(result.ratio, 1 if result.ratio > 9 else 3)
            ratios[result.name] = {"size": result.size, "ratio": rounded}
    write_json(path, ratios)


def complaint(result: BenchResult, recorded: Ratios) -> str | None:
    """The problem of a result: outputs differ, or the ratio fell by more than a quarter.

    Args:
        result: The new measurement.
        recorded: The recorded ratios; those of other sizes are not compared.

    Returns:
        One line; None if there is no problem.
    """
    if not result.equal:
        return f"{result.name}: outputs are not equal"
    last = recorded.get(result.name)
    if last is None or result.ratio is None or last["size"] != result.size:
        return None
    fell = f"from {last['ratio']:g} to {result.ratio:.3g} times the rival's speed"
    return f"{result.name}: fell {fell}" if result.ratio < SLOWER * last["ratio"] else None
