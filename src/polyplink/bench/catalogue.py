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
        least: The least size that can be measured.
        run_on: Measures at a size on a device; None for paths that no GPU is used for.
    """

    run: Callable[[int], BenchResult]
    size: int
    least: int
    run_on: Callable[[int, torch.device], BenchResult] | None = None


CATALOGUE: Mapping[str, Bench] = {
    "startup": Bench(startup.run, 1, 1),
    "tracklets": Bench(tracklets.run, tracklets.BOXES, 8),
    "bags": Bench(bags.run, bags.FRAGMENTS, 8),
    "input": Bench(input.run, input.FRAGMENTS, 8),
    "first-pass": Bench(input.run_first_pass, input.FRAGMENTS, 8),
    "sweep": Bench(sweep.run, sweep.TRACKLETS, 24),
    "retrieval": Bench(retrieval.run, retrieval.TRACKLETS, 16),
    "reid": Bench(reid.run, reid.TRACKLETS, 32),
    "embed": Bench(embed.run, embed.TRACKLETS, 8),
    "bootstrap": Bench(bootstrap.run, bootstrap.RESAMPLES, 8),
    "step": Bench(step.run, step.BAGS, 8, step.run_on),
    "precision": Bench(precision.run, precision.STEPS, 1, precision.run_on),
    "simulate": Bench(simulate.run, simulate.CROPS, 8, simulate.run_on),
    "tracking": Bench(tracking.run, tracking.FRAMES, 1_000),
    "tracking-general": Bench(tracking.run_general, tracking.FRAMES, 1_000),
}
