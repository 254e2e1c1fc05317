"""Frames of videos, cut straight from the decoder: no image is written."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from polyplink.data.files.video import Shown, open_video, split_frame_name
from polyplink.tracklets.ahead import Threads
from polyplink.tracklets.crops import FrameCrops, Pixels, Unreadable, cut_frame

AHEAD = 4  # frames in flight per thread: a decoded frame is megabytes


class VideoFrames:
    """Frames of videos below a folder: `video.mp4#17`.

    Args:
        root: What the videos' names are relative to.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def takes(self, frame: FrameCrops) -> bool:
        """Whether the frame's image is a frame of a video."""
        return frame.image is not None and split_frame_name(frame.image) is not None

    def crops(
        self, frames: Sequence[FrameCrops], size: int, threads: Threads
    ) -> Iterator[tuple[FrameCrops, Pixels | Unreadable]]:
        """Decode each video once, forward, and cut in threads (see `sources.CropSource`)."""
        videos: dict[str, dict[int, list[FrameCrops]]] = {}
        for frame in frames:
            if place := split_frame_name(str(frame.image)):
                videos.setdefault(place[0], {}).setdefault(place[1], []).append(frame)

        def work(
            read: tuple[FrameCrops, Shown | None],
        ) -> tuple[FrameCrops, Pixels | Unreadable]:
            frame, shown = read
            image = Unreadable("does not decode") if shown is None else shown.rgb()
            return frame, cut_frame(image, frame, str(self._root / str(frame.image)), size)

        for name, wanted in videos.items():
            yield from threads.map(work, _decode(self._root / name, wanted), AHEAD)


def _decode(
    path: Path, wanted: dict[int, list[FrameCrops]]
) -> Iterator[tuple[FrameCrops, Shown | None]]:
    with open_video(path) as video:
        for index, shown in video.frames(sorted(wanted)):
            for frame in wanted[index]:
                yield frame, shown
