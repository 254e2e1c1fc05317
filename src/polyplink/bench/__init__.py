"""Benchmarks: the hot paths, each against a stated rival."""

from polyplink.bench.catalogue import CATALOGUE, Bench
from polyplink.bench.harness import BenchResult, against, best_of, fitted_exponent, growth
from polyplink.bench.recorded import complaint, read_recorded, record
from polyplink.bench.run import run_benches

__all__ = [
    "CATALOGUE",
    "Bench",
    "BenchResult",
    "against",
    "best_of",
    "complaint",
    "fitted_exponent",
    "growth",
    "read_recorded",
    "record",
    "run_benches",
]
