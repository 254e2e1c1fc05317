"""Shared by the readers and writers of the public data sets.

A reader opens a `Release`, sorts its files into one `ReleasedRecording` for each procedure, reads
annotations and tables of facts (`facts.py`) into the recordings, and joins them. A writer has the
signature `write(data, root)`: it writes a data set in the layout of a release, without images.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import polars as pl

from polyplink.core.artefacts import write_text
from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message
from polyplink.core.results import StageProgress, silent_stage
from polyplink.core.text import file_name
from polyplink.data.boxes import box_table, check_boxes, fit_boxes
from polyplink.data.faults import Faults
from polyplink.data.files.folders import IMAGE_ENDINGS
from polyplink.data.files.image_names import image_place
from polyplink.data.files.trees import Member, Tree, decode_text, open_tree
from polyplink.data.files.values import LARGEST, whole_number
from polyplink.data.files.video import open_video
from polyplink.data.formats.format import Import
from polyplink.data.formats.videos import warn_of_video
from polyplink.data.tables import POLYPS, PROCEDURES, DataSet, Imported

Parsed = TypeVar("Parsed")

Edges = tuple[float, float, float, float]  # left, top, right, bottom, pixels
Size = tuple[int, int]  # width, height, pixels

DATASET_FILE = "dataset.txt"  # name of a data set that is written in the layout of another one

# Format -> pattern of the path of one of its files in the tree.
_MARKS: Mapping[str, re.Pattern[str]] = {
    "real-colon": re.compile(r"(?:^|/)lesion_info\.csv$|_annotations?(?:/|\.tar\.gz$)", re.I),
    "ldpolyp": re.compile(r"(?:^|/)(?:TrainValid|Test)/(?:Images|Annotations)/[^/]+/\d+\.", re.I),
    "polypsset": re.compile(r"(?:^|/)(?:train|val|test)2019/(?:Image|Annotation)/", re.I),
    "sun": re.compile(r"(?:^|/)(?:annotation_(?:txt|xml)/|case\d+/)|sundatabase", re.I),
    "coco": re.compile(r"(?:^|/)instances_[^/]+\.json$", re.I),
    "mot": re.compile(r"(?:^|/)(?:gt/gt|det/det)\.txt$|(?:^|/)seqinfo\.ini$", re.I),
    "polyp-size": re.compile(r"(?:^|/)(?:Video)?\d+\.mp4$", re.I),
}


@dataclass(slots=True)
class Frame:
    """One frame while its files are read.

    Attributes:
        image: Its image, or None.
        annotation: Its annotation file, or None.
        size: Its size, in data sets with frames of several sizes.
        boxes: Its boxes; None until the annotation is read.
    """

    image: Member | None = None
    annotation: Member | None = None
    size: Size | None = None
    boxes: list[Edges] | None = None

    @property
    def where(self) -> str:
        """Name of the annotation file, for messages."""
        return "" if self.annotation is None else self.annotation.image


@dataclass
class ReleasedRecording:
    """One procedure while its files are read; it shows at most one polyp, with the same name.

    Attributes:
        name: Id of the procedure.
        part: Its part of the splits.
        size: Size of its frames; (0, 0) until it is known.
        n_frames: Number of frames; 0 if it ends at the last of `frames`.
        procedure: Further columns of `PROCEDURES`; the default patient is the procedure.
        polyp: Columns of `POLYPS` besides the two ids; None if its boxes have no polyp id.
        frames: Number (or, while SUN is sorted, parsed name of the image) -> frame.
        video: Its video, or None.
    """

    name: str
    part: str = ""
    size: Size = (0, 0)
    n_frames: int = 0
    procedure: dict[str, Any] = field(default_factory=dict)
    polyp: dict[str, Any] | None = None
    frames: dict[Any, Frame] = field(default_factory=dict)
    video: Member | None = None

    @property
    def has_boxes(self) -> bool:
        """Whether any of its frames has a box."""
        return any(frame.boxes for frame in self.frames.values())

    def renumbered(self, numbers: Mapping[Any, int], **changes: Any) -> Self:
        """A copy with some of the frames under other numbers, and other fields changed."""
        return replace(self, frames={n: self.frames[k] for k, n in numbers.items()}, **changes)


# The place of a file: a sort key that is unique to its recording, the recording's name and part,
# and the key in `ReleasedRecording.frames`.
FrameKey = tuple[tuple[Any, ...], str, str, Any]


@dataclass(frozen=True)
class Release(Import):
    """An import of a released data set.

    Attributes:
        dataset: Name of the data set with this layout.
        source: The user's folder or archive.
    """

    dataset: str
    source: Path

    @cached_property
    def tree(self) -> Tree:
        """The files; for REAL-Colon only listed for an error, as its archives are large."""
        return open_tree(self.source, self.faults)

    def nothing_found(self, missing: str) -> PolyplinkError:
        """The error for a source without files of the data set; suggests a format that matches."""
        paths = [*(member.path for member in self.tree.members), *self.tree.archives]
        hint = "check the path"
        for name, mark in _MARKS.items():
            if name != self.dataset and any(mark.search(path) for path in paths):
                hint = f"this looks like {name}: import it as that"
                break
        return PolyplinkError(f"{self.source} has no {missing}", hint)

    def sort(
        self, place: Callable[[Member, Faults], FrameKey | None], ending: str
    ) -> dict[tuple[Any, ...], ReleasedRecording]:
        """Sort images and annotations into recordings; a second file of a frame is a fault.

        Args:
            place: Returns the place of a file; None if the file is not part of this data set, or
                was counted as a fault.
            ending: File ending of the annotations.

        Returns:
            Sort key -> recording, sorted.
        """
        recordings: dict[tuple[Any, ...], ReleasedRecording] = {}
        for member in self.tree.members:
            kind = "image" if member.suffix in IMAGE_ENDINGS else "annotation"
            place_of_file = None
            if kind == "image" or member.suffix == ending:
                place_of_file = place(member, self.faults)
            if place_of_file is None:
                continue
            order, name, part, key = place_of_file
            recording = recordings.setdefault(order, ReleasedRecording(name, part))
            frame = recording.frames.setdefault(key, Frame())
            if getattr(frame, kind) is None:
                setattr(frame, kind, member)
            else:
                self.faults.fault(Message("import.second_file"), member.image, "remove one of them")
        return dict(sorted(recordings.items()))

    def parse(
        self, recordings: Iterable[ReleasedRecording], parse: Callable[[bytes, str], Parsed]
    ) -> Iterator[tuple[ReleasedRecording, Frame, Member, Parsed]]:
        """Parse the annotations of all recordings as `Tree.parse_each` does.

        Yields:
            Recording, frame, annotation file, and its parsed content.
        """
        placed: dict[Member, tuple[ReleasedRecording, Frame]] = {}
        for recording in recordings:
            for frame in recording.frames.values():
                if frame.annotation is not None:
                    placed[frame.annotation] = recording, frame
        for member, parsed in self.tree.parse_each(placed, parse, self.faults).items():
            yield (*placed[member], member, parsed)

    def size_by_first_image(self, recordings: Iterable[ReleasedRecording]) -> None:
        """Set the size of each recording to that of its first image that can be read, if any."""
        images_of: list[tuple[ReleasedRecording, list[Member]]] = []
        for recording in recordings:
            frames = (recording.frames[number] for number in sorted(recording.frames))
            images_of.append((recording, [f.image for f in frames if f.image is not None]))
        first = [images[0] for _, images in images_of if images]
        sizes = self.tree.image_sizes(first, self.faults)
        further_images = [
            m for _, images in images_of if images and images[0] not in sizes for m in images[1:]
        ]
        sizes |= self.tree.image_sizes(further_images, self.faults)
        for recording, images in images_of:
            recording.size = next((sizes[m] for m in images if m in sizes), recording.size)

    def open_videos(
        self, names: Mapping[Member, str], *, part: str = "", progress: StageProgress = silent_stage
    ) -> list[ReleasedRecording]:
        """Read number of frames, size and frame rate of videos; faulty videos are left out.

        Args:
            names: Video -> procedure id, in the order of the result.
            part: Part of the recordings.
            progress: Callback after every video.
        """
        videos: dict[str, Member] = {}
        for member, name in names.items():
            if image_place(member.image).member is not None:
                self.faults.fault(Message("import.archived_video"), member.image, "unpack it")
            elif name in videos:
                hint = "remove or rename one of them"
                self.faults.fault(Message("import.second_video"), member.image, hint)
            else:
                videos[name] = member
        recordings = []
        for done, (name, member) in enumerate(videos.items(), 1):
            try:
                with open_video(self.tree.root / member.image) as video:
                    size, fps = (video.width, video.height), {"fps": video.fps}
                    recording = ReleasedRecording(
                        name, part, size, video.n_frames, fps, video=member
                    )
                    recordings.append(recording)
                    warn_of_video(video, member.image, self.faults)
            except PolyplinkError as error:
                if self.strict:
                    raise
                self.faults.warn(Message("import.broken_video"), error.what)
            progress(done, len(videos))
        return recordings

    def join(
        self,
        recordings: Sequence[ReleasedRecording],
        *,
        splits: Mapping[str, list[str]] | None = None,
        boxes: pl.DataFrame | None = None,
        progress: StageProgress = silent_stage,
    ) -> Imported:
        """Join recordings to a data set; boxes that reach beyond the image are clipped to it.

        A recording without a known patient becomes its own patient, with a warning. A frame with a
        box must have an image if its recording has any.

        Args:
            recordings: Complete recordings, in the order of the table of procedures.
            splits: Part -> procedure ids; None to use the recordings' parts.
            boxes: Columns of `BOXES`: boxes of the recordings from another file.
            progress: Callback after every recording.

        Raises:
            PolyplinkError: If strict, at the first box that cannot be used.
        """
        faults = self.faults
        unknown = [r.name for r in recordings if "patient" not in r.procedure]
        if unknown:
            kind = Message("import.no_patient")
            faults.warn(kind, unknown[0], len(unknown))

        # The boxes, with the image of their frame if the recording has images.
        rows: list[tuple[Any, ...]] = []
        for done, recording in enumerate(recordings, 1):
            polyp_id = None if recording.polyp is None else recording.name
            images = self.images and any(f.image for f in recording.frames.values())
            for number, frame in sorted(recording.frames.items(), key=lambda item: item[0]):
                if frame.image is not None and frame.annotation is None:
                    kind = Message("import.unannotated")
                    faults.warn(kind, frame.image.image)
                if not frame.boxes:
                    continue
                if images and frame.image is None:
                    hint = "unpack the images again, import without images"
                    faults.fault(Message("import.boxed_without_image"), frame.where, hint)
                    continue
                image = frame.image.image if images and frame.image is not None else None
                key = (recording.name, number, polyp_id, image, frame.where)
                rows += [(*key, *edges) for edges in frame.boxes]
            progress(done, len(recordings))
        columns = ("procedure_id", "frame", "polyp_id", "image", "at")
        schema: dict[str, Any] = dict.fromkeys(columns, pl.String) | {"frame": pl.Int64}
        schema |= dict.fromkeys(("left", "top", "right", "bottom"), pl.Float64)
        all_boxes = box_table(pl.DataFrame(rows, schema=schema, orient="row"))
        if boxes is not None:
            all_boxes = pl.concat([all_boxes, box_table(boxes)])

        # The procedures and polyps; what a recording states replaces the defaults.
        dataset, source = self._dataset_name(), str(self.tree.root.resolve())
        procedure_rows, polyp_rows = [], []
        for recording in recordings:
            name, (width, height) = recording.name, recording.size
            procedure_row = {
                "procedure_id": name,
                "dataset": dataset,
                "patient": name,
                "n_frames": recording.n_frames or max(recording.frames, default=-1) + 1,
                "source": source,
                "width": width,
                "height": height,
            }
            procedure_rows.append(procedure_row | recording.procedure)
            if recording.polyp is not None:
                polyp_rows.append({"polyp_id": name, "procedure_id": name} | recording.polyp)
        procedures = pl.DataFrame(
            procedure_rows, schema={name: column.dtype for name, column in PROCEDURES.items()}
        )
        polyps = pl.DataFrame(
            polyp_rows, schema={name: column.dtype for name, column in POLYPS.items()}
        )

        # The data set, with the parts that have procedures.
        if splits is None:
            by_part: dict[str, list[str]] = {}
            for recording in recordings:
                by_part.setdefault(recording.part, []).append(recording.name)
            splits = by_part
        splits = {part: ids for part, ids in splits.items() if ids}
        fitted = fit_boxes(check_boxes(all_boxes, faults), procedures, faults, border="clip")
        return Imported(DataSet.of(fitted, procedures, polyps, splits), faults.messages)

    def _dataset_name(self) -> str:
        """The name in `dataset.txt`, if there is one; otherwise that of the layout."""
        for member in self.tree.members:
            if member.path == DATASET_FILE:
                return decode_text(self.tree.read(member), member.image).strip() or self.dataset
        return self.dataset


def numbers_first(name: str) -> tuple[int, str]:
    """Sort key: names that are numbers, by value, come before all others."""
    number = whole_number(name)
    return (LARGEST if number is None else number, name)


def write_dataset_name(data: DataSet, root: Path, layout_name: str) -> None:
    """Write `dataset.txt` if a data set is written in the layout of another one.

    It prevents simulated data, or data of another set, from being imported under the layout's name.
    A release has no such file.

    Raises:
        PolyplinkError: If the procedures are of several data sets.
    """
    names = data.procedures["dataset"].unique(maintain_order=True).to_list()
    if len(names) > 1:
        raise PolyplinkError(
            f"procedures of several data sets ({', '.join(names)})",
            "write each into a separate folder",
        )
    if names and names != [layout_name]:
        write_text(root / DATASET_FILE, f"{names[0]}\n")


def procedures_to_write(
    data: DataSet, root: Path, dataset: str, names: str, example: str
) -> Iterator[tuple[dict[str, Any], re.Match[str]]]:
    """The procedures of a data set that is written in the layout of `dataset`.

    Also writes the name of another data set (see `write_dataset_name`). Names of procedures must
    match the pattern `names`; a message shows `example`.

    Yields:
        A row of the table of procedures and the match of its name.

    Raises:
        PolyplinkError: If a procedure's name does not match or cannot be a file name, or there are
            several data sets.
    """
    write_dataset_name(data, root, dataset)
    for procedure in data.procedures.iter_rows(named=True):
        match = re.fullmatch(names, procedure["procedure_id"])
        if match is None:
            problem = f"procedure {procedure['procedure_id']!r} is not named as in {dataset}"
            raise PolyplinkError(problem, f"name it {example}")
        for part in match.groups() or [match[0]]:
            file_name(part, exact=True)
        yield procedure, match


def whole_edges(data: DataSet, layout: str) -> dict[str, dict[int, list[tuple[int, ...]]]]:
    """The boxes of a data set as whole pixels, for a layout that requires them.

    Returns:
        Procedure -> frame -> left, top, right, bottom of each box, in the order of the table.

    Raises:
        PolyplinkError: If an edge is not a whole number.
    """
    edges: dict[str, dict[int, list[tuple[int, ...]]]] = {}
    columns = ("procedure_id", "frame", "x", "y", "w", "h")
    for name, frame, x, y, w, h in data.detections.select(columns).iter_rows():
        box = (x, y, x + w, y + h)
        if any(edge % 1 for edge in box):
            raise PolyplinkError(
                f"procedure {name}, frame {frame}: box ({x:g}, {y:g}, {w:g}, {h:g}) is not of "
                f"whole pixels, as {layout} needs",
                "round the boxes first",
            )
        edges.setdefault(name, {}).setdefault(frame, []).append(tuple(map(int, box)))
    return edges


def short_number(value: float) -> str:
    """The shortest text that is read back as the same float32 (11.74, 25)."""
    return np.format_float_positional(np.float32(value), trim="-")


# Column size_mm as text, 11.74mm.
MILLIMETRES = pl.col("size_mm").map_elements(short_number, return_dtype=pl.String) + "mm"
