"""Training in bf16, as a GPU does, against float32: what it does to retrieval."""

import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from polyplink.bench.crops import made_prepared
from polyplink.bench.harness import BenchResult, against
from polyplink.bench.step import BAGS, Stepper, recipe
from polyplink.encoders import NetworkEmbedder, embed, pick_device
from polyplink.evaluate import Samples, retrieve
from polyplink.tracklets import Prepared

STEPS = 60
SEEDS = (0, 1, 2)
INTERVAL = 4.303  # of Student's t with two degrees of freedom: 95 % of three differences
FLOOR = 0.005  # of mAP: less is no difference worth a name


def trained(
    prepared: Prepared, device: torch.device, seed: int, steps: int, *, exact: bool
) -> tuple[float, float]:
    """Seconds of some steps, and retrieval mAP on the same tracklets afterwards."""
    stepper = Stepper(replace(recipe(device), seed=seed), prepared, device, BAGS)
    stepper.model.exact = exact
    start = time.perf_counter()
    for _ in range(steps):
        stepper.step()
    seconds = time.perf_counter() - start
    vectors = embed(prepared, NetworkEmbedder(stepper.model.encoder), "bench").vectors
    table = prepared.tracklets
    samples = Samples.of(
        table["tracklet_id"].to_list(),
        table["procedure_id"].to_list(),
        table["polyp_id"].to_list(),
        np.zeros(table.height),
    )
    found = retrieve(vectors, samples).mean_ap
    assert found is not None  # every polyp has tracklets to be found by
    return seconds, found


def agree(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    """Whether the mean difference of three pairs is within its 95 % interval about 0 or `FLOOR`."""
    apart = np.subtract(ours, theirs)
    half = INTERVAL * apart.std(ddof=1) / math.sqrt(len(apart))
    return bool(abs(apart.mean()) <= max(half, FLOOR))


def run_on(size: int, device: torch.device) -> BenchResult:
    """Train by `polyplink train ntssl`'s own step in both precisions, three seeds; size is steps.

    Crops are made up (`bench.crops`). Both are embedded as `polyplink embed` does on the device.
    `equal` is retrieval mAP within the 95 % interval of the three differences. On a CPU both are
    float32 and nothing is compared: the command only works there.
    """
    with tempfile.TemporaryDirectory(prefix="polyplink-bench-") as folder:
        prepared = made_prepared(Path(folder), recipe(device).prepare)
        ours = [trained(prepared, device, seed, size, exact=False) for seed in SEEDS]
        theirs = [trained(prepared, device, seed, size, exact=True) for seed in SEEDS]
    found, expected = ([mean_ap for _, mean_ap in runs] for runs in (ours, theirs))
    name = "bf16" if device.type == "cuda" else "float32 again"
    told = [*((name, value) for value in found), *(("float32", value) for value in expected)]
    return against(
        "precision",
        f"the same training in float32 on {device.type}",
        size,
        ours_s=min(seconds for seconds, _ in ours),
        rival_s=min(seconds for seconds, _ in theirs),
        exponent=None,
        equal=agree(found, expected),
        also={f"mAP {kind}, seed {SEEDS[i % 3]}": value for i, (kind, value) in enumerate(told)},
    )


def run(size: int = STEPS) -> BenchResult:
    """Compare the two precisions, on a GPU where there is one: see `run_on`."""
    return run_on(size, pick_device())
