"""Benchmarks: the hot paths, each against a stated rival."""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink_lab.bench.cases import CASES as CASES, run_benches as run_benches
    from polyplink_lab.bench.harness import (
        BenchResult as BenchResult,
        Case as Case,
        complaint as complaint,
        read_recorded as read_recorded,
        record as record,
    )
    from polyplink_lab.bench.training import profile_step as profile_step

hand_on(__name__)
