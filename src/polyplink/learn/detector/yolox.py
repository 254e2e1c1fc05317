"""The network of the detector: YOLOX-Nano (Ge et al. 2021, arXiv:2107.08430) with one class.

A CSP body of depthwise convolutions, a pyramid of strides 8, 16 and 32, and for each stride a head
with one prediction per cell. Batch normalisation is folded into the convolutions, as in the
weights published for inference, so training and inference compute the same. The score of a cell is
the sigmoid of its objectness plus its class logit.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from polyplink.core.errors import PolyplinkError
from polyplink.detect.onnx import IMAGENET

STRIDES = (8, 16, 32)
UNLIKELY = -4.0  # logit of a new score: few cells hold a polyp
_HALF = 0x01306B47  # ncnn's flag of a float16 tensor


class Conv(nn.Module):
    """A convolution followed by SiLU; the padding keeps the size, but for the stride."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel: int = 1, stride: int = 1, groups: int = 1
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(
            in_channels, out_channels, kernel, stride, (kernel - 1) // 2, groups=groups
        )

    def forward(self, x: Tensor) -> Tensor:
        """From (b, in_channels, h, w) to (b, out_channels, h / stride, w / stride)."""
        return functional.silu(self.conv(x), inplace=True)


def _separable(in_channels: int, out_channels: int, stride: int = 1) -> nn.Sequential:
    """A depthwise convolution of 3 x 3 cells followed by a pointwise one."""
    return nn.Sequential(
        Conv(in_channels, in_channels, 3, stride, groups=in_channels),
        Conv(in_channels, out_channels),
    )


class Bottleneck(nn.Module):
    """A pointwise and a separable convolution, optionally with a residual connection."""

    def __init__(self, width: int, *, residual: bool) -> None:
        super().__init__()
        self.reduce = Conv(width, width)
        self.conv = _separable(width, width)
        self.residual = residual

    def forward(self, x: Tensor) -> Tensor:
        """(b, width, h, w) to the same shape."""
        y: Tensor = self.conv(self.reduce(x))
        return x + y if self.residual else y


class CrossStage(nn.Module):
    """Half of the channels through bottlenecks, half past them (CSPNet, Wang et al. 2020)."""

    def __init__(self, in_channels: int, out_channels: int, count: int, *, residual: bool) -> None:
        super().__init__()
        half = out_channels // 2
        self.main = Conv(in_channels, half)
        self.past = Conv(in_channels, half)
        self.blocks = nn.Sequential(*(Bottleneck(half, residual=residual) for _ in range(count)))
        self.join = Conv(out_channels, out_channels)

    def forward(self, x: Tensor) -> Tensor:
        """From (b, in_channels, h, w) to (b, out_channels, h, w)."""
        joined: Tensor = self.join(torch.cat([self.blocks(self.main(x)), self.past(x)], 1))
        return joined


class PyramidPooling(nn.Module):
    """Maxima over 5, 9 and 13 cells beside the features (SPP, He et al. 2015)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.reduce = Conv(width, width // 2)
        self.join = Conv(width * 2, width)

    def forward(self, x: Tensor) -> Tensor:
        """(b, width, h, w) to the same shape."""
        x = self.reduce(x)
        pooled = [functional.max_pool2d(x, k, 1, k // 2) for k in (5, 9, 13)]
        joined: Tensor = self.join(torch.cat([x, *pooled], 1))
        return joined


class Head(nn.Module):
    """Score and box of every cell of one stride."""

    def __init__(self, in_channels: int, width: int, classes: int) -> None:
        super().__init__()
        self.stem = Conv(in_channels, width)
        self.class_convs = nn.Sequential(_separable(width, width), _separable(width, width))
        self.class_logit = nn.Conv2d(width, classes, 1)
        self.box_convs = nn.Sequential(_separable(width, width), _separable(width, width))
        self.box = nn.Conv2d(width, 4, 1)
        self.objectness = nn.Conv2d(width, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """From (b, in_channels, h, w) to (b, 5, h w): box offsets, and the logit of the score."""
        x = self.stem(x)
        boxes = self.box_convs(x)
        logit = self.objectness(boxes) + self.class_logit(self.class_convs(x))
        return torch.cat([self.box(boxes), logit], 1).flatten(2)


class YoloxNano(nn.Module):
    """The detector; its modules are in the order of the published layers."""

    mean: Tensor
    std: Tensor

    def __init__(self, classes: int = 1) -> None:
        super().__init__()
        # The body.
        self.stem = Conv(3, 16, 6, stride=2)
        self.dark2 = nn.Sequential(
            _separable(16, 32, stride=2), CrossStage(32, 32, 1, residual=True)
        )
        self.dark3 = nn.Sequential(
            _separable(32, 64, stride=2), CrossStage(64, 64, 3, residual=True)
        )
        self.dark4 = nn.Sequential(
            _separable(64, 128, stride=2), CrossStage(128, 128, 3, residual=True)
        )
        self.dark5 = nn.Sequential(
            _separable(128, 256, stride=2),
            PyramidPooling(256),
            CrossStage(256, 256, 1, residual=False),
        )

        # The pyramid, from the last stage down to stride 8 and up again, and a head per stride.
        self.lateral5 = Conv(256, 128)
        self.top_down4 = CrossStage(256, 128, 1, residual=False)
        self.lateral4 = Conv(128, 64)
        self.top_down3 = CrossStage(128, 64, 1, residual=False)
        self.down3 = _separable(64, 64, stride=2)
        self.bottom_up4 = CrossStage(128, 128, 1, residual=False)
        self.down4 = _separable(128, 128, stride=2)
        self.bottom_up5 = CrossStage(256, 256, 1, residual=False)
        self.heads = nn.ModuleList(Head(width, 64, classes) for width in (64, 128, 256))
        mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in IMAGENET)
        self.register_buffer("mean", mean, False)
        self.register_buffer("std", std, False)

        # Initial values: the last layers give the same score and box for every image.
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                assert module.bias is not None
                nn.init.zeros_(module.bias)
        for head in self.heads:
            assert isinstance(head, Head)
            for last in (head.class_logit, head.box):
                nn.init.zeros_(last.weight)
            assert head.objectness.bias is not None
            nn.init.zeros_(head.objectness.weight)
            nn.init.constant_(head.objectness.bias, UNLIKELY)

    @classmethod
    def random(cls, seed: int) -> "YoloxNano":
        """A network with random weights."""
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return cls()

    def cells(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Scores and boxes of all cells.

        Args:
            images: (b, 3, height, width) in [0, 1]; the sides are multiples of 32.

        Returns:
            Score logits (b, n), and boxes (b, 4, n): x, y of the centre, w, h in pixels of the
            input.
        """
        stem = self.stem((images - self.mean) / self.std)  # b 16 h/2 w/2
        c3 = self.dark3(self.dark2(stem))
        c4 = self.dark4(c3)
        l5 = self.lateral5(self.dark5(c4))
        l4 = self.lateral4(self.top_down4(torch.cat([_twice(l5), c4], 1)))
        p3 = self.top_down3(torch.cat([_twice(l4), c3], 1))
        p4 = self.bottom_up4(torch.cat([self.down3(p3), l4], 1))
        p5 = self.bottom_up5(torch.cat([self.down4(p4), l5], 1))
        out = torch.cat([head(p) for head, p in zip(self.heads, (p3, p4, p5), strict=True)], 2)
        cells = grid(images.shape[-2], images.shape[-1]).to(images)  # 3 n
        centres = (out[:, :2] + cells[:2]) * cells[2]
        sizes = out[:, 2:4].clamp(-6, 6).exp() * cells[2]
        return out[:, 4], torch.cat([centres, sizes], 1)

    def forward(self, images: Tensor) -> Tensor:
        """Detections in the layout `yolov8` of `polyplink.detect`.

        Args:
            images: (b, 3, height, width) in [0, 1].

        Returns:
            (b, 5, n): x, y of the centre, w, h in pixels of the input, and the score.
        """
        logits, boxes = self.cells(images)
        return torch.cat([boxes, logits.sigmoid()[:, None]], 1)


def stem_weight(focus: Tensor) -> Tensor:
    """The weight (16, 3, 6, 6) of a stem of stride 2 that computes the same as YOLOX's "Focus".

    Focus moves the four pixels of each 2 x 2 block to twelve channels and applies a 3 x 3
    convolution; a 6 x 6 convolution of the image computes the same sums without moving pixels.

    Args:
        focus: (16, 12, 3, 3); the blocks of three channels are columns by rows of a 2 x 2 block.

    Example:
        >>> stem_weight(torch.zeros(16, 12, 3, 3)).shape
        torch.Size([16, 3, 6, 6])
    """
    by_pixel = focus.reshape(16, 2, 2, 3, 3, 3)  # out, column, row, colour, y, x
    return by_pixel.permute(0, 3, 4, 2, 5, 1).reshape(16, 3, 6, 6)


def _twice(x: Tensor) -> Tensor:
    """Features (b, c, h, w) at twice the size (b, c, 2 h, 2 w)."""
    return functional.interpolate(x, scale_factor=2.0, mode="nearest")


def grid(height: int, width: int) -> Tensor:
    """Column, row and stride (3, n) of the cells of an input, ordered by stride."""
    parts = []
    for stride in STRIDES:
        rows, columns = height // stride, width // stride
        y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
        parts.append(torch.stack([x, y, torch.full_like(x, stride)]).reshape(3, -1))
    return torch.cat(parts, 1).float()


def coco_start(param: Path) -> YoloxNano:
    """A detector with YOLOX-Nano's published COCO weights, read from ncnn's format.

    All weights are those of the files, but for the class logits, which stay as initialised.

    Args:
        param: `yolox-nano.param`; the `.bin` lies beside it.

    Raises:
        PolyplinkError: If one of the files is missing, or they are not those of YOLOX-Nano.
    """
    network = YoloxNano()
    binary = param.with_suffix(".bin")
    for path in (param, binary):
        if not path.is_file():
            raise PolyplinkError(f"no file {path}", "give both files, side by side")
    logits = {id(head.class_logit) for head in network.heads if isinstance(head, Head)}
    convs = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
    try:
        tensors = _ncnn_tensors(param.read_text(encoding="utf-8"), binary.read_bytes())
        with torch.no_grad():
            for conv, (weight, bias) in zip(convs, tensors, strict=True):
                if id(conv) in logits:  # 80 classes of COCO
                    continue
                assert conv.bias is not None
                tensor = torch.from_numpy(weight)
                in_stem = conv is network.stem.conv
                tensor = stem_weight(tensor) if in_stem else tensor.view_as(conv.weight)
                conv.weight.copy_(tensor)
                conv.bias.copy_(torch.from_numpy(bias))
    except (ValueError, KeyError, RuntimeError, struct.error):  # another network, or a part of it
        raise PolyplinkError(
            f"{param} and {binary.name} are not YOLOX-Nano, or one is truncated",
            "copy both files again",
        ) from None
    return network


def _ncnn_tensors(param: str, binary: bytes) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Flat weight and bias of every convolution of an ncnn model."""
    place = 0
    for line in param.splitlines()[2:]:
        kind, *fields = line.split()
        if not kind.startswith("Convolution"):
            continue
        options = dict(field.split("=") for field in fields if "=" in field)
        size, outputs = int(options["6"]), int(options["0"])
        (flag,) = struct.unpack_from("<I", binary, place)
        place += 4
        dtype: np.dtype = np.dtype(np.float16 if flag == _HALF else np.float32)
        weight = np.frombuffer(binary, dtype, size, place).astype(np.float32)
        place += -(-size * dtype.itemsize // 4) * 4
        bias = np.zeros(outputs, np.float32)
        if options.get("5") == "1":
            bias = np.frombuffer(binary, np.float32, outputs, place).copy()
            place += 4 * outputs
        yield weight, bias
