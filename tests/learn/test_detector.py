"""The detector: its training, its loss, and its files."""

import multiprocessing
import os
import signal
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from polyplink.core.errors import PolyplinkError
from polyplink.detect.onnx import DetectorRecord, OnnxDetector
from polyplink.evaluate.detections import measure_in_frames
from polyplink.learn.detector import fit
from polyplink.learn.detector.augmented_frames import TrainingFrames, draw_batch
from polyplink.learn.detector.fit import FitConfig, FitState, fit_detector
from polyplink.learn.detector.frames import detect_in_frames, true_boxes
from polyplink.learn.detector.loss import assign, detection_loss
from polyplink.learn.detector.onnx_file import export_detector, read_network
from polyplink.learn.detector.yolox import YoloxNano, grid
from polyplink.models.shipped import shipped_model

SIDE = 64


def frames_with_ellipses(n: int, seed: int = 0) -> TrainingFrames:
    """Frames of reddish noise with one or two bright ellipses; the last eighth has none."""
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
    sizes = np.full((n, 2), [640, 480], np.float32)
    names = tuple(f"p{k % 7}" for k in range(n))
    return TrainingFrames(pixels.clip(0, 255).astype(np.uint8), sizes, boxes, names)


def test_a_continued_training_is_an_uninterrupted_one_and_another_is_refused(
    tmp_path: Path,
) -> None:
    frames, start = frames_with_ellipses(8), YoloxNano.random(0)
    config = FitConfig(side=SIDE, epochs=3, batch=4, freeze=False)
    whole = fit_detector(frames, start, config, tmp_path / "whole.safetensors")

    def stop(state: FitState) -> None:
        if state.epoch == 2:
            raise KeyboardInterrupt

    path = tmp_path / "stopped.safetensors"
    with pytest.raises(KeyboardInterrupt):
        fit_detector(frames, start, config, path, after_epoch=stop)
    continued = fit_detector(frames, start, config, path)
    assert continued.losses == whole.losses
    for name, tensor in whole.mean.state_dict().items():
        assert torch.equal(tensor, continued.mean.state_dict()[name])

    # A file of the same name may hold other pictures or weights.
    changed = replace(frames, pixels=255 - frames.pixels)
    for other in (
        (changed, start, config),
        (frames, YoloxNano.random(1), config),
        (frames, start, replace(config, seed=1)),
    ):
        with pytest.raises(PolyplinkError, match="holds a training with other data or options"):
            fit_detector(*other, path)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(PolyplinkError, match="is not a checkpoint"):
        fit_detector(frames, start, config, path)


def test_ctrl_c_is_left_to_the_main_process(tmp_path: Path) -> None:
    # A terminal sends it to all; a process that draws batches would end, or print a trace.
    interrupted: list[int] = []

    def interrupt(done: int, steps: int) -> None:
        helpers = multiprocessing.active_children()
        if helpers and not interrupted:
            interrupted.extend(process.pid or 0 for process in helpers)
            for pid in interrupted:
                os.kill(pid, signal.SIGINT)

    config = FitConfig(side=SIDE, epochs=8, batch=4, freeze=False)
    state = fit_detector(
        frames_with_ellipses(8),
        YoloxNano.random(0),
        config,
        tmp_path / "state.safetensors",
        progress=interrupt,
    )
    assert interrupted
    assert state.epoch == 8


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, YoloxNano]:
    """The checkpoint of a short training that was interrupted once, and its network."""
    torch.manual_seed(0)
    start, path = YoloxNano(), tmp_path_factory.mktemp("fit") / "state.safetensors"
    config = FitConfig(side=SIDE, epochs=30, batch=8, rate=2e-3, keep=0.9, freeze=False)
    frames = frames_with_ellipses(64)

    def stop(state: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_detector(frames, start, config, path, after_epoch=stop)
    epochs: list[int] = []
    state = fit_detector(
        frames, start, config, path, after_epoch=lambda state: epochs.append(state.epoch)
    )
    assert epochs == list(range(2, 31))  # the first finished before the interruption
    assert state.losses[-1] < state.losses[0]
    return path, state.mean


def test_recall_by_size_groups_boxes_by_their_share_of_the_frame() -> None:
    frames = frames_with_ellipses(24)
    boxes = frames.boxes[np.isfinite(frames.boxes).all(2)]  # k 4
    sides = np.sqrt((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]))
    truth = true_boxes(frames)
    predicted = [np.concatenate([boxes, np.ones((len(boxes), 1))], 1) for boxes in truth]
    figures = measure_in_frames(predicted, frames, score=0.5)
    medium = next(n for name, n in figures.recall_by.items() if name.startswith("medium"))
    assert medium.n == ((sides >= 0.15) & (sides < 0.35)).sum()
    assert 0 < medium.n < len(sides)


@pytest.mark.slow
def test_a_short_training_detects_the_polyps_of_its_frames(
    trained: tuple[Path, YoloxNano], tmp_path: Path
) -> None:
    frames, path = frames_with_ellipses(64), tmp_path / "ours.onnx"
    record = DetectorRecord("yolov8", (SIDE, SIDE), letterbox=True, threshold=0.02)
    export_detector(trained[1], path, record)
    predicted = detect_in_frames(OnnxDetector(path), frames)
    figures = measure_in_frames(predicted, frames, score=0.3)
    assert (figures.ap50.value or 0.0) > 0.5  # 0.00 before the training
    # The network can be read from the exported file.
    images = torch.rand(1, 3, 64, 96)
    torch.testing.assert_close(read_network(path)(images), trained[1](images))


@pytest.mark.slow
def test_an_exported_network_computes_the_same_for_any_size(tmp_path: Path) -> None:
    torch.manual_seed(1)
    network, path = YoloxNano().eval(), tmp_path / "one.onnx"
    for parameter in network.parameters():  # because equal tensors are stored once
        nn.init.normal_(parameter, std=0.1)
    export_detector(network, path, DetectorRecord("yolov8", (SIDE, SIDE), letterbox=True))
    import onnxruntime  # noqa: PLC0415

    session = onnxruntime.InferenceSession(path)
    for shape in ((1, 3, 64, 64), (3, 3, 96, 128)):
        images = torch.rand(shape)
        (outputs,) = session.run(None, {"images": images.numpy()})
        np.testing.assert_allclose(outputs, network(images).detach(), atol=2e-3)
    reread = read_network(path)
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, reread.state_dict()[name])


def test_the_shipped_network_is_read_from_its_file() -> None:
    path = shipped_model("detector-v1").path
    network = read_network(path)
    images = torch.rand(1, 3, 64, 96)
    import onnxruntime  # noqa: PLC0415

    (outputs,) = onnxruntime.InferenceSession(path).run(None, {"images": images.numpy()})
    np.testing.assert_allclose(outputs, network(images).detach(), atol=2e-3)


def test_files_of_another_network_and_truncated_ones_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "no.onnx"
    path.write_bytes(b"text")
    with pytest.raises(PolyplinkError, match="is not a detector"):
        read_network(path)
    path = tmp_path / "no.param"
    head = b"7767517\n1 1\n"
    stem = head + b"Convolution c 1 1 a b 0=16 5=1 6=1728"
    whole = struct.pack("<I", 0) + bytes(4 * (1728 + 16))
    for text, binary in (
        (head, b""),
        (b"\xff", b""),  # not text
        (stem.removesuffix(b" 6=1728"), whole),
        (stem, whole[:2]),
        (stem, whole[:-1]),
        (stem, whole),  # one layer only
        (stem.replace(b"1728", b"1727"), whole),
    ):
        path.write_bytes(text)
        path.with_suffix(".bin").write_bytes(binary)
        with pytest.raises(PolyplinkError, match=r"no\.param and no\.bin are not YOLOX-Nano"):
            read_network(path)
    with pytest.raises(PolyplinkError, match="no file"):
        read_network(tmp_path / "none.onnx")


def test_weights_in_ncnn_form_are_read_in_order(tmp_path: Path) -> None:
    """The test writes as ncnn does: a flag, float16 padded to 4 bytes, then a float32 bias."""
    torch.manual_seed(2)
    network = YoloxNano(classes=80)
    lines, binary = ["7767517", "1 1"], b""
    focus = torch.randn(16, 12, 3, 3) / 10  # as published: on twelve sliced channels
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            published = focus if module is network.stem.conv else module.weight.detach()
            weight = published.numpy().astype(np.float16)
            kind = "ConvolutionDepthWise" if module.groups > 1 else "Convolution"
            lines.append(f"{kind} c 1 1 a b 0={module.out_channels} 5=1 6={weight.size}")
            binary += struct.pack("<I", 0x01306B47) + weight.tobytes()
            binary += b"\0" * (-weight.nbytes % 4)
            assert module.bias is not None
            binary += (module.bias.detach().numpy() + 0.5).tobytes()
    path = tmp_path / "yolox-nano.param"
    path.write_text("\n".join(lines))
    path.with_suffix(".bin").write_bytes(binary)
    reread = read_network(path)
    images = torch.randn(2, 3, 64, 96)
    sliced = torch.cat([images[..., i::2, j::2] for j in (0, 1) for i in (0, 1)], 1)
    torch.testing.assert_close(
        functional.conv2d(images, reread.stem.conv.weight, stride=2, padding=2),
        functional.conv2d(sliced, focus.half().float(), padding=1),
    )
    torch.testing.assert_close(
        reread.dark5[1].join.conv.weight,  # type: ignore[union-attr]
        network.dark5[1].join.conv.weight,  # type: ignore[union-attr]
        atol=1e-3,
        rtol=1e-3,
    )
    torch.testing.assert_close(
        reread.heads[2].box.bias,  # type: ignore[union-attr]
        network.heads[2].box.bias + 0.5,  # type: ignore[union-attr,operator]
    )


def test_the_loss_is_lowest_for_the_true_boxes() -> None:
    cells = grid(SIDE, SIDE)
    truth = torch.tensor([[[22.0, 30, 16, 20], [np.nan] * 4], [[np.nan] * 4, [np.nan] * 4]])
    boxes = truth[:, :1].nan_to_num(5.0).transpose(1, 2).expand(-1, -1, cells.shape[1]).clone()
    low_logits = torch.full(boxes[:, 0].shape, -8.0)
    target, assigned_box = assign(low_logits, boxes, truth, cells)
    assert (target[0] > 0).sum() == 10
    assert not target[1].any()
    assert not assigned_box[0][target[0] > 0].any()
    centres = (cells[:2] + 0.5) * cells[2]
    distances = (centres[:, target[0] > 0] - truth[0, 0, :2, None]).abs()
    assert (distances <= torch.maximum(truth[0, 0, 2:, None] / 2, cells[2, target[0] > 0])).all()
    correct_logits = torch.where(target > 0, 8.0, -8.0)
    lowest = detection_loss(correct_logits, boxes, truth, cells)
    assert float(lowest) < 0.05
    for logits, shifted_boxes in (
        (-correct_logits, boxes),
        (correct_logits, boxes + 6),
        (correct_logits, boxes * 0.7),
    ):
        assert float(detection_loss(logits, shifted_boxes, truth, cells)) > float(lowest) + 0.1


def test_augmented_boxes_stay_on_their_polyps(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = frames_with_ellipses(32, seed=3)
    for share in ("MOSAIC", "EMPTY", "MENU", "BLUR", "DARK"):
        monkeypatch.setattr(f"polyplink.learn.detector.augmented_frames.{share}", 0.0)
    rng = np.random.default_rng(0)
    images, boxes = draw_batch(frames, np.arange(28), 96, rng)
    brighter = []
    for image, truth in zip(images.numpy(), boxes.numpy(), strict=True):
        for x, y, w, h in truth[np.isfinite(truth).all(1)]:
            left, right = max(0, int(x - w / 4)), int(x + w / 4) + 1
            inside = image[:, max(0, int(y - h / 4)) : int(y + h / 4) + 1, left:right].mean()
            brighter.append(inside - np.median(image))
    assert len(brighter) > 25
    assert np.mean(np.array(brighter) > 0.03) > 0.9
    repeated = draw_batch(frames, np.arange(28), 96, np.random.default_rng(0))
    assert torch.equal(images, repeated[0])  # a resumed training draws the same batches
    monkeypatch.setattr("polyplink.learn.detector.augmented_frames.EMPTY", 1.0)
    empty = draw_batch(frames, np.arange(28), 96, rng)[1]
    assert empty.isfinite().all(2).sum() < 0.6 * boxes.isfinite().all(2).sum()


def test_batches_do_not_depend_on_the_number_of_workers(tmp_path: Path) -> None:
    config = FitConfig(side=SIDE, epochs=1, batch=4, freeze=False)
    start = YoloxNano.random(0)
    one_worker, two_workers = (
        fit_detector(
            frames_with_ellipses(8),
            start,
            config,
            tmp_path / f"{workers}.safetensors",
            workers=workers,
        )
        for workers in (1, 2)
    )
    assert one_worker.losses == two_workers.losses
    assert one_worker.epoch == 1


def test_every_frame_is_seen_once_in_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[list[int]] = []
    monkeypatch.setattr(fit, "draw_batch", lambda frames, rows, *_: drawn.append(rows.tolist()))
    config = FitConfig(side=SIDE, epochs=2, batch=4, empty_repeats=1)
    batches = fit._Batches(frames_with_ellipses(7), config)
    for k in range(len(batches)):
        _ = batches[k]
    assert [len(rows) for rows in drawn] == [4, 3, 4, 3]
    for epoch in (drawn[:2], drawn[2:]):
        assert sorted(row for rows in epoch for row in rows) == list(range(7))


def test_a_batch_that_exceeds_the_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_out_of_memory(network: YoloxNano, images: torch.Tensor) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(YoloxNano, "cells", raise_out_of_memory)
    config = FitConfig(side=SIDE, epochs=1, batch=4)
    with pytest.raises(PolyplinkError, match=r"the memory of cpu is too small .*smaller --batch"):
        fit_detector(
            frames_with_ellipses(8), YoloxNano.random(0), config, tmp_path / "new.safetensors"
        )
