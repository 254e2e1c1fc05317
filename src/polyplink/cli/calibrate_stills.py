"""`calibrate --stills`: fit links, price and false alarms to a detector without annotated videos.

Annotated stills become procedures in motion, the detector looks at them, and the count is fitted to
its tracks. Stills of other groups become procedures that the count is tested on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from polyplink.cli.verb import check_given
from polyplink.core.artefacts import to_plain, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.core.progress import Progress, counter
from polyplink.core.text import many
from polyplink.counting import Coverage

if TYPE_CHECKING:
    from polyplink.core.messages import Message
    from polyplink.counting import Count
    from polyplink.detect import DetectorRecord
    from polyplink.stills import Still, StillsConfig

TEST = 1 / 3  # share of the groups of stills, and of the procedures, that the count is tested on
FIGURES = "stills.json"
FIT = "stills/fit"  # of the output folder: procedures to fit on; their boxes are in FIT-boxes


def write_procedures_of(
    stills: Path,
    out: Path,
    *,
    weights: Path,
    detector: str | None,
    empty: Path | None,
    part: str | None,
    procedures: int,
    polyps: str,
    seed: int,
    device: str,
    progress: Progress,
) -> list[str]:
    """Write the procedures to fit and to test on, with a detector's boxes; returns warnings.

    Args:
        stills: Data folder of annotated images.
        out: Gets `stills`, the procedures that are made.
        weights: The weights to calibrate, to refuse what is missing.
        detector: An ONNX file, or a name.
        empty: Folder of images without a polyp.
        part: Part of the stills.
        procedures: How many to make.
        polyps: Fewest and most polyps of each, as "3-6".
        seed: Seed.
        device: Device, to refuse what is missing.
        progress: Called for procedures and frames.

    Raises:
        PolyplinkError: If there are too few stills, or weights, detector or an image is at fault.
    """
    PolyplinkError.unless(
        detector is not None,
        "no detector to calibrate for",
        "name one with --detector FILE.onnx or its name",
    )
    assert detector is not None
    check_given(weights, stills, [part], device)
    min_polyps, max_polyps = _range(polyps)
    from polyplink.detect import OnnxDetector
    from polyplink.detect.folder import find_detector
    from polyplink.stills import StillsConfig

    # Opened before frames are made, which takes minutes, so that a broken one is refused at once.
    messages: list[Message] = []
    model, _ = find_detector(detector, None, (), messages)
    assert isinstance(model, OnnxDetector)
    parts, warnings = _stills_of_parts(stills, empty, part, procedures, model.record)
    for stills_part in parts:
        config = StillsConfig(
            stills_part.procedures,
            min_polyps,
            max_polyps,
            seed=2 * seed + (stills_part.name == "test"),
        )
        _write_part(out / "stills", stills_part, detector, config, progress)
    return [*map(str, messages), *warnings]


def test_count(
    weights: Path,
    out: Path,
    *,
    device: str,
    workers: int,
    tracklets: Mapping[str, Any],
    progress: Progress,
) -> tuple[dict[str, Any], str]:
    """Count the procedures to test on; returns the figures, and a sentence.

    Args:
        weights: Calibrated weights.
        out: Holds `stills`, and gets the count and stills.json, the figures.
        device: Device.
        workers: Threads.
        tracklets: Options of tracklets, see `with_options`.
        progress: Called for crops and tracklets.
    """
    from polyplink.pipeline.count_data import count_data

    folder = out / "stills"
    counted = count_data(
        weights,
        folder / "test-boxes",
        out / "test-count",
        truth=folder / "test",
        device=device,
        workers=workers,
        tracklets=tracklets,
        progress=progress,
    )
    figures = _figures(counted.value.count)
    write_json(out / FIGURES, to_plain(figures))
    return figures, (
        f"tested on {many(figures['procedures'], 'procedure')} of other stills: count error "
        f"{figures['count_error']:.2f}, false polyps {figures['false_polyps']:.2f} a procedure, "
        f"90 % intervals that hold the number {figures['intervals_that_hold']}"
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
    folder: Path, without: Path | None, part: str | None, count: int, record: "DetectorRecord"
) -> tuple[list[_StillsOfPart], list[str]]:
    """The stills to fit and to test on, and what was left out.

    Args:
        folder: The data folder of stills.
        without: Folder of images without a polyp.
        part: Part of the stills.
        count: Procedures to make.
        record: Of the detector: stills that it learned from are too easy for it.
    """
    from polyplink.data import read_data
    from polyplink.data.empty import empty_files
    from polyplink.data.files.trees import image_files
    from polyplink.detect.onnx import images_not_learned
    from polyplink.stills import read_stills

    data, warnings, learned = read_data(folder), [], set(record.trained_on)
    procedures = data.part(part)
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
    files = [] if without is None else image_files(without)
    files += empty_files(folder, data, [name for name in procedures if name not in learned])
    empty = images_not_learned(files, record)
    if len(empty) < len(files):
        warnings.append(
            f"the detector was trained on {len(files) - len(empty)} of "
            f"{many(len(files), 'image')} without a polyp, which are left out"
        )
    fit, test = _parts(single)
    tested = max(1, round(count * TEST))
    dataset = str(data.procedures["dataset"][0])
    parts = [
        _StillsOfPart("fit", max(1, count - tested), fit, empty[::2], dataset),
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
    detector: str,
    config: "StillsConfig",
    progress: Progress,
) -> None:
    """Write the procedures of a part and a detector's boxes in them.

    Args:
        folder: Gets PART and PART-boxes, data folders of one data set.
        part: What the procedures are made of.
        detector: The detector.
        config: What the procedures are like.
        progress: Called for procedures and frames.
    """
    import polars as pl

    from polyplink.data import write_data
    from polyplink.detect.folder import detect_folder
    from polyplink.stills import write_procedures
    from polyplink.tracklets import PrepareSettings

    data_folder, out = folder / part.name, folder / f"{part.name}-boxes"
    truth = write_procedures(
        *(data_folder, part.stills, part.empty, config),
        name=part.dataset,
        progress=counter(progress, f"stills in motion, to {part.name}"),
    )
    data, _ = detect_folder(
        *(data_folder / "frames", out, PrepareSettings()),
        detector=detector,
        fps=config.fps,
        progress=progress,
    )
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
