"""Crops of a still's polyp as a moving camera sees it: several views of one polyp."""

from collections.abc import Iterator, Sequence

import numpy as np

from polyplink.stills.annotated_stills import Still
from polyplink.stills.moving_camera import Floats, draw_path, render, seen_boxes
from polyplink.stills.procedures import LEAST_SIDE, StillsConfig
from polyplink.tracklets.crops import Pixels, cut, decoded_image
from polyplink.tracklets.prepare import enlarge

FRAMES = 24  # of a visit, of which one is taken
EDGES = 3  # frames at both ends in which the camera comes and leaves
VISIBLE = 0.5  # share of the polyp that must be in view
TRIES = 6  # visits drawn for a view before it is given up
MOVED = 0.05  # standard deviation of a box's place, sides
GROWN = 0.08  # of the logarithm of its sides


def draw_views(
    stills: Sequence[Still], views: int, size: int, crop_factor: float | None, *, seed: int = 0
) -> Iterator[Pixels]:
    """Views of the largest polyp of each still.

    The first is the still itself with its annotated box. Each further one is a frame of another
    visit of the camera (`draw_path`), with a box that misses the polyp's a little.

    Args:
        stills: Images with polyps.
        views: Views beside the still itself.
        size: Width and height of a crop, pixels.
        crop_factor: As for `polyplink.tracklets.prepare.enlarge`.
        seed: Of all chance; a still's views do not depend on the other stills.

    Yields:
        (v, size, size, 3) for each still; v is at most `views` + 1, since a polyp may not come into
        view.
    """
    frame = (StillsConfig.width, StillsConfig.height)
    for place, still in enumerate(stills):
        rng = np.random.default_rng([seed, place])
        picture = decoded_image(still.path)
        height, width = picture.shape[:2]
        target = still.boxes[still.boxes[:, 2:].prod(1).argmax()]
        crops = [_crop(picture, target, crop_factor, size)]
        for _ in range(views):
            for _ in range(TRIES):
                path = draw_path(
                    rng, FRAMES, StillsConfig.fps, (width, height), frame, target=target
                )
                k = int(rng.integers(EDGES, FRAMES - EDGES))
                (box,), (visible,) = seen_boxes(target[None], path.maps[k], frame)
                if visible > VISIBLE and box[2:].min() > LEAST_SIDE:
                    box[:2] += rng.normal(0, MOVED, 2) * box[2:]
                    box[2:] *= np.exp(rng.normal(0, GROWN, 2))
                    crops.append(
                        _crop(render(picture, path, k, frame, rng), box, crop_factor, size)
                    )
                    break
        yield np.stack(crops)


def _crop(picture: Pixels, box: Floats, crop_factor: float | None, size: int) -> Pixels:
    height, width = picture.shape[:2]
    return cut(picture, enlarge(box[None], crop_factor, width, height)[0], size)
