"""Annotated frames for training and measuring a detector, with and without polyps."""

import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from polyplink.core.arrays import Floats, Ints
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import StageProgress, silent_stage
from polyplink.core.text import many
from polyplink.data.empty import read_empty
from polyplink.data.files.image_names import image_place
from polyplink.data.files.images import Pixels, decoded_image, resize
from polyplink.data.files.trees import image_files
from polyplink.data.formats.frame_names import name_frames
from polyplink.data.origin import annotated_boxes
from polyplink.data.tables import DataSet
from polyplink.detect.first_pass import clip_boxes
from polyplink.learn.detector.augmented_frames import TrainingFrames, pad_boxes
from polyplink.tracklets.crops import (
    BrokenFrame,
    FrameCrops,
    crop_source,
    cut,
    render_crops,
    write_crops,
)

Images = dict[int, str | None]  # frame -> image; None where it is rendered
_NUMBER = re.compile(r"\d+(?=\D*$)")


def read_frames(
    folder: Path,
    data: DataSet,
    procedures: Sequence[str],
    side: int,
    most: int,
    *,
    workers: int,
    empty: Mapping[Path, str] | None = None,
    progress: StageProgress = silent_stage,
) -> TrainingFrames:
    """Frames of procedures with and without polyps; those that do not decode are left out.

    Args:
        folder: The data folder; frames that are not stored are rendered if it was simulated.
        data: The tables of the folder.
        procedures: The procedures.
        side: Width and height of the stretched frames, pixels.
        most: Largest number of frames with a polyp per procedure, evenly spread. Half as many
            without a polyp are added: those annotated as empty, or any without a box if there are
            none.
        workers: Number of threads.
        empty: Further image files without a polyp, and the recording that each is of.
        progress: Callback (procedures done, procedures in all).

    Raises:
        PolyplinkError: If there is no annotated polyp, an image is missing, or no image of a
            procedure decodes.
    """
    pixels, sizes, boxes, names = [], [], [], []
    broken: list[str] = []

    # Frames of the procedures.
    rows = data.procedures.filter(pl.col("procedure_id").is_in(procedures))
    polyps = annotated_boxes(folder, data).partition_by("procedure_id", as_dict=True)
    boxed = data.detections.partition_by("procedure_id", as_dict=True)
    empty_by_procedure = read_empty(folder, procedures).partition_by("procedure_id", as_dict=True)
    listed = _listed_images(data)
    nothing = data.detections.clear()
    for done, row in enumerate(rows.iter_rows(named=True), 1):
        name, width, height = row["procedure_id"], row["width"], row["height"]
        source = folder / row["source"]
        annotated = polyps.get((name,), nothing)
        frame = annotated["frame"].to_numpy()
        corners = annotated.select(
            "x", "y", x2=pl.col("x") + pl.col("w"), y2=pl.col("y") + pl.col("h")
        )
        shares = corners.to_numpy() / [width, height, width, height]  # k 4
        images = dict(annotated.select("frame", "image").iter_rows())
        empty_frames = empty_by_procedure.get((name,), nothing)
        empty_images = dict(empty_frames.select("frame", "image").iter_rows())
        unboxed = set(range(row["n_frames"])) - set(boxed.get((name,), nothing)["frame"])
        of_source = listed.get(row["source"], set())
        chosen_images = _choose(images, empty_images, unboxed, source, listed=of_source, most=most)
        if not chosen_images:
            continue
        whole_frames, of_procedure = _read_whole(row, chosen_images, source, side, workers)
        broken += [f"{source / lost.image} ({lost.why})" for lost in of_procedure]
        lost_numbers = {lost.frame for lost in of_procedure}
        pixels.append(whole_frames[[number not in lost_numbers for number in chosen_images]])
        read = [number for number in chosen_images if number not in lost_numbers]
        sizes += [[width, height]] * len(read)
        boxes += [shares[frame == number].clip(0, 1) for number in read]
        names += [name] * len(read)
        progress(done, rows.height)

    # Further files without a polyp.
    recording_of = empty or {}
    further = np.empty((len(recording_of), side, side, 3), np.uint8)
    for k, (file, recording) in enumerate(recording_of.items()):
        picture = decoded_image(file)
        height, width = picture.shape[:2]
        further[k] = cut(picture, np.array([0, 0, width, height]), side)
        sizes.append([width, height])
        boxes.append(np.empty((0, 4)))
        names.append(recording)
    pixels.append(further)
    if not any(len(boxes_of_frame) for boxes_of_frame in boxes):
        raise PolyplinkError(
            f"{folder} has no annotated polyp with an image in these procedures",
            "give another --part",
        )
    return TrainingFrames(
        np.concatenate(pixels),
        np.array(sizes, np.float32),
        pad_boxes(boxes),
        tuple(names),
        tuple(broken),
    )


def broken_warnings(frames: TrainingFrames) -> list[str]:
    """The warning that frames are left out because they do not decode, if any are."""
    if not frames.broken:
        return []
    return [f"{many(len(frames.broken), 'frame')} left out, not decoded: first {frames.broken[0]}"]


def recordings_of(folder: Path) -> dict[Path, str]:
    """The image files of a folder, and the recording that each is of by its name.

    An image without a number in its name is a recording of its own, see `name_frames`. Recordings
    are named by their path, so that none has the name of a procedure.

    Raises:
        PolyplinkError: If there is no folder or no image.
    """
    files = image_files(folder)
    names = pl.Series([file.relative_to(folder).as_posix() for file in files])
    numbered = name_frames(names).select("procedure_id", is_frame=pl.col("frame").is_not_null())
    return {
        file: str(folder / (recording or "") if is_frame else file)
        for file, (recording, is_frame) in zip(files, numbered.iter_rows(), strict=True)
    }


def _read_whole(
    row: dict[str, Any], images: Images, source: Path, side: int, workers: int
) -> tuple[Pixels, list[BrokenFrame]]:
    """Whole frames of a procedure, stretched: (n, side, side, 3); and those that do not decode."""
    name, width, height = row["procedure_id"], row["width"], row["height"]
    window = np.array([[0, 0, width, height]])
    whole_frames = [
        FrameCrops(file, number, width, height, np.array([k]), window)
        for k, (number, file) in enumerate(images.items())
    ]
    broken: list[BrokenFrame] = []
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "frames.npy"
        if None in images.values():
            render_crops(path, whole_frames, source, side, procedure_id=name, device="cpu")
        else:
            broken = write_crops(
                path, whole_frames, source, side, workers=workers, tick=lambda n: None
            )
        pixels: Pixels = np.load(path)
    return pixels, broken


def _listed_images(data: DataSet) -> dict[str, set[str]]:
    """The images of boxes, by the source of their procedures: several may be in one folder."""
    sources = data.procedures.select("procedure_id", "source")
    images = data.detections.select("procedure_id", "image").drop_nulls()
    by_source = images.join(sources, on="procedure_id").group_by("source").agg("image")
    return {source: set(names) for source, names in by_source.iter_rows()}


def _choose(
    images: Images,
    empty: Images,
    unboxed: Collection[int],
    source: Path,
    *,
    listed: Collection[str],
    most: int,
) -> Images:
    """Some frames of a procedure with a polyp, and half as many without.

    Args:
        images: Frame -> image of all frames with a polyp.
        empty: Frame -> image of all frames annotated as empty.
        unboxed: Frames without a box, which are used if no frame is annotated as empty.
        source: Folder of the images, or of a simulation.
        listed: Images of boxes of any procedure of the source.
        most: Largest number of frames with a polyp.
    """
    half = max(most // 2, 1)
    if crop_source(source) is None:
        images = {number: name for number, name in images.items() if name is not None}
    chosen_empty = {number: empty[number] for number in _evenly_spread(empty, half)}
    if not chosen_empty:
        chosen_empty = _unlisted_images(_evenly_spread(unboxed, half), images, listed, source)
    return {number: images[number] for number in _evenly_spread(images, most)} | chosen_empty


def _evenly_spread(frames: Collection[int], most: int) -> list[int]:
    """At most `most` of some frame numbers, in order and evenly spread."""
    numbers = sorted(frames)
    count = min(most, len(numbers))
    return [numbers[k * len(numbers) // count] for k in range(count)]


def _unlisted_images(
    numbers: Iterable[int], images: Images, listed: Collection[str], source: Path
) -> Images:
    """Frame -> image of frames that no table lists: rendered, or files named like the others.

    There are none if the frames with a polyp were selected, as every fifth one: those in between
    may show it. There are none either if numbers of images and frames differ by several values:
    such a file may be another frame, with a polyp.

    Args:
        numbers: The frames.
        images: Frame -> image of frames with boxes.
        listed: Images of boxes of any procedure of the source.
        source: Folder of the images, or of a simulation.
    """
    if len(images) < 2 or np.median(np.diff(sorted(images))) > 1:
        return {}
    first, name = next(iter(images.items()))
    if name is None:
        return dict.fromkeys(numbers) if crop_source(source) is not None else {}
    digits = _NUMBER.search(name)
    if image_place(name).member is not None or digits is None:
        return {}
    offset, prefix, suffix = int(digits[0]) - first, name[: digits.start()], name[digits.end() :]

    def image_of(number: int) -> str:
        return f"{prefix}{str(offset + number).zfill(len(digits[0]))}{suffix}"

    if any(image_of(number) != image for number, image in images.items()):
        return {}
    return {
        number: name
        for number in numbers
        if (name := image_of(number)) not in listed
        and (image_place(name).frame is not None or (source / name).is_file())
    }


def true_boxes(frames: TrainingFrames) -> list[Floats]:
    """Annotated boxes (k, 4) of each frame: x, y, w, h in pixels, of frames after `unstretch`."""
    result = []
    for shares, (height, width) in zip(frames.boxes, _shapes(frames), strict=True):
        corners = shares[np.isfinite(shares).all(1)].astype(float) * [width, height, width, height]
        result.append(np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], 1))
    return result


def unstretched_sizes(frames: TrainingFrames) -> Floats:
    """Width and height (n, 2) of frames after `unstretch`, pixels: what `true_boxes` are in."""
    return _shapes(frames)[:, ::-1].astype(float)


def unstretch(frames: TrainingFrames, row: int) -> Pixels:
    """A frame in its original aspect ratio; its longer side is that of the stretched frame."""
    height, width = _shapes(frames)[row]
    return resize(
        np.array(frames.pixels[row]), width, height
    )  # copied: torch needs writable memory


def detect_in_frames(detector: Callable[[Pixels], Floats], frames: TrainingFrames) -> list[Floats]:
    """A detector's boxes (k, 5) in each frame after `unstretch`, clipped to it, with scores."""
    images = (unstretch(frames, row) for row in range(len(frames.pixels)))
    return [clip_boxes(np.asarray(detector(image), float), image.shape[1::-1]) for image in images]


def _shapes(frames: TrainingFrames) -> Ints:
    """Height and width (n, 2) of the frames in their original aspect ratio."""
    scale = frames.pixels.shape[1] / frames.sizes.max(1, keepdims=True)
    shapes: Ints = (frames.sizes * scale).round().astype(np.int64)[:, ::-1]
    return shapes
