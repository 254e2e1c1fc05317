"""Benchmarks: the hot paths, each against a stated rival."""

from polyplink.bench.cases import CASES, run_benches
from polyplink.bench.harness import BenchResult, Case, complaint, read_recorded, record
from polyplink.bench.training import profile_step

__all__ = [
    "CASES",
    "BenchResult",
    "Case",
    "complaint",
    "profile_step",
    "read_recorded",
    "record",
    "run_benches",
]
