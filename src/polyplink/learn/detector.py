"""A small detector of polyps, trained in minutes on a CPU, for simulated procedures.

It shows the whole way from a recording to a count with a real network; detectors for real
recordings are trained elsewhere. Every cell of a grid of stride 8 predicts the score of a polyp's
centre (CenterNet, Zhou et al. 2019, penalty-reduced focal loss) and the distances to the four sides
of its box (FCOS, Tian et al. 2019, generalised IoU). Frames are stretched to a square. The ONNX
file has the layout `yolov8` of `detect.onnx`.
"""

import re
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
import polars as pl
import torch
from torch import Tensor, nn
from torch.nn import functional

from polyplink.core.artefacts import to_plain, whole_file, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.core.extras import extras_installed
from polyplink.core.ranges import AT_LEAST_ONE, POSITIVE, Range, Ranged
from polyplink.data import DataSet
from polyplink.data.files.archives import INSIDE
from polyplink.data.files.video import split_frame_name
from polyplink.detect.onnx import DetectorRecord, record_path
from polyplink.simulate import is_simulation
from polyplink.tracklets.crops import FrameCrops, render_crops, write_crops

Pixels = npt.NDArray[np.uint8]

STRIDE = 8  # pixels of the input from one cell to the next
WIDTHS = (16, 32, 64, 96, 128)  # channels at strides 2 to 32
SPREAD = 0.15  # of the score around a centre: its standard deviation in box sides
NEAR = 0.5  # cells whose target score is at least this learn the box
SIZE_WEIGHT = 2.0  # of the loss of the box, beside that of the score
UNLIKELY = -3.5  # logit of the score before training: few cells hold a centre
_NUMBER = re.compile(r"\d+(?=\D*$)")


@dataclass(frozen=True)
class DetectorConfig(Ranged):
    """How a detector is trained.

    Attributes:
        side: Width and height of its input, pixels; a multiple of 32.
        frames: Frames with a polyp of each procedure, evenly spread; half as many without one,
            where there are such.
        steps: Optimiser steps.
        batch: Frames in a step.
        rate: Largest learning rate.
        seed: Of weights, order and augmentation.
    """

    side: Annotated[int, Range(32)] = 128
    frames: Annotated[int, AT_LEAST_ONE] = 100
    steps: Annotated[int, AT_LEAST_ONE] = 1000
    batch: Annotated[int, AT_LEAST_ONE] = 16
    rate: Annotated[float, POSITIVE] = 3e-3
    seed: int = 0


@dataclass(frozen=True)
class Frames:
    """Frames of procedures, stretched to a square, and the polyps' boxes in them.

    Attributes:
        pixels: (n, side, side, 3) RGB.
        boxes: (n, k, 4) left, top, right, bottom as shares of the frame; NaN beyond the last box.
    """

    pixels: Pixels
    boxes: npt.NDArray[np.float32]


class SmallDetector(nn.Module):
    """A convolutional network with one prediction for each cell of stride 8."""

    def __init__(self, side: int) -> None:
        super().__init__()
        first, second, *_ = WIDTHS
        stem = nn.Sequential(nn.PixelUnshuffle(2), _conv(12, first), _conv(first, second, 2))
        pairs = pairwise(WIDTHS[1:])
        deeper = (nn.Sequential(_conv(a, b, 2), _conv(b, b)) for a, b in pairs)
        self.down = nn.ModuleList([stem, *deeper])  # strides 4, 8, 16, 32
        middle = WIDTHS[2]
        self.across = nn.ModuleList(nn.Conv2d(width, middle, 1) for width in WIDTHS[3:])
        self.score = nn.Sequential(_conv(middle, middle), nn.Conv2d(middle, 1, 1))
        self.sides = nn.Sequential(_conv(middle, middle), nn.Conv2d(middle, 4, 1))
        nn.init.constant_(self.score[1].bias, UNLIKELY)  # type: ignore[arg-type]
        cells = (torch.arange(side // STRIDE) + 0.5) * STRIDE / side
        y, x = torch.meshgrid(cells, cells, indexing="ij")
        self.centres: Tensor
        self.register_buffer("centres", torch.stack([x, y]).reshape(2, -1))  # as shares
        self.side = side

    def cells(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (b, n) and corners (b, 4, n) as shares of the frame, of images (b, 3, h, w)."""
        found = []
        for stage in self.down:
            images = stage(images)
            found.append(images)
        _, fine, *coarse = found
        for features, across in zip(coarse, self.across, strict=True):
            fine = fine + functional.interpolate(across(features), fine.shape[-2:], mode="nearest")
        sides = functional.softplus(self.sides(fine).flatten(2)) / 4  # b 4 n
        corners = torch.cat([self.centres - sides[:, :2], self.centres + sides[:, 2:]], 1)
        return self.score(fine).flatten(1), corners

    def forward(self, images: Tensor) -> Tensor:
        """What the layout `yolov8` asks for.

        Args:
            images: (b, 3, side, side) in [0, 1].

        Returns:
            (b, 5, n): x, y of the centre, w, h in pixels of the input, and the score.
        """
        logits, corners = self.cells(images)
        low, high = corners[:, :2], corners[:, 2:]
        boxes = torch.cat([(low + high) / 2, high - low], 1) * self.side
        return torch.cat([boxes, logits.sigmoid()[:, None]], 1)


def _conv(before: int, after: int, stride: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(before, after, 3, stride, 1, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(after), nn.SiLU())


def detection_loss(logits: Tensor, corners: Tensor, boxes: Tensor, centres: Tensor) -> Tensor:
    """Focal loss of the scores, and generalised IoU of the boxes near centres.

    Args:
        logits: (b, n) of the cells.
        corners: (b, 4, n) their boxes.
        boxes: (b, k, 4) true boxes, NaN beyond the last; left, top, right, bottom.
        centres: (2, n) x and y of the cells; all as shares of the frame.
    """
    known = boxes.isfinite().all(2)  # b k
    boxes = boxes.nan_to_num()
    low, high = boxes[..., :2, None], boxes[..., 2:, None]  # b k 2 1
    away = centres - (low + high) / 2  # b k 2 n
    far = (away / (SPREAD * (high - low)).clamp_min(1e-6)).square().sum(2)  # b k n
    far = far.masked_fill(~known[..., None], torch.inf)
    nearest = far.min(2, keepdim=True).values  # b k 1
    # The cell nearest to the centre is a hit, even if the box is smaller than a cell.
    heat = torch.where((far == nearest) & known[..., None], 1.0, torch.exp(-far / 2))
    target, which = heat.max(1)  # b n
    p, hit = logits.sigmoid(), target == 1
    # -log p = softplus(-logit), without the overflow of the logarithm.
    positive = (1 - p).square() * functional.softplus(-logits)
    negative = (1 - target).pow(4) * p.square() * functional.softplus(logits)
    scores = torch.where(hit, positive, negative).sum() / hit.sum().clamp_min(1)
    own = boxes.gather(1, which[..., None].expand(-1, -1, 4)).transpose(1, 2)  # b 4 n
    weight = target * (target >= NEAR)
    lost = (weight * (1 - _giou(corners, own))).sum() / weight.sum().clamp_min(1)
    return scores + SIZE_WEIGHT * lost


def _giou(a: Tensor, b: Tensor) -> Tensor:
    """Generalised IoU (b, n) of boxes (b, 4, n) given by corners (Rezatofighi et al. 2019)."""

    def area(low: Tensor, high: Tensor) -> Tensor:
        return (high - low).clamp_min(0).prod(1)

    shared = area(torch.maximum(a[:, :2], b[:, :2]), torch.minimum(a[:, 2:], b[:, 2:]))
    union = area(a[:, :2], a[:, 2:]) + area(b[:, :2], b[:, 2:]) - shared
    hull = area(torch.minimum(a[:, :2], b[:, :2]), torch.maximum(a[:, 2:], b[:, 2:]))
    return shared / union.clamp_min(1e-9) - (hull - union) / hull.clamp_min(1e-9)


def read_frames(
    folder: Path,
    data: DataSet,
    procedures: Sequence[str],
    config: DetectorConfig,
    *,
    workers: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Frames:
    """Frames of procedures with and without polyps.

    Args:
        folder: The data folder; frames that are not stored are rendered if it was simulated.
        data: Its tables.
        procedures: The procedures.
        config: How many frames, and how large.
        workers: Threads.
        progress: Callback (procedures done, procedures in all).

    Raises:
        PolyplinkError: If there is no annotated polyp, or an image is missing.
    """
    pixels, boxes = [], []
    rows = data.procedures.filter(pl.col("procedure_id").is_in(procedures))
    for row in rows.iter_rows(named=True):
        source = folder / row["source"]
        own = data.detections.filter(procedure_id=row["procedure_id"]).drop_nulls("polyp_id")
        size = np.tile([row["width"], row["height"]], 2)
        corners = own.select("x", "y", x2=pl.col("x") + pl.col("w"), y2=pl.col("y") + pl.col("h"))
        shares = (corners.to_numpy() / size).astype(np.float32)  # boxes 4
        frame, image = own["frame"].to_numpy(), dict(own.select("frame", "image").iter_rows())
        chosen = _chosen(row["n_frames"], image, source, config.frames)
        whole = np.array([[0, 0, row["width"], row["height"]]])
        wanted = [
            FrameCrops(name, number, row["width"], row["height"], np.array([k]), whole)
            for k, (number, name) in enumerate(chosen.items())
        ]
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "frames.npy"
            if is_simulation(source) and None in chosen.values():
                name = row["procedure_id"]
                render_crops(path, wanted, source, config.side, procedure_id=name, device="cpu")
            else:
                write_crops(path, wanted, source, config.side, workers=workers, tick=lambda n: None)
            pixels.append(np.load(path))
        boxes += [shares[frame == number] for number in chosen]
        progress(len(pixels), len(procedures))
    most = max((len(one) for one in boxes), default=0)
    PolyplinkError.unless(
        most > 0, f"{folder} has no annotated polyp in these procedures", "give another --part"
    )
    padded = np.full((len(boxes), most, 4), np.nan, np.float32)
    for k, one in enumerate(boxes):
        padded[k, : len(one)] = one
    return Frames(np.concatenate(pixels), padded)


def _chosen(
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
        elif INSIDE not in name and (found := _NUMBER.search(name)):
            other = str(int(found[0]) + number - first).zfill(len(found[0]))
            other = name[: found.start()] + other + name[found.end() :]
            if split_frame_name(other) or (source / other).is_file():
                chosen[number] = other
    return chosen


def fit_detector(
    frames: Frames,
    config: DetectorConfig,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> SmallDetector:
    """Train a detector on frames.

    Args:
        frames: Of `config.side`.
        config: How.
        progress: Callback (steps done, steps in all).
    """
    draw = torch.Generator().manual_seed(config.seed)
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        network = SmallDetector(config.side).train()
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = torch.optim.AdamW(network.parameters(), config.rate, weight_decay=1e-2)
    rates = torch.optim.lr_scheduler.OneCycleLR(optimiser, config.rate, config.steps)
    order = torch.empty(0, dtype=torch.long)
    for step in range(config.steps):
        while len(order) < config.batch:
            order = torch.cat([order, torch.randperm(len(frames.pixels), generator=draw)])
        rows, order = order[: config.batch].numpy(), order[config.batch :]
        images = torch.from_numpy(frames.pixels[rows]).permute(0, 3, 1, 2) / 255  # b 3 side side
        boxes = torch.from_numpy(frames.boxes[rows])  # b k 4
        for axis in (0, 1):  # mirrored left to right, top to bottom
            flip = torch.rand(len(rows), generator=draw) < 0.5
            images[flip] = images[flip].flip(3 - axis)
            low, high = boxes[flip, :, axis].clone(), boxes[flip, :, axis + 2].clone()
            boxes[flip, :, axis], boxes[flip, :, axis + 2] = 1 - high, 1 - low
        gain = 1 + 0.2 * (2 * torch.rand(len(rows), 3, 1, 1, generator=draw) - 1)
        logits, corners = network.cells((images * gain).clamp(0, 1))
        loss = detection_loss(logits, corners, boxes, network.centres)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        optimiser.step()
        rates.step()
        progress(step + 1, config.steps)
    return network.eval()


def export_detector(network: SmallDetector, path: Path, record: DetectorRecord) -> None:
    """Write a detector as an ONNX file, and its record beside it.

    Raises:
        PolyplinkError: If the extra `export` is not installed.
    """
    with extras_installed("the export"), whole_file(path) as temporary, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter warns about itself
        program = torch.onnx.export(
            network,
            (torch.zeros((1, 3, network.side, network.side)),),
            input_names=["images"],
            output_names=["output0"],
            dynamo=True,
            verbose=False,
        )
        assert program is not None
        import onnx  # noqa: PLC0415  an extra

        onnx.save(program.model_proto, str(temporary))
    write_json(record_path(path), to_plain(record))


def score_detector(
    detector: Callable[[Pixels], npt.NDArray[np.float64]], frames: Frames, least: float
) -> tuple[float, float]:
    """Share of polyps that a detector finds at an IoU of 0.5, and false boxes a frame.

    Args:
        detector: As in `detect.Detector`.
        frames: Frames with known boxes.
        least: Smallest score of a box.
    """
    hits, false = [], 0
    for pixels, boxes in zip(frames.pixels, frames.boxes, strict=True):
        found = detector(pixels)
        found = found[found[:, 4] >= least]
        low, high = found[:, None, :2], found[:, None, :2] + found[:, None, 2:4]  # f 1 2
        known = boxes[np.isfinite(boxes).all(1)] * pixels.shape[0]  # k 4
        edges = np.minimum(high, known[:, 2:]) - np.maximum(low, known[:, :2])  # f k 2
        shared = edges.clip(0).prod(2)
        areas = (high - low).prod(2) + (known[:, 2:] - known[:, :2]).prod(1)  # f k
        match = shared >= 0.5 * (areas - shared)
        hits += match.any(0).tolist()
        false += int((~match.any(1)).sum())
    return float(np.mean(hits)) if hits else float("nan"), false / max(len(frames.pixels), 1)
