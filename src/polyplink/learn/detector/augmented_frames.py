"""Augmented batches for the detector; the changes are drawn independently for every frame.

They imitate what varies between colonoscopies: position and zoom, aspect ratio, mirror images and
transposition; mosaics of four frames (Bochkovskiy et al. 2020), which make polyps small; views cut
out of frames beside their polyps, used as frames without polyps; menus at an edge; gain and colour,
contrast, gamma, dark views, blur, motion and noise.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from polyplink.detect.onnx import FILL

GREY = FILL / 255  # colour of the area around a frame
LEAST_VISIBLE = 0.35  # share of a box that must be in view
LEAST_SIDE = 5.0  # pixels of the input

ZOOM = (0.7, 1.9)  # smallest and largest size of a frame relative to one that fills the input
SHIFT = 0.2  # largest shift of a frame, as a share of the input
ASPECT = 1.3  # largest factor by which the aspect ratio changes
# Shares of frames: mosaics; cut out beside a polyp; with a dark block at an edge; blurred, with
# motion blur added to the same share; darkened.
MOSAIC, EMPTY, MENU, BLUR, DARK = 0.15, 0.12, 0.1, 0.15, 0.15


@dataclass(frozen=True)
class TrainingFrames:
    """Annotated frames, stretched to squares.

    Attributes:
        pixels: (n, side, side, 3) RGB, uint8; may be a memory map.
        sizes: (n, 2) width and height of the frames, pixels.
        boxes: (n, k, 4) left, top, right, bottom as shares of the frame; NaN beyond the last.
        procedures: (n,) the procedure of each frame.
        broken: Images that do not decode, with the reason; they are not among the n frames.
    """

    pixels: npt.NDArray[np.uint8]
    sizes: npt.NDArray[np.float32]
    boxes: npt.NDArray[np.float32]
    procedures: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()


def pad_boxes(boxes: Sequence[npt.NDArray[np.floating]]) -> npt.NDArray[np.float32]:
    """The boxes (k, 4) of each of n frames as one array (n, largest k or 1, 4), padded with NaN.

    Example:
        >>> pad_boxes([np.zeros((2, 4)), np.zeros((0, 4))])[:, :, 0]
        array([[ 0.,  0.],
               [nan, nan]], dtype=float32)
    """
    most = max((len(of_frame) for of_frame in boxes), default=0)
    padded = np.full((len(boxes), max(most, 1), 4), np.nan, np.float32)
    for k, of_frame in enumerate(boxes):
        padded[k, : len(of_frame)] = of_frame
    return padded


def draw_batch(
    frames: TrainingFrames,
    rows: npt.NDArray[np.integer],
    side: int,
    rng: np.random.Generator,
) -> tuple[Tensor, Tensor]:
    """Augmented frames and their boxes.

    Args:
        frames: All frames.
        rows: (b,) rows of the frames of the batch.
        side: Width and height of the input, pixels.
        rng: Source of randomness.

    Returns:
        Images (b, 3, side, side) in [0, 1]; boxes (b, k, 4), centre and size in pixels, NaN beyond
        the last of an image.
    """
    images, boxes = [], []
    for row in rows:
        image, image_boxes = _view(frames, int(row), side, rng)
        if rng.random() < MOSAIC:
            image, image_boxes = _mosaic(frames, side, rng)
        images.append(_colour(image, rng))
        boxes.append(image_boxes)
    stack, truth = torch.stack(images), torch.from_numpy(pad_boxes(boxes))
    for k in range(len(rows)):  # one of the eight orientations
        for axis in (0, 1):
            if rng.random() < 0.5:
                stack[k] = stack[k].flip(2 - axis)
                truth[k, :, axis] = side - truth[k, :, axis]
        if rng.random() < 0.5:
            stack[k] = stack[k].transpose(1, 2).clone()
            truth[k] = truth[k][:, [1, 0, 3, 2]]
    return stack, truth


def _mosaic(
    frames: TrainingFrames, side: int, rng: np.random.Generator
) -> tuple[Tensor, npt.NDArray[np.float32]]:
    """Four random frames around a corner as one image (3, side, side), and its boxes (k, 4)."""
    x, y = (int(v) for v in rng.uniform(0.3, 0.7, 2) * side)
    image, boxes = torch.empty(3, side, side), []
    for area in ((0, 0, x, y), (x, 0, side, y), (0, y, x, side), (x, y, side, side)):
        left, top, right, bottom = area
        row = int(rng.integers(len(frames.pixels)))
        part, boxes_of_part = _view(frames, row, side, rng, area=area)
        image[:, top:bottom, left:right] = part[:, top:bottom, left:right]
        boxes.append(boxes_of_part)
    return image, np.concatenate(boxes)


def _view(
    frames: TrainingFrames,
    row: int,
    side: int,
    rng: np.random.Generator,
    *,
    area: tuple[int, int, int, int] | None = None,
    may_be_empty: bool = True,
) -> tuple[Tensor, npt.NDArray[np.float32]]:
    """A frame (3, side, side) moved, zoomed and stretched, and its boxes (k, 4) in an area.

    Args:
        frames: All frames.
        row: Row of the frame.
        side: Width and height of the input, pixels.
        rng: Source of randomness.
        area: Left, top, right, bottom of the visible part of the input; None for all of it.
        may_be_empty: Whether it may be cut out beside its polyps.
    """
    # The frame before any change: centred in the area, as large as fits.
    left, top, right, bottom = area or (0, 0, side, side)
    centre = np.array([left + right, top + bottom]) / 2
    size = frames.sizes[row] / frames.sizes[row].max() * max(right - left, bottom - top)
    boxes = frames.boxes[row]
    boxes = boxes[np.isfinite(boxes).all(1)]

    # A random place and size. To show no polyp, the frame is enlarged until its polyps are out of
    # view; after ten failures it is placed as usual.
    empty = len(boxes) > 0 and area is None and rng.random() < EMPTY and may_be_empty
    for _ in range(10):
        low, high = (1.5, 3.0) if empty else ZOOM
        zoom = math.exp(rng.uniform(math.log(low), math.log(high)))
        stretch = math.exp(rng.uniform(-1, 1) * math.log(ASPECT) / 2)
        extent = size * zoom * np.array([stretch, 1 / stretch])  # width, height in the input
        reach = (extent - size) / 2 if empty else np.full(2, SHIFT * side)
        origin = centre - extent / 2 + rng.uniform(-1, 1, 2) * np.maximum(reach, 0)
        placed = boxes.reshape(-1, 2, 2) * extent + origin  # k corner axis
        clipped = placed.clip([left, top], [right, bottom])
        sides = clipped[:, 1] - clipped[:, 0]
        visible = sides.prod(1) / (placed[:, 1] - placed[:, 0]).prod(1).clip(1e-6)
        if not empty or not (visible > 0).any():
            break
    else:
        return _view(frames, row, side, rng, area=area, may_be_empty=False)
    keep = (visible >= LEAST_VISIBLE) & (sides.min(1) >= LEAST_SIDE)

    # The pixels of the frame at that place.
    axis = (torch.arange(side) + 0.5).float()
    x = 2 * (axis - float(origin[0])) / float(extent[0]) - 1
    y = 2 * (axis - float(origin[1])) / float(extent[1]) - 1
    grid = torch.stack([x[None].expand(side, -1), y[:, None].expand(-1, side)], 2)[None]
    pixels = torch.from_numpy(np.array(frames.pixels[row])).permute(2, 0, 1)[None] / 255 - GREY
    image = functional.grid_sample(pixels, grid, "bilinear", "zeros", align_corners=False)
    image = image[0] + GREY

    # A box of which too little is in view is not learned; its visible part is painted grey.
    for lo, hi in clipped[~keep & (visible > 0.05)].round().astype(int):
        image[:, lo[1] : hi[1], lo[0] : hi[0]] = GREY
    middle = clipped[keep].mean(1)
    return image, np.concatenate([middle, sides[keep]], 1).astype(np.float32)


def _colour(image: Tensor, rng: np.random.Generator) -> Tensor:
    """Change exposure and colour of an image (3, side, side), and add blur, menus and noise."""
    side = image.shape[1]
    if rng.random() < BLUR:
        kernel = int(rng.choice([3, 5]))
        image = functional.avg_pool2d(image[None], kernel, 1, kernel // 2)[0]
    if rng.random() < BLUR:  # motion along a line of `length` pixels
        length, angle = int(rng.integers(3, 12)), rng.uniform(0, math.pi)
        steps = np.linspace(-length / 2, length / 2, length)
        shifted = [
            image.roll((round(s * math.sin(angle)), round(s * math.cos(angle))), (1, 2))
            for s in steps
        ]
        image = torch.stack(shifted).mean(0)
    image = image.clamp(1e-4, 1) ** math.exp(rng.normal(0, 0.2))  # gamma
    gain = torch.from_numpy(np.exp(rng.normal(0, 0.08, 3) + rng.normal(0, 0.15))).float()
    image = image * gain[:, None, None]
    grey = image.mean(0, keepdim=True)
    image = grey + (image - grey) * float(rng.uniform(0.6, 1.4))  # saturation
    mean = image.mean()
    image = mean + (image - mean) * float(rng.uniform(0.7, 1.3))  # contrast
    if rng.random() < DARK:
        image = image * float(rng.uniform(0.3, 0.8))
    if rng.random() < MENU:
        height, width = (int(v) for v in rng.uniform(0.08, 0.3, 2) * side)
        y = 0 if rng.random() < 0.5 else side - height
        x = 0 if rng.random() < 0.5 else side - width
        image[:, y : y + height, x : x + width] = float(rng.uniform(0, 0.2))
    if rng.random() < 0.3:
        noise = np.float32(rng.uniform(0.005, 0.04))
        image = image + torch.from_numpy(rng.standard_normal(image.shape, np.float32) * noise)
    return image.clamp(0, 1)
