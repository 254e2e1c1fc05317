"""Detectors from ONNX files: layouts of common exporters, recognised or stated in a record.

| layout | outputs | written by |
|---|---|---|
| yolov5 | (1, n, 5 + classes): x, y, w, h of the centre, objectness, classes | YOLOv5, v7 |
| yolov8 | (1, 4 + classes, n): x, y, w, h of the centre, classes | YOLOv8, v9, v11 |
| nms | (1, n, 5 or 6): two corners, score, maybe class | YOLOv10; others with NMS inside |
| nms7 | (n, 7): image, two corners, class, score | YOLOv7 with NMS inside |
| nms4 | number (1, 1), corners (1, n, 4), scores (1, n), classes (1, n) | EfficientNMS |
| detr | logits (1, n, classes + 1), pred_boxes (1, n, 4) as shares of the image | DETR |
| detr-sigmoid | the same without a class for "nothing" | RT-DETR, D-FINE (transformers) |
| rtdetr | labels (1, n), boxes (1, n, 4) as corners, scores (1, n) | RT-DETR, D-FINE |
| rtdetr8 | (1, n, 4 + classes): x, y, w, h of the centre as shares, classes | RT-DETR |
| torchvision | boxes (n, 4) as corners, labels (n,), scores (n,) | torchvision |

Only the ONNX files are used, no code of these programs.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict

from polyplink.core.arrays import Flags, Floats
from polyplink.core.artefacts import ADDED_LATER, content_key, file_key, read_json, read_plain
from polyplink.core.compiled import njit
from polyplink.core.errors import PolyplinkError, first_line
from polyplink.core.onnx_files import open_session
from polyplink.core.parts import DETECTORS, LAYOUTS, SIMULATED_DETECTORS, simulated_preset
from polyplink.data.files.images import Picture, Pixels
from polyplink.models.shipped import (
    ShippedModel,
    is_shipped,
    models,
    shipped_model,
    shipped_names,
)
from polyplink.tracklets.settings import TrackSettings

Outputs = dict[str, npt.NDArray[Any]]
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
USUAL_SIZE = 640  # pixels, of an input without a fixed size
FILL = 114  # grey around a letterboxed image
PICKLED = (".pt", ".pth", ".ckpt")
MOST_SHARE = 2.0  # of the sides of an image, for a coordinate given as a share
FEW = 1000  # boxes; more are candidates on a grid, before non-maximum suppression


@dataclass(frozen=True)
class DetectorRecord:
    """Settings of a detector in an ONNX file; None for what is read from the file.

    The record may be stored next to the file, as `NAME.json` with some of these fields.

    Attributes:
        layout: A name in `LAYOUTS`, or of a plugin: a function like `decode_yolov8`.
        size: Height and width of the input, pixels.
        letterbox: Keep the aspect ratio and fill with grey, instead of stretching the image.
        mean: Subtracted from pixels in [0, 1], for red, green and blue; by default ImageNet's for
            `detr`, 0 for others.
        std: Divisor of the pixels after the subtraction, for red, green and blue; by default
            ImageNet's for `detr`, 1 for others.
        classes: Numbers of the classes that are polyps; None for all.
        threshold: Smallest score of a box.
        iou: IoU above which non-maximum suppression drops the box with the lower score.
        trained_on: Procedures that the detector was trained on, which a count warns about; and the
            SHA-256 of training images without a polyp that belong to no procedure.
        datasets: Data sets of the training; a count warns if all are simulated.
        name: Name for display; None for the name of the file.
        high: Lowest score of a box that begins a track; None for the default of tracks.
        low: Lowest score of a box that continues a track; None for the default of tracks.
        min_seconds: Seconds that a track must last; None for the default of tracks.
        nested: Largest share of a box in a track within the box of another track, or the reverse;
            None for the default of tracks.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    layout: str | None = None
    size: tuple[int, int] | None = None
    letterbox: bool | None = None
    mean: tuple[float, float, float] | None = None
    std: tuple[float, float, float] | None = None
    classes: tuple[int, ...] | None = None
    threshold: float = 0.1
    iou: float = 0.5
    trained_on: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    name: str | None = None
    high: float | None = None
    low: float | None = None
    min_seconds: float | None = None
    nested: float | None = field(default=None, metadata=ADDED_LATER)

    @property
    def begins_track(self) -> float:
        """Lowest score of a box that begins a track, that of tracks if the record has none."""
        return TrackSettings().high if self.high is None else self.high


def images_not_learned(files: Sequence[Path], record: DetectorRecord) -> list[Path]:
    """The image files that were not in a detector's training as images without a polyp."""
    learned = set(record.trained_on)
    return [file for file in files if not (file.is_file() and file_key(file) in learned)]


class OnnxDetector:
    """A detector in an ONNX file, computed by onnxruntime on the CPU.

    Attributes:
        path: The file.
        record: Its settings, completed from the file; only `classes` may be None for all.
        key: Digest of the file and of the record.
    """

    def __init__(self, path: Path, threads: int = 0) -> None:
        """Open a file, with the record next to it, and recognise its layout.

        Args:
            path: The ONNX file, or the name of a shipped detector.
            threads: Threads of onnxruntime; 0 for one per core.

        Raises:
            PolyplinkError: If onnxruntime is not installed, the file or its record is broken, or
                its outputs fit no layout.
        """
        check_is_detector(path)
        if is_shipped(path, "detector"):
            path = shipped_model(path.name).path
        if path.suffix.lower() in PICKLED:
            raise PolyplinkError(
                f"{path} is a PyTorch file, but detectors are read as ONNX",
                f"export it where it was trained (`yolo export model={path.name} format=onnx`, or "
                f"torch.onnx.export) and give --detector {path.stem}.onnx, or name a function that "
                "calls it, --detector FILE.py:NAME",
            )
        self._session = open_session(path, "a detector", "export the detector again", threads)
        self.path = path
        record = read_record(path)

        # The input: its layout in memory, its size and its type.
        entry = self._session.get_inputs()[0]
        axes = [axis if isinstance(axis, int) and axis > 0 else None for axis in entry.shape]
        if len(axes) not in (3, 4):
            raise PolyplinkError(
                f"{path}: the input {entry.shape} is not an image",
                "export the detector with an input of 3 x height x width pixels",
            )
        self._batched = len(axes) == 4
        self._last = len(axes) > 2 and axes[-1] == 3 and axes[-3] != 3  # channels last
        side = axes[-3:-1] if self._last else axes[-2:]
        size = record.size or (side[0] or USUAL_SIZE, side[1] or USUAL_SIZE)
        side_names = entry.shape[-3:-1] if self._last else entry.shape[-2:]
        steps = [_STEP.fullmatch(str(axis)) for axis in side_names]
        # Sides may be any multiple of this many pixels; None if the size is fixed or unknown.
        self._step = None if None in steps else max(int(step[1]) for step in steps if step)
        self._type = _TYPES.get(entry.type, np.float32)
        self.record = replace(record, size=size)

        # The layout of the outputs, stated or recognised from those for a grey image.
        height, width = size
        probe = self._run(np.full((height, width, 3), FILL, np.uint8))
        layout = record.layout or recognise(probe, len(self._session.get_inputs()))
        if layout is None:
            raise PolyplinkError(
                f"{path}: the outputs {_shapes(probe)} fit no known layout of a detector",
                f"export it in one of the layouts {', '.join(LAYOUTS)}, or set `layout` in "
                f"{record_path(path)}",
            )
        self._decode = LAYOUTS.find(layout)

        # What the record leaves open. The means are those of transformers' image processors:
        # DetrImageProcessor normalises, RTDetrImageProcessor (RT-DETR, D-FINE) only divides by 255.
        # Deformable DETR normalises but has the outputs of RT-DETR, so its record must state mean
        # and std.
        mean, std = IMAGENET if layout == "detr" else (None, None)
        stretched = layout.startswith(("detr", "rtdetr", "torchvision"))
        self.record = replace(
            self.record,
            layout=layout,
            letterbox=not stretched if record.letterbox is None else record.letterbox,
            mean=record.mean or mean or (0.0, 0.0, 0.0),
            std=record.std or std or (1.0, 1.0, 1.0),
        )
        self.key = content_key("detector", file_key(path), self.record)

    def __call__(self, image: Pixels | Picture) -> Floats:
        """Detect polyps in one image.

        Args:
            image: (height, width, 3) RGB; or a `Picture`, which can be resized faster.

        Returns:
            (k, 5) x, y, w, h in pixels of the image, and the score in [0, 1].

        Raises:
            PolyplinkError: If the outputs do not fit the layout.
        """
        # The image, resized into the middle of the input.
        record = self.record
        assert record.size is not None
        picture = image if isinstance(image, Picture) else Picture(image)
        width, height = picture.size
        rows, columns = record.size
        scale = np.array([columns / width, rows / height])
        if record.letterbox:
            scale[:] = scale.min()
        resized_sides = np.maximum(np.round(scale * [width, height]), 1).astype(int)
        if record.letterbox and self._step is not None:  # as little grey as possible
            columns, rows = (-(-resized_sides // self._step) * self._step).tolist()
        shift = (np.array([columns, rows]) - resized_sides) // 2
        network_input = np.full((rows, columns, 3), FILL, np.uint8)
        picture_area = network_input[
            shift[1] : shift[1] + resized_sides[1], shift[0] : shift[0] + resized_sides[0]
        ]
        picture_area[:] = picture.resized(*resized_sides.tolist())

        # Boxes in the input, and then in the image.
        outputs = self._run(network_input)
        try:
            corners, scores = self._decode(outputs, record)  # n 4, n
        except (KeyError, IndexError, ValueError):
            classes = "" if record.classes is None else f" with classes {list(record.classes)}"
            raise PolyplinkError(
                f"{self.path}: its outputs {_shapes(outputs)} are not those of the layout "
                f"{record.layout}{classes}",
                f"correct {record_path(self.path)}",
            ) from None
        if not (
            np.isfinite(corners).all() and np.isfinite(scores).all() and (scores <= 1.001).all()
        ):
            raise PolyplinkError(
                f"{self.path}: read as {record.layout}, its coordinates or scores are not finite, "
                "or scores are above 1",
                f"set the right `layout` in {record_path(self.path)}",
            )
        scores = scores.clip(max=1.0)  # of a network that rounds
        corners = (corners - np.tile(shift, 2)) / np.tile(resized_sides / [width, height], 2)
        corners = corners.clip(0, [width, height, width, height])
        sizes = corners[:, 2:] - corners[:, :2]
        is_kept = (scores >= record.threshold) & (sizes > 0).all(1)
        boxes = np.concatenate([corners[:, :2], sizes, scores[:, None]], 1)[is_kept]
        ordered: Floats = boxes[np.argsort(-boxes[:, 4], kind="stable")]
        return ordered

    def _run(self, image: Pixels) -> dict[str, npt.NDArray[Any]]:
        """The outputs for an image (height, width, 3) of the input's size."""
        record = self.record
        planes = image if self._last else image.transpose(2, 0, 1)
        values: npt.NDArray[Any] = np.array(planes, np.float32, order="C")
        if self._type != np.uint8:
            shape = (3,) if self._last else (3, 1, 1)
            mean, std = (
                255 * np.broadcast_to(np.asarray(value or default, np.float32), 3).reshape(shape)
                for value, default in ((record.mean, 0.0), (record.std, 1.0))
            )
            values -= mean
            values /= std
        values = np.asarray(values[None] if self._batched else values, self._type)
        first, *extras = self._session.get_inputs()
        # The second input of RT-DETR is the size that its boxes are scaled to.
        feed = {first.name: values} | {
            extra.name: np.array(
                [[image.shape[1], image.shape[0]]], _TYPES.get(extra.type, np.int64)
            )
            for extra in extras
        }
        try:
            outputs = self._session.run(None, feed)
        except Exception as error:  # onnxruntime has no common exception class
            raise PolyplinkError(
                f"{self.path} does not run on an image of {image.shape[1]} x {image.shape[0]} "
                f"pixels ({first_line(error)})",
                f"set `size` to the height and width of its input in {record_path(self.path)}",
            ) from None
        names = [output.name for output in self._session.get_outputs()]
        return dict(zip(names, outputs, strict=True))


_STEP = re.compile(r"(\d+)\*\w+")  # torch's name of an axis with a multiple of pixels
_TYPES: dict[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(uint8)": np.uint8,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
}


def _shapes(outputs: dict[str, npt.NDArray[Any]]) -> str:
    return ", ".join(f"{name} {value.shape}" for name, value in outputs.items())


def check_is_detector(path: Path) -> None:
    """Check that a detector is a shipped one, or a file.

    Raises:
        PolyplinkError: If it is neither.
    """
    if simulated_preset(str(path)) is not None and not path.is_file():
        raise PolyplinkError(
            f"the detector {path} changes annotated boxes, and none are given",
            "give `run` a data folder that `polyplink import` wrote, or give --detector FILE.onnx",
        )
    if not is_shipped(path, "detector") and not path.is_file():
        names = [*shipped_names("detector"), "FILE.py:NAME", *DETECTORS.names()]
        names += [f"{name}:PRESET" for name in SIMULATED_DETECTORS.names()]
        raise PolyplinkError(
            f"no detector file {path}", f"check the path, or give {' or '.join(names)}"
        )


def record_path(path: Path) -> Path:
    """Path of the record next to an ONNX file."""
    return path.with_suffix(".json")


def read_record(path: Path) -> DetectorRecord:
    """Read the record next to an ONNX file; the default record if there is no file.

    Raises:
        PolyplinkError: If the record has an unknown field or a wrong value.
    """
    file = record_path(path)
    if not file.is_file():
        return DetectorRecord()
    names = ", ".join(field.name for field in fields(DetectorRecord))
    problem = f"{file} is not the record of a detector"
    return read_plain(DetectorRecord, read_json(file), problem, f"the fields are {names}")


def made_with(record: DetectorRecord) -> ShippedModel | None:
    """The shipped detector that a detector is or was trained from, or None.

    Such a detector has seen all that the shipped one was trained on.
    """
    learned = set(record.trained_on)
    for model in models():
        is_here = model.kind == "detector" and model.record_path.is_file()
        if is_here and learned.issuperset(read_record(model.path).trained_on):
            return model
    return None


def recognise(outputs: Outputs, n_inputs: int = 1) -> str | None:
    """The layout of the outputs for one image; None if they fit no layout.

    Args:
        outputs: The outputs by name.
        n_inputs: Number of inputs of the file.

    Example:
        >>> recognise({"output0": np.zeros((1, 5, 8400))})
        'yolov8'
    """
    shapes = {name: value.shape for name, value in outputs.items()}
    layout: str | None = None
    if {"logits", "pred_boxes"} <= shapes.keys():
        layout = "detr" if shapes["logits"][1] <= 100 else "detr-sigmoid"
    elif {"boxes", "labels", "scores"} <= shapes.keys():
        layout = "rtdetr" if len(shapes["boxes"]) == 3 and n_inputs == 2 else "torchvision"
    elif sorted(map(len, shapes.values())) == [2, 2, 2, 3]:
        layout = "nms4"
    elif len(shapes) == 1:
        (output,) = outputs.values()
        shape = output.shape
        if len(shape) == 2 and shape[1] == 7:
            layout = "nms7"
        elif len(shape) == 3 and shape[0] == 1:
            _, rows, columns = shape
            are_whole = (output[..., -1] % 1 == 0).all()  # as numbers of classes, not as scores
            in_pixels = (output[..., :4] > MOST_SHARE).any()
            is_nms = are_whole if columns == 6 else columns == 5 and in_pixels
            if rows <= FEW and is_nms:  # rows may be 0: no detection
                layout = "nms"
            elif 5 <= rows < columns:
                layout = "yolov8"
            elif columns >= 5:
                layout = "yolov5" if rows > FEW else "rtdetr8"
    return layout


def decode_yolov5(outputs: Outputs, record: DetectorRecord) -> tuple[Floats, Floats]:
    """Boxes and scores of the layout `yolov5`: candidates with an objectness (see `LAYOUTS`)."""
    rows = _arrays(outputs)[0][0]  # n 5+classes
    class_scores = rows[:, 4:5] * rows[:, 5:] if rows.shape[1] > 5 else rows[:, 4:5]
    return _suppress(_corners(rows[:, :4]), _best(class_scores, record), record)


def decode_yolov8(outputs: Outputs, record: DetectorRecord) -> tuple[Floats, Floats]:
    """Boxes and scores of the layout `yolov8`: candidates in columns.

    Args:
        outputs: The outputs for one image by name, in the order of the file.
        record: Size and classes; threshold and IoU for non-maximum suppression.

    Returns:
        (n, 4) left, top, right, bottom in pixels of the input; (n,) scores of the best class that
        is a polyp.
    """
    rows = _arrays(outputs)[0][0].T  # n 4+classes
    return _suppress(_corners(rows[:, :4]), _best(rows[:, 4:], record), record)


def decode_nms(outputs: Outputs, record: DetectorRecord) -> tuple[Floats, Floats]:
    """Boxes and scores of the layout `nms`: rows of corners, score and, of several, the class."""
    rows = _arrays(outputs)[0][0]  # n 5, or n 6
    classes = rows[:, 5] if rows.shape[1] > 5 else np.zeros(len(rows))
    return _keep_polyp_classes(rows[:, :4], rows[:, 4], classes, record)


def decode_nms7(outputs: Outputs, record: DetectorRecord) -> tuple[Floats, Floats]:
    """Boxes and scores of the layout `nms7`: rows of image, corners, class and score."""
    rows = _arrays(outputs)[0]  # n 7
    return _keep_polyp_classes(rows[:, 1:5], rows[:, 6], rows[:, 5], record)


def decode_nms4(outputs: Outputs, record: DetectorRecord) -> tuple[Floats, Floats]:
    """Boxes and scores of the layout `nms4`: number, boxes, scores, classes, under any names."""
    number, boxes, scores, classes = _arrays(outputs)
    n = int(number[0, 0])
    return _keep_polyp_classes(boxes[0, :n], scores[0, :n], classes[0, :n], record)


def decode_detr(outputs: Outputs, record: DetectorRecord) -> tuple[Floats, Floats]:
    """Boxes and scores of the layout `detr`: the last class of the logits is "nothing"."""
    logits = np.asarray(outputs["logits"][0], np.float64)  # n classes+1
    class_scores = np.exp(logits - logits.max(1, keepdims=True))
    class_scores /= class_scores.sum(1, keepdims=True)
    return _scale(outputs["pred_boxes"][0], record), _best(class_scores[:, :-1], record)


def decode_detr_sigmoid(outputs: Outputs, record: DetectorRecord) -> tuple[Floats, Floats]:
    """Boxes and scores of the layout `detr-sigmoid`: a logit for each class."""
    logits = np.asarray(outputs["logits"][0], np.float64)  # n classes
    return _scale(outputs["pred_boxes"][0], record), _best(1 / (1 + np.exp(-logits)), record)


def decode_rtdetr(outputs: Outputs, record: DetectorRecord) -> tuple[Floats, Floats]:
    """Boxes and scores of the layout `rtdetr`: boxes, scores and labels of a batch."""
    boxes, scores, labels = (
        np.asarray(outputs[name][0], np.float64) for name in ("boxes", "scores", "labels")
    )
    return _keep_polyp_classes(boxes, scores, labels, record)


def decode_rtdetr8(outputs: Outputs, record: DetectorRecord) -> tuple[Floats, Floats]:
    """Boxes and scores of the layout `rtdetr8`: rows of a box and the scores of its classes."""
    rows = _arrays(outputs)[0][0]  # n 4+classes
    if (rows[:, :4] > MOST_SHARE).any():
        raise ValueError("coordinates in pixels")
    return _scale(rows[:, :4], record), _best(rows[:, 4:], record)


def decode_torchvision(outputs: Outputs, record: DetectorRecord) -> tuple[Floats, Floats]:
    """Boxes and scores of the layout `torchvision`: boxes, scores and labels of one image."""
    boxes, scores, labels = (
        np.asarray(outputs[name], np.float64) for name in ("boxes", "scores", "labels")
    )
    return _keep_polyp_classes(boxes, scores, labels, record)


def _arrays(outputs: Outputs) -> list[Floats]:
    """The outputs in the order of the file, whatever their names."""
    return [np.asarray(value, np.float64) for value in outputs.values()]


def _scale(boxes: npt.NDArray[Any], record: DetectorRecord) -> Floats:
    """Corners (n, 4) in pixels of boxes given by centres and sides as shares of the input."""
    assert record.size is not None
    height, width = record.size
    return _corners(np.asarray(boxes, np.float64) * [width, height, width, height])


def _keep_polyp_classes(
    boxes: Floats, scores: Floats, classes: Floats, record: DetectorRecord
) -> tuple[Floats, Floats]:
    """Boxes (n, 4) and scores (n,) of single classes; a class that is no polyp has score 0."""
    if record.classes is not None:
        scores = np.where(np.isin(classes, list(record.classes)), scores, 0.0)
    return boxes.reshape(-1, 4), scores.reshape(-1)


def _corners(boxes: Floats) -> Floats:
    """Corners (n, 4) of boxes given by their centres and sides."""
    half = boxes[:, 2:] / 2
    return np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], 1)


def _best(class_scores: Floats, record: DetectorRecord) -> Floats:
    """The score of the best class of polyps, (n,) from (n, classes)."""
    polyp_classes = record.classes
    columns = class_scores if polyp_classes is None else class_scores[:, list(polyp_classes)]
    best: Floats = columns.max(1, initial=0.0)
    return best


def _suppress(boxes: Floats, scores: Floats, record: DetectorRecord) -> tuple[Floats, Floats]:
    """Non-maximum suppression of a grid of candidates, over all classes."""
    likely = np.flatnonzero(scores >= record.threshold)
    order = likely[np.argsort(-scores[likely], kind="stable")]
    best = order[_not_overlapped(np.ascontiguousarray(boxes[order]), record.iou)]
    return boxes[best], scores[best]


@njit(error_model="numpy")
def _not_overlapped(boxes: Floats, iou: float) -> Flags:
    """Whether each box overlaps none of the boxes kept before it.

    Args:
        boxes: (n, 4) left, top, right, bottom, the best one first.
        iou: Largest IoU with a box kept before.

    Returns:
        (n,) whether each box is kept.
    """
    is_kept = np.ones(len(boxes), np.bool_)
    for k in range(len(boxes)):
        left, top, right, bottom = boxes[k]
        area = (right - left) * (bottom - top)
        for j in range(k):
            if not is_kept[j]:
                continue
            width = min(right, boxes[j, 2]) - max(left, boxes[j, 0])
            height = min(bottom, boxes[j, 3]) - max(top, boxes[j, 1])
            if width > 0 and height > 0:
                other_area = (boxes[j, 2] - boxes[j, 0]) * (boxes[j, 3] - boxes[j, 1])
                if width * height > iou * (area + other_area - width * height):
                    is_kept[k] = False
                    break
    return is_kept
