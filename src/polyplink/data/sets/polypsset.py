"""PolypsSet (KUMC): 39 polyps in val and test, 28,773 shuffled training images. Reader and writer.

Source: Li et al., PLOS ONE 2021; Harvard Dataverse doi:10.7910/DVN/FCBUOR. Layout:
`{train2019,val2019,test2019}/{Image,Annotation}`; val and test have a folder for each video, with
one polyp per video, train has no folders. An annotation belongs to the image of the same folder and
number; the names inside the files are not reliable. The training images are shuffled across
sequences, so their boxes have no identity.
"""

import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Unpack

import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message
from polyplink.core.text import xml_text
from polyplink.data.faults import Faults
from polyplink.data.files.trees import Member
from polyplink.data.files.values import LARGEST, whole_number
from polyplink.data.formats.format import ONE_A_VIDEO, Format, ImportOptions
from polyplink.data.sets import layout
from polyplink.data.sets.layout import FrameKey, Release, ReleasedRecording
from polyplink.data.sets.voc import parse_voc_file
from polyplink.data.tables import DataSet, Imported
from polyplink.data.vocabulary import ADENOMA

DATASET = "polypsset"
PARTS = ("train", "val", "test")
TRAIN_STEP = 2  # between training images: they are shuffled and must not be linked

_FILE = re.compile(
    r"(?:^|/)(train|val|test)2019/(Image|Annotation)s?/(?:([^/]+)/)?([^/]+)\.[^/.]+$", re.I
)


def import_polypsset(source: Path, **options: Unpack[ImportOptions]) -> Imported:
    """Read PolypsSet into the three tables.

    Procedures and polyps are `val_<folder>` and `test_<folder>`; the frame number is the file's.
    Training images become one procedure for each size (`train_384x288`) without polyp ids, all of
    one patient, on every second frame number, so that no two of them are linked. The size of a
    frame is that of its image, or without images that in the XML. The parts are train, val, test.

    Args:
        source: A folder that contains `train2019`, `val2019` or `test2019`, plain or in an archive,
            or the archive.
        options: See `ImportOptions`; annotations without image are part of the release and, even
            if strict, only counted.

    Returns:
        The data set and its warnings.

    Raises:
        PolyplinkError: If the folder is not of this set or an archive is broken; if strict, at
            the first faulty file or box.
    """
    release = Release(DATASET, source, **options)
    folders = list(release.sort(_place, ".xml").values())
    if not folders:
        missing = "folder train2019, val2019 or test2019 with Image and Annotation"
        raise release.nothing_found(missing)
    words = _read_frames(release, folders)
    recordings: list[ReleasedRecording] = []
    for folder in folders:
        sizes = {n: frame.size for n, frame in sorted(folder.frames.items()) if frame.size}
        if folder.part == "train":
            for size in sorted(set(sizes.values())):  # renumbered so that none follows another
                alike = (number for number in sizes if sizes[number] == size)
                frames = {number: i * TRAIN_STEP for i, number in enumerate(alike)}
                name, procedure = f"train_{size[0]}x{size[1]}", {"patient": "train"}
                changes = {"name": name, "size": size, "procedure": procedure}
                recordings.append(folder.renumbered(frames, **changes))
        elif sizes:
            recordings.append(_video_recording(folder, sizes, release.faults))
            if recordings[-1].has_boxes:
                classes = sorted(words[folder.name])
                recordings[-1].polyp = _histology(folder.name, classes, release.faults)
    return release.join(recordings, progress=release.progress)


def _place(member: Member, faults: Faults) -> FrameKey | None:
    """The video (or the training part) and the number of an image or annotation.

    Videos are named `val_10`, as the papers name them; train comes first, then val and test.
    """
    match = _FILE.search(member.path)
    if match is None:
        return None
    part, video, stem = match[1].lower(), match[3], match[4]
    if (video is None) != (part == "train"):
        kind = "import.in_folder" if part == "train" else "import.outside_folder"
        hint = "move it as it was released"
        faults.fault(Message(kind, {"part": part}), member.image, hint)
    elif (number := whole_number(stem)) is None or number >= LARGEST // TRAIN_STEP:
        faults.fault(Message("import.unnumbered_file"), member.image, "restore its name")
    else:
        order = (PARTS.index(part), *layout.numbers_first(video or ""))
        return order, part if video is None else f"{part}_{video}", part, number
    return None


def _read_frames(release: Release, folders: list[ReleasedRecording]) -> dict[str, set[str]]:
    """Read sizes and boxes; annotations of frames without a known size are dropped.

    Returns:
        Folder -> the class names of its boxes, in lower case.
    """
    faults, with_images = release.faults, _read_sizes(release, folders)
    words: defaultdict[str, set[str]] = defaultdict(set)
    for folder, frame, member, voc in release.parse(folders, parse_voc_file):
        if folder.name in with_images:
            if voc.size not in (None, frame.size):
                kind = Message("import.xml_size")
                faults.warn(kind, member.image)
        elif voc.size is None:
            kind = Message("import.no_size")
            faults.fault(kind, member.image, "unpack the images")
            continue
        else:
            kind = Message("import.size_of_xml")
            faults.warn(kind, member.image)
            frame.size = voc.size
        frame.boxes = [box.edges for box in voc.objects]
        words[folder.name] |= {box.label.lower() for box in voc.objects}
    return words


def _read_sizes(release: Release, folders: list[ReleasedRecording]) -> set[str]:
    """Read the sizes of images; return the names of the folders with an image.

    In a folder with images, annotations without a readable image are left out.
    """
    images, with_images = {}, set()
    for folder in folders:
        for frame in folder.frames.values():
            if frame.image is not None:
                images[frame.image] = frame
                with_images.add(folder.name)
    for member, size in release.tree.image_sizes(list(images), release.faults).items():
        images[member].size = size
    for folder in (folder for folder in folders if folder.name in with_images):
        for _, frame in sorted(folder.frames.items()):
            if frame.annotation is not None and frame.image is None:
                release.faults.warn(Message("import.annotation_without_image"), frame.where)
            if frame.size is None:
                frame.annotation = None
    return with_images


def _video_recording(
    folder: ReleasedRecording, sizes: dict[int, layout.Size], faults: Faults
) -> ReleasedRecording:
    """One video of val or test; its size is the most frequent one, on ties the first."""
    size = Counter(sizes.values()).most_common(1)[0][0]
    recording = folder.renumbered({number: number for number in sizes}, size=size)
    for frame in recording.frames.values():
        if frame.boxes and frame.size != size:
            kind = Message("import.other_size")
            faults.fault(kind, frame.where, "resize the image and its boxes")
            frame.boxes = None
        elif len(frame.boxes or ()) > 1:
            faults.warn(Message("import.several_boxes"), frame.where)
    return recording


def _histology(name: str, words: list[str], faults: Faults) -> dict[str, str | None]:
    """The histology of a video's polyp: the class name of all its boxes."""
    if len(words) > 1:
        faults.warn(Message("import.several_classes"), name)
        return {}
    word = words[0] or None
    histology_class = word if word in ADENOMA["polypsset"] else None
    if histology_class is None:
        kind = Message("import.unknown_class")
        faults.warn(kind, f"{name} ({word})")
    return {"histology": word, "histology_class": histology_class}


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


def write_polypsset(data: DataSet, root: Path) -> None:
    """Write a data set in the layout of PolypsSet: an XML for every frame.

    As in the release, numbers are between blanks, and `filename` has another ending than the file.
    The layout requires boxes of whole pixels. It has no field for polyp ids (one polyp per video),
    patients, frame rates, scores, sizes in mm, locations, and histology except the class name of
    the boxes; training images lose their frame numbers.

    Args:
        data: Procedures named `val_<folder>`, `test_<folder>`, or `train_<W>x<H>` with frames of
            even numbers.
        root: Folder to write into; created if absent.

    Raises:
        PolyplinkError: If a procedure has another name, a training box is in an odd frame, or a box
            is not of whole pixels.
    """
    boxes = layout.whole_edges(data, "PolypsSet")
    words = dict(data.polyps.select("procedure_id", pl.col("histology").fill_null("")).iter_rows())
    first = 1  # number of the next training image, which is in no folder
    names, example = r"(train|val|test)_(.+)", "val_<id>, test_<id> or train_<width>x<height>"
    for procedure, match in layout.procedures_to_write(data, root, DATASET, names, example):
        name, part, folder = match.group(0, 1, 2)
        frame_boxes, word = boxes.get(name, {}), xml_text(words.get(name, ""))
        stems = {frame: frame for frame in range(procedure["n_frames"])}
        if part == "train":
            between = [frame for frame in frame_boxes if frame % TRAIN_STEP]
            if between:
                raise PolyplinkError(
                    f"procedure {name}: a box in frame {between[0]} of training",
                    "number its images 0, 2, 4, ...",
                )
            folder, word = "", "adenomatous"
            stems = {f: first + i for i, f in enumerate(range(0, len(stems), TRAIN_STEP))}
            first += len(stems)
        annotations = root / f"{part}2019" / "Annotation" / folder
        annotations.mkdir(parents=True, exist_ok=True)
        for frame, stem in stems.items():
            text = _FRAME.format(
                folder=xml_text(folder),
                stem=stem,
                width=procedure["width"],
                height=procedure["height"],
                objects="".join(
                    _OBJECT.format(*box, name=word) for box in frame_boxes.get(frame, [])
                ),
            )
            (annotations / f"{stem}.xml").write_text(text, encoding="utf-8")


POLYPSSET = Format(
    import_polypsset,
    write_polypsset,
    (*ONE_A_VIDEO, "patients", "age, sex and brand", "sizes", "locations", "morphology"),
)
