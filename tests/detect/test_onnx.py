"""Detectors from ONNX files: every output layout gives the same boxes for one synthetic image."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import av
import numpy as np
import polars as pl
import pytest

from polyplink.core.artefacts import write_json
from polyplink.core.errors import PolyplinkError
from polyplink.data.files.images import Picture
from polyplink.detect.first_pass import detect, look, write_detections
from polyplink.detect.onnx import (
    IMAGENET,
    DetectorRecord,
    OnnxDetector,
    decode_yolov8,
    recognise,
    record_path,
)
from polyplink.detect.recordings import find_recordings
from polyplink.models.shipped import DETECTOR
from polyplink.tracklets.settings import PrepareSettings
from tests.data.videos import HEIGHT, WIDTH, write_video
from tests.detect.models import BOXES, SCORES, SIZE, centre_and_size, outputs_of, write_model

IMAGE = np.zeros((96, 128, 3), np.uint8)
LAYOUTS = {
    name: [1, 3, SIZE, SIZE]
    for name in ("yolov5", "yolov8", "nms", "nms7", "nms4", "detr", "detr-sigmoid", "rtdetr8")
} | {"rtdetr": [1, 3, SIZE, SIZE], "torchvision": [3, SIZE, SIZE]}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_recognised_and_gives_the_same_boxes(tmp_path: Path, layout: str) -> None:
    path = write_model(tmp_path / "d.onnx", outputs_of(layout), LAYOUTS[layout])
    detector = OnnxDetector(path)
    assert detector.record.layout == layout
    # Only the image processor of DETR normalises.
    assert detector.record.mean == (IMAGENET[0] if layout == "detr" else (0.0, 0.0, 0.0))
    boxes = detector(IMAGE)
    # A letterbox scales by 1/2 and adds 8 grey rows on top; else columns by 1/2, rows by 2/3.
    letterboxed = (BOXES - [0, 8, 0, 8]) * 2
    corners = letterboxed if detector.record.letterbox else BOXES * [2, 1.5, 2, 1.5]
    expected = np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2], SCORES[:, None]], 1)
    np.testing.assert_allclose(boxes[:2], expected, atol=1e-3)
    assert len(boxes) == 2


def test_scores_of_two_classes_are_not_mistaken_for_numbers_of_a_class() -> None:
    rng = np.random.default_rng(0)
    of_two_classes = rng.uniform(0.01, 0.99, (1, 300, 6)).astype(np.float32)
    assert recognise({"output0": of_two_classes}) == "rtdetr8"
    of_two_classes[..., 5] = rng.integers(2, size=300)
    assert recognise({"output0": of_two_classes}) == "nms"
    assert recognise({"output0": of_two_classes[:, :0]}) == "nms"  # no detection


def test_boxes_in_pixels_of_one_class_are_not_read_as_shares(tmp_path: Path) -> None:
    rows = np.concatenate([BOXES, SCORES[:, None]], 1)[None]  # corners and score
    path = write_model(tmp_path / "d.onnx", {"output0": rows}, [1, 3, SIZE, SIZE])
    assert OnnxDetector(path).record.layout == "nms"
    with_classes = write_model(tmp_path / "e.onnx", outputs_of("nms"), [1, 3, SIZE, SIZE])
    np.testing.assert_array_equal(OnnxDetector(path)(IMAGE), OnnxDetector(with_classes)(IMAGE))
    write_json(record_path(path), {"layout": "rtdetr8"})
    with pytest.raises(PolyplinkError, match="not those of the layout rtdetr8"):
        OnnxDetector(path)(IMAGE)


def test_the_json_record_beside_the_model_sets_classes_and_threshold(tmp_path: Path) -> None:
    path = write_model(tmp_path / "d.onnx", outputs_of("nms"), [1, 3, "height", "width"])
    record = {"size": [SIZE, SIZE], "classes": [1], "letterbox": False}
    (tmp_path / "d.json").write_text(json.dumps(record))
    assert len(OnnxDetector(path)(IMAGE)) == 0  # both boxes are of class 0
    (tmp_path / "d.json").write_text(json.dumps(record | {"classes": [0], "threshold": 0.7}))
    assert OnnxDetector(path)(IMAGE)[:, 4].tolist() == pytest.approx([0.9])
    rounded_up = {"output0": outputs_of("nms")["output0"] + [0, 0, 0, 0, 0.1004, 0]}
    write_model(path, rounded_up, [1, 3, SIZE, SIZE])
    (tmp_path / "d.json").unlink()
    assert look(OnnxDetector(path), Picture(IMAGE))[:, 4].tolist() == pytest.approx([1.0, 0.7004])
    (tmp_path / "d.json").write_text(json.dumps({"treshold": 0.7}))
    with pytest.raises(PolyplinkError, match=r"treshold.*the fields are layout, size"):
        OnnxDetector(path)


def test_an_input_of_any_multiple_of_pixels_gets_as_little_grey_as_possible(tmp_path: Path) -> None:
    path = write_model(tmp_path / "d.onnx", outputs_of("nms"), [1, 3, "32*height", "32*width"])
    (tmp_path / "d.json").write_text(json.dumps({"size": [SIZE, SIZE]}))
    boxes = OnnxDetector(path)(np.zeros((64, 128, 3), np.uint8))  # 32 x 64 pixels of the input
    assert boxes[0, :2].tolist() == pytest.approx([20, 28])  # no row of grey above them


def mucosa(width: int, height: int) -> np.ndarray:
    """A frame (height, width, 3) with a brighter bump at (0.4, 0.55) of its sides."""
    y, x = np.mgrid[:height, :width]
    radius = np.hypot(2 * x / width - 1, 2 * y / height - 1)[:, :, None]
    bump = np.hypot(x / width - 0.4, y / height - 0.55)[:, :, None] / 0.12
    pixels = [190, 90, 70] - radius * [60, 40, 35] + np.clip(1.2 - bump, 0, 1) * [40, 50, 45]
    return np.asarray(pixels.clip(0, 255), np.uint8)


def test_a_video_frame_and_its_rgb_pixels_give_the_same_boxes() -> None:
    detector, pixels = OnnxDetector(Path(DETECTOR), threads=1), mucosa(810, 648)
    frame = av.VideoFrame.from_ndarray(pixels, format="rgb24").reformat(format="yuv420p")
    of_frame, of_pixels = detector(Picture(frame)), detector(Picture(frame).rgb())
    assert of_frame.shape == of_pixels.shape == (1, 5)
    np.testing.assert_allclose(of_frame[:, :4], of_pixels[:, :4], atol=3)  # of 810 pixels
    np.testing.assert_allclose(of_frame[:, 4], of_pixels[:, 4], atol=0.02)
    assert of_pixels[0, 4] > 0.5
    np.testing.assert_array_equal(detector(Picture(pixels)), detector(pixels))


def test_only_frames_with_crops_are_converted_at_full_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    film = write_video(tmp_path / "film.mp4", 30)
    sizes = list[tuple[int, int]]()
    convert = Picture._convert

    def record_size(self: Picture, width: int, height: int, *how: str) -> np.ndarray:
        sizes.append((width, height))
        return convert(self, width, height, *how)

    monkeypatch.setattr(Picture, "_convert", record_size)
    path = write_model(tmp_path / "d.onnx", outputs_of("nms"), [1, 3, "height", "width"])
    settings = PrepareSettings(stride=4, size=16, min_seconds=0.0)
    (tmp_path / "d.json").write_text(json.dumps({"size": [SIZE // 2, SIZE // 2]}))
    detected = detect(find_recordings(film), OnnxDetector(path), tmp_path / "data", settings)
    write_detections(tmp_path / "data", detected.data, detected.scenes)
    crops = pl.read_parquet(tmp_path / "data" / "kept" / "film.parquet")["frame"]
    assert 0 < sizes.count((WIDTH, HEIGHT)) == crops.n_unique() < 30


def test_non_maximum_suppression_equals_a_naive_loop() -> None:
    rng = np.random.default_rng(0)
    low = rng.uniform(0, 40, (60, 2))
    boxes = np.concatenate([low, low + rng.uniform(5, 25, (60, 2))], 1)
    scores = rng.uniform(0.05, 1, 60)
    output = np.concatenate([centre_and_size(boxes), scores[:, None]], 1).T[None]
    record = DetectorRecord("yolov8", (SIZE, SIZE), threshold=0.2, iou=0.4)
    _, decoded_scores = decode_yolov8({"o": output}, record)
    kept_boxes: list[int] = []
    for k in np.argsort(-scores):
        x0, y0, x1, y1 = boxes[k]
        overlaps = []
        for j in kept_boxes:
            p0, q0, p1, q1 = boxes[j]
            shared = max(0, min(x1, p1) - max(x0, p0)) * max(0, min(y1, q1) - max(y0, q0))
            union = (x1 - x0) * (y1 - y0) + (p1 - p0) * (q1 - q0) - shared
            overlaps.append(shared / union)
        if scores[k] >= 0.2 and all(overlap <= 0.4 for overlap in overlaps):
            kept_boxes.append(int(k))
    np.testing.assert_allclose(decoded_scores, scores[kept_boxes])


@pytest.mark.parametrize(
    ("outputs", "record", "message"),
    [
        (
            {"features": np.zeros((1, 512, 7, 7))},
            {},
            r"features \(1, 512, 7, 7\) fit no known layout",
        ),
        ({"output0": np.full((1, 6, 1200), 3.0)}, {}, "scores are above 1.*set the right `layout`"),
        ({"output0": np.zeros((1, 6, 1200))}, {"layout": "detr"}, "not those of the layout detr;"),
        ({"output0": np.zeros((1, 6, 1200))}, {"classes": [7]}, r"yolov8 with classes \[7\];"),
        ({"output0": np.zeros((1, 6, 1200))}, {"mean": [1]}, "mean.1: Field required"),
    ],
)
def test_models_that_are_not_detectors_are_refused(
    tmp_path: Path, outputs: dict[str, np.ndarray], record: dict[str, Any], message: str
) -> None:
    path = write_model(tmp_path / "d.onnx", outputs, [1, 3, SIZE, SIZE])
    (tmp_path / "d.json").write_text(json.dumps(record))
    with pytest.raises(PolyplinkError, match=message):
        OnnxDetector(path)(IMAGE)


def test_files_other_than_onnx_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match=r"no detector file .*none\.onnx; check the"):
        OnnxDetector(tmp_path / "none.onnx")
    with pytest.raises(PolyplinkError, match="sim:good changes annotated boxes, and none are"):
        OnnxDetector(Path("sim:good"))
    (tmp_path / "best.pt").write_bytes(b"pickled?")
    with pytest.raises(PolyplinkError, match=r"yolo export model=best\.pt format=onnx.*best\.onnx"):
        OnnxDetector(tmp_path / "best.pt")
    (tmp_path / "d.onnx").write_bytes(b"pickled?")
    with pytest.raises(PolyplinkError, match="cannot be read as ONNX"):
        OnnxDetector(tmp_path / "d.onnx")


def test_onnxruntime_stores_no_telemetry(tmp_path: Path) -> None:
    path = write_model(tmp_path / "d.onnx", outputs_of("yolov8"), [1, 3, SIZE, SIZE])
    code = """
import sys
from pathlib import Path
from polyplink.detect.onnx import OnnxDetector
OnnxDetector(Path(sys.argv[1]))
"""
    home = {"HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code, str(path)], env=home, check=True)
    # onnxruntime collects what it will send in a folder below HOME.
    assert not [path for path in tmp_path.rglob("*") if "onnxruntime" in path.name]
