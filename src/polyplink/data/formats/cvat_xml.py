"""A CVAT for video 1.1 file as columns, read as a stream.

Source: docs.cvat.ai, XML annotation format. Frames are those of the video, from 0; a box says
`outside="1"` on the frame from which its track is not seen; the boxes between key frames are as
CVAT interpolated them when it exported.
"""

from dataclasses import dataclass, field
from typing import BinaryIO
from xml.parsers import expat

from polyplink.core.errors import PolyplinkError

_MEND = "export the task again as CVAT for video 1.1"
_CHUNK = 1 << 20
SHAPES = ("box", "polygon", "polyline", "points", "mask", "ellipse", "cuboid", "skeleton")

Attributes = dict[str, str]


@dataclass
class CvatFile:
    """What one file holds, every value as the text that stands there.

    Attributes:
        version: Of the format.
        tasks: For each task the texts of its fields (name, size, width, height, source ...).
        tracks: One entry for each shape of a track: task_id, track, label, and the shape's tag.
        boxes: The shape's own attributes, in the same order.
        told: Name and value of the shape's `<attribute>` elements, in the same order.
        images: Number of `<image>` elements, which are of another format.
    """

    version: str = ""
    tasks: list[Attributes] = field(default_factory=list)
    tracks: list[tuple[str | None, str, str, str]] = field(default_factory=list)
    boxes: list[Attributes] = field(default_factory=list)
    told: list[Attributes] = field(default_factory=list)
    images: int = 0


@dataclass
class _Reader:
    """The handlers of the parser; holds the open tags of `<meta>` and the current track."""

    name: str
    file: CvatFile = field(default_factory=CvatFile)
    path: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    track: Attributes | None = None
    attribute: str | None = None

    def start(self, tag: str, attributes: Attributes) -> None:
        self.text.clear()
        if not self.path and tag != "annotations":
            raise PolyplinkError(f"{self.name} is not of CVAT: its root is <{tag}>", _MEND)
        self.path.append(tag)
        if tag == "track":
            self.track = attributes
        elif tag == "image":
            self.file.images += 1
        elif tag in {"task", "job"} and "meta" in self.path:
            self.file.tasks.append({})
        elif tag == "attribute" and self.track is not None:
            self.attribute = attributes.get("name")
        elif self.track is not None and tag in SHAPES and len(self.path) == 3:
            track = self.track
            self.file.tracks.append(
                (track.get("task_id"), track.get("id", ""), track.get("label", ""), tag)
            )
            self.file.boxes.append(attributes)
            self.file.told.append({})

    def end(self, tag: str) -> None:
        text = "".join(self.text).strip()
        self.text.clear()
        self.path.pop()
        if tag == "track":
            self.track = None
        elif tag == "attribute" and self.track is not None and self.file.told:
            if self.attribute is not None and len(self.path) == 3:
                self.file.told[-1][self.attribute] = text
        elif tag == "version" and len(self.path) == 1:
            self.file.version = text
        elif text and self.file.tasks and "meta" in self.path and self._of_task():
            self.file.tasks[-1].setdefault(tag, text)

    def _of_task(self) -> bool:
        """Whether the element that has just ended is a plain field of its task."""
        return self.path[-1] in {"task", "job", "original_size"} or self.path == [
            "annotations",
            "meta",
        ]

    def data(self, text: str) -> None:
        self.text.append(text)

    def refuse(self, *_: object) -> None:
        raise PolyplinkError(f"{self.name} has a document type, which is not read", _MEND)


def parse_cvat(stream: BinaryIO, name: str) -> CvatFile:
    """Read a file.

    Args:
        stream: Its bytes.
        name: Its name, for messages.

    Returns:
        What it holds.

    Raises:
        PolyplinkError: If the XML is broken or truncated, is not of CVAT, or holds a document
            type (no entity is expanded, nothing outside the file is opened).
    """
    reader = _Reader(name)
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.data
    parser.StartDoctypeDeclHandler = reader.refuse
    try:
        while block := stream.read(_CHUNK):
            parser.Parse(block, False)
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise PolyplinkError(f"{name} is not whole XML ({error})", _MEND) from None
    return reader.file
