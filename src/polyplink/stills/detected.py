"""Procedures of moving stills with a detector's boxes, to fit a count and to test it.

A count can be fitted to a detector without annotated videos: procedures are rendered from annotated
stills, and the detector is run on their frames. Stills of other groups give the procedures on which
the count is tested.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from polyplink.core.errors import PolyplinkError
from polyplink.core.results import Progress
from polyplink.core.text import many
from polyplink.data.empty import empty_files
from polyplink.data.files.trees import image_files
from polyplink.data.tables import read_data
from polyplink.detect.folder import detect_folder, open_detector, record_of, training_warnings
from polyplink.detect.onnx import DetectorRecord, images_not_learned
from polyplink.stills.annotated_stills import Still, read_stills
from polyplink.stills.procedures import StillsConfig, write_procedures
from polyplink.tracklets.settings import PrepareSettings

TEST_SHARE = 1 / 3  # of the groups of stills, and of the procedures, for the test
PATIENTS = 5  # at most, among whom the stills to fit on are divided
FIT, TEST = "fit", "test"  # data folders of the procedures; detected boxes are in NAME-boxes


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
    """Render procedures from stills, for fitting and for testing, and detect polyps in them.

    Args:
        stills: Data folder of annotated images.
        out: The output folder, for the data folders fit, fit-boxes, test and test-boxes.
        config: Settings of the procedures; a third of them are for testing.
        detector: A detector as `open_detector` takes it.
        empty: Folder of images without a polyp.
        part: Part of the stills.
        progress: Called for procedures and frames.

    Returns:
        Warnings about the detector and about stills that are left out.

    Raises:
        PolyplinkError: If there are too few stills, or the detector or an image cannot be read.
    """
    # Rendering takes minutes: a broken detector is refused first.
    find = open_detector(detector).find
    parts, warnings = _stills_of_parts(stills, empty, part, config.procedures, record_of(find))
    _check_groups(parts, config.most)
    for stills_part in parts:
        seed = 2 * config.seed + (stills_part.name == TEST)
        _write_part(
            out,
            stills_part,
            detector,
            replace(
                config,
                procedures=stills_part.procedures,
                patients=_patients(stills_part, config.most),
                seed=seed,
            ),
            progress,
        )
    return [*map(str, training_warnings(find, ())), *warnings]


@dataclass(frozen=True)
class _StillsOfPart:
    """The images from which the procedures of a part are rendered.

    Attributes:
        name: "fit" or "test".
        procedures: Number of procedures.
        stills: Images of one polyp each.
        empty: Images without a polyp.
        dataset: Name of the data set of the stills.
    """

    name: str
    procedures: int
    stills: Sequence[Still]
    empty: Sequence[Path]
    dataset: str


def _check_groups(parts: Sequence[_StillsOfPart], most: int) -> None:
    """Refuse too few groups of stills for the polyps of a procedure, before any is rendered."""
    groups = {part.name: len({still.group for still in part.stills}) for part in parts}
    total = sum(groups.values())
    if min(groups.values()) < most:
        raise PolyplinkError(
            f"the stills are of {many(total, 'patient')} of the data folder, {groups[FIT]} of "
            f"them to fit on and {groups[TEST]} to test on: too few for {many(most, 'polyp')} a "
            "procedure",
            f"give stills of {3 * most} patients or more, or fewer --polyps",
        )


def _patients(part: _StillsOfPart, most: int) -> int | None:
    """Number of patients of the procedures to fit on; those of the test show any stills."""
    if part.name == TEST:
        return None
    groups = {still.group for still in part.stills}
    patients = min(PATIENTS, len(groups) // most, len(part.empty) or PATIENTS)
    return patients if patients > 1 else None


def _stills_of_parts(
    folder: Path, no_polyp: Path | None, part: str | None, count: int, record: DetectorRecord
) -> tuple[list[_StillsOfPart], list[str]]:
    """The stills for fitting and for testing, and warnings about those left out.

    Args:
        folder: The data folder of stills.
        no_polyp: Folder of images without a polyp.
        part: Part of the stills.
        count: Number of procedures.
        record: The record of the detector: its training images are left out, as too easy for it.
    """
    data = read_data(folder)
    warnings = []
    patients = data.patients
    learned = {patients[name] for name in record.trained_on if name in patients}
    procedures = data.part(part)
    annotated = read_stills(folder, data, procedures)
    unseen = [still for still in annotated if still.group not in learned]
    if len(unseen) < len(annotated):
        warnings.append(
            f"the detector was trained on {len(annotated) - len(unseen)} of "
            f"{many(len(annotated), 'still')}, which are left out"
        )
    # If a still has several boxes, a visit to one polyp would show the others too.
    single = [still for still in unseen if len(still.boxes) == 1]
    if len(single) < len(unseen):
        warnings.append(
            f"{many(len(unseen) - len(single), 'still')} with more than one box are left out"
        )
    files = [] if no_polyp is None else image_files(no_polyp)
    files += empty_files(folder, data, [p for p in procedures if patients[p] not in learned])
    empty = images_not_learned(files, record)
    if len(empty) < len(files):
        warnings.append(
            f"the detector was trained on {len(files) - len(empty)} of "
            f"{many(len(files), 'image')} without a polyp, which are left out"
        )
    fit, test = _divide(single)
    tested = max(1, round(count * TEST_SHARE))
    dataset = str(data.procedures["dataset"][0])
    parts = [
        _StillsOfPart(FIT, max(1, count - tested), fit, empty[::2], dataset),
        _StillsOfPart(TEST, tested, test, empty[1::2], dataset),
    ]
    return parts, warnings


def _divide(stills: Sequence[Still]) -> tuple[list[Still], list[Still]]:
    """Divide stills into those for fitting and those for testing, without dividing a group."""
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
        folder: The output folder, for PART and PART-boxes, data folders of one data set.
        part: The images of the procedures.
        detector: The detector.
        config: Settings of the procedures.
        progress: Called for procedures and frames.
    """
    data_folder, out = folder / part.name, folder / f"{part.name}-boxes"
    truth = write_procedures(
        data_folder,
        part.stills,
        part.empty,
        config,
        name=part.dataset,
        progress=partial(progress, f"stills in motion, to {part.name}"),
    )
    detect_folder(
        data_folder / "frames",
        out,
        PrepareSettings(),
        detector=detector,
        fps=config.fps,
        dataset=truth.procedures["dataset"][0],
        progress=progress,
    )
