"""Recordings: videos and folders of images, frame by frame."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from polyplink.core.artefacts import ADDED_LATER, file_state
from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message
from polyplink.core.workers import VIDEO_AHEAD, prefetch
from polyplink.data.files.folders import (
    IMAGE_ENDINGS,
    files_in,
    images_in,
    is_playlist,
    parts_of,
    read_playlist,
    videos_in,
)
from polyplink.data.files.image_names import frame_name
from polyplink.data.files.images import Picture, read_picture
from polyplink.data.files.video import NOTICEABLE, open_video
from polyplink.tracklets.box_runs import USUAL_FPS

THREADS = 2  # threads that read images or convert frames while the detector is busy


@dataclass(frozen=True)
class Recording:
    """A recorded procedure.

    Attributes:
        name: Id of the procedure.
        path: The video, or the folder of images.
        images: Names of the images in order; empty for a video.
        n_frames: Number of frames, with those that are missing in a file cut short.
        fps: Frames per second; None if they are not known.
        width: Width of a frame, pixels.
        height: Height of a frame, pixels.
        drift: Largest difference between a frame's time and its number divided by the
            mean rate, seconds; 0 if the user states the rate.
        replaced_fps: Frames per second that the video states, if the user states another rate.
        rotation: Degrees by which a tag of the video says to turn the frames, which are used as
            stored.
        n_streams: Number of videos in the file.
    """

    name: str
    path: Path
    images: tuple[str, ...]
    n_frames: int
    fps: float | None
    width: int
    height: int
    drift: float = 0.0
    replaced_fps: float | None = None
    rotation: int = field(default=0, metadata=ADDED_LATER)
    n_streams: int = field(default=1, metadata=ADDED_LATER)

    @property
    def rate(self) -> float:
        """Frames per second, the usual ones if they are not known."""
        return self.fps or USUAL_FPS

    @property
    def folder(self) -> Path:
        """The folder that names of frames are relative to."""
        return self.path if self.images else self.path.parent

    def state(self) -> list[list[int]]:
        """Sizes and times of change of its files, see `file_state`."""
        files = [self.path / name for name in self.images] or [self.path]
        if is_playlist(self.path.name):
            files += read_playlist(self.path)
        return [file_state(file) for file in files]

    def image(self, frame: int) -> str:
        """Value of the column `image` for a frame."""
        return self.images[frame] if self.images else frame_name(self.path.name, frame)

    def frames(
        self, start: int = 0, *, all_pixels: bool = False
    ) -> Iterator[tuple[int, Picture | None]]:
        """Decode the frames from `start` on, each once.

        Args:
            start: Number of the first frame.
            all_pixels: Whether every frame is needed with all pixels: threads convert them ahead.

        Yields:
            Number and picture; None for a frame that does not decode.

        Raises:
            PolyplinkError: If an image is missing, or has another size than the first one.
        """
        numbers = range(start, self.n_frames)
        if self.images:
            paths = ((frame, self.path / self.images[frame]) for frame in numbers)
            for frame, picture in prefetch(_read, paths, THREADS, VIDEO_AHEAD):
                if picture is not None and picture.size != (self.width, self.height):
                    width, height = picture.size
                    raise PolyplinkError(
                        f"image {self.path / self.images[frame]} is {width} x {height}, but the "
                        f"recording's first image is {self.width} x {self.height}",
                        "keep the images of each size in a folder of their own",
                    )
                yield frame, picture
            return
        with open_video(self.path) as video:
            frames = video.frames(numbers)
            yield from prefetch(_convert, frames, THREADS, VIDEO_AHEAD) if all_pixels else frames


def _read(item: tuple[int, Path]) -> tuple[int, Picture | None]:
    frame, path = item
    return frame, read_picture(path)


def _convert(item: tuple[int, Picture | None]) -> tuple[int, Picture | None]:
    if item[1] is not None:
        item[1].rgb()
    return item


def recording_messages(recordings: Iterable[Recording]) -> list[Message]:
    """Warnings about recordings with frames that a player shows at other times, turned or not."""
    messages = []
    for recording in recordings:
        name: dict[str, Any] = {"name": recording.name}
        values = {**name, "rate": recording.rate}
        if recording.drift > NOTICEABLE:
            messages.append(Message("rate_varies", {**values, "seconds": recording.drift}))
        if recording.replaced_fps is not None:
            messages.append(Message("rate_replaced", {**values, "stated": recording.replaced_fps}))
        if recording.rotation:
            turned = {**name, "degrees": abs(recording.rotation)}
            messages.append(Message("frames_turned", turned))
        if recording.n_streams > 1:
            size = {"width": recording.width, "height": recording.height}
            messages.append(
                Message("several_streams", {**name, **size, "videos": recording.n_streams})
            )
    return messages


def size_messages(recordings: Iterable[Recording]) -> list[Message]:
    """Warnings about videos with frames of several sizes, among recordings that lost frames."""
    messages = []
    for recording in recordings:
        if recording.images:
            continue
        with open_video(recording.path) as video:
            change = video.change_of_size()
        if change is not None:
            frame, width, height = change
            before, after = f"{recording.width} x {recording.height}", f"{width} x {height}"
            sizes = {"before": before, "after": after}
            messages.append(
                Message("size_changes", {"name": recording.name, "frame": frame, **sizes})
            )
    return messages


def uncounted_messages(source: Path) -> list[Message]:
    """A warning about videos in subfolders of a folder of recordings, if there are any."""
    folders = [path for path in files_in(source) if path.is_dir()] if source.is_dir() else []
    counted = parts_of(videos_in(source))
    below = [path for folder in folders for path in videos_in(folder)]
    videos = [path for path in below if path.resolve() not in counted]
    if not videos:
        return []
    return [Message("videos_below", {"n": len(videos), "first": str(videos[0])})]


def check_exists(source: Path) -> None:
    """Refuse a path of recordings that does not exist."""
    if source.exists():
        return
    if re.match(r"[a-z]{2,}:/", str(source)):
        raise PolyplinkError(
            f"{source.name} is at an address, not on this machine",
            "download it first; `polyplink live ADDRESS` counts a stream",
        )
    raise PolyplinkError(f"no recording {source}", "give a video or a folder")


def find_recordings(source: Path, fps: float | None = None) -> list[Recording]:
    """The recordings at a path: a video, or a folder of videos, of images, or of such folders.

    Args:
        source: The path.
        fps: Frames per second; None to read it from the video.

    Raises:
        PolyplinkError: If there is no recording, a video has no frame or no frame rate, or two
            recordings have the same name.
    """
    check_exists(source)
    if source.suffix.lower() in IMAGE_ENDINGS and not source.is_dir():
        raise PolyplinkError(
            f"{source} is an image", "give the folder of the recording's images, or a video"
        )
    if source.is_file():
        return [_video(source, fps)]
    if not source.is_dir():  # a named pipe, or a device
        raise PolyplinkError(
            f"{source} is neither a file nor a folder",
            f"to count a stream from a pipe, give its address: `polyplink live file://"
            f"{source.absolute()}`",
        )
    recordings, videos = list[Recording](), videos_in(source)
    for path in videos:
        try:
            recordings.append(_video(path, fps))
        except PolyplinkError as error:
            if len(videos) == 1:
                raise
            without = f"to continue without it, move it out of {source}"
            raise PolyplinkError(error.what, f"{error.hint}; {without}") from None
    if not recordings:
        groups = [source, *(path for path in files_in(source) if path.is_dir())]
        recordings = [
            recording
            for recording in (_images(folder, fps) for folder in groups)
            if recording is not None
        ]
    if not recordings:
        below = next((path for folder in files_in(source) for path in videos_in(folder)), None)
        raise PolyplinkError(
            f"{source} holds no video and no image" + (" itself" if below else ""),
            "give a video or a folder of them" + (f", such as {below.parent}" if below else ""),
        )
    first: dict[str, Path] = {}
    for recording in recordings:
        first_path = first.setdefault(recording.name, recording.path)
        if first_path != recording.path:
            raise PolyplinkError(
                f"{first_path} and {recording.path} are both procedure {recording.name!r}",
                "rename one",
            )
    return recordings


def _images(folder: Path, fps: float | None) -> Recording | None:
    """A folder of images as a recording; None if it holds no image."""
    images = images_in(folder)
    if not images:
        return None
    decoded = (read_picture(folder / name) for name in images)
    first = next((picture for picture in decoded if picture is not None), None)
    if first is None:
        raise PolyplinkError(f"{folder}: no image can be decoded", "copy the recording again")
    # REAL-Colon's folders are named after their procedures, `001-001_frames`.
    name = folder.resolve().name.removesuffix("_frames")
    return Recording(name, folder, images, len(images), fps, *first.size)


def _video(path: Path, fps: float | None) -> Recording:
    with open_video(path) as video:
        rate = fps or video.fps
        if not rate:
            raise PolyplinkError(f"{path} does not state its frame rate", "give --fps")
        n_frames = video.n_frames + video.n_missing
        size, drift = (video.width, video.height), 0.0 if fps else round(video.drift, 1)
        replaced = None
        if fps and video.fps and abs(fps - video.fps) > 0.01 * video.fps:
            replaced = round(video.fps, 2)
        tags = video.rotation, video.n_streams
        return Recording(path.stem, path, (), n_frames, rate, *size, drift, replaced, *tags)
