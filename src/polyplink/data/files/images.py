"""Read and decode images, or return why they do not decode: decoders raise errors of any kind.

A `Picture` is a frame that is converted to RGB only as far as needed.
"""

import base64
import ctypes
import threading
from contextlib import AbstractContextManager, nullcontext, suppress
from fractions import Fraction
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import simplejpeg
from PIL import ExifTags, Image, ImageChops, UnidentifiedImageError

from polyplink.core.errors import PolyplinkError, first_line
from polyplink.core.lazy_torch import torch

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

Pixels = npt.NDArray[np.uint8]

POINTS = 64  # a side, of `Picture.points`
MOST_PIXELS = 36_000_000  # of an image, above 8K: a damaged header may claim any number
_ALONE = 9_000_000  # pixels, above 4K: larger images, of up to 14 bytes a pixel, one at a time
_one_large = threading.Lock()


def decode_image(data: bytes, mode: str = "RGB") -> Pixels | str:
    """Decode an image; rotation tags are ignored, because boxes refer to stored pixels.

    Args:
        data: The bytes of the file: JPEG, PNG, TIFF or any other format of Pillow.
        mode: "RGB", or "L" for the brightness of a mask: of the strongest colour of each pixel, and
            0 where it is transparent.

    Returns:
        (height, width, 3) RGB or (height, width) brightness, or the reason why it cannot be
        decoded.
    """
    try:
        if mode == "RGB" and simplejpeg.is_jpeg(data):
            with _decoding_slot(*simplejpeg.decode_jpeg_header(data)[:2]):
                pixels: Pixels = simplejpeg.decode_jpeg(data)
                return pixels
        _silence_libtiff()
        with Image.open(BytesIO(data)) as image, _decoding_slot(image.height, image.width):
            return _brightness(image) if mode == "L" else _rgb(image)
    except Exception as error:
        return _reason(error)


def has_rotation_tag(data: bytes) -> bool:
    """Whether the EXIF data of an image say to turn it, which `decode_image` does not do."""
    with (
        suppress(Exception),
        Image.open(BytesIO(data)) as image,
        _decoding_slot(image.height, image.width),  # a PNG is decoded to look behind its pixels
    ):
        return image.getexif().get(ExifTags.Base.Orientation, 1) not in (0, 1)
    return False


def _rgb(image: Image.Image) -> Pixels:
    """An image as (height, width, 3) RGB; of 16 bits, the upper 8, since Pillow would clip them."""
    if image.mode in ("I", "F"):
        raise ValueError("32 bits in a pixel")
    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    return np.array(image.convert("RGB"))


def _brightness(image: Image.Image) -> Pixels:
    """The brightness of each pixel of a mask, (height, width); see `decode_image`."""
    if image.mode in ("1", "L"):
        return np.array(image.convert("L"))
    if image.mode[0] in "IF":  # Pillow would clip values above 255
        values = np.nan_to_num(np.asarray(image, np.float32)).clip(0)
        return np.asarray(values * (255 / max(values.max(), 255)), np.uint8)
    mode = "RGBA" if image.has_transparency_data else "RGB"
    red, green, blue, *opacity = image.convert(mode).split()
    brightest = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    return np.array(ImageChops.multiply(brightest, opacity[0]) if opacity else brightest)


def image_size(data: bytes | Path) -> tuple[int, int] | str:
    """Width and height of an image in pixels, from its header, or why it cannot be read.

    Args:
        data: The bytes of the image, or its file, of which only the header is read.

    Raises:
        OSError: If the file is missing or may not be read.
    """
    with BytesIO(data) if isinstance(data, bytes) else data.open("rb") as file:
        try:
            with Image.open(file) as image:
                return image.size
        except Exception as error:
            return _reason(error)


def read_image(path: Path) -> Pixels | str:
    """Decode an image file: (height, width, 3) RGB, or the reason why it cannot be decoded.

    Raises:
        PolyplinkError: If the file is missing or may not be read.
    """
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise PolyplinkError(
            f"image {path} is missing", "correct `source` in procedures, or import again"
        ) from None
    except OSError as error:
        raise PolyplinkError(
            f"image {path}: {error.strerror or error}", "check its permissions"
        ) from None
    return decode_image(data)


def read_picture(path: Path) -> "Picture | None":
    """The picture of an image file; None if it cannot be decoded.

    Raises:
        PolyplinkError: If the file is missing or may not be read.
    """
    image = read_image(path)
    return None if isinstance(image, str) else Picture(image)


def decoded_image(path: Path) -> Pixels:
    """The pixels (height, width, 3) RGB of an image file.

    Raises:
        PolyplinkError: If the file is missing or cannot be decoded.
    """
    image = read_image(path)
    if isinstance(image, str):
        raise PolyplinkError(
            f"image {path} cannot be decoded ({image})", "restore it, or take it out"
        )
    return image


def encode_jpeg(pixels: Pixels, most_side: int | None = None, quality: int = 85) -> bytes:
    """An image as JPEG.

    Args:
        pixels: (height, width, 3) RGB.
        most_side: Largest width and height in pixels, to which a larger image is reduced; None to
            keep its size.
        quality: Quality of the JPEG, from 1 to 95.
    """
    image = Image.fromarray(np.ascontiguousarray(pixels))
    if most_side is not None:
        image.thumbnail((most_side, most_side), Image.Resampling.LANCZOS)
    buffer = BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def data_uri(jpeg: bytes) -> str:
    """A JPEG as the address of a picture in a page that loads nothing from outside."""
    return f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}"


@cache
def _silence_libtiff() -> None:
    """Stop libtiff from printing about damaged files: errors that matter are raised by Pillow.

    The handlers are set through Pillow's extension module, whichever libtiff it is linked with. If
    it is linked statically (Windows), they cannot be located and stay.
    """
    library = ctypes.CDLL(Image.core.__file__)  # type: ignore[attr-defined]
    for name in ("TIFFSetErrorHandler", "TIFFSetWarningHandler"):
        if set_handler := getattr(library, name, None):
            set_handler(None)


def _reason(error: Exception) -> str:
    """The first line of a decoder's error."""
    unknown = isinstance(error, UnidentifiedImageError)  # its message shows a memory address
    return "in an unknown image format" if unknown else first_line(error)


def _decoding_slot(height: int, width: int) -> AbstractContextManager[object]:
    """Refuse an image that is too large, and let one large image be decoded at a time."""
    if height * width > MOST_PIXELS:
        raise ValueError(f"{height} x {width} pixels are more than {MOST_PIXELS}")
    return _one_large if height * width > _ALONE else nullcontext()


def resize(image: Pixels, width: int, height: int) -> Pixels:
    """Resize an image (h, w, 3) to (height, width, 3), ignoring its aspect ratio.

    The filter is antialiased bilinear on uint8, the kernel that torchvision's resize calls.

    Example:
        >>> row = np.array([0, 90, 30, 0], np.uint8)
        >>> resize(np.tile(row[:, None], (1, 1, 3)), 2, 1)[0, :, 0].tolist()
        [43, 26]
    """
    pixels = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)[None]  # 1 3 h w
    small = torch.nn.functional.interpolate(
        pixels, (height, width), mode="bilinear", antialias=True
    )
    # Copied by numpy: torch would share the copy among threads, which wait for one another.
    return np.ascontiguousarray(small[0].permute(1, 2, 0).numpy())


def planes_of(frame: "VideoFrame") -> list[Pixels]:
    """The planes of a frame in YUV, (height, width) each: views, which may be written to."""
    return [
        np.asarray(memoryview(plane)).reshape(-1, plane.line_size)[: plane.height, : plane.width]
        for plane in frame.planes
    ]


def _one_field(frame: "VideoFrame") -> "VideoFrame":
    """Every second line of an interlaced frame, those of one of its two moments."""
    import av.filter  # noqa: PLC0415 - heavy

    graph = av.filter.Graph()
    graph.threads = 1  # by default it starts one per core
    source = graph.add_buffer(
        width=frame.width, height=frame.height, format=frame.format, time_base=Fraction(1)
    )
    graph.link_nodes(source, graph.add("field", "top"), graph.add("buffersink"))
    graph.configure()
    graph.vpush(frame)
    return graph.vpull()


class Picture:
    """A frame of a video or an image file, converted to RGB only as far as needed.

    An interlaced frame holds two moments in alternate lines: the picture is one of them, stretched
    to the height of the frame.

    Attributes:
        size: Width and height, pixels.
        points: (POINTS, POINTS, 3) RGB of pixels on an even grid over the frame.

    Example:
        >>> picture = Picture(np.zeros((48, 64, 3), np.uint8))
        >>> picture.size, picture.resized(32, 24).shape
        ((64, 48), (24, 32, 3))
    """

    def __init__(self, source: "VideoFrame | Pixels") -> None:
        """Take a frame.

        Args:
            source: A frame of a video decoder, or pixels (height, width, 3) RGB.

        Raises:
            av.error.FFmpegError, ValueError: If a decoder's frame cannot be converted.
        """
        self._frame: VideoFrame | None = None
        self._rgb: Pixels | None = None
        if isinstance(source, np.ndarray):
            height, width = source.shape[:2]
            self._rgb = source
            down, across = (
                ((np.arange(POINTS) + 0.5) * n / POINTS).astype(int) for n in (height, width)
            )
            self.points: Pixels = source[down[:, None], across]
        else:
            width, height = source.width, source.height
            self._frame = _one_field(source) if source.interlaced_frame else source
            self.points = self._convert(POINTS, POINTS, "POINT")
        self.size = (width, height)

    def rgb(self) -> Pixels:
        """(height, width, 3) RGB; rotation tags are ignored."""
        if self._rgb is None:
            self._rgb = self._convert(*self.size, "BILINEAR")
        return self._rgb

    def resized(self, width: int, height: int) -> Pixels:
        """(height, width, 3) RGB, antialiased bilinear.

        A video's frame is resized before its colours are converted, which is faster: the pixels
        differ from those of `resize(self.rgb(), width, height)` by about one grey level.
        """
        if self._frame is None:
            return resize(self.rgb(), width, height)
        # To planes: swscale converts them in two thirds of the time, and rounds better.
        return self._convert(width, height, "BILINEAR", "gbrp")

    def yuv(self) -> "VideoFrame":
        """A copy in YUV 4:2:0; both sides of the frame must be even."""
        import av  # noqa: PLC0415 - heavy

        frame = self._frame
        if frame is None:
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(self.rgb()), format="rgb24")
        planar = frame.reformat(*self.size, format="yuv420p", threads=1)
        if planar is not self._frame:
            return planar
        # The decoder predicts other frames from this one.
        copy = av.VideoFrame(*self.size, "yuv420p")
        for plane, pixels in zip(planes_of(copy), planes_of(frame), strict=True):
            plane[:] = pixels
        return copy

    def _convert(self, width: int, height: int, interpolation: str, to: str = "rgb24") -> Pixels:
        """Convert the decoder's frame to RGB in one thread: other frames keep the cores busy."""
        assert self._frame is not None
        pixels = self._frame.to_ndarray(
            format=to, width=width, height=height, interpolation=interpolation, threads=1
        )
        return np.asarray(pixels, np.uint8)
