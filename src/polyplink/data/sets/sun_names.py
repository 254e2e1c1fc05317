"""Image names of the SUN database, and the frame numbers that follow from them.

A name such as `case_M_20181001100941_0U62372100109341_1_005_001-1_a10_ayy_image0001` does not hold
the case. `aN` marks a segment of the recording, and the image number starts again in each. This is
inferred from the names; the release does not describe them.
"""

import re
from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

_SEGMENT = re.compile(r"_a(\d{1,8})_", re.I)
_IMAGE = re.compile(r"image_?(\d{1,8})$", re.I)


class SunName(NamedTuple):
    """What a name says; names sort by segment, then number, as numbers.

    Attributes:
        segment: N of `aN`.
        prefix: All that stands before the number: images with another one are of another segment.
        number: The image's number in the segment.
    """

    segment: int
    prefix: str
    number: int


def parse_name(stem: str) -> SunName | None:
    """Read an image's name without its ending; None where it has no segment or number."""
    segment, image = _SEGMENT.search(stem), _IMAGE.search(stem)
    if segment is None or image is None:
        return None
    return SunName(int(segment[1]), stem[: image.start(1)], int(image[1]))


def number_frames(names: Iterable[SunName]) -> dict[SunName, int]:
    """Give the images of a case frame numbers, so that every segment is a tracklet of its own.

    Image 1 of the first segment is frame 0. Inside a segment the step between two images is that
    of their numbers. One frame number is left out before each further segment: its image 1 comes
    two frames after the last image of the segment before. Nothing else is known of the time
    between segments.

    Args:
        names: The images of one case, each once.

    Returns:
        The frame number of each, in the order of the frames.
    """
    frames: dict[SunName, int] = {}
    start = 0
    for _, group in groupby(sorted(names), key=lambda name: (name.segment, name.prefix)):
        segment = list(group)
        first = min(1, segment[0].number)  # a segment may be counted from 0
        for name in segment:
            frames[name] = start + name.number - first
        start = frames[segment[-1]] + 2
    return frames
