"""Running benchmarks by name."""

from collections.abc import Iterator, Sequence

import torch

from polyplink.bench.catalogue import CATALOGUE, Bench
from polyplink.bench.harness import BenchResult
from polyplink.core.errors import PolyplinkError, find_named
from polyplink.encoders import pick_device

DEVICES = ("auto", "cpu", "cuda")


def chosen_benches(names: Sequence[str], device: str) -> list[Bench]:
    """The benchmarks of some names; without names all, or on a GPU all that can use one.

    Raises:
        PolyplinkError: If there is no such benchmark, or a GPU is asked of one that uses none.
    """
    able = [name for name, bench in CATALOGUE.items() if bench.run_on is not None]
    if not names:
        return [CATALOGUE[name] for name in (able if device == "cuda" else CATALOGUE)]
    found = [find_named("benchmark", name, CATALOGUE) for name in names]
    unable = [name for name in names if name not in able]
    PolyplinkError.unless(
        device != "cuda" or not unable,
        f"no GPU is used for {', '.join(unable)}",
        f"leave --device out, or name some of {', '.join(able)}",
    )
    return found


def bench_device(name: str) -> torch.device:
    """The device of "auto", "cpu" or "cuda".

    Raises:
        PolyplinkError: If it is another, or not there.
    """
    PolyplinkError.unless(name in DEVICES, f"no device {name!r}", "give auto, cpu or cuda")
    return pick_device(name)


def _check_size(size: int, benches: Sequence[Bench]) -> None:
    needy = max(benches, key=lambda bench: bench.least)
    name = next(name for name, bench in CATALOGUE.items() if bench is needy)
    PolyplinkError.unless(
        size >= needy.least,
        f"{name} cannot be measured at size {size}",
        f"give {needy.least} or more, or leave --size out",
    )


def run_benches(
    names: Sequence[str] = (), size: int | None = None, device: str = "auto"
) -> Iterator[BenchResult]:
    """Run some benchmarks, or all, and yield each result as it is there.

    Args:
        names: Keys of `CATALOGUE`; none for all.
        size: The size to measure at; None for each one's own.
        device: "auto" (a GPU where there is one), "cpu" or "cuda".

    Raises:
        PolyplinkError: If there is no such benchmark, no such device for it, or the size is less
            than one of them can measure; before anything is measured.
    """
    benches, where = chosen_benches(names, device), bench_device(device)
    if size is not None:
        _check_size(size, benches)
    for bench in benches:
        at = bench.size if size is None else size
        yield bench.run(at) if bench.run_on is None else bench.run_on(at, where)
