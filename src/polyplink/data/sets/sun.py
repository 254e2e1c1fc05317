"""The SUN colonoscopy video database: 100 polyps of 99 patients, and videos without polyp.

Source: Misawa et al., Gastrointestinal Endoscopy 2021; sundatabase.org, on request. Its terms
forbid distributing anything made from it, so nothing of it is included here, not even the table of
its cases. Two packagings are in use and both are read: `case1/*.jpg` .. `case100` with
`annotation_txt/case1.txt`, and `imgs/case1/*.jpg` with `annotation_xml/case1/*.xml`. The folder is
the only link between an image and its polyp; images below a folder of negatives show no polyp.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, Unpack

import polars as pl

from polyplink.core.artefacts import write_text
from polyplink.core.errors import ImportOptionError
from polyplink.core.messages import Message
from polyplink.data.faults import Faults, with_value
from polyplink.data.files.folders import IMAGE_ENDINGS
from polyplink.data.files.trees import Member, decode_text
from polyplink.data.formats.format import ONE_A_VIDEO, Format, ImportOptions
from polyplink.data.sets import layout
from polyplink.data.sets.facts import add_facts, read_facts
from polyplink.data.sets.layout import (
    Edges,
    Frame,
    FrameKey,
    Release,
    ReleasedRecording,
)
from polyplink.data.sets.voc import parse_voc_file
from polyplink.data.tables import DataSet, Imported, csv_text
from polyplink.data.vocabulary import ADENOMA

DATASET = "sun"
FPS = 30.0  # of every video, according to the site

_WANTED = ("patient", "morphology", "size_mm", "location", "histology")  # of the table of cases

# Term or abbreviation, in lower case -> class of the papers' adenoma map.
CLASSES: Mapping[str, str] = {
    **{word.lower(): word for word in ADENOMA["sun"]},
    "la": "Low-grade adenoma",
    "ha": "High-grade adenoma",
    "hp": "Hyperplastic polyp",
    "sessile serrated lesion": "SSL",
    "traditional serrated adenoma": "TSA",
    "ic": "Invasive cancer (T1b)",
}

_TEXT = re.compile(r"(?:^|/)case_?0*(\d{1,8})\.txt$", re.I)
_FILE = re.compile(r"(?:^|/)(?:case|negative)_?0*(\d{1,8})/([^/]+)\.[^/.]+$", re.I)
_SEGMENT = re.compile(r"_a(\d{1,8})_", re.I)
_POLARITY = re.compile("positive|negative")
_IMAGE = re.compile(r"image_?(\d{1,8})$", re.I)
_NO_POLYP = ("1", "non-polyp", "non_polyp", "nonpolyp", "normal")  # classes of a box in XML


class ImageName(NamedTuple):
    """The parts of an image's name; names sort by segment, then number, as numbers.

    A name such as `case_M_20181001100941_0U62372100109341_1_005_001-1_a10_ayy_image0001` does not
    contain the case. `aN` is a segment of the recording, and the image number restarts in each.
    This is inferred from the names; the release does not describe them.

    Attributes:
        segment: N of `aN`.
        prefix: Everything before the number: another prefix means another segment.
        number: The image's number in the segment.
    """

    segment: int
    prefix: str
    number: int


def import_sun(
    source: Path,
    *,
    size: layout.Size | None = None,
    cases: Path | None = None,
    **options: Unpack[ImportOptions],
) -> Imported:
    """Read the SUN database into the three tables.

    Procedures and polyps are `case1` .. `case100`; videos without polyp are `negative1` ..
    `negative13`. The parts are `positive` and `negative`. Frame numbers follow from the image names
    (see `number_frames`): one frame number is skipped between segments of a case, so that no
    tracklet crosses them.

    Args:
        source: A folder that contains the case folders, plain or in archives (which must have been
            decrypted first).
        size: Width and height of the frames, for cases without an image.
        cases: Table of the cases, .csv or .xlsx, that the user makes: the site (sundatabase.org)
            lists shape, size, location and pathology of every case on a page, not in a file, and
            its terms forbid distributing the data. Columns, in any order: `case` (7 or case7), and
            any of `patient`, `shape` (Is, IIa, ...), `size` (`5mm`, `15mm-` for 15 mm or more),
            `location` and `pathology`, both in words or in the abbreviations C A T D S R and LA HA
            HP SSL TSA IC. Without the table these are null, and each case is its own patient.
        options: See `ImportOptions`.

    Returns:
        The data set and its warnings.

    Raises:
        PolyplinkError: If the folder is not of this set, an archive is broken, or no case has a
            size; if strict, at the first fault.
    """
    release = Release(DATASET, source, **options)
    faults = release.faults
    case_recordings = _find_cases(release)
    if not case_recordings:
        raise release.nothing_found("folders case1, case2, ... or annotation_txt/case1.txt")
    facts = {} if cases is None else read_facts(cases, _WANTED, CLASSES, faults)

    # The frames of each case by number, and its size.
    recordings = []
    for case in case_recordings:
        readable = [
            name for name, frame in case.frames.items() if frame.image or frame.boxes is not None
        ]
        recordings.append(case.renumbered(number_frames(readable)))
    release.size_by_first_image(recordings)
    for recording in recordings:
        if not recording.frames:
            kind = Message("import.empty_case")
            faults.fault(kind, recording.name, "restore it")
        elif recording.size == (0, 0) and size is not None:
            recording.size = size
        elif recording.size == (0, 0):
            hint = "give the frames' width and height, or unpack the images"
            faults.fault(Message("import.unsized_case"), recording.name, hint)
    recordings = [recording for recording in recordings if recording.size != (0, 0)]
    if not recordings:
        raise ImportOptionError(
            f"{source} has no image that gives the size of frames", "give --size WIDTHxHEIGHT"
        )

    # Facts of the cases; a negative one is its own patient, and needs no annotation.
    positive: dict[int, ReleasedRecording] = {}
    for recording in recordings:
        recording.procedure["fps"] = FPS
        if recording.has_boxes:
            recording.polyp = {}
        if recording.part == "positive":
            positive[int(recording.name.removeprefix("case"))] = recording
            continue
        recording.procedure["patient"] = recording.name
        for frame in recording.frames.values():  # images have no annotation here: no warning
            frame.annotation = frame.annotation or frame.image
    add_facts(positive, facts, None if cases is None else cases.name, faults)
    return release.join(recordings, progress=release.progress)


def _find_cases(release: Release) -> list[ReleasedRecording]:
    """The cases by number, those with polyps first, with frames by image name and their boxes."""
    faults = release.faults

    def place(member: Member, number: str, name: ImageName | None) -> FrameKey:
        """The place of a file of the case with a number."""
        # The name of the source itself may say it too; of several folders, the last one counts.
        words = _POLARITY.findall(f"{release.source.name}/{member.image}".lower())
        negative = words[-1:] == ["negative"]
        kind, part = ("negative", "negative") if negative else ("case", "positive")
        return (negative, int(number)), f"{kind}{int(number)}", part, name

    def place_file(member: Member, faults: Faults) -> FrameKey | None:
        """The place of an image or XML file, by its folder and its name."""
        match = _FILE.search(member.path)
        if match is None:
            if "annotation_xml/" in member.path or "imgs/" in member.path:
                faults.fault(Message("import.outside_case"), member.image, "put it into one")
        elif (name := parse_name(match[2])) is None:
            hint = "restore its name"
            faults.fault(Message("import.no_segment"), member.image, hint)
        else:
            return place(member, match[1], name)
        return None

    # Images and XML files, sorted by case, and the text of each case.
    cases = release.sort(place_file, ".xml")
    texts: dict[Member, ReleasedRecording] = {}
    for member in release.tree.members:
        if match := _TEXT.search(member.path):
            order, case_name, part, _ = place(member, match[1], None)
            texts[member] = cases.setdefault(order, ReleasedRecording(case_name, part))
    # Each archive is read in one pass for XML files and in one for texts.
    xmls = list(release.parse(cases.values(), parse_voc_file))
    lines = release.tree.parse_each(texts, lambda data, at: parse_case(data, at, faults), faults)

    # Their boxes; a frame has them either from a text or from an XML file.
    for member, read in lines.items():
        for stem, edges in read:
            name, source_line = parse_name(stem), f"{member.image} ({stem})"
            if name is None:
                faults.fault(Message("import.image_name"), source_line, "restore its name")
                continue
            frame = texts[member].frames.setdefault(name, Frame())
            if frame.boxes is not None:
                faults.warn(Message("import.image_in_two_lines"), source_line)
            frame.boxes = [*(frame.boxes or ()), *edges]
            frame.annotation = Member(member.path, source_line)
    for _, frame, member, voc in xmls:
        polyps = [box.edges for box in voc.objects if box.label.lower() not in _NO_POLYP]
        if n_others := len(voc.objects) - len(polyps):
            faults.warn(Message("import.class_1"), member.image, n_others)
        if frame.boxes is not None:
            faults.fault(Message("import.text_and_xml"), member.image, "remove one of them")
        else:
            frame.boxes = polyps
    return [cases[order] for order in sorted(cases)]


def parse_name(stem: str) -> ImageName | None:
    """Parse an image's name without its ending; None if it has no segment or number."""
    segment, image = _SEGMENT.search(stem), _IMAGE.search(stem)
    if segment is None or image is None:
        return None
    return ImageName(int(segment[1]), stem[: image.start(1)], int(image[1]))


def number_frames(names: Iterable[ImageName]) -> dict[ImageName, int]:
    """Number the frames of a case such that every segment is a separate tracklet.

    Image 1 of the first segment is frame 0. Within a segment, frame numbers differ as the image
    numbers do. One frame number is skipped between segments: image 1 of a segment is two frames
    after the last image of the segment before. The real time between segments is unknown.

    Args:
        names: The images of one case, each once.

    Returns:
        The frame number of each image, in the order of the frames.

    Example:
        >>> names = [ImageName(10, "b", 1), ImageName(2, "a", 1), ImageName(2, "a", 4)]
        >>> list(number_frames(names).values())
        [0, 3, 5]
    """
    frames: dict[ImageName, int] = {}
    start = 0
    for _, group in groupby(sorted(names), key=lambda name: (name.segment, name.prefix)):
        segment = list(group)
        first = min(1, segment[0].number)  # a segment may be counted from 0
        for name in segment:
            frames[name] = start + name.number - first
        start = frames[segment[-1]] + 2
    return frames


def parse_case(data: bytes, name: str, faults: Faults) -> list[tuple[str, list[Edges]]]:
    """Read the annotation text of one case; blank lines are skipped.

    A line is `filename xmin,ymin,xmax,ymax,class`, class 0 polyp and 1 no polyp.

    Args:
        data: The file's bytes.
        name: The file's name, for messages.
        faults: Counts lines and boxes that cannot be read, and boxes of class 1.

    Returns:
        For each line the image's name, without folder and ending, and the polyps' edges; a line
        may have no box, or several.

    Raises:
        PolyplinkError: If the file is not UTF-8 text; if strict, at the first line that cannot be
            read.
    """
    lines = []
    kind, hint = Message("import.broken_line"), "write `filename xmin,ymin,xmax,ymax,class`"
    for number, text in enumerate(decode_text(data, name).splitlines(), 1):
        words = text.split()
        boxes = [word for word in words if "," in word]
        image = text.partition(boxes[0])[0].strip() if boxes else text.strip()
        place = Message("place.line", {"file": name, "number": number})
        if not words:
            continue
        in_order = words[len(words) - len(boxes) :] == boxes  # the name, then only boxes
        if not image or not in_order or (not boxes and len(words) > 1):
            faults.fault(kind, with_value(place, f"{text.strip()[:80]!r}"), hint)
            continue
        polyps: list[Edges] = []
        for word in boxes:
            *sides, label = word.split(",")
            try:
                left, top, right, bottom = map(float, sides)
            except ValueError:
                faults.fault(kind, with_value(place, f"{word[:80]!r}"), hint)
                continue
            if label == "0":
                polyps.append((left, top, right, bottom))
            elif label == "1":
                faults.warn(Message("import.class_1"), place)
            else:
                faults.fault(
                    Message("import.unknown_box_class"),
                    with_value(place, word),
                    "write 0 for a polyp",
                )
        last = image.replace("\\", "/").rpartition("/")[2]  # no path object: there are 1e6 lines
        stem, dot, ending = last.rpartition(".")
        is_image = f"{dot}{ending}".lower() in IMAGE_ENDINGS
        lines.append((stem if is_image else last, polyps))
    return lines


def write_sun(data: DataSet, root: Path) -> None:
    """Write a data set in the layout of SUN: texts and `cases.csv`.

    As in the release, the positive part only has frames with a box, the image number restarts after
    every gap, and the file names do not contain the case. Lost are frames after a case's last box,
    scores, image sizes, further polyps of a case, frame rates other than 30, and procedures without
    a box. The terms of SUN forbid distributing files made from it: write them for your own use
    only.

    Args:
        data: Procedures named `case<number>` or `negative<number>`.
        root: Folder to write into; created if absent.

    Raises:
        PolyplinkError: If a procedure has another name, or a box is not of whole pixels.
    """
    boxes = layout.whole_edges(data, "SUN")
    names, example = r"(case|negative)(0|[1-9]\d{0,7})", "case<number>, without leading zeros"
    for procedure, match in layout.procedures_to_write(data, root, DATASET, names, example):
        procedure_id, n_frames = procedure["procedure_id"], procedure["n_frames"]
        positive, number = match[1] == "case", int(match[2])
        frame_boxes = boxes.get(procedure_id, {})
        folder = root / f"sundatabase_{'positive' if positive else 'negative'}_part1"
        # Names in the release contain the recording, not the case. After every gap, a new segment
        # begins, with images counted from 1.
        stem = f"case_M_20180101000000_0U{number * 7919:014d}_1_{number % 7:03d}_001-1"
        segment, start, last = 0, 0, -2
        lines = []
        for frame in sorted(frame_boxes) if positive else range(n_frames):
            if frame > last + 1:
                segment, start = segment + 1, last + 2
            name, last = f"{stem}_a{segment}_ayy_image{frame - start + 1:04d}.jpg", frame
            if frame in frame_boxes:
                words = [",".join(map(str, (*edges, 0))) for edges in frame_boxes[frame]]
                lines.append(" ".join([name, *words]))
        if lines:
            text = "\n".join(lines) + "\n\n"
            write_text(folder / "annotation_txt" / f"case{number}.txt", text)
    patients = data.procedures.select("procedure_id", "patient")
    rows = data.polyps.join(patients, "procedure_id", how="left", maintain_order="left")
    bound = pl.when(pl.col("size_mm") == 15).then(pl.lit("-")).otherwise(pl.lit(""))  # as the site
    cases = rows.select(
        case=pl.col("procedure_id").str.strip_prefix("case"),
        patient="patient",
        shape="morphology",
        size=layout.MILLIMETRES + bound,
        location="location",
        pathology=pl.coalesce("histology_class", "histology"),
    )
    write_text(root / "cases.csv", csv_text(cases))


SUN = Format(
    import_sun,
    write_sun,
    (
        *(*ONE_A_VIDEO, "age, sex and brand", "frame sizes"),
        *("frames after the last box", "empty procedures"),
    ),
)
