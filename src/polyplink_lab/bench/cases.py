"""The table of benchmarks: every hot path with its rival and default size.

The docstring of the function that prepares a case describes what is timed and compared.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import torch

from polyplink.core.errors import PolyplinkError, find_named
from polyplink.encoders.device import pick_device
from polyplink_lab.bench import box_cases, pixel_cases, training
from polyplink_lab.bench.harness import BenchResult, Case, Work, measure

HEAVY = ("torch", "numpy", "polars", "sklearn", "matplotlib", "numba")
HEAVY_FOR_HELP = ("torch", "sklearn", "matplotlib", "numba")

IMPORT = "import polyplink"
HELP = """
import contextlib, io, sys
from polyplink.__main__ import main
sys.argv = ["polyplink", "--help"]
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    main()
"""


def startup(size: int, device: torch.device, folder: Path) -> Work:
    """`polyplink --help` in a new process, including the start of Python; 0.3 s or less.

    `equal` is whether no heavy package was imported: neither torch and the like by the help page,
    nor numpy by `import polyplink`.

    Raises:
        PolyplinkError: If `size` is not 1, as this benchmark has no size.
    """
    if size != 1:
        raise PolyplinkError(f"start-up of size {size}", "leave the size out")

    def light(output: object, expected: object) -> bool:
        return not imported_modules(IMPORT, HEAVY) and not imported_modules(HELP, HEAVY_FOR_HELP)

    return Work(ours=lambda: python(HELP), rival=None, equal=light)


def python(code: str) -> str:
    """The output of code in a new Python process."""
    return subprocess.run(  # noqa: S603  only code of this file
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def imported_modules(code: str, modules: Sequence[str]) -> list[str]:
    """Those of `modules` that `code` imports in a new Python process."""
    query = f"import json, sys; print(json.dumps([m for m in {modules!r} if m in sys.modules]))"
    imported_modules: list[str] = json.loads(python(f"{code}\n{query}"))
    return imported_modules


WHOLE_FRAMES = "Pillow, whole frames to float, crop, resize, normalise; one fragment scaled to all"
LOOP = "a loop over polyps and boxes"
ONLINE = "the same tracker, a call for each frame"
TWICE = "decoding a second time for the crops"
MATRIX = "all distances, argsort, Gumbel top-k"
SKLEARN = "scikit-learn one by one; 164 settings scaled to 29,274"
PRICE_BY_PRICE = "the same, one price after the other"
EXACT = "torchmetrics, exact figures alone"
PRODUCT = "numpy, a product in float32"
NO_COUNTS = "torchmetrics, without counts for a bootstrap"
EAGER = "torch, one tracklet at a time, float32"
RECOMPUTED = "recomputing the figures, 4 resamples scaled to all"
CONSTANT = "the same step on {device}, fed a constant tensor"
FLOAT32 = "the same training in float32 on {device}"
TRACED = "sphere tracing of every pixel on {device}"
TRACKEVAL = "TrackEval, both from boxes in memory"
FRAGMENTS = 7_000  # of 27 procedures, as the training part of REAL-Colon gives
FRAMES = 46_000  # 30 minutes at 25 frames a second
OVERLAPPING = partial(box_cases.tracking, touching=True)

ROWS = (
    Case("startup", startup, "-", 1, "call", 1, (5, 0, 0)),
    Case("tracklets", box_cases.tracklets, LOOP, box_cases.BOXES, "boxes", repeats=(15, 2, 15)),
    Case("tracks", box_cases.tracks, ONLINE, box_cases.BOXES, "boxes", repeats=(5, 1, 5)),
    Case("bags", training.bags, MATRIX, FRAGMENTS, "fragments", repeats=(5, 1, 5), memory=True),
    Case("first-pass", pixel_cases.first_pass, WHOLE_FRAMES, 8, "fragments", repeats=(5, 5, 1)),
    Case("recording", pixel_cases.recording, TWICE, 100, "frames", 25, (3, 3, 0)),
    Case(
        "sweep", box_cases.sweep, SKLEARN, 480, "tracklets of the largest procedure", 24, (1, 1, 2)
    ),
    Case("links", box_cases.links, PRICE_BY_PRICE, 480, "tracklets", 24, (3, 1, 1), memory=True),
    Case("retrieval", box_cases.retrieval, EXACT, 4_000, "tracklets", 16, memory=True),
    Case(
        "search", box_cases.nearest_views, PRODUCT, 200_000, "vectors", 16, (5, 5, 2), memory=True
    ),
    Case("reid", box_cases.reid, NO_COUNTS, 6_000, "tracklets", 32, memory=True),
    Case("embed", training.embed, EAGER, 16, "tracklets", repeats=(3, 2, 1)),
    Case("bootstrap", box_cases.bootstrap, RECOMPUTED, 10_000, "resamples", repeats=(3, 1, 2)),
    Case("step", training.step, CONSTANT, 12, "bags", repeats=(6, 6, 2), gpu=True),
    Case("precision", training.precision, FLOAT32, 60, "steps", 1, (1, 1, 0), gpu=True),
    Case("simulate", pixel_cases.simulated_crops, TRACED, 32, "crops", repeats=(3, 1, 1), gpu=True),
    Case("tracking", box_cases.tracking, TRACKEVAL, FRAMES, "frames", 1_000, (5, 1, 3)),
    Case("tracking-general", OVERLAPPING, TRACKEVAL, FRAMES, "frames", 1_000, (5, 1, 3)),
)
CASES = {case.name: case for case in ROWS}


def chosen_cases(names: Sequence[str], device: str) -> list[Case]:
    """Cases by name; without names all cases, or on a GPU all that can use one.

    Raises:
        PolyplinkError: If there is no such case, or one of them cannot use the requested GPU.
    """
    if not names:
        return [case for case in ROWS if case.gpu or not device.startswith("cuda")]
    cases = [find_named("benchmark", name, CASES) for name in names]
    unable = [case.name for case in cases if not case.gpu]
    able = [case.name for case in ROWS if case.gpu]
    if device.startswith("cuda") and unable:
        raise PolyplinkError(
            f"no GPU is used for {', '.join(unable)}",
            f"leave --device out, or name some of {', '.join(able)}",
        )
    return cases


def run_benches(
    names: Sequence[str] = (), size: int | None = None, device: str = "auto"
) -> Iterator[BenchResult]:
    """Run some benchmarks, or all, and yield each result as soon as it is measured.

    Args:
        names: Names of cases; empty for all.
        size: The size to measure; None for the default of each case.
        device: "auto" (a GPU if there is one), "cpu" or "cuda".

    Raises:
        PolyplinkError: Before any measurement, if a case is unknown, cannot use the device, or
            cannot be measured at such a small size.
    """
    cases, torch_device = chosen_cases(names, device), pick_device(device)
    if size is not None:
        largest = max(cases, key=lambda case: case.least)
        if size < largest.least:
            raise PolyplinkError(
                f"{largest.name} cannot be measured at size {size}",
                f"give {largest.least} or more, or leave --size out",
            )
    for case in cases:
        yield measure(case, case.size if size is None else size, torch_device)
