"""Lines of boxes and crops, as programs send them to `live`."""

import base64
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import simplejpeg

from tests.samples import HEIGHT, WIDTH, colour_of

HEAD = {"fps": 25, "width": WIDTH, "height": HEIGHT, "procedure": "room 1"}
VIEW, GAP = 24, 16  # frames with boxes, and frames before them without


def box(frame: int) -> list[float]:
    return [10.0 + frame % 5, 8.0, 16.0, 12.0, 0.9]


def crop(polyp: int) -> str:
    rng = np.random.default_rng(polyp)
    pixels = np.clip(rng.normal(0, 12, (32, 32, 3)) + colour_of(polyp), 0, 255).astype(np.uint8)
    return base64.b64encode(simplejpeg.encode_jpeg(pixels)).decode()


def lines(polyps: str = "aabba") -> list[str]:
    """Input lines with views of polyps; each box has a crop."""
    rows = [json.dumps(HEAD)]
    for view, polyp in enumerate(polyps):
        for step in range(GAP, GAP + VIEW):
            frame = view * (GAP + VIEW) + step
            crops = [crop(8 + ord(polyp) - ord("a"))]
            rows.append(json.dumps({"frame": frame, "boxes": [box(frame)], "crops": crops}))
    return rows


def write_lines(path: Path, frames: int, without: Iterable[int] = (), *, head: str = "{}") -> Path:
    """Write lines for the frames of a recording: a box in each, but in those of `without`."""
    empty = set(without)
    rows = [
        json.dumps({"frame": k, "boxes": [] if k in empty else [box(k)]}) for k in range(frames)
    ]
    path.write_text("\n".join([head, *rows]))
    return path


def gaps(frames: int) -> list[int]:
    """The first ten of every 32 frames: without boxes, they end a track."""
    return [k for k in range(frames) if k % 32 < 10]
