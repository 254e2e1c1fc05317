"""PolypsSet (KUMC): 39 polyps in val and test, 28,773 shuffled images of training. Reader, writer.

Source: Li et al., PLOS ONE 2021; Harvard Dataverse doi:10.7910/DVN/FCBUOR. Layout:
`{train2019,val2019,test2019}/{Image,Annotation}`; val and test hold a folder for each video, with
one polyp, train none. An annotation belongs to the image of the same folder and number; the names
inside the files are not reliable. The training part is shuffled across its sequences, so nothing
in it has an identity.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.files.folders import IMAGE_ENDINGS, LARGEST
from polyplink.data.files.trees import Member, Tree, open_tree
from polyplink.data.sets.layout import (
    FrameSource,
    Recording,
    VocFrame,
    join_recordings,
    natural,
    nothing_found,
    parse_voc_file,
    whole_edges,
    write_image,
    write_origin,
)
from polyplink.data.tables import DataSet, Imported
from polyplink.data.vocabulary import ADENOMA

DATASET = "polypsset"
PARTS = ("train", "val", "test")
TRAIN_STEP = 2  # between two images of training: they are shuffled, and must not be linked

_FILE = re.compile(
    r"(?:^|/)(train|val|test)2019/(Image|Annotation)s?/(?:([^/]+)/)?([^/]+)\.[^/.]+$", re.I
)


@dataclass
class _Folder:
    """The files of one video, or of the training part, by the number in their names."""

    part: str
    video: str | None  # None in train
    images: dict[int, Member] = field(default_factory=dict)
    xmls: dict[int, Member] = field(default_factory=dict)
    frames: dict[int, VocFrame] = field(default_factory=dict)  # what the XML files say
    sizes: dict[int, tuple[int, int]] = field(default_factory=dict)  # width and height, pixels

    @property
    def name(self) -> str:
        """`val_10`, as the papers name it; `train` for the training part."""
        return self.part if self.video is None else f"{self.part}_{self.video}"


def import_polypsset(
    source: Path,
    *,
    images: bool = True,
    strict: bool = False,
    progress: Callable[[int, int], None] | None = None,
    workers: int = 1,
) -> Imported:
    """Read PolypsSet into the three tables.

    Procedures and polyps are `val_<folder>` and `test_<folder>`; the frame number is the file's.
    Images of training become one procedure for each size (`train_384x288`) without a polyp id,
    all of one patient, on every second frame number, so that no two of them are linked. A frame's
    size is that of its image; without images that of the XML. The parts are train, val and test.

    Args:
        source: A folder above `train2019`, `val2019` or `test2019`, plain or in an archive, or
            the archive.
        images: Name each box's image, where there are images.
        strict: Raise at the first fault instead of leaving it out and counting it. Annotations
            without image are part of the release and only counted.
        progress: Called after every procedure with how many are read and how many there are.
        workers: Ignored; every importer has it, and this set is read by one process.

    Returns:
        The data set and its warnings.

    Raises:
        PolyplinkError: If the folder is not of this set or an archive is broken; if strict, at
            the first faulty file or box.
    """
    del workers
    faults = Faults(strict)
    tree = open_tree(source, faults)
    folders = _find_folders(tree, faults)
    if not folders:
        wanted = "folder train2019, val2019 or test2019 with Image and Annotation"
        raise nothing_found(tree, source, wanted, DATASET)
    _read(tree, folders, faults)
    recordings: list[Recording] = []
    for folder in folders:
        if folder.video is None:
            recordings += _training_recordings(folder)
        elif folder.sizes:
            recordings.append(_video_recording(folder, faults))
    videos = [recording.name for recording in recordings if recording.part != "train"]
    if videos:
        kind = "video whose patient is not published, taken as its own patient"
        faults.warn(kind, videos[0], len(videos))
    return join_recordings(recordings, tree, DATASET, faults, images=images, progress=progress)


def _find_folders(tree: Tree, faults: Faults) -> list[_Folder]:
    """Sort the files of a tree: train first, then the videos of val and test by their number."""
    folders: dict[tuple[str, str | None], _Folder] = {}
    for member in tree.members:
        match = _FILE.search(member.path)
        if match is None or member.suffix not in (*IMAGE_ENDINGS, ".xml"):
            continue
        part, video, stem = match[1].lower(), match[3], match[4]
        if (video is None) != (part == "train"):
            where = "in a folder" if part == "train" else "outside of a video's folder"
            faults.fault(f"file of {part} {where}", member.image, "move it as it was released")
        elif not stem.isdecimal() or int(stem) >= LARGEST // TRAIN_STEP:
            faults.fault("file whose name is no number", member.image, "restore its name")
        else:
            folder = folders.setdefault((part, video), _Folder(part, video))
            files = folder.xmls if member.suffix == ".xml" else folder.images
            if int(stem) in files:
                faults.fault("second file of a frame", member.image, "remove one of them")
            else:
                files[int(stem)] = member
    return sorted(folders.values(), key=lambda f: (PARTS.index(f.part), *natural(f.video or "")))


def _read(tree: Tree, folders: list[_Folder], faults: Faults) -> None:
    """Read the sizes of images and the annotations; orphaned annotations are removed."""
    pictures = {m: (folder, i) for folder in folders for i, m in folder.images.items()}
    for member, size in tree.image_sizes(list(pictures), faults).items():
        folder, number = pictures[member]
        folder.sizes[number] = size
    for folder in folders:
        for number in sorted(folder.xmls):
            if folder.images and number not in folder.images:
                where = folder.xmls[number].image
                faults.warn("annotation without an image, left out", where)
            if folder.images and number not in folder.sizes:
                del folder.xmls[number]
    xmls = {m: (folder, i) for folder in folders for i, m in folder.xmls.items()}
    for member, frame in tree.parse_each(xmls, parse_voc_file, faults).items():
        folder, number = xmls[member]
        if folder.images:
            if frame.size not in (None, folder.sizes[number]):
                kind = "size in the XML is not the image's, which counts"
                faults.warn(kind, member.image)
        elif frame.size is None:
            kind = "annotation without a size or an image"
            faults.fault(kind, member.image, "unpack the images")
            continue
        else:
            faults.warn("frame without an image, its size taken from the XML", member.image)
            folder.sizes[number] = frame.size
        folder.frames[number] = frame


def _training_recordings(folder: _Folder) -> Iterator[Recording]:
    """The images of training in groups of one size, renumbered so that none follows another."""
    numbers: dict[tuple[int, int], list[int]] = {}
    for number in sorted(folder.sizes):
        numbers.setdefault(folder.sizes[number], []).append(number)
    for size in sorted(numbers):
        recording = Recording(f"train_{size[0]}x{size[1]}", "train", size)
        recording.procedure["patient"] = "train"
        _fill(recording, folder, {n: i * TRAIN_STEP for i, n in enumerate(numbers[size])})
        yield recording


def _video_recording(folder: _Folder, faults: Faults) -> Recording:
    """One video of val or test; its size is the most frequent one, the first of them."""
    size = Counter(folder.sizes[n] for n in sorted(folder.sizes)).most_common(1)[0][0]
    recording = Recording(folder.name, folder.part, size)
    _fill(recording, folder, {number: number for number in folder.sizes})
    for frame in sorted(recording.boxes):
        where = recording.where[frame]
        if recording.boxes[frame] and folder.sizes[frame] != size:
            kind = "frame with a box of another size than most of its video"
            faults.fault(kind, where, "resize the image and its boxes")
            del recording.boxes[frame]
        elif len(recording.boxes[frame]) > 1:
            faults.warn("frame with several boxes of one polyp, all kept", where)
    if any(recording.boxes.values()):
        recording.polyp = _histology(folder, faults)
    return recording


def _fill(recording: Recording, folder: _Folder, frames: dict[int, int]) -> None:
    """Put files and boxes into a recording; `frames` maps the files' numbers to frame numbers."""
    recording.n_frames = max(frames.values()) + 1
    for number, frame in frames.items():
        if number in folder.images:
            recording.images[frame] = folder.images[number]
        if number in folder.xmls:
            recording.where[frame] = folder.xmls[number].image
        if number in folder.frames:
            recording.boxes[frame] = [box.edges for box in folder.frames[number].objects]


def _histology(folder: _Folder, faults: Faults) -> dict[str, str | None]:
    """The histology of a video's one polyp: the class name that all its boxes have."""
    words = sorted({b.label.lower() for frame in folder.frames.values() for b in frame.objects})
    if len(words) > 1:
        faults.warn("polyp with boxes of several classes, histology not taken", folder.name)
        return {}
    word = words[0] or None
    known = word if word in ADENOMA["polypsset"] else None
    if known is None:
        kind = "class of a box that is not known, no histology class"
        faults.warn(kind, f"{folder.name} ({word})")
    return {"histology": word, "histology_class": known}


_OBJECT = """\t<object>
\t\t<name>{name}</name>
\t\t<bndbox>
\t\t\t<xmin> {0} </xmin>
\t\t\t<ymin>{1} </ymin>
\t\t\t<xmax> {2}</xmax>
\t\t\t<ymax>
{3}
</ymax>
\t\t</bndbox>
\t</object>
"""
_FRAME = """<annotation>
\t<folder>{folder}</folder>
\t<filename>{stem}.png</filename>
\t<path>D:\\sequences\\{folder}\\{stem}.png</path>
\t<source><database>Unknown</database></source>
\t<size><width>{width}</width><height>{height}</height><depth>3</depth></size>
{objects}</annotation>
"""


def write_polypsset(data: DataSet, root: Path, *, frames: FrameSource | None = None) -> None:
    """Write a data set as PolypsSet is released: an XML for every frame, images where given.

    As in the release numbers stand between blanks and `filename` has another ending than the
    file. The layout holds boxes of whole pixels. It has no place for polyp ids (one polyp a
    video), patients, frame rates, scores, sizes in mm, locations, and histology other than a word
    of the boxes; images of training lose their frame numbers.

    Args:
        data: Procedures named `val_<folder>`, `test_<folder>`, or `train_<W>x<H>` with frames of
            even numbers.
        root: Folder to write into; made if absent.
        frames: Gives the image of a frame.

    Raises:
        PolyplinkError: If a procedure is named otherwise, a box of training lies in an odd frame,
            or a box is not of whole pixels.
    """
    boxes = whole_edges(data, "PolypsSet")
    write_origin(data, root, DATASET)
    words = dict(data.polyps.select("procedure_id", pl.col("histology").fill_null("")).iter_rows())
    first = 1  # number of the next image of training, which has no folders
    for procedure in data.procedures.iter_rows(named=True):
        name = procedure["procedure_id"]
        part, _, folder = name.partition("_")
        if part not in PARTS or not folder:
            raise PolyplinkError(
                f"procedure {name!r} is in no part of PolypsSet",
                "name it val_<folder>, test_<folder> or train_<width>x<height>",
            )
        found, word = boxes.get(name, {}), escape(words.get(name, ""))
        stems = {frame: frame for frame in range(procedure["n_frames"])}
        if part == "train":
            odd = [frame for frame in found if frame % TRAIN_STEP]
            if odd:
                raise PolyplinkError(
                    f"procedure {name}: a box in frame {odd[0]} of training",
                    "number its images 0, 2, 4, ...",
                )
            folder, word = "", "adenomatous"
            stems = {f: first + i for i, f in enumerate(range(0, len(stems), TRAIN_STEP))}
            first += len(stems)
        below = root / f"{part}2019"
        annotations = below / "Annotation" / folder
        annotations.mkdir(parents=True, exist_ok=True)
        for frame, stem in stems.items():
            if frames is not None:
                write_image(below / "Image" / folder / f"{stem}.jpg", frames(name, frame))
            text = _FRAME.format(
                folder=folder,
                stem=stem,
                width=procedure["width"],
                height=procedure["height"],
                objects="".join(_OBJECT.format(*box, name=word) for box in found.get(frame, [])),
            )
            (annotations / f"{stem}.xml").write_text(text)
