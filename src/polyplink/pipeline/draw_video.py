"""Videos with boxes, polyp numbers and the running count drawn on them (`--video`).

Frames stay in the decoder's planes of luma and chroma, and only the pixels of lines and labels are
written, so that decoding and encoding take nearly all of the time.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
import numpy.typing as npt
import polars as pl
from PIL import Image, ImageDraw, ImageFont

from polyplink.core.arrays import Ints
from polyplink.core.artefacts import atomic_file
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import Progress, StageProgress, silent_stage
from polyplink.core.text import many, readable_path
from polyplink.core.workers import VIDEO_AHEAD, prefetch
from polyplink.data.files.folders import image_files
from polyplink.data.files.image_names import image_place
from polyplink.data.files.images import Picture, planes_of, read_picture
from polyplink.data.files.video import open_video
from polyplink.report.formats import clock
from polyplink.report.polyps import HUES
from polyplink.tracklets.box_runs import USUAL_FPS

Plane = npt.NDArray[np.uint8]
Planes = Sequence[Plane]  # luma (height, width); chroma, half as high and wide
Source = Picture | Path
Numbered = tuple[int, Source | None]

THREADS = 2  # draw while frames are decoded and encoded
# Options of x264. Every frame is a key frame: with this preset that takes half the time of
# predicted frames, in about as many bytes, and a player shows any frame at once.
QUALITY = {"preset": "ultrafast", "qp": "31", "x264-params": "keyint=1"}
BITS = 0.15  # per pixel, for mpeg4 if there is no x264
WHITE, BLACK, GREY = "#ffffff", "#000000", "#9a9a9a"
LIGHT = 140  # luma of a label's background above which its text is black
DASH = 6  # line widths


class Box(NamedTuple):
    """A box to draw: sides in pixels, its polyp (0: none), and whether it was interpolated."""

    x: float
    y: float
    w: float
    h: float
    polyp: int
    interpolated: bool


@dataclass(frozen=True)
class Drawing:
    """Everything drawn on the frames of a procedure.

    Attributes:
        boxes: Frame -> boxes, for frames with boxes.
        first: (p,) first frame of each polyp, ascending.
        fps: Frames per second.
        n_frames: Frames of the procedure.
    """

    boxes: Mapping[int, list[Box]]
    first: Ints
    fps: float
    n_frames: int

    @classmethod
    def of(cls, boxes: pl.DataFrame, fps: float, n_frames: int) -> "Drawing":
        """From a procedure's table of frame, x, y, w, h, polyp (null: none) and interpolated."""
        rows = boxes.sort("frame", maintain_order=True).with_columns(pl.col("polyp").fill_null(0))
        boxes_by_frame: dict[int, list[Box]] = {}
        for frame, *box in rows.select("frame", *Box._fields).iter_rows():
            boxes_by_frame.setdefault(frame, []).append(Box(*box))
        first_frames = rows.filter(pl.col("polyp") > 0).group_by("polyp").agg(pl.col("frame").min())
        first = np.sort(first_frames["frame"].to_numpy().astype(np.int64))
        return cls(boxes_by_frame, first, fps, n_frames)

    def on(self, planes: Planes, frame: int) -> None:
        """Draw the boxes, labels, time and count of a frame on its planes."""
        height = planes[0].shape[0]
        thick = 2 * max(1, round(height / 540))
        thin = thick // 2 + thick // 2 % 2
        boxes = self.boxes.get(frame, ())
        for box in boxes:
            _outline(planes, box, _colour(box.polyp), thick if box.polyp else thin)
        for box in boxes:  # above all outlines
            if box.polyp:
                label = _label(f"polyp {box.polyp}", _colour(box.polyp), 6 * thick)
                _put(planes, label, box.x, box.y - label[0].shape[0])
        n_polyps = int(np.searchsorted(self.first, frame, side="right"))
        text = f"{clock(frame / self.fps)}   {many(n_polyps, 'polyp')}"
        _put(planes, _label(text, BLACK, 7 * thick), 0, 0)


def _colour(polyp: int) -> str:
    """The colour of a polyp's boxes; grey for 0, none."""
    return HUES[(polyp - 1) % len(HUES)] if polyp else GREY


def _yuv(colour: str) -> tuple[int, int, int]:
    """Luma and chroma (BT.601; 16 to 235, and 16 to 240) of a colour #rrggbb."""
    r, g, b = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
    luma = 0.299 * r + 0.587 * g + 0.114 * b
    chroma = (128 + 224 * (b - luma) / 1.772, 128 + 224 * (r - luma) / 1.402)
    return round(16 + 219 * luma), round(chroma[0]), round(chroma[1])


def _fill(planes: Planes, top: int, bottom: int, left: int, right: int, *, colour: str) -> None:
    """Fill a rectangle with edges at even pixels."""
    for plane, value, part in zip(planes, _yuv(colour), (1, 2, 2), strict=True):
        plane[top // part : bottom // part, left // part : right // part] = value


def _outline(planes: Planes, box: Box, colour: str, thick: int) -> None:
    """Draw lines inside a box's edges, clipped to the frame; dashed if it was interpolated."""
    height, width = planes[0].shape
    left, top, right, bottom = (
        int(np.clip(round(edge / 2) * 2, 0, limit))
        for edge, limit in zip(
            (box.x, box.y, box.x + box.w, box.y + box.h), (width, height) * 2, strict=True
        )
    )
    step = DASH * thick if box.interpolated else max(width, height)
    for at in range(left, right, 2 * step):
        end = min(at + step, right)
        _fill(planes, top, min(top + thick, bottom), at, end, colour=colour)
        _fill(planes, max(bottom - thick, top), bottom, at, end, colour=colour)
    for at in range(top, bottom, 2 * step):
        end = min(at + step, bottom)
        _fill(planes, at, end, left, min(left + thick, right), colour=colour)
        _fill(planes, at, end, max(right - thick, left), right, colour=colour)


@lru_cache(512)
def _label(text: str, colour: str, size: int) -> Planes:
    """A text `size` pixels high, white or black, on a background of a colour."""
    font = ImageFont.load_default(size)
    width, pad = round(font.getlength(text)), size // 4
    sides = (width + 2 * pad + 1) // 2 * 2, (size + 2 * pad + 1) // 2 * 2
    image = Image.new("L", sides)
    ImageDraw.Draw(image).text((pad, sides[1] // 2), text, 255, font, anchor="lm")
    share = np.asarray(image, dtype=np.float32) / 255
    background = _yuv(colour)
    ink = _yuv(BLACK if background[0] > LIGHT else WHITE)
    shares = (share, share[::2, ::2], share[::2, ::2])
    y, u, v = (
        np.round(low + (high - low) * part).astype(np.uint8)
        for low, high, part in zip(background, ink, shares, strict=True)
    )
    return y, u, v


def _put(planes: Planes, label: Planes, x: float, y: float) -> None:
    """Lay a label over a frame at (x, y), moved so that it is inside."""
    (height, width), (rows, columns) = planes[0].shape, label[0].shape
    left = int(np.clip(round(x / 2) * 2, 0, max(width - columns, 0) // 2 * 2))
    top = int(np.clip(round(y / 2) * 2, 0, max(height - rows, 0) // 2 * 2))
    for plane, part, step in zip(planes, label, (1, 2, 2), strict=True):
        target = plane[top // step : (top + rows) // step, left // step : (left + columns) // step]
        target[:] = part[: target.shape[0], : target.shape[1]]


def _planar(source: Source | None) -> av.VideoFrame | None:
    """A copy of a picture in YUV 4:2:0, cut to even sides; None if there is none."""
    picture = read_picture(source) if isinstance(source, Path) else source
    if picture is None:
        return None
    width, height = (side // 2 * 2 for side in picture.size)
    if (width, height) != picture.size:
        picture = Picture(picture.rgb()[:height, :width])
    return picture.yuv()


def _draw(item: Numbered, drawing: Drawing) -> tuple[int, av.VideoFrame | None]:
    """A numbered frame with everything drawn on it; None if there is no picture."""
    number, picture = item
    frame = _planar(picture)
    if frame is not None:
        drawing.on(planes_of(frame), number)
        frame.pts = number
    return number, frame


def draw_video(
    path: Path,
    pictures: Iterator[Numbered],
    drawing: Drawing,
    progress: StageProgress = silent_stage,
) -> int:
    """Write an MP4 of pictures with boxes and counts drawn on them; no file if it fails.

    A frame without a picture, or with another size than the first, is left out: the previous frame
    is shown longer.

    Args:
        path: The file.
        pictures: Frame numbers, ascending, with their pictures.
        drawing: What to draw.
        progress: Callback (frames done, frames in all).

    Returns:
        Number of frames written.

    Raises:
        PolyplinkError: If no picture can be read.
    """
    rate = Fraction(drawing.fps).limit_denominator(1000)
    x264 = "libx264" in av.codecs_available
    n_written, size = 0, (0, 0)
    drawn = prefetch(partial(_draw, drawing=drawing), pictures, THREADS, VIDEO_AHEAD)
    with atomic_file(path) as temporary, av.open(str(temporary), "w", format="mp4") as container:
        stream: Any = container.add_stream(
            "libx264" if x264 else "mpeg4", rate=rate, options=QUALITY if x264 else {}
        )
        for frame, picture in drawn:
            progress(frame + 1, drawing.n_frames)
            if picture is None or (n_written and (picture.width, picture.height) != size):
                continue
            if not n_written:
                size = picture.width, picture.height
                stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
                stream.codec_context.time_base = 1 / rate
                if not x264:
                    stream.codec_context.bit_rate = round(BITS * size[0] * size[1] * rate)
            picture.time_base = 1 / rate
            container.mux(stream.encode(picture))
            n_written += 1
        if n_written == 0:
            raise PolyplinkError("no picture can be read", "restore its files")
        container.mux(stream.encode())
    return n_written


def draw_videos(
    procedures: pl.DataFrame,
    boxes: pl.DataFrame,
    detections: pl.DataFrame,
    folder: Path,
    out: Path,
    *,
    progress: Progress,
) -> tuple[list[Path], list[str]]:
    """Write a video for each procedure with pictures; videos of an earlier count are removed.

    Args:
        procedures: The procedures, rows of the data folder's table.
        boxes: procedure_id and the columns of `Drawing.of`.
        detections: The detections of the data folder, which name the pictures.
        folder: The data folder.
        out: Folder for the videos.
        progress: Called for frames.

    Returns:
        The files, and a warning for each procedure without a video.
    """
    files = []
    lines = []
    for row in procedures.iter_rows(named=True):
        name, n_frames = row["procedure_id"], row["n_frames"]
        of_procedure = detections.filter(procedure_id=name)
        if of_procedure.is_empty():
            lines.append(f"no video of {name}: there is no box to draw")
            continue
        images = dict(of_procedure.drop_nulls("image").select("frame", "image").iter_rows())
        procedure_boxes = boxes.filter(procedure_id=name)
        drawing = Drawing.of(procedure_boxes, row["fps"] or USUAL_FPS, n_frames)
        path = readable_path(out, name, ".mp4")
        pictures = _pictures(folder / row["source"], images, n_frames)
        try:
            draw_video(path, pictures, drawing, partial(progress, f"video {name}"))
            files.append(path)
        except PolyplinkError as error:
            lines.append(f"no video of {name}: {error}")
    for earlier in {*out.glob("*.mp4")}.difference(files):
        earlier.unlink()
    with suppress(OSError):  # not empty, or not there
        out.rmdir()
    return files, lines


def _pictures(source: Path, images: Mapping[int, str], n_frames: int) -> Iterator[Numbered]:
    """All existing frames of a procedure, derived from the images of its boxes.

    Raises:
        PolyplinkError: If no box has an image, or the video is missing.
    """
    if not images:
        raise PolyplinkError(
            "no box has a picture", "import the boxes with their images or their video"
        )
    place = image_place(next(iter(images.values())))
    if place.frame is None:
        names = image_files(source, images, n_frames)
        yield from ((frame, source / name) for frame, name in sorted(names.items()))
        return
    with open_video(source / place.file) as video:
        yield from video.frames(range(min(n_frames, video.n_frames)))
