"""Running benchmarks by name."""

from collections.abc import Iterator
from difflib import get_close_matches

from polyplink.bench.catalogue import CATALOGUE
from polyplink.bench.harness import BenchResult
from polyplink.errors import PolyplinkError


def run_benches(name: str | None = None, size: int | None = None) -> Iterator[BenchResult]:
    """Run one benchmark, or all, and yield each result as it is there.

    Args:
        name: A key of `CATALOGUE`; None for all.
        size: The size to measure at; None for each one's own.

    Raises:
        PolyplinkError: If there is no such benchmark.
    """
    if name is not None and name not in CATALOGUE:
        near = get_close_matches(name, CATALOGUE, n=1)
        mend = f"did you mean {near[0]}?" if near else f"choose one of: {', '.join(CATALOGUE)}"
        raise PolyplinkError(f"no benchmark {name!r}", mend)
    for key, bench in CATALOGUE.items():
        if name in (None, key):
            yield bench.run(bench.size if size is None else size)
