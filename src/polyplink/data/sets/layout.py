"""Shared by the readers and writers of the public data sets.

A reader sorts the files of a `Tree` into one `Recording` a procedure (`sort_files`), reads
annotations (`read_annotations`), sizes and tables of facts (`facts.py`) into it, and joins all with
`join_recordings`. A writer has the signature `write(data, root, *, frames=None)`: it writes a data
set in the layout of a release, with an image for every frame that `frames` has one of.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from xml.etree import ElementTree as ET

import numpy as np
import polars as pl
import simplejpeg
from numpy.typing import NDArray

from polyplink.core.artefacts import write_text
from polyplink.core.errors import PolyplinkError
from polyplink.data.boxes import box_table, check_boxes, fit_boxes
from polyplink.data.faults import Faults
from polyplink.data.files.archives import INSIDE
from polyplink.data.files.folders import IMAGE_ENDINGS, LARGEST
from polyplink.data.files.trees import Member, Tree, decode_text
from polyplink.data.files.video import open_video
from polyplink.data.tables import POLYPS, PROCEDURES, DataSet, Imported

Parsed = TypeVar("Parsed")
Value = TypeVar("Value")

Edges = tuple[float, float, float, float]  # left, top, right, bottom, pixels

# A procedure's id and a frame number -> its image (height, width, 3), RGB; None: no image.
FrameSource = Callable[[str, int], NDArray[np.uint8] | None]

# A frame's number; while SUN is sorted the image's name, from which the numbers follow.
Frame = Any

_DATASET_FILE = "dataset.txt"  # names the data set that is written in another one's layout
_QUALITY = 90  # of JPEGs
_AGAIN = "download or unpack this file again"

# Format -> what one of its files looks like, as a path in the tree.
_MARKS: Mapping[str, re.Pattern[str]] = {
    "real-colon": re.compile(r"(?:^|/)lesion_info\.csv$|_annotations?(?:/|\.tar\.gz$)", re.I),
    "ldpolyp": re.compile(r"(?:^|/)(?:TrainValid|Test)/(?:Images|Annotations)/[^/]+/\d+\.", re.I),
    "polypsset": re.compile(r"(?:^|/)(?:train|val|test)2019/(?:Image|Annotation)/", re.I),
    "sun": re.compile(r"(?:^|/)(?:annotation_(?:txt|xml)/|case\d+/)|sundatabase", re.I),
    "coco": re.compile(r"(?:^|/)instances_[^/]+\.json$", re.I),
    "mot": re.compile(r"(?:^|/)(?:gt/gt|det/det)\.txt$|(?:^|/)seqinfo\.ini$", re.I),
    "polyp-size": re.compile(r"(?:^|/)(?:Video)?\d+\.mp4$", re.I),
}


@dataclass
class Recording:
    """One procedure while its files are read; it shows one polyp at most, named as itself.

    Attributes:
        name: The procedure's id.
        part: Part of the splits that it belongs to.
        size: Width and height of its frames, pixels; (0, 0) until it is known.
        n_frames: Its number of frames.
        procedure: Further columns of `PROCEDURES`; the patient is the procedure unless given.
        polyp: Columns of `POLYPS` besides the two ids; None where boxes name no polyp.
        images: Frame -> its image.
        annotations: Frame -> the file that annotates it.
        boxes: Frame -> its boxes; none where a frame shows no polyp.
    """

    name: str
    part: str = ""
    size: tuple[int, int] = (0, 0)
    n_frames: int = 0
    procedure: dict[str, Any] = field(default_factory=dict)
    polyp: dict[str, Any] | None = None
    images: dict[Frame, Member] = field(default_factory=dict)
    annotations: dict[Frame, Member] = field(default_factory=dict)
    boxes: dict[Frame, list[Edges]] = field(default_factory=dict)

    def renumbered(self, frames: Mapping[Frame, int], **changes: Any) -> "Recording":
        """A copy of some frames under other numbers, with other fields changed."""

        def moved(found: dict[Frame, Value]) -> dict[Frame, Value]:
            return {number: found[frame] for frame, number in frames.items() if frame in found}

        return replace(
            self,
            n_frames=max(frames.values(), default=-1) + 1,
            images=moved(self.images),
            annotations=moved(self.annotations),
            boxes=moved(self.boxes),
            **changes,
        )


class Place(NamedTuple):
    """Where a file belongs."""

    order: tuple[Any, ...]  # of its recording among all; different for each
    name: str  # of the recording
    part: str
    frame: Frame


def sort_files(
    tree: Tree, place: Callable[[Member], Place | None], ending: str, faults: Faults
) -> dict[tuple[Any, ...], Recording]:
    """Sort images and annotations into recordings.

    Args:
        tree: Where they are.
        place: Where a file belongs; None where it is not of this set, or is counted as faulty.
        ending: Of the annotations.
        faults: Counts further files of a frame, which are left out.

    Returns:
        Order -> recording with its images and annotations, by the order.

    Raises:
        PolyplinkError: If strict, at the first fault.
    """
    recordings: dict[tuple[Any, ...], Recording] = {}
    for member in tree.members:
        is_image = member.suffix in IMAGE_ENDINGS
        found = place(member) if is_image or member.suffix == ending else None
        if found is not None:
            recording = recordings.get(found.order)
            if recording is None:
                recording = recordings[found.order] = Recording(found.name, found.part)
            files = recording.images if is_image else recording.annotations
            if found.frame in files:
                faults.fault("second file of a frame", member.image, "remove one of them")
            else:
                files[found.frame] = member
    return dict(sorted(recordings.items()))


def read_annotations(
    tree: Tree,
    recordings: Iterable[Recording],
    parse: Callable[[bytes, str], Parsed],
    faults: Faults,
) -> Iterator[tuple[Recording, Frame, Parsed]]:
    """Parse the annotations of all recordings as `Tree.parse_each` does.

    Yields:
        Recording, frame and what its file holds.
    """
    placed = {m: (r, frame) for r in recordings for frame, m in r.annotations.items()}
    for member, parsed in tree.parse_each(placed, parse, faults).items():
        yield (*placed[member], parsed)


def join_recordings(
    recordings: Sequence[Recording],
    tree: Tree,
    dataset: str,
    faults: Faults,
    *,
    images: bool,
    splits: Mapping[str, list[str]] | None = None,
    boxes: pl.DataFrame | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Imported:
    """Join recordings to a data set; boxes that reach beyond the image are clipped to it.

    A recording whose patient is not known is taken as its own patient, and counted.

    Args:
        recordings: Complete, in the order of the table procedures.
        tree: Where they were read.
        dataset: Name of the data set whose layout it is; a `dataset.txt` in the tree overrules it.
        faults: Gets what is left out or odd. A frame with a box must have an image where its
            recording has any.
        images: Name each box's image.
        splits: Part -> procedure ids; None: by the recordings' parts.
        boxes: Columns of `BOXES`: boxes of the recordings that are read from another source.
        progress: Called after every recording with how many are done and how many there are.

    Raises:
        PolyplinkError: If strict, at the first box that cannot be used.
    """
    unknown = [r.name for r in recordings if "patient" not in r.procedure]
    if unknown:
        kind = "procedure whose patient is not known, taken as its own patient"
        faults.warn(kind, unknown[0], len(unknown))
    rows: list[tuple[Any, ...]] = []
    for done, recording in enumerate(recordings, 1):
        rows += _boxes(recording, images, faults)
        if progress is not None:
            progress(done, len(recordings))
    columns = ("procedure_id", "frame", "polyp_id", "image", "at")
    schema: dict[str, Any] = dict.fromkeys(columns, pl.String) | {"frame": pl.Int64}
    schema |= dict.fromkeys(("left", "top", "right", "bottom"), pl.Float64)
    named = _named_dataset(tree) or dataset
    procedures = [
        {"procedure_id": r.name, "dataset": named, "patient": r.name, "n_frames": r.n_frames}
        | {"width": r.size[0], "height": r.size[1], "source": str(tree.root.resolve())}
        | r.procedure
        for r in recordings
    ]
    polyps = [
        {"polyp_id": r.name, "procedure_id": r.name} | r.polyp
        for r in recordings
        if r.polyp is not None
    ]
    if splits is None:
        splits = {
            part: [r.name for r in recordings if r.part == part]
            for part in dict.fromkeys(r.part for r in recordings)
        }
    found = box_table(pl.DataFrame(rows, schema=schema, orient="row"))
    found = found if boxes is None else pl.concat([found, box_table(boxes)])
    table = pl.DataFrame(procedures, schema={name: c.dtype for name, c in PROCEDURES.items()})
    fitted = fit_boxes(check_boxes(found, faults), table, faults, border="clip")
    of_polyps = pl.DataFrame(polyps, schema={name: c.dtype for name, c in POLYPS.items()})
    splits = {part: ids for part, ids in splits.items() if ids}
    return Imported(DataSet.of(fitted, table, of_polyps, splits), faults.lines())


def _boxes(recording: Recording, images: bool, faults: Faults) -> list[tuple[Any, ...]]:
    rows = []
    polyp_id = None if recording.polyp is None else recording.name
    for frame in sorted(recording.boxes):
        boxes, where = recording.boxes[frame], recording.annotations[frame].image
        image = recording.images.get(frame) if images else None
        if boxes and images and recording.images and image is None:
            mend = "unpack the images again, import without images"
            faults.fault("frame with a box without an image", where, mend)
            continue
        name = None if image is None else image.image
        rows += [(recording.name, frame, polyp_id, name, where, *edges) for edges in boxes]
    for frame in sorted(recording.images.keys() - recording.annotations.keys()):
        kind = "image without an annotation, taken as without polyp"
        faults.warn(kind, recording.images[frame].image)
    return rows


def first_image_sizes(tree: Tree, recordings: Sequence[Recording], faults: Faults) -> None:
    """Set the size of each recording to that of its first image, where that can be read."""
    first = {r.images[min(r.images)]: r for r in recordings if r.images}
    for member, size in tree.image_sizes(list(first), faults).items():
        first[member].size = size


def video_recordings(
    tree: Tree,
    names: Mapping[Member, str],
    faults: Faults,
    *,
    part: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, tuple[Recording, Member]]:
    """Open video files, for their number of frames, size and frame rate.

    Args:
        tree: The tree they are in.
        names: Video -> procedure id, in the order wanted.
        faults: Counts videos in archives, second ones of a name, and those that cannot be read.
        part: Part of the recordings.
        progress: Called after every video with how many are read and how many there are.

    Returns:
        Procedure id -> recording, without boxes, and its video.

    Raises:
        PolyplinkError: If strict, at the first video that cannot be read.
    """
    videos: dict[str, Member] = {}
    for member, name in names.items():
        if INSIDE in member.image:
            faults.fault("video inside an archive", member.image, "unpack it")
        elif name in videos:
            faults.fault("second video of a name", member.image, "remove or rename one of them")
        else:
            videos[name] = member
    recordings = {}
    for done, (name, member) in enumerate(videos.items(), 1):
        try:
            with open_video(tree.root / member.image) as video:
                size = (video.width, video.height)
                found = Recording(name, part, size, video.n_frames, {"fps": video.fps})
                recordings[name] = found, member
        except PolyplinkError as error:
            if faults.strict:
                raise
            faults.warn("video that cannot be read, left out", error.what)
        if progress is not None:
            progress(done, len(videos))
    return recordings


def natural(name: str) -> tuple[int, str]:
    """Sort key: names that are numbers by their value, before all others."""
    return (int(name) if name.isdecimal() else LARGEST, name)


def nothing_found(tree: Tree, source: Path, wanted: str, own: str) -> PolyplinkError:
    """The error for a folder in which an importer found nothing of its own.

    Args:
        tree: What was searched.
        source: What the user named.
        wanted: What was searched for.
        own: The importer's format; another one that the files look like is suggested.
    """
    names = [member.path for member in tree.members] + list(tree.archives)
    others = (
        name
        for name, mark in _MARKS.items()
        if name != own and any(mark.search(path) for path in names)
    )
    other = next(others, None)
    mend = "check the path" if other is None else f"this looks like {other}: import it as that"
    return PolyplinkError(f"{source} has no {wanted}", mend)


class VocObject(NamedTuple):
    """One box of a VOC file: its class, its `unique_id` (REAL-Colon alone has one), its edges."""

    label: str
    unique_id: str | None
    edges: Edges


class VocFrame(NamedTuple):
    """What a VOC file says of a frame; the size in pixels is None where it gives none, or 0."""

    size: tuple[int, int] | None
    objects: tuple[VocObject, ...]


def parse_voc(text: str, name: str) -> VocFrame:
    """Read the VOC XML of a frame, as REAL-Colon, PolypsSet and a packaging of SUN have it.

    Fields are found by their tags in any order; blanks around them are ignored.

    Args:
        text: The file's text.
        name: The file's name, for messages.

    Returns:
        Its size and boxes, coordinates as written (not rounded, not clamped).

    Raises:
        PolyplinkError: If the XML is malformed or truncated, holds a document type (entities are
            not expanded), or an edge is missing or no number.
    """
    if "<!DOCTYPE" in text:
        raise PolyplinkError(f"{name} has a document type, which is not read", _AGAIN)
    try:
        root = ET.fromstring(text)  # noqa: S314 - no entity without a document type
    except ET.ParseError as error:
        raise PolyplinkError(f"{name} is not whole XML ({error})", _AGAIN) from None
    # Single tags, because ElementTree searches for those in C and for paths in Python.
    nothing = ET.Element("nothing")
    sides, size = [], root.find("size")
    for tag in ("width", "height"):
        try:
            sides.append(float((nothing if size is None else size).findtext(tag) or 0))
        except ValueError:
            sides.append(0)
    known = all(1 <= side <= LARGEST for side in sides)
    objects = []
    for element in root.iter("object"):
        edges, box = [], element.find("bndbox")
        for tag in ("xmin", "ymin", "xmax", "ymax"):
            value = (nothing if box is None else box).findtext(tag)
            try:
                edges.append(float(value or ""))
            except ValueError:
                what = f"{name}: <{tag}> holds {value!r}, not a number"
                raise PolyplinkError(what, _AGAIN) from None
        left, top, right, bottom = edges
        label = (element.findtext("name") or "").strip()
        polyp = (element.findtext("unique_id") or "").strip()
        objects.append(VocObject(label, polyp or None, (left, top, right, bottom)))
    return VocFrame((round(sides[0]), round(sides[1])) if known else None, tuple(objects))


def parse_voc_file(data: bytes, name: str) -> VocFrame:
    """`parse_voc` of a file's bytes, for `Tree.parse_each`."""
    return parse_voc(decode_text(data, name).lstrip(), name)


def write_origin(data: DataSet, root: Path, own: str) -> None:
    """Write `dataset.txt` where a data set is not the one whose layout it is written in.

    So that nothing simulated, and nothing of another set, is called by the layout's own name when
    it is imported again. A release has no such file.

    Args:
        data: What is written.
        root: The folder; made if absent.
        own: The data set whose layout it is.

    Raises:
        PolyplinkError: If the procedures are of several data sets.
    """
    names = data.procedures["dataset"].unique(maintain_order=True).to_list()
    if len(names) > 1:
        raise PolyplinkError(
            f"procedures of several data sets ({', '.join(names)})",
            "write each into a folder of its own",
        )
    if names and names != [own]:
        write_text(root / _DATASET_FILE, f"{names[0]}\n")


def named_dataset(source: Path) -> str | None:
    """The name in a folder's `dataset.txt`; None if there is no such file, or it is empty."""
    path = source / _DATASET_FILE
    return decode_text(path.read_bytes(), str(path)).strip() or None if path.is_file() else None


def _named_dataset(tree: Tree) -> str | None:
    for member in tree.members:
        if member.path == _DATASET_FILE:
            return decode_text(tree.read(member), member.image).strip() or None
    return None


def procedures_to_write(
    data: DataSet, root: Path, dataset: str, names: str, example: str
) -> Iterator[tuple[dict[str, Any], re.Match[str]]]:
    """The procedures of a data set that is written in another one's layout; see `write_origin`.

    Args:
        data: What is written.
        root: The folder.
        dataset: The data set whose layout it is.
        names: Pattern of the procedures' names that the layout can hold.
        example: Such names, for the message.

    Yields:
        A row of the table procedures and the match of its name.

    Raises:
        PolyplinkError: If a procedure is named otherwise, or there are several data sets.
    """
    write_origin(data, root, dataset)
    for procedure in data.procedures.iter_rows(named=True):
        match = re.fullmatch(names, procedure["procedure_id"])
        if match is None:
            what = f"procedure {procedure['procedure_id']!r} is no procedure of {dataset}"
            raise PolyplinkError(what, f"name it {example}")
        yield procedure, match


def write_image(path: Path, frames: FrameSource | None, name: str, frame: int) -> None:
    """Write a frame as JPEG, its folder made if absent; nothing where there is no image of it."""
    pixels = None if frames is None else frames(name, frame)
    if pixels is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(simplejpeg.encode_jpeg(np.ascontiguousarray(pixels), quality=_QUALITY))


def whole_edges(data: DataSet, layout: str) -> dict[str, dict[int, list[tuple[int, ...]]]]:
    """The boxes of a data set for a layout of whole pixels.

    Args:
        data: The data set.
        layout: Name of the layout, for the message.

    Returns:
        Procedure -> frame -> left, top, right, bottom of each box, in the order of the table.

    Raises:
        PolyplinkError: If an edge is not a whole number.
    """
    x, y, w, h = (pl.col(side).cast(pl.Float64) for side in ("x", "y", "w", "h"))
    box = [x, y, x + w, y + h]
    split = data.detections.filter(pl.any_horizontal(edge != edge.floor() for edge in box))
    for name, frame, *sides in split.select("procedure_id", "frame", x, y, w, h).iter_rows():
        shown = ", ".join(f"{side:g}" for side in sides)
        what = f"procedure {name}, frame {frame}: box ({shown}) is not of whole pixels"
        raise PolyplinkError(f"{what}, as {layout} needs", "round the boxes first")
    edges: dict[str, dict[int, list[tuple[int, ...]]]] = {}
    whole = [edge.cast(pl.Int64).alias(str(i)) for i, edge in enumerate(box)]
    for name, frame, *sides in data.detections.select("procedure_id", "frame", *whole).iter_rows():
        edges.setdefault(name, {}).setdefault(frame, []).append(tuple(sides))
    return edges


def short_number(value: float) -> str:
    """The shortest text that gives the same float32 back (11.74, 25)."""
    return np.format_float_positional(np.float32(value), trim="-")


# Column size_mm as text, 11.74mm.
MILLIMETRES = pl.col("size_mm").map_elements(short_number, return_dtype=pl.String) + "mm"
