"""The benchmarks there are."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from polyplink.bench import (
    bags,
    bootstrap,
    embed,
    input,
    precision,
    reid,
    retrieval,
    simulate,
    startup,
    step,
    sweep,
    tracking,
    tracklets,
)
from polyplink.bench.harness import BenchResult


@dataclass(frozen=True)
class Bench:
    """A benchmark.

    Attributes:
        run: Measures at a size; its docstring says what is measured and in which unit.
        size: The size to measure at unless told otherwise.
        run_on: Measures at a size on a device; None for paths that no GPU is used for.
    """

    run: Callable[[int], BenchResult]
    size: int
    run_on: Callable[[int, torch.device], BenchResult] | None = None


CATALOGUE: Mapping[str, Bench] = {
    "startup": Bench(startup.run, 1),
    "tracklets": Bench(tracklets.run, tracklets.BOXES),
    "bags": Bench(bags.run, bags.FRAGMENTS),
    "input": Bench(input.run, input.FRAGMENTS),
    "first-pass": Bench(input.run_first_pass, input.FRAGMENTS),
    "sweep": Bench(sweep.run, sweep.TRACKLETS, sweep.run_on),
    "retrieval": Bench(retrieval.run, retrieval.TRACKLETS),
    "reid": Bench(reid.run, reid.TRACKLETS),
    "embed": Bench(embed.run, embed.TRACKLETS),
    "bootstrap": Bench(bootstrap.run, bootstrap.RESAMPLES),
    "step": Bench(step.run, step.BAGS, step.run_on),
    "precision": Bench(precision.run, precision.STEPS, precision.run_on),
    "simulate": Bench(simulate.run, simulate.CROPS, simulate.run_on),
    "tracking": Bench(tracking.run, tracking.FRAMES),
    "tracking-general": Bench(tracking.run_general, tracking.FRAMES),
}
