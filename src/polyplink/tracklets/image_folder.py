"""Frames that are image files in folders."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from polyplink.core.errors import PolyplinkError
from polyplink.tracklets.ahead import Threads
from polyplink.tracklets.crops import FrameCrops, Pixels, Unreadable, cut_frame, decode


class ImageFolder:
    """Image files below a folder; any frame that names an image is taken.

    Args:
        root: What the names are relative to.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def takes(self, frame: FrameCrops) -> bool:
        """Whether the frame names an image."""
        return frame.image is not None

    def crops(
        self, frames: Sequence[FrameCrops], size: int, threads: Threads
    ) -> Iterator[tuple[FrameCrops, Pixels | Unreadable]]:
        """Decode each file once and cut its crops (see `sources.CropSource`)."""

        def work(frame: FrameCrops) -> Pixels | Unreadable:
            path = self._root / str(frame.image)
            return cut_frame(read_image(path), frame, str(path), size)

        yield from zip(frames, threads.map(work, frames), strict=True)


def read_image(path: Path) -> Pixels | Unreadable:
    """Decode an image file: (height, width, 3) RGB, or why that cannot be had.

    Raises:
        PolyplinkError: If the file is missing or may not be read.
    """
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise PolyplinkError(
            f"image {path} is missing", "mend `source` in procedures, or import again"
        ) from None
    except OSError as error:
        raise PolyplinkError(
            f"image {path}: {error.strerror or error}", "check its permissions"
        ) from None
    return decode(data)
