"""Where frames come from: files, archives, videos, a simulation.

A procedure's boxes name their images (`tables.DETECTIONS`), and each kind of name has a source
that takes it:

- `rel/path.jpg`, `.png`, `.tif`: a file below the procedure's source;
- `ARCHIVE.zip!/member`, `.tar`, `.tar.gz`, `.tgz`: a member of an archive there;
- `video.mp4#17`: frame 17, from 0 in the order in which frames are shown, of a video there;
- no name at all: nothing, unless what lies in the source can draw the frame itself.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from polyplink.tracklets.ahead import Threads
from polyplink.tracklets.archived_images import ArchivedImages
from polyplink.tracklets.crops import FrameCrops, Pixels, Unreadable
from polyplink.tracklets.image_folder import ImageFolder
from polyplink.tracklets.video_frames import VideoFrames

CutFrame = tuple[FrameCrops, Pixels | Unreadable]


class CropSource(Protocol):
    """Something that crops of a procedure's frames can be cut from."""

    def takes(self, frame: FrameCrops) -> bool:
        """Whether this frame is to be had here."""

    def crops(
        self, frames: Sequence[FrameCrops], size: int, threads: Threads
    ) -> Iterator[CutFrame]:
        """Cut crops.

        Args:
            frames: What to cut, in the order of the frames; all of them are such as it takes.
            size: Width and height of a crop, pixels.
            threads: Where decoding and cutting may run.

        Yields:
            Each frame once, in whatever order is quickest, with its crops (k, size, size, 3) or
            why it cannot be decoded.

        Raises:
            PolyplinkError: If a file is missing, or frames are not of the procedure's size.
        """


def crop_sources(source: Path, procedure_id: str) -> list[CropSource]:
    """The sources of a procedure's frames; the first that takes a frame gets it.

    Args:
        source: The procedure's source, as an absolute path or one from here.
        procedure_id: The procedure.
    """
    return [VideoFrames(source), ArchivedImages(source), ImageFolder(source)]


def cut_crops(
    sources: Iterable[CropSource], frames: Sequence[FrameCrops], size: int, threads: Threads
) -> Iterator[CutFrame]:
    """Cut every frame at the first source that takes it; a frame that none takes does not come."""
    rest = list(frames)
    for source in sources:
        mine = [frame for frame in rest if source.takes(frame)]
        if mine:
            rest = [frame for frame in rest if not source.takes(frame)]
            yield from source.crops(mine, size, threads)


def without_source(
    sources: Sequence[CropSource], frames: Iterable[FrameCrops]
) -> FrameCrops | None:
    """The first frame that no source takes; None where all are taken."""
    return next((f for f in frames if not any(source.takes(f) for source in sources)), None)
