"""Several views of the polyp of a still: crops of frames of a moving camera."""

from collections.abc import Iterator, Sequence

import numpy as np

from polyplink.data.files.images import Pixels, decoded_image
from polyplink.stills.annotated_stills import Still
from polyplink.stills.moving_camera import boxes_in_view, draw_path, render
from polyplink.stills.procedures import LEAST_SIDE, StillsConfig
from polyplink.tracklets.crops import crop_around

FRAMES = 24  # of a visit, one of which is used
EDGES = 3  # frames at either end of a visit, in which the camera arrives or leaves
VISIBLE = 0.5  # share of the polyp that must be in view
TRIES = 6  # visits drawn for a view before it is skipped
MOVED = 0.05  # standard deviation of a box's position, as a share of its sides
GROWN = 0.08  # standard deviation of the logarithm of a box's sides


def draw_views(
    stills: Sequence[Still], views: int, size: int, crop_factor: float | None
) -> Iterator[Pixels]:
    """Draw views of the largest polyp of each still.

    The first view is cut from the still with its annotated box. Each further view is a frame of
    a new visit (`draw_path`), cut with a slightly displaced box.

    Args:
        stills: Images with polyps.
        views: Number of views in addition to the first.
        size: Width and height of a crop, pixels.
        crop_factor: As for `polyplink.tracklets.prepare.enlarge`.

    Yields:
        Crops (v, size, size, 3) for each still; v is `views` + 1, or less if the polyp did not come
        into view.
    """
    frame = (StillsConfig.width, StillsConfig.height)
    for place, still in enumerate(stills):
        rng = np.random.default_rng([0, place])  # independent of the other stills
        picture = decoded_image(still.path)
        height, width = picture.shape[:2]
        target = still.boxes[still.boxes[:, 2:].prod(1).argmax()]
        crops = [crop_around(picture, target, crop_factor, size)]
        for _ in range(views):
            for _ in range(TRIES):
                path = draw_path(
                    rng, FRAMES, StillsConfig.fps, (width, height), frame, target=target
                )
                k = int(rng.integers(EDGES, FRAMES - EDGES))
                (box,), (visible,) = boxes_in_view(target[None], path.maps[k], frame)
                if visible > VISIBLE and box[2:].min() > LEAST_SIDE:
                    box[:2] += rng.normal(0, MOVED, 2) * box[2:]
                    box[2:] *= np.exp(rng.normal(0, GROWN, 2))
                    view = render(picture, path, k, frame, rng)
                    crops.append(crop_around(view, box, crop_factor, size))
                    break
        yield np.stack(crops)
