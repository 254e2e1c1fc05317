"""`calibrate --stills`: fit links, price and false alarms to a detector without annotated videos.

Annotated stills become procedures in motion, the detector looks at them, and the count is fitted to
its tracks. Stills of other groups become procedures that the count is tested on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from polyplink.app.request import Result, check_given
from polyplink.core.artefacts import to_plain, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.core.progress import Progress, counter
from polyplink.core.text import many
from polyplink.counting import Coverage

if TYPE_CHECKING:
    from polyplink.app.calibrate import Calibrated, CalibrateRequest
    from polyplink.core.messages import Message
    from polyplink.counting import Count
    from polyplink.detect import DetectorRecord
    from polyplink.stills import Still, StillsConfig

TEST = 1 / 3  # share of the groups of stills, and of the procedures, that the count is tested on
FIGURES = "stills.json"


def calibrate_on_stills(
    request: "CalibrateRequest", stills: Path, progress: Progress
) -> "Result[Calibrated]":
    """Calibrate weights on stills in motion, and test the count on others.

    Args:
        request: Weights, detector, and the output folder, which gets the weights, stills.json (the
            figures on test procedures) and `stills`, the procedures that were made.
        stills: Data folder of annotated images.
        progress: Called for procedures, frames and tracklets.

    Raises:
        PolyplinkError: If there are too few stills, or weights, detector or an image is at fault.
    """
    PolyplinkError.unless(
        request.detector is not None,
        "no detector to calibrate for",
        "name one with --detector FILE.onnx or its name",
    )
    check_given(request.weights, stills, [request.part], request.device)
    least, most = _range(request.polyps)
    from polyplink.app.calibrate import calibrate
    from polyplink.app.count import CountRequest, count
    from polyplink.app.detect import find_detector
    from polyplink.detect import OnnxDetector
    from polyplink.stills import StillsConfig

    # Opened before frames are made, which takes minutes, so that a broken one is refused at once.
    messages: list[Message] = []
    detector, _ = find_detector(request.detector, None, (), messages)
    assert isinstance(detector, OnnxDetector)
    parts, warnings = _stills_of_parts(request, stills, detector.record)
    folder = request.out / "stills"
    for part in parts:
        config = StillsConfig(
            part.procedures, least, most, seed=2 * request.seed + (part.name == "test")
        )
        _write_part(folder, part, request, config, progress)
    calibrated = calibrate(
        replace(request, data=folder / "fit-boxes", truth=folder / "fit", stills=None, part=None),
        progress,
    )
    counted = count(
        CountRequest(
            calibrated.value.weights,
            folder / "test-boxes",
            request.out / "test-count",
            truth=folder / "test",
            device=request.device,
            workers=request.workers,
            **request.tracklet_options,
        ),
        progress,
    )
    figures = _figures(counted.value.count)
    write_json(request.out / FIGURES, to_plain(figures))
    shown = [
        *calibrated.shown,
        f"tested on {many(figures['procedures'], 'procedure')} of other stills: count error "
        f"{figures['count_error']:.2f}, false polyps {figures['false_polyps']:.2f} a procedure, "
        f"90 % intervals that hold the number {figures['intervals_that_hold']}",
    ]
    return Result(
        calibrated.value,
        to_plain(calibrated.value) | {"test": figures},
        shown,
        [*map(str, messages), *warnings, *calibrated.warnings],
    )


@dataclass(frozen=True)
class _StillsOfPart:
    """What the procedures of a part are made of.

    Attributes:
        name: "fit" or "test".
        procedures: How many to make.
        stills: Images of one polyp each.
        empty: Images without a polyp.
        dataset: Name of the data set of the stills.
    """

    name: str
    procedures: int
    stills: "Sequence[Still]"
    empty: Sequence[Path]
    dataset: str


def _stills_of_parts(
    request: "CalibrateRequest", folder: Path, record: "DetectorRecord"
) -> tuple[list[_StillsOfPart], list[str]]:
    """The stills to fit and to test on, and what was left out.

    Args:
        request: How many procedures of which part, and images without a polyp.
        folder: The data folder of stills.
        record: Of the detector: stills that it learned from are too easy for it.
    """
    from polyplink.data import read_data
    from polyplink.data.empty import empty_files
    from polyplink.data.files.trees import image_files
    from polyplink.detect.onnx import images_not_learned
    from polyplink.stills import read_stills

    data, warnings, learned = read_data(folder), [], set(record.trained_on)
    procedures = data.part(request.part)
    annotated = read_stills(folder, data, procedures)
    unseen = [still for still in annotated if still.group not in learned]
    if len(unseen) < len(annotated):
        warnings.append(
            f"the detector was trained on {len(annotated) - len(unseen)} of "
            f"{many(len(annotated), 'still')}, which are left out"
        )
    # Where a still has several boxes, a visit to one polyp would show the others too.
    single = [still for still in unseen if len(still.boxes) == 1]
    if len(single) < len(unseen):
        warnings.append(
            f"{many(len(unseen) - len(single), 'still')} with more than one box are left out"
        )
    files = [] if request.empty is None else image_files(request.empty)
    files += empty_files(folder, data, [name for name in procedures if name not in learned])
    empty = images_not_learned(files, record)
    if len(empty) < len(files):
        warnings.append(
            f"the detector was trained on {len(files) - len(empty)} of "
            f"{many(len(files), 'image')} without a polyp, which are left out"
        )
    fit, test = _parts(single)
    tested = max(1, round(request.procedures * TEST))
    dataset = str(data.procedures["dataset"][0])
    parts = [
        _StillsOfPart("fit", max(1, request.procedures - tested), fit, empty[::2], dataset),
        _StillsOfPart("test", tested, test, empty[1::2], dataset),
    ]
    return parts, warnings


def _range(text: str) -> tuple[int, int]:
    """Fewest and most polyps from "3-6" or "4"."""
    low, _, high = text.partition("-")
    PolyplinkError.unless(
        low.isdigit() and (high or low).isdigit() and 0 < int(low) <= int(high or low),
        f"--polyps {text!r} is no range",
        "write it as 3-6",
    )
    return int(low), int(high or low)


def _parts(stills: "Sequence[Still]") -> "tuple[list[Still], list[Still]]":
    """Stills to fit and to test on; those of one group stay together."""
    groups = sorted({still.group for still in stills})
    order = np.random.default_rng(0).permutation(len(groups))
    test = {groups[k] for k in order[: round(TEST * len(groups))]}
    fit = [still for still in stills if still.group not in test]
    return fit, [still for still in stills if still.group in test]


def _write_part(
    folder: Path,
    part: _StillsOfPart,
    request: "CalibrateRequest",
    config: "StillsConfig",
    progress: Progress,
) -> None:
    """Write the procedures of a part and a detector's boxes in them.

    Args:
        folder: Gets PART and PART-boxes, data folders of one data set.
        part: What the procedures are made of.
        request: Names the detector.
        config: What the procedures are like.
        progress: Called for procedures and frames.
    """
    import polars as pl

    from polyplink.app.detect import DetectRequest, detect_polyps
    from polyplink.data import write_data
    from polyplink.stills import write_procedures

    made, out = folder / part.name, folder / f"{part.name}-boxes"
    truth = write_procedures(
        *(made, part.stills, part.empty, config),
        name=part.dataset,
        progress=counter(progress, f"stills in motion, to {part.name}"),
    )
    detecting = DetectRequest(made / "frames", out, request.detector, config.fps)
    data = detect_polyps(detecting, progress).value
    dataset = pl.lit(truth.procedures["dataset"][0])
    write_data(out, replace(data, procedures=data.procedures.with_columns(dataset=dataset)))


def _figures(count: "Count") -> dict[str, Any]:
    """Figures of a count on procedures that nothing was fitted to."""
    assert count.against_truth is not None
    figures, rows = count.against_truth["figures"], count.against_truth["procedures"]
    coverage = count.coverage or Coverage.of([])
    return {
        "procedures": len(rows),
        "count_error": figures["count error"].value,
        "false_polyps": figures["false polyps"].value,
        "polyps": sum(row["polyps"] for row in rows),
        "polyps_found": sum(row["found"] for row in rows),
        "intervals": coverage.procedures,
        "intervals_that_hold": f"{coverage.held} of {coverage.procedures}",
        "single_numbers": coverage.single,
        "single_numbers_wrong": coverage.single_wrong,
    }
