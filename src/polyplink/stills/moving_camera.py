"""A camera that moves over a still image: smooth paths, light, focus, and the boxes in view."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from PIL import Image, ImageFilter
from torch import Tensor
from torch.nn import functional

from polyplink.core.arrays import Floats
from polyplink.data.files.images import Pixels

OUTLINE = 24  # points on the ellipse in a box, projected to get the box in a view
WAVES = 4  # sines in a smooth curve
SHARP = 0.25  # pixels: smaller blur is invisible and skipped
NOISE = 3.0  # standard deviation of the sensor's noise, grey values
DARK = 12.0  # grey value below which there are no highlights


@dataclass(frozen=True)
class CameraPath:
    """Position, light and focus of a camera over n frames.

    Attributes:
        maps: (n, 3, 3) homographies from pixels of the still (x, y, 1) to those of the frame.
        gain: (n, 3) factors of red, green and blue.
        blur: (n,) radius in pixels of the frame; 0 for a sharp frame.
        highlights: (k, 5) for each highlight: x and y as shares of the frame, radius as a share of
            its width, and motion per frame to the right and down, as shares of the frame.
    """

    maps: Floats
    gain: Floats
    blur: Floats
    highlights: Floats


def _smooth(rng: np.random.Generator, n: int, fps: float, amplitude: float) -> Floats:
    """A smooth curve of n values around 0, the mean of a few slow sines."""
    seconds = np.arange(n) / fps
    rates = rng.uniform(0.08, 0.6, WAVES)[:, None]  # 1/s
    phases = rng.uniform(0, 2 * math.pi, WAVES)[:, None]
    curve: Floats = np.sin(2 * math.pi * rates * seconds + phases).mean(0) * amplitude
    return curve


def draw_path(
    rng: np.random.Generator,
    n: int,
    fps: float,
    still: tuple[int, int],
    frame: tuple[int, int],
    *,
    target: Floats | None,
) -> CameraPath:
    """Draw a random camera path.

    With a target, the camera approaches from the side, stays on the target and moves away; without
    one it wanders.

    Args:
        rng: Source of randomness.
        n: Number of frames.
        fps: Frames per second.
        still: Width and height of the still, pixels.
        frame: Width and height of the frames, pixels.
        target: Box (4,) x, y, w, h of the target in the still; None for none.
    """
    width, height = still
    fill = max(frame[0] / width, frame[1] / height)  # the still covers the frame
    if target is None:
        zoom = fill * rng.uniform(1.2, 2.0) * np.exp(_smooth(rng, n, fps, 0.25))
        room = 0.5 - 0.5 * frame[0] / (width * zoom.min())
        x = width * (0.5 + _smooth(rng, n, fps, max(room, 0.05)))
        y = height * (0.5 + _smooth(rng, n, fps, max(room, 0.05)))
        position = np.stack([x, y], 1)
    else:
        # The polyp's side is 10 to 45 % of the frame's, within the resolution of the still.
        side = math.sqrt(target[2] * target[3])
        drawn_zoom = rng.uniform(0.1, 0.45) * math.sqrt(frame[0] * frame[1]) / side
        zoom = np.clip(drawn_zoom, 1.05 * fill, 2.6 * fill) * np.exp(_smooth(rng, n, fps, 0.3))
        centre = target[:2] + target[2:] / 2
        # Approach and departure: the shift, as a share of the frame, decreases and increases.
        time = np.linspace(0, 1, n)
        shift_size = 0.65 * (
            np.clip(1 - time / 0.15, 0, 1) ** 2 + np.clip((time - 0.85) / 0.15, 0, 1) ** 2
        )
        angle = rng.uniform(0, 2 * math.pi) + rng.uniform(-1, 1) * time
        drift = np.stack([_smooth(rng, n, fps, 0.35), _smooth(rng, n, fps, 0.35)], 1)
        shift = drift + shift_size[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)  # n 2
        position = centre - shift * np.array(frame) / zoom[:, None]
    rotation = rng.uniform(0, 2 * math.pi) + _smooth(rng, n, fps, 0.5)
    stretch = np.exp(_smooth(rng, n, fps, 0.1))
    tilt = np.stack([_smooth(rng, n, fps, 0.3), _smooth(rng, n, fps, 0.3)], 1) / frame[0]
    maps = np.empty((n, 3, 3))
    for k in range(n):
        c, s = math.cos(rotation[k]), math.sin(rotation[k])
        rotate = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
        scale = np.diag([zoom[k] * stretch[k], zoom[k] / stretch[k], 1])
        move = np.array([[1, 0, -position[k, 0]], [0, 1, -position[k, 1]], [0, 0, 1]])
        perspective = np.array([[1, 0, 0], [0, 1, 0], [tilt[k, 0], tilt[k, 1], 1]])
        middle = np.array([[1, 0, frame[0] / 2], [0, 1, frame[1] / 2], [0, 0, 1]])
        maps[k] = middle @ perspective @ scale @ rotate @ move
    light = np.exp(rng.normal(0, 0.15) + _smooth(rng, n, fps, 0.3))
    colour = np.exp(rng.normal(0, 0.06, 3))
    # Out of focus for moments, and while the camera moves fast.
    speed = np.linalg.norm(np.diff(position, axis=0, prepend=position[:1]) * zoom[:, None], axis=1)
    blur = np.clip(_smooth(rng, n, fps, 2.5) - 0.7, 0, None) + np.clip(speed - 6, 0, 10) * 0.2
    count = int(rng.integers(0, 6))
    highlights = np.concatenate(
        [
            rng.uniform(0, 1, (count, 2)),
            rng.uniform(0.003, 0.02, (count, 1)),
            rng.normal(0, 0.01, (count, 2)),
        ],
        1,
    )
    return CameraPath(maps, light[:, None] * colour, blur, highlights)


def boxes_in_view(boxes: Floats, to_frame: Floats, frame: tuple[int, int]) -> tuple[Floats, Floats]:
    """Project boxes of a still to a frame, with the share of each box that is in view.

    The outline of a polyp is approximated by the ellipse in its box.

    Args:
        boxes: (k, 4) x, y, w, h in the still.
        to_frame: (3, 3) homography, an entry of `CameraPath.maps`.
        frame: Width and height of the frame, pixels.

    Returns:
        Boxes (k, 4) x, y, w, h in the frame, clipped to it; and the shares (k,).
    """
    angles = np.linspace(0, 2 * math.pi, OUTLINE, endpoint=False)
    circle = np.stack([np.cos(angles), np.sin(angles)], 1) / 2  # o 2
    outline = boxes[:, None, :2] + boxes[:, None, 2:] * (circle + 0.5)  # k o 2
    points = np.concatenate([outline, np.ones((*outline.shape[:2], 1))], 2) @ to_frame.T  # k o 3
    points = points[..., :2] / points[..., 2:].clip(1e-6)
    low, high = points.min(1), points.max(1)  # k 2
    inside_low, inside_high = low.clip(0, frame), high.clip(0, frame)
    area = (high - low).prod(1).clip(1e-9)
    sides = inside_high - inside_low
    return np.concatenate([inside_low, sides], 1), sides.clip(0).prod(1) / area


@lru_cache(maxsize=4)
def _grain(n: int) -> Tensor:
    """Sensor noise (n,), from which frames use random sections, because drawing noise is slow."""
    return torch.from_numpy(np.random.default_rng(0).standard_normal(n, np.float32) * NOISE)


def render(
    still: Pixels, path: CameraPath, k: int, frame: tuple[int, int], rng: np.random.Generator
) -> Pixels:
    """Frame k of a path over a still, (height, width, 3)."""
    width, height = frame
    still_width, still_height = still.shape[1], still.shape[0]
    # From pixels of the frame to -1 .. 1 across the still.
    shares = np.array([[2 / still_width, 0, -1], [0, 2 / still_height, -1], [0, 0, 1]])
    back = (shares @ np.linalg.inv(path.maps[k])).astype(np.float32)
    x, y = np.arange(width, dtype=np.float32) + 0.5, np.arange(height, dtype=np.float32) + 0.5
    at_x, at_y, depth = (row[0] * x + (row[1] * y + row[2])[:, None] for row in back)  # h w
    inverse_depth = 1 / depth.clip(1e-9)
    coordinates = np.empty((height, width, 2), np.float32)
    np.multiply(at_x, inverse_depth, out=coordinates[..., 0])
    np.multiply(at_y, inverse_depth, out=coordinates[..., 1])
    pixels = torch.from_numpy(still).permute(2, 0, 1)[None].float()
    grid = torch.from_numpy(coordinates)[None]
    view = functional.grid_sample(pixels, grid, "bilinear", "zeros", align_corners=False)[0]
    radius = float(path.blur[k])
    if radius > SHARP:
        image = Image.fromarray(view.byte().permute(1, 2, 0).numpy())
        blurred = np.asarray(image.filter(ImageFilter.BoxBlur(radius)))
        view = torch.from_numpy(blurred.transpose(2, 0, 1).astype(np.float32))
    view = view * torch.from_numpy(path.gain[k].astype(np.float32))[:, None, None]
    for left, top, size, dx, dy in path.highlights:
        cx, cy = ((left + dx * k) % 1) * width, ((top + dy * k) % 1) * height
        reach = max(2, round(3 * size * width))
        x0, x1 = max(0, int(cx) - reach), min(width, int(cx) + reach + 1)
        y0, y1 = max(0, int(cy) - reach), min(height, int(cy) + reach + 1)
        yy, xx = np.mgrid[y0:y1, x0:x1]
        glow = np.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / (2 * (size * width) ** 2)) * 230
        part = view[:, y0:y1, x0:x1]
        lit = part.amax(0) > DARK  # no highlights outside the still
        part += torch.from_numpy(glow.astype(np.float32)) * lit
    grain = _grain(2 * width * height)
    start = int(rng.integers(width * height))
    view += grain[start : start + width * height].view(height, width)
    result: Pixels = view.clamp(0, 255).byte().permute(1, 2, 0).contiguous().numpy()
    return result
