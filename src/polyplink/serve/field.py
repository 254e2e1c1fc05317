"""The part of a frame that the endoscope sees; the processor writes into the border around it."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from polyplink.tracklets.crops import Pixels

FRAMES = 12  # that a procedure's field is found from
BRIGHT = 28  # of 255, in the brightest channel: the border is darker, noise of compression included
SHARE = 0.25  # of the frames in which a pixel of the field is bright
THIN = 0.012  # frame widths: letters and lines are thinner, so they do not join the field


def visible_field(frames: Sequence[Pixels]) -> npt.NDArray[np.bool_]:
    """Whether the endoscope shows something at each pixel: the largest bright area, without holes.

    Text beside the field is bright in every frame, but an area of its own, or joined by thin lines
    that an opening removes. Text over the field is not found.

    Args:
        frames: Some frames of one recording, or a crop, each (height, width, 3).

    Returns:
        (height, width); nothing where all is dark.
    """
    # Imported when used: few ask for it, and the server shall start at once.
    from scipy.ndimage import (  # noqa: PLC0415
        binary_dilation,
        binary_erosion,
        binary_fill_holes,
        label,
    )

    often = np.mean([frame.max(axis=2) > BRIGHT for frame in frames], axis=0)
    bright = binary_fill_holes(often >= SHARE)
    radius = max(1, round(THIN * bright.shape[1]))
    # The frame's edge does not erode what reaches it; beyond it is no border.
    core = binary_erosion(bright, iterations=radius, border_value=1)
    areas, _ = label(core)
    sizes = np.bincount(areas.ravel())
    sizes[0] = 0
    largest = (areas == sizes.argmax()) & core
    grown = binary_dilation(largest, iterations=radius)
    return np.asarray(binary_fill_holes(grown & bright), dtype=np.bool_)
