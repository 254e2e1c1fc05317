"""Procedures of stills with a detector's boxes: to fit a count and to test it.

A count is fitted to a detector without annotated videos: annotated stills become procedures in
motion, and the detector looks at them. Stills of other groups
become the procedures that the count is tested on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from polyplink.core.messages import Message
from polyplink.core.progress import Progress, counter
from polyplink.core.text import many
from polyplink.data import read_data, write_data
from polyplink.data.empty import empty_files
from polyplink.data.files.trees import image_files
from polyplink.detect import DetectorRecord, OnnxDetector
from polyplink.detect.folder import detect_folder, find_detector
from polyplink.detect.onnx import images_not_learned
from polyplink.stills.annotated_stills import Still, read_stills
from polyplink.stills.procedures import StillsConfig, write_procedures
from polyplink.tracklets import PrepareSettings

TEST_SHARE = 1 / 3  # of the groups of stills, and of the procedures, that the count is tested on
FIT, TEST = "fit", "test"  # data folders of the procedures; the detector's boxes are in NAME-boxes


def write_detected(
    stills: Path,
    out: Path,
    config: StillsConfig,
    detector: str,
    *,
    empty: Path | None,
    part: str | None,
    progress: Progress,
) -> list[str]:
    """Write procedures made of stills, to fit and to test on, with a detector's boxes.

    Args:
        stills: Data folder of annotated images.
        out: Gets the data folders fit, fit-boxes, test and test-boxes.
        config: What the procedures are like, and how many there are, a third of them to test on.
        detector: An ONNX file, or a name.
        empty: Folder of images without a polyp.
        part: Part of the stills.
        progress: Called for procedures and frames.

    Returns:
        Warnings: what the detector states of itself, and which stills are left out.

    Raises:
        PolyplinkError: If there are too few stills, or the detector or an image is at fault.
    """
    # Opened before frames are made, which takes minutes, so that a broken one is refused at once.
    messages: list[Message] = []
    model, _ = find_detector(detector, None, (), messages)
    assert isinstance(model, OnnxDetector)
    parts, warnings = _stills_of_parts(stills, empty, part, config.procedures, model.record)
    for stills_part in parts:
        seed = 2 * config.seed + (stills_part.name == TEST)
        _write_part(
            out,
            stills_part,
            detector,
            replace(config, procedures=stills_part.procedures, seed=seed),
            progress,
        )
    return [*map(str, messages), *warnings]


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
    stills: Sequence[Still]
    empty: Sequence[Path]
    dataset: str


def _stills_of_parts(
    folder: Path, without: Path | None, part: str | None, count: int, record: DetectorRecord
) -> tuple[list[_StillsOfPart], list[str]]:
    """The stills to fit and to test on, and what was left out.

    Args:
        folder: The data folder of stills.
        without: Folder of images without a polyp.
        part: Part of the stills.
        count: Procedures to make.
        record: Of the detector: stills that it learned from are too easy for it.
    """
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
    tested = max(1, round(count * TEST_SHARE))
    dataset = str(data.procedures["dataset"][0])
    parts = [
        _StillsOfPart(FIT, max(1, count - tested), fit, empty[::2], dataset),
        _StillsOfPart(TEST, tested, test, empty[1::2], dataset),
    ]
    return parts, warnings


def _parts(stills: Sequence[Still]) -> tuple[list[Still], list[Still]]:
    """Stills to fit and to test on; those of one group stay together."""
    groups = sorted({still.group for still in stills})
    order = np.random.default_rng(0).permutation(len(groups))
    test = {groups[k] for k in order[: round(TEST_SHARE * len(groups))]}
    fit = [still for still in stills if still.group not in test]
    return fit, [still for still in stills if still.group in test]


def _write_part(
    folder: Path,
    part: _StillsOfPart,
    detector: str,
    config: StillsConfig,
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
