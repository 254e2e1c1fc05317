"""The table of benchmarks: every hot path, what it is timed against, at which size.

The function that prepares a case says in its docstring what is timed and what is compared.
"""

from collections.abc import Iterator, Sequence

from polyplink.bench import evaluation, images, startup, training
from polyplink.bench.harness import BenchResult, Case, measure
from polyplink.core.errors import PolyplinkError, find_named
from polyplink.encoders import pick_device

READ_AT_EVERY_STEP = (
    "Pillow, whole frames to float, crop, resize, normalise; one fragment scaled to all"
)
ROWS = (
    Case(
        "startup",
        startup.startup,
        rival="-",
        size=1,
        unit="call",
        least=1,
        repeats=(5, 0, 0),
    ),
    Case(
        "tracklets",
        evaluation.tracklets,
        rival="a loop over polyps and boxes",
        size=evaluation.BOXES,
        unit="boxes",
        repeats=(15, 2, 15),
    ),
    Case(
        "bags",
        training.bags,
        rival="all distances, argsort, Gumbel top-k",
        size=7_000,  # of 27 procedures, as the training part of REAL-Colon gives
        unit="fragments",
        repeats=(5, 1, 5),
        memory=True,
    ),
    Case(
        "input",
        images.stored_crops,
        rival=READ_AT_EVERY_STEP,
        size=8,
        unit="fragments",
        repeats=(25, 5, 25),
    ),
    Case(
        "first-pass",
        images.first_pass,
        rival=READ_AT_EVERY_STEP,
        size=8,
        unit="fragments",
        repeats=(5, 5, 1),
    ),
    Case(
        "sweep",
        evaluation.sweep,
        rival="scikit-learn one by one; 164 settings scaled to 29,274",
        size=480,
        unit="tracklets of the largest procedure",
        least=24,
        repeats=(1, 1, 2),
    ),
    Case(
        "retrieval",
        evaluation.retrieval,
        rival="torchmetrics, exact figures alone",
        size=4_000,
        unit="tracklets",
        least=16,
        memory=True,
    ),
    Case(
        "reid",
        evaluation.reid,
        rival="torchmetrics, without counts for a bootstrap",
        size=6_000,  # 18 million pairs
        unit="tracklets",
        least=32,
        memory=True,
    ),
    Case(
        "embed",
        training.embed,
        rival="torch, one tracklet at a time, float32",
        size=16,
        unit="tracklets",
        repeats=(3, 2, 1),
    ),
    Case(
        "bootstrap",
        evaluation.bootstrap,
        rival="recomputing the figures, 4 resamples scaled to all",
        size=10_000,
        unit="resamples",
        repeats=(3, 1, 2),
    ),
    Case(
        "step",
        training.step,
        rival="the same step on {device}, fed a constant tensor",
        size=12,
        unit="bags",
        repeats=(6, 6, 2),
        gpu=True,
    ),
    Case(
        "precision",
        training.precision,
        rival="the same training in float32 on {device}",
        size=60,
        unit="steps",
        least=1,
        repeats=(1, 1, 0),
        gpu=True,
    ),
    Case(
        "simulate",
        images.simulated_crops,
        rival="sphere tracing of every pixel on {device}",
        size=32,
        unit="crops",
        repeats=(3, 1, 1),
        gpu=True,
    ),
    Case(
        "tracking",
        evaluation.tracking,
        rival="TrackEval, both from boxes in memory",
        size=46_000,  # 30 minutes at 25 frames a second
        unit="frames",
        least=1_000,
        repeats=(5, 1, 3),
    ),
    Case(
        "tracking-general",
        evaluation.tracking_general,
        rival="TrackEval, both from boxes in memory",
        size=46_000,
        unit="frames",
        least=1_000,
        repeats=(5, 1, 3),
    ),
)
CASES = {case.name: case for case in ROWS}


def chosen_cases(names: Sequence[str], device: str) -> list[Case]:
    """The cases of some names; without names all, or on a GPU all that can use one.

    Raises:
        PolyplinkError: If there is no such case, or a GPU is asked of one that uses none.
    """
    if not names:
        return [case for case in ROWS if case.gpu or not device.startswith("cuda")]
    found = [find_named("benchmark", name, CASES) for name in names]
    unable = [case.name for case in found if not case.gpu]
    able = [case.name for case in ROWS if case.gpu]
    PolyplinkError.unless(
        not (device.startswith("cuda") and unable),
        f"no GPU is used for {', '.join(unable)}",
        f"leave --device out, or name some of {', '.join(able)}",
    )
    return found


def run_benches(
    names: Sequence[str] = (), size: int | None = None, device: str = "auto"
) -> Iterator[BenchResult]:
    """Run some benchmarks, or all, and yield each result as soon as it is measured.

    Args:
        names: Names of cases; none for all.
        size: The size to measure at; None for each one's own.
        device: "auto" (a GPU where there is one), "cpu" or "cuda".

    Raises:
        PolyplinkError: If there is no such case, no such device for it, or the size is less
            than one of them can measure; before anything is measured.
    """
    cases, where = chosen_cases(names, device), pick_device(device)
    if size is not None:
        largest = max(cases, key=lambda case: case.least)
        PolyplinkError.unless(
            size >= largest.least,
            f"{largest.name} cannot be measured at size {size}",
            f"give {largest.least} or more, or leave --size out",
        )
    for case in cases:
        yield measure(case, case.size if size is None else size, where)
