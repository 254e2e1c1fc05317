"""Width and height of images from their headers; no pixel is decoded."""

from collections.abc import Sequence
from io import BytesIO

from PIL import Image

from polyplink.data.faults import Faults
from polyplink.data.files.trees import Member, Tree

IMAGES = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp")

_HEADER = 1 << 12  # enough for nearly every file; the others are read whole


def image_sizes(
    tree: Tree, members: Sequence[Member], faults: Faults
) -> dict[Member, tuple[int, int]]:
    """Read the sizes of images.

    Args:
        tree: The tree they lie in.
        members: The images, each once.
        faults: Told of those that are no image.

    Returns:
        Width and height in pixels; an image that cannot be read is absent.

    Raises:
        PolyplinkError: If strict, at the first that is no image; if a file cannot be read.
    """
    sizes, rest = {}, []
    for member, data in tree.read_many(members, _HEADER):
        size = _size(data)
        if size is None:
            rest.append(member)
        else:
            sizes[member] = size
    for member, data in tree.read_many(rest):  # a header behind a large colour profile
        size = _size(data)
        if size is None:
            faults.fault("file that is no image", member.image, "restore it or take it out")
        else:
            sizes[member] = size
    return sizes


def _size(data: bytes) -> tuple[int, int] | None:
    try:
        with Image.open(BytesIO(data)) as image:
            return image.size
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return None
