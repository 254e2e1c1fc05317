"""Running benchmarks by name."""

from collections.abc import Iterator

from polyplink.bench.catalogue import CATALOGUE
from polyplink.bench.harness import BenchResult
from polyplink.errors import find_named


def run_benches(name: str | None = None, size: int | None = None) -> Iterator[BenchResult]:
    """Run one benchmark, or all, and yield each result as it is there.

    Args:
        name: A key of `CATALOGUE`; None for all.
        size: The size to measure at; None for each one's own.

    Raises:
        PolyplinkError: If there is no such benchmark.
    """
    chosen = CATALOGUE if name is None else {name: find_named("benchmark", name, CATALOGUE)}
    for bench in chosen.values():
        yield bench.run(bench.size if size is None else size)
