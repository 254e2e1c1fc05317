"""Lines of boxes and crops, as programs send them to `live`."""

import base64
import json

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
