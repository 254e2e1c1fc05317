"""The small detector for simulated procedures: learns what it is shown, and is read as ONNX."""

from pathlib import Path

import numpy as np
import pytest
import torch

from polyplink.detect import DetectorRecord, OnnxDetector
from polyplink.learn.detector import (
    DetectorConfig,
    Frames,
    SmallDetector,
    detection_loss,
    export_detector,
    fit_detector,
    score_detector,
)

SIDE = 64


def blobs(n: int, seed: int = 0) -> Frames:
    """Reddish noise with one or two bright ellipses; the last frames have none."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:SIDE, :SIDE] + 0.5
    pixels = rng.normal([140, 60, 50], 12, (n, SIDE, SIDE, 3))
    boxes = np.full((n, 2, 4), np.nan, np.float32)
    for k in range(n - n // 8):
        for j in range(1 + (k % 4 == 0)):
            half = rng.uniform(6, 12, 2)
            middle = np.array([16 + 32 * j, 32]) + rng.uniform(-4, 4, 2)
            inside = ((x - middle[0]) / half[0]) ** 2 + ((y - middle[1]) / half[1]) ** 2 < 1
            pixels[k][inside] += 60
            boxes[k, j] = np.concatenate([middle - half, middle + half]) / SIDE
    return Frames(pixels.clip(0, 255).astype(np.uint8), boxes)


def test_a_short_training_finds_the_polyps_it_was_shown(tmp_path: Path) -> None:
    config = DetectorConfig(side=SIDE, steps=60, batch=8)
    frames = blobs(48)
    network = fit_detector(frames, config)
    path = tmp_path / "ours.onnx"
    export_detector(network, path, DetectorRecord(letterbox=False, datasets=("simulated",)))
    detector = OnnxDetector(path)
    assert (detector.record.layout, detector.record.size) == ("yolov8", (SIDE, SIDE))
    assert detector.record.datasets == ("simulated",)
    found, false = score_detector(detector, frames, 0.3)
    assert found > 0.8
    assert false < 0.3
    assert score_detector(lambda image: np.zeros((0, 5)), frames, 0.3) == (0.0, 0.0)
    # Boxes are right whatever the size of the frame that they are found in.
    large = np.kron(frames.pixels[1], np.ones((2, 3, 1), np.uint8))
    np.testing.assert_allclose(
        detector(large)[0, :4], detector(frames.pixels[1])[0, :4] * [3, 2, 3, 2], atol=2
    )


def test_the_loss_is_least_for_the_true_boxes() -> None:
    network = SmallDetector(SIDE)
    boxes = torch.from_numpy(blobs(8).boxes)
    true = boxes[:, :1].transpose(1, 2).expand(-1, -1, (SIDE // 8) ** 2)
    away = (network.centres - (true[:, :2] + true[:, 2:]) / 2).square().sum(1)
    sure = torch.where(away == away.min(1, keepdim=True).values, 8.0, -8.0)
    sure[7] = -8.0  # has no polyp
    one = boxes[:, :1]
    best = detection_loss(sure, true.nan_to_num(), one, network.centres)
    assert float(best) < 0.01
    for logits, corners in ((-sure, true), (sure, true + 0.1), (sure, true * 0.8)):
        worse = detection_loss(logits, corners.nan_to_num(), one, network.centres)
        assert float(worse) > float(best) + 0.1
    none = detection_loss(sure * 0 - 8, true.nan_to_num(), one * torch.nan, network.centres)
    assert float(none) == pytest.approx(0, abs=1e-3)
