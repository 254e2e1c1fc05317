"""The benchmarks there are."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from polyplink.bench import bags, simulate, startup, sweep, tracking, tracklets
from polyplink.bench.harness import BenchResult


@dataclass(frozen=True)
class Bench:
    """A benchmark.

    Attributes:
        run: Measures at a size; its docstring says what is measured and in which unit.
        size: The size to measure at unless told otherwise.
    """

    run: Callable[[int], BenchResult]
    size: int


CATALOGUE: Mapping[str, Bench] = {
    "import": Bench(startup.run_import, 1),
    "help": Bench(startup.run_help, 1),
    "tracklets": Bench(tracklets.run, tracklets.BOXES),
    "bags": Bench(bags.run, bags.FRAGMENTS),
    "sweep": Bench(sweep.run, sweep.TRACKLETS),
    "simulate": Bench(simulate.run, simulate.CROPS),
    "tracking": Bench(tracking.run, tracking.FRAMES),
    "tracking-general": Bench(tracking.run_general, tracking.FRAMES),
}
