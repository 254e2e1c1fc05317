"""PolypsSet (KUMC): 39 polyps in val and test, 28,773 shuffled images of training. Reader, writer.

Source: Li et al., PLOS ONE 2021; Harvard Dataverse doi:10.7910/DVN/FCBUOR. Layout:
`{train2019,val2019,test2019}/{Image,Annotation}`; val and test hold a folder for each video, with
one polyp, train none. An annotation belongs to the image of the same folder and number; the names
inside the files are not reliable. The training part is shuffled across its sequences, so nothing
in it has an identity.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from xml.sax.saxutils import escape

import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.files.folders import LARGEST
from polyplink.data.files.trees import Member, Tree, open_tree
from polyplink.data.sets.layout import (
    FrameSource,
    Place,
    Recording,
    join_recordings,
    natural,
    nothing_found,
    parse_voc_file,
    procedures_to_write,
    read_annotations,
    sort_files,
    whole_edges,
    write_image,
)
from polyplink.data.tables import DataSet, Imported
from polyplink.data.vocabulary import ADENOMA

DATASET = "polypsset"
PARTS = ("train", "val", "test")
TRAIN_STEP = 2  # between two images of training: they are shuffled, and must not be linked

_FILE = re.compile(
    r"(?:^|/)(train|val|test)2019/(Image|Annotation)s?/(?:([^/]+)/)?([^/]+)\.[^/.]+$", re.I
)


Sizes = Mapping[int, tuple[int, int]]  # number of an image -> its width and height, pixels


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
    found = sort_files(tree, lambda member: _place(member, faults), ".xml", faults)
    if not found:
        wanted = "folder train2019, val2019 or test2019 with Image and Annotation"
        raise nothing_found(tree, source, wanted, DATASET)
    folders = list(found.values())
    sizes = _read_sizes(tree, folders, faults)
    words = _read_boxes(tree, folders, sizes, faults)
    recordings: list[Recording] = []
    for folder in folders:
        if folder.part == "train":
            recordings += _training_recordings(folder, sizes[folder.name])
        elif sizes[folder.name]:
            recordings.append(_video_recording(folder, sizes[folder.name], faults))
            if any(recordings[-1].boxes.values()):
                recordings[-1].polyp = _histology(folder.name, sorted(words[folder.name]), faults)
    return join_recordings(recordings, tree, DATASET, faults, images=images, progress=progress)


def _place(member: Member, faults: Faults) -> Place | None:
    """The video (or the training part) and the number of an image or annotation.

    Videos are named `val_10`, as the papers name them; train comes first, then val and test.
    """
    match = _FILE.search(member.path)
    if match is None:
        return None
    part, video, stem = match[1].lower(), match[3], match[4]
    if (video is None) != (part == "train"):
        where = "in a folder" if part == "train" else "outside of a video's folder"
        faults.fault(f"file of {part} {where}", member.image, "move it as it was released")
    elif not stem.isdecimal() or int(stem) >= LARGEST // TRAIN_STEP:
        faults.fault("file whose name is no number", member.image, "restore its name")
    else:
        order = (PARTS.index(part), *natural(video or ""))
        return Place(order, part if video is None else f"{part}_{video}", part, int(stem))
    return None


def _read_sizes(
    tree: Tree, folders: list[Recording], faults: Faults
) -> dict[str, dict[int, tuple[int, int]]]:
    """The sizes of the images of each folder; annotations of no image are removed from it."""
    sizes: dict[str, dict[int, tuple[int, int]]] = {folder.name: {} for folder in folders}
    pictures = {m: (folder.name, i) for folder in folders for i, m in folder.images.items()}
    for member, size in tree.image_sizes(list(pictures), faults).items():
        name, number = pictures[member]
        sizes[name][number] = size
    for folder in folders:
        for number in sorted(folder.annotations) if folder.images else ():
            if number not in folder.images:
                where = folder.annotations[number].image
                faults.warn("annotation without an image, left out", where)
            if number not in sizes[folder.name]:
                del folder.annotations[number]
    return sizes


def _read_boxes(
    tree: Tree,
    folders: list[Recording],
    sizes: dict[str, dict[int, tuple[int, int]]],
    faults: Faults,
) -> dict[str, set[str]]:
    """Read the boxes, and the sizes of frames without image.

    Returns:
        Folder -> the class names of its boxes, in lower case.
    """
    words: defaultdict[str, set[str]] = defaultdict(set)
    for folder, number, frame in read_annotations(tree, folders, parse_voc_file, faults):
        known, where = sizes[folder.name], folder.annotations[number].image
        if folder.images:
            if frame.size not in (None, known[number]):
                faults.warn("size in the XML is not the image's, which counts", where)
        elif frame.size is None:
            faults.fault("annotation without a size or an image", where, "unpack the images")
            continue
        else:
            faults.warn("frame without an image, its size taken from the XML", where)
            known[number] = frame.size
        folder.boxes[number] = [box.edges for box in frame.objects]
        words[folder.name] |= {box.label.lower() for box in frame.objects}
    return words


def _training_recordings(folder: Recording, sizes: Sizes) -> Iterator[Recording]:
    """The images of training in groups of one size, renumbered so that none follows another."""
    numbers: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for number in sorted(sizes):
        numbers[sizes[number]].append(number)
    for size in sorted(numbers):
        frames = {number: i * TRAIN_STEP for i, number in enumerate(numbers[size])}
        name, procedure = f"train_{size[0]}x{size[1]}", {"patient": "train"}
        yield folder.renumbered(frames, name=name, size=size, procedure=procedure)


def _video_recording(folder: Recording, sizes: Sizes, faults: Faults) -> Recording:
    """One video of val or test; its size is the most frequent one, the first of them."""
    size = Counter(sizes[number] for number in sorted(sizes)).most_common(1)[0][0]
    recording = folder.renumbered({number: number for number in sizes}, size=size)
    for frame in sorted(recording.boxes):
        where = recording.annotations[frame].image
        if recording.boxes[frame] and sizes[frame] != size:
            kind = "frame with a box of another size than most of its video"
            faults.fault(kind, where, "resize the image and its boxes")
            del recording.boxes[frame]
        elif len(recording.boxes[frame]) > 1:
            faults.warn("frame with several boxes of one polyp, all kept", where)
    return recording


def _histology(name: str, words: list[str], faults: Faults) -> dict[str, str | None]:
    """The histology of a video's one polyp: the class name that all its boxes have."""
    if len(words) > 1:
        faults.warn("polyp with boxes of several classes, histology not taken", name)
        return {}
    word = words[0] or None
    known = word if word in ADENOMA["polypsset"] else None
    if known is None:
        kind = "class of a box that is not known, no histology class"
        faults.warn(kind, f"{name} ({word})")
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
    words = dict(data.polyps.select("procedure_id", pl.col("histology").fill_null("")).iter_rows())
    first = 1  # number of the next image of training, which has no folders
    names, example = r"(train|val|test)_(.+)", "val_<id>, test_<id> or train_<width>x<height>"
    for procedure, match in procedures_to_write(data, root, DATASET, names, example):
        name, part, folder = match.group(0, 1, 2)
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
            write_image(below / "Image" / folder / f"{stem}.jpg", frames, name, frame)
            text = _FRAME.format(
                folder=folder,
                stem=stem,
                width=procedure["width"],
                height=procedure["height"],
                objects="".join(_OBJECT.format(*box, name=word) for box in found.get(frame, [])),
            )
            (annotations / f"{stem}.xml").write_text(text)
