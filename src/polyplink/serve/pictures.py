"""Pictures of views: cut from the recording if it is available, else stored crops.

Text that a video processor burns into frames (a patient's name) can be masked: in every picture
some rectangles, or everything outside the endoscope's visible field, can be made black.
"""

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import cache, lru_cache
from pathlib import Path
from threading import Lock

import numpy as np
import polars as pl

from polyplink.core.arrays import Flags
from polyplink.core.errors import PolyplinkError
from polyplink.data.files.archives import member_reader
from polyplink.data.files.folders import image_files, videos_in
from polyplink.data.files.image_names import frame_name, image_place
from polyplink.data.files.images import Pixels, decode_image, encode_jpeg, read_image
from polyplink.data.files.values import rectangle
from polyplink.data.files.video import Video, open_video
from polyplink.tracklets.box_runs import BOX
from polyplink.tracklets.crops import enlarge
from polyplink.tracklets.prepare import Prepared

AROUND = 3.0  # size of a picture from the recording, relative to the box
SHARP = 96  # pixels: stored crops of this size suffice for small pictures
PICTURES_CACHED = 4096  # pictures in memory, about 10 kB each
FRAMES = 12  # from which the visible field of a procedure is determined
BRIGHT = 28  # of 255, in the brightest channel: the border, with compression noise, is darker
SHARE = 0.25  # share of the frames in which a pixel of the field must be bright
THIN = 0.012  # frame widths: letters and lines are thinner and are separated from the field
FRAMES_CACHED = 64  # whole frames in memory
OPEN_VIDEOS = 4

Mask = tuple[int, int, int, int]
"""Left, top, width and height of a rectangle to blacken, in pixels of the recording."""


def parse_mask(text: str) -> Mask:
    """A rectangle from the command line.

    Args:
        text: Left, top, width and height, separated by commas.

    Raises:
        PolyplinkError: If the text is not four whole numbers.

    Example:
        >>> parse_mask("0,0,320,80")
        (0, 0, 320, 80)
    """
    sides = rectangle(text)
    if sides is None or not all(side.is_integer() for side in sides):
        raise PolyplinkError(
            f"--mask-overlay {text!r} is not a rectangle",
            "give LEFT,TOP,WIDTH,HEIGHT in whole pixels, or field",
        )
    left, top, width, height = map(int, sides)
    return left, top, width, height


class Pictures:
    """The pictures of a data folder's tracklets.

    Args:
        prepared: The tracklets, and their crops if they were cut.
        folder: The data folder; sources of recordings are relative to it.
        masks: Rectangles that are black in every picture.
        field: Whether everything outside the visible field is black too.

    Attributes:
        borderless: Procedures shown so far in which the visible field fills the frame.
        missing: Procedures with a picture that a hand-off lacks.

    Raises:
        PolyplinkError: If a mask has no area, or is outside the frames of all procedures.
    """

    def __init__(
        self, prepared: Prepared, folder: Path, masks: Sequence[Mask] = (), *, field: bool = False
    ) -> None:
        self.prepared, self.folder, self.masks = prepared, folder, tuple(masks)
        self.field = field
        self.borderless: set[str] = set()
        self.missing: set[str] = set()
        self.field_of = cache(self._field_of)
        self.procedures = {
            row["procedure_id"]: row for row in prepared.data.procedures.iter_rows(named=True)
        }
        sizes = [(row["width"], row["height"]) for row in self.procedures.values()]
        for left, top, width, height in self.masks:
            if width * height <= 0 or not any(left < size[0] and top < size[1] for size in sizes):
                raise PolyplinkError(
                    f"--mask-overlay {left},{top},{width},{height} hides nothing of any frame; the "
                    "largest is {} x {} pixels".format(*max(sizes, default=(0, 0))),
                    "give LEFT,TOP,WIDTH,HEIGHT in pixels of the recording",
                )
        self._videos: dict[Path, tuple[Video, ExitStack]] = {}  # the one used last is last
        self._archive = cache(member_reader)
        self._lock = Lock()  # a decoder or an archive is used by one thread at a time
        self.first_image = cache(self._first_image)
        self.images_of = cache(self._images_of)
        self.view = lru_cache(PICTURES_CACHED)(self._view)
        self.frame = lru_cache(FRAMES_CACHED)(self._frame)

    def has_frames(self, procedure: str) -> bool:
        """Whether frames of a procedure can be shown."""
        if self.any_frame(procedure):
            return True
        image = self.first_image(procedure)
        return image is not None and (self._source(procedure) / image_place(image).file).is_file()

    def any_frame(self, procedure: str) -> bool:
        """Whether every frame of a procedure can be shown, also one without a box."""
        n_frames = self.procedures[procedure]["n_frames"]
        return self.video_of(procedure) is not None or len(self.images_of(procedure)) == n_frames

    def _images_of(self, procedure: str) -> dict[int, str]:
        """The image of each frame, if the recording is image files; else none."""
        first = image_place(self.first_image(procedure) or "")
        if not first.file or first.member is not None or first.frame is not None:
            return {}
        boxes = self.prepared.detections.filter(procedure_id=procedure).drop_nulls("image")
        of_boxes = dict(boxes.select("frame", "image").iter_rows())
        n_frames = self.procedures[procedure]["n_frames"]
        return image_files(self._source(procedure), of_boxes, n_frames)

    def video_of(self, procedure: str) -> str | None:
        """The name of the video of a procedure; None without one.

        A video in which nothing was detected is known by the name of its procedure.
        """
        source, image = self._source(procedure), self.first_image(procedure)
        if image is not None:
            place = image_place(image)
            names = [] if place.frame is None else [place.file]
        else:
            names = [path.name for path in videos_in(source) if path.stem == procedure]
        return names[0] if len(names) == 1 and (source / names[0]).is_file() else None

    def _source(self, procedure: str) -> Path:
        """The folder of a procedure's recording."""
        return self.folder / str(self.procedures[procedure]["source"])

    def _first_image(self, procedure: str) -> str | None:
        """The image of the first box of a procedure that has one."""
        images = self.prepared.detections.filter(pl.col("procedure_id") == procedure)["image"]
        return next(iter(images.drop_nulls().head(1)), None)

    def _view(self, procedure: str, row: int, k: int, size: int) -> bytes:
        """The k-th picture of a tracklet as JPEG, at most `size` pixels wide and high.

        Args:
            procedure: The procedure.
            row: Row of the tracklet in the whole table of tracklets.
            k: Index among the tracklet's crops.
            size: Largest width and height, pixels.

        Raises:
            PolyplinkError: If there is neither a recording nor a crop.
        """
        tracklet = self.prepared.tracklets.row(row, named=True)
        settings = self.prepared.settings
        place = tracklet["offset"] + k * settings.stride
        box = self.prepared.detections.row(place, named=True)
        record = self.procedures[procedure]
        sides = tuple(box[side] for side in BOX)
        crop_suffices = size <= SHARP * 2 and settings.size >= SHARP
        has_crop = crop_suffices and self.prepared.has_crops(procedure)
        if not has_crop and self.has_frames(procedure):
            with suppress(PolyplinkError):  # then the crop is shown
                return self.patch(procedure, box["image"], sides, size)
        region = enlarge(
            np.array([sides]), settings.crop_factor, record["width"], record["height"]
        )[0]
        crop = self.prepared.crops(procedure)[tracklet["crop_first"] + k]
        return self.masked_crop(crop, region.tolist(), size, procedure)

    def patch(self, procedure: str, image: str | None, box: tuple[float, ...], size: int) -> bytes:
        """The surroundings of a box in the recording as JPEG, at most `size` pixels wide and high.

        Args:
            procedure: The procedure.
            image: The frame of the box.
            box: Left, top, width and height, pixels.
            size: Largest width and height, pixels.

        Raises:
            PolyplinkError: If the frame cannot be read.
        """
        x, y, w, h = box
        record = self.procedures[procedure]
        side = max(w, h) * AROUND  # a square, to avoid distortion
        square = np.array([[x + w / 2 - side / 2, y + h / 2 - side / 2, side, side]])
        region = enlarge(square, 1.0, record["width"], record["height"])[0]
        left, top, right, bottom = region
        picture = self._recorded_picture(procedure, image, str(image))
        return encode_jpeg(picture[top:bottom, left:right], size)

    def masked_crop(
        self, crop: Pixels, region: Sequence[int], size: int, procedure: str | None = None
    ) -> bytes:
        """A stored crop (side, side, 3) as JPEG, masked; `region`: left, top, right, bottom."""
        left, top, right, bottom = region
        scale = (crop.shape[1] / (right - left), crop.shape[0] / (bottom - top))
        return encode_jpeg(self._mask(np.array(crop), (left, top), scale, procedure), size)

    def _frame(self, procedure: str, frame: int, size: int | None = None) -> bytes:
        """A whole frame of the recording as JPEG, at most `size` pixels wide and high.

        Raises:
            PolyplinkError: If the frame is missing or cannot be decoded.
        """
        image = self.image(procedure, frame)
        picture = self._recorded_picture(procedure, image, f"frame {frame} of {procedure}")
        return encode_jpeg(picture, size or max(picture.shape))

    def _recorded_picture(self, procedure: str, image: str | None, name: str) -> Pixels:
        """A frame of the recording with the masks black; `name` is for the error.

        Raises:
            PolyplinkError: If the frame cannot be read.
        """
        pixels = self.read(procedure, image)
        if isinstance(pixels, str):
            raise PolyplinkError(f"{name} cannot be shown ({pixels})", "continue with another")
        return self._mask(pixels, (0, 0), procedure=procedure)

    def image(self, procedure: str, frame: int) -> str | None:
        """The image of a frame; None if it is not known."""
        boxes = self.prepared.detections.filter(procedure_id=procedure, frame=frame)
        image: str | None = next(iter(boxes["image"].drop_nulls().head(1)), None)
        if image is None and (video := self.video_of(procedure)) is not None:
            return frame_name(video, frame)
        return self.images_of(procedure).get(frame) if image is None else image

    def read(self, procedure: str, image: str | None) -> Pixels | str:
        """A frame (height, width, 3) of the recording, or the reason why it cannot be read."""
        if image is None:
            return "no image is known"
        try:
            return self._decode(procedure, image)
        except PolyplinkError as error:
            return error.what

    def _decode(self, procedure: str, image: str) -> Pixels | str:
        """The frame that the name of an image stands for.

        Raises:
            PolyplinkError: If its file is missing.
        """
        source = self.folder / self.procedures[procedure]["source"]
        file, member, number = image_place(image)
        path = source / file
        if member is not None:
            with self._lock:
                data = self._archive(path)(member)
            return data if isinstance(data, str) else decode_image(data)
        if number is None:
            return read_image(path)
        with self._lock:
            picture = self._video(path).frame(number)
            return "damaged" if picture is None else picture.rgb()

    def _video(self, path: Path) -> Video:
        """An open video; those used least recently are closed, as each has threads and memory."""
        if path in self._videos:
            video, stack = self._videos.pop(path)
        else:
            stack = ExitStack()
            video = stack.enter_context(open_video(path))
        self._videos[path] = video, stack
        while len(self._videos) > OPEN_VIDEOS:
            self._videos.pop(next(iter(self._videos)))[1].close()
        return video

    def _field_of(self, procedure: str) -> Flags | None:
        """The visible field (height, width) of a recording; None if no frame is available."""
        if not self.has_frames(procedure):
            return None
        boxes = self.prepared.detections.filter(procedure_id=procedure).drop_nulls("image")
        n_frames = self.procedures[procedure]["n_frames"]
        numbers = boxes["frame"].to_list() or range(n_frames)  # all if nothing was detected
        places = np.unique(np.linspace(0, len(numbers) - 1, FRAMES).round().astype(int))
        images = (self.image(procedure, numbers[place]) for place in places.tolist())
        read = [self.read(procedure, image) for image in images]
        frames = [pixels for pixels in read if not isinstance(pixels, str)]
        if not frames:
            return None
        field = visible_field([frame for frame in frames if frame.shape == frames[0].shape])
        if field.all():
            self.borderless.add(procedure)
        return field

    def _mask(
        self,
        pixels: Pixels,
        corner: tuple[int, int],
        scale: tuple[float, float] = (1.0, 1.0),
        procedure: str | None = None,
    ) -> Pixels:
        """Pixels (height, width, 3) with the masks black.

        Args:
            pixels: Part of a frame.
            corner: Left and top of the part in the frame.
            scale: Pixels of the part per pixel of the frame, horizontally and vertically.
            procedure: The procedure of the frame; None if its recording is unknown.
        """
        if not (self.masks or self.field):
            return pixels
        covered = pixels.copy()
        if self.field:
            field = None if procedure is None else self.field_of(procedure)
            if field is None:  # without a recording the crop itself is used
                field = visible_field([pixels])
            else:
                y, x = (
                    (np.arange(n) / by + start).astype(int).clip(0, limit - 1)
                    for n, by, start, limit in zip(
                        pixels.shape, scale[::-1], corner[::-1], field.shape, strict=False
                    )
                )
                field = field[np.ix_(y, x)]
            covered[~field] = 0
        for left, top, width, height in self.masks:
            x = (np.array([left, left + width]) - corner[0]) * scale[0]
            y = (np.array([top, top + height]) - corner[1]) * scale[1]
            # Rounded outwards, so that no column of the text remains at the edge.
            x0, x1 = max(int(np.floor(x[0])), 0), max(int(np.ceil(x[1])), 0)
            y0, y1 = max(int(np.floor(y[0])), 0), max(int(np.ceil(y[1])), 0)
            covered[y0:y1, x0:x1] = 0
        return covered


def visible_field(frames: Sequence[Pixels]) -> Flags:
    """The endoscope's visible field: the largest bright area, with holes filled.

    Text beside the field is bright in every frame, but is a separate area, or is connected by thin
    lines, which an opening removes. Text over the field is not detected.

    Args:
        frames: Some frames of one recording, or a crop, each (height, width, 3).

    Returns:
        Mask (height, width) bool; all False if everything is dark.
    """
    # Imported when used, because it is rarely used and delays the start of the server.
    from scipy.ndimage import (  # noqa: PLC0415
        binary_dilation,
        binary_erosion,
        binary_fill_holes,
        label,
    )

    bright_share = np.mean([frame.max(axis=2) > BRIGHT for frame in frames], axis=0)
    bright = binary_fill_holes(bright_share >= SHARE)
    radius = max(1, round(THIN * bright.shape[1]))
    # Areas that reach the frame's edge are not eroded there, as there is no border beyond it.
    core = binary_erosion(bright, iterations=radius, border_value=1)
    areas, _ = label(core)
    sizes = np.bincount(areas.ravel())
    sizes[0] = 0
    largest = (areas == sizes.argmax()) & core
    grown = binary_dilation(largest, iterations=radius)
    return np.asarray(binary_fill_holes(grown & bright), dtype=np.bool_)
