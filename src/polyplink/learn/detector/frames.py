"""Annotated frames for training and measuring a detector, with and without polyps."""

import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import torch

from polyplink.core.errors import PolyplinkError
from polyplink.data import DataSet
from polyplink.data.files.archives import INSIDE
from polyplink.data.files.video import split_frame_name
from polyplink.learn.detector.augment import TrainingFrames
from polyplink.simulate import is_simulation
from polyplink.tracklets.crops import FrameCrops, cut, decoded_image, render_crops, write_crops

Floats = npt.NDArray[np.float64]
Pixels = npt.NDArray[np.uint8]
_NUMBER = re.compile(r"\d+(?=\D*$)")


def read_frames(
    folder: Path,
    data: DataSet,
    procedures: Sequence[str],
    side: int,
    most: int,
    *,
    workers: int,
    empty: Sequence[Path] = (),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> TrainingFrames:
    """Frames of procedures with and without polyps.

    Args:
        folder: The data folder; frames that are not stored are rendered if it was simulated.
        data: Its tables.
        procedures: The procedures.
        side: Width and height of the stretched frames, pixels.
        most: Most frames with a polyp of each procedure, evenly spread; of its other frames half
            as many, where their images are there.
        workers: Threads.
        empty: Image files without a polyp, each a procedure of its own.
        progress: Callback (procedures done, procedures in all).

    Raises:
        PolyplinkError: If there is no annotated polyp, or an image is missing.
    """
    pixels, sizes, boxes, names = [], [], [], []
    rows = data.procedures.filter(pl.col("procedure_id").is_in(procedures))
    polyps = data.detections.drop_nulls("polyp_id").partition_by("procedure_id", as_dict=True)
    for done, row in enumerate(rows.iter_rows(named=True), 1):
        name, width, height = row["procedure_id"], row["width"], row["height"]
        source = folder / row["source"]
        known = polyps.get((name,), data.detections.clear())
        frame = known["frame"].to_numpy()
        corners = known.select("x", "y", x2=pl.col("x") + pl.col("w"), y2=pl.col("y") + pl.col("h"))
        shares = corners.to_numpy() / [width, height, width, height]  # k 4
        image = dict(known.select("frame", "image").iter_rows())
        chosen = _spread_frames(row["n_frames"], image, source, most)
        if not chosen:
            continue
        whole = np.array([[0, 0, width, height]])
        wanted = [
            FrameCrops(file, number, width, height, np.array([k]), whole)
            for k, (number, file) in enumerate(chosen.items())
        ]
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "frames.npy"
            if is_simulation(source) and None in chosen.values():
                render_crops(path, wanted, source, side, procedure_id=name, device="cpu")
            else:
                write_crops(path, wanted, source, side, workers=workers, tick=lambda n: None)
            pixels.append(np.load(path))
        sizes += [[width, height]] * len(chosen)
        boxes += [shares[frame == number].clip(0, 1) for number in chosen]
        names += [name] * len(chosen)
        progress(done, rows.height)
    without = np.empty((len(empty), side, side, 3), np.uint8)
    for k, file in enumerate(empty):
        picture = decoded_image(file)
        height, width = picture.shape[:2]
        without[k] = cut(picture, np.array([0, 0, width, height]), side)
        sizes.append([width, height])
        boxes.append(np.empty((0, 4)))
        names.append(str(file))
    pixels.append(without)
    most_boxes = max((len(one) for one in boxes), default=0)
    PolyplinkError.unless(
        most_boxes > 0,
        f"{folder} has no annotated polyp in these procedures",
        "give another --part",
    )
    padded = np.full((len(boxes), most_boxes, 4), np.nan, np.float32)
    for k, one in enumerate(boxes):
        padded[k, : len(one)] = one
    return TrainingFrames(np.concatenate(pixels), np.array(sizes, np.float32), padded, tuple(names))


def _spread_frames(
    n_frames: int, images: dict[int, str | None], source: Path, count: int
) -> dict[int, str | None]:
    """Frame -> image of some frames with boxes, and half as many without, evenly spread.

    Args:
        n_frames: Frames of the procedure.
        images: Frame -> image of all frames with boxes.
        source: Folder of the images.
        count: Most frames with boxes.
    """

    def spread(numbers: Sequence[int], most: int) -> list[int]:
        return [numbers[k * len(numbers) // most] for k in range(most)]

    chosen = {number: images[number] for number in spread(sorted(images), min(count, len(images)))}
    without = [k for k in range(n_frames) if k not in images]
    empty = spread(without, min(max(count // 2, 1), len(without)))
    first, name = next(iter(images.items()), (0, None))
    for number in empty:
        if name is None:  # rendered
            chosen[number] = None
        elif INSIDE not in name and (digits := _NUMBER.search(name)):
            other = str(int(digits[0]) + number - first).zfill(len(digits[0]))
            other = name[: digits.start()] + other + name[digits.end() :]
            if split_frame_name(other) or (source / other).is_file():
                chosen[number] = other
    return chosen


def true_boxes(frames: TrainingFrames) -> list[Floats]:
    """Annotated boxes (k, 4) of each frame: x, y, w, h in pixels of `unstretched` frames."""
    result = []
    for shares, (height, width) in zip(frames.boxes, _shapes(frames), strict=True):
        known = shares[np.isfinite(shares).all(1)].astype(float) * [width, height, width, height]
        result.append(np.concatenate([known[:, :2], known[:, 2:] - known[:, :2]], 1))
    return result


def unstretched(frames: TrainingFrames, row: int) -> Pixels:
    """A frame in its own aspect ratio; its longest side is that of the stretched one."""
    height, width = _shapes(frames)[row]
    pixels = torch.from_numpy(np.array(frames.pixels[row])).permute(2, 0, 1)[None]  # 1 3 s s
    small = torch.nn.functional.interpolate(
        pixels, (height, width), mode="bilinear", antialias=True
    )
    result: Pixels = small[0].permute(1, 2, 0).contiguous().numpy()
    return result


def detect_in_frames(detector: Callable[[Pixels], Floats], frames: TrainingFrames) -> list[Floats]:
    """A detector's boxes (k, 5) in each `unstretched` frame: x, y, w, h, score."""
    return [
        np.asarray(detector(unstretched(frames, row)), float) for row in range(len(frames.pixels))
    ]


def _shapes(frames: TrainingFrames) -> npt.NDArray[np.int64]:
    """Height and width (n, 2) of the frames in their own aspect ratio."""
    scale = frames.pixels.shape[1] / frames.sizes.max(1, keepdims=True)
    shapes: npt.NDArray[np.int64] = (frames.sizes * scale).round().astype(np.int64)[:, ::-1]
    return shapes
