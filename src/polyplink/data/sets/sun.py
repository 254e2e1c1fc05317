"""The SUN colonoscopy video database: 100 polyps of 99 patients, and videos without polyp.

Source: Misawa et al., Gastrointestinal Endoscopy 2021; sundatabase.org, on request; its terms
forbid to distribute what is made of it. Nothing of it is in here, not even the table of its cases.
Two packagings are in use, both are read: `case1/*.jpg` .. `case100` with
`annotation_txt/case1.txt`, and `imgs/case1/*.jpg` with `annotation_xml/case1/*.xml`. Folders are
the only link between an image and its polyp; what lies under a path with `negative` shows none.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import polars as pl

from polyplink.core.artefacts import write_text
from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.files.folders import IMAGE_ENDINGS
from polyplink.data.files.trees import Member, Tree, decode_text, open_tree
from polyplink.data.formats.text import read_text_table
from polyplink.data.sets.layout import (
    Edges,
    FrameSource,
    Recording,
    first_image_sizes,
    join_recordings,
    nothing_found,
    parse_voc_file,
    short_number,
    whole_edges,
    write_image,
    write_origin,
)
from polyplink.data.tables import DataSet, Imported
from polyplink.data.vocabulary import ADENOMA, normalise_location

DATASET = "sun"
FPS = 30.0  # of every video, by the site
COLUMNS = ("case", "patient", "shape", "size", "location", "pathology")  # of the table of cases

# Abbreviations as GewelsJI/VPS lists them, docs/INFO_POSITIVE_CASES.md.
LOCATIONS: Mapping[str, str] = {
    "c": "cecum",
    "a": "ascending",
    "t": "transverse",
    "d": "descending",
    "s": "sigma",
    "r": "rectum",
}
# Word or abbreviation, in lower case -> class of the papers' adenoma map.
CLASSES: Mapping[str, str] = {
    **{word.lower(): word for word in ADENOMA["sun"]},
    "la": "Low-grade adenoma",
    "ha": "High-grade adenoma",
    "hp": "Hyperplastic polyp",
    "sessile serrated lesion": "SSL",
    "traditional serrated adenoma": "TSA",
    "ic": "Invasive cancer (T1b)",
}

_TEXT = re.compile(r"(?:^|/)case_?0*(\d+)\.txt$", re.I)
_FILE = re.compile(r"(?:^|/)(?:case|negative)_?0*(\d+)/([^/]+)\.[^/.]+$", re.I)
_SEGMENT = re.compile(r"_a(\d{1,8})_", re.I)
_IMAGE = re.compile(r"image_?(\d{1,8})$", re.I)
_CASE = re.compile(r"(?:case\s*)?0*(\d+)", re.I)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:mm)?\s*(-?)", re.I)
_NO_POLYP = ("1", "non-polyp", "non_polyp", "nonpolyp", "normal")  # classes of a box in XML


class ImageName(NamedTuple):
    """What an image's name says; names sort by segment, then number, as numbers.

    A name such as `case_M_20181001100941_0U62372100109341_1_005_001-1_a10_ayy_image0001` does not
    hold the case. `aN` is a segment of the recording, and the image number starts again in each.
    This is inferred from the names; the release does not describe them.

    Attributes:
        segment: N of `aN`.
        prefix: All that stands before the number: images with another one are of another segment.
        number: The image's number in the segment.
    """

    segment: int
    prefix: str
    number: int


@dataclass
class _Case:
    """The files of one case or negative video, by the image's name."""

    number: int
    positive: bool
    images: dict[ImageName, Member] = field(default_factory=dict)
    texts: list[Member] = field(default_factory=list)
    xmls: dict[ImageName, Member] = field(default_factory=dict)
    boxes: dict[ImageName, list[Edges]] = field(default_factory=dict)  # of annotated images
    where: dict[ImageName, str] = field(default_factory=dict)  # they were read, for messages

    @property
    def name(self) -> str:
        return f"{'case' if self.positive else 'negative'}{self.number}"


def import_sun(
    source: Path,
    *,
    images: bool = True,
    strict: bool = False,
    progress: Callable[[int, int], None] | None = None,
    workers: int = 1,
    size: tuple[int, int] | None = None,
    cases: Path | None = None,
) -> Imported:
    """Read the SUN database into the three tables.

    Procedures and polyps are `case1` .. `case100`; videos without polyp are `negative1` ..
    `negative13`. The parts are `positive` and `negative`. Frame numbers follow from the image names
    (see `number_frames`): every segment of a case is separated from the next by one frame number
    that is left out, so no tracklet crosses it.

    Args:
        source: A folder above the case folders, plain or in archives (which must have been opened
            with their password first).
        images: Name each box's image, where the case has any.
        strict: Raise at the first fault instead of leaving it out and counting it.
        progress: Called after every case with how many are read and how many there are.
        workers: Ignored; every importer has it, and this set is read by one process.
        size: Width and height of the frames, for cases without an image.
        cases: CSV table of the cases (see `read_cases`); without it size, histology, location and
            shape are null, and each case is its own patient.

    Returns:
        The data set and its warnings.

    Raises:
        PolyplinkError: If the folder is not of this set, an archive is broken, or no case has a
            size; if strict, at the first fault.
    """
    del workers
    faults = Faults(strict)
    tree = open_tree(source, faults)
    found = _find_cases(tree, source.name, faults)
    if not found:
        wanted = "folders case1, case2, ... or annotation_txt/case1.txt"
        raise nothing_found(tree, source, wanted, DATASET)
    _read_boxes(tree, found, faults)
    table = {} if cases is None else read_cases(cases, faults)
    recordings = [_recording(case) for case in found]
    first_image_sizes(tree, recordings, faults)
    for recording in recordings:
        if recording.size != (0, 0):
            continue
        if recording.n_frames == 0:
            kind = "case without an image or a line that can be read"
            faults.fault(kind, recording.name, "restore it")
        elif size is not None:
            recording.size = size
        else:
            mend = "give the frames' width and height, or unpack the images"
            faults.fault("case without an image to take its size from", recording.name, mend)
    recordings = [recording for recording in recordings if recording.size != (0, 0)]
    if not recordings:
        raise PolyplinkError(
            f"{source} has no image to take the frames' size from", "give their width and height"
        )
    _add_facts(recordings, table, cases, faults)
    return join_recordings(recordings, tree, DATASET, faults, images=images, progress=progress)


def _find_cases(tree: Tree, source: str, faults: Faults) -> list[_Case]:
    """Sort the files of a tree into cases, by number, those with polyps first.

    The name of the folder or archive that the user gave, `source`, may say `negative` too.
    """
    cases: dict[tuple[bool, int], _Case] = {}

    def case_of(member: Member, number: int) -> _Case:
        positive = "negative" not in f"{source}/{member.image}".lower()
        return cases.setdefault((not positive, number), _Case(number, positive))

    for member in tree.members:
        file, text = _FILE.search(member.path), _TEXT.search(member.path)
        if text is not None:
            case_of(member, int(text[1])).texts.append(member)
        elif member.suffix not in (*IMAGE_ENDINGS, ".xml"):
            continue
        elif file is None:
            if "annotation_xml/" in member.path or "imgs/" in member.path:
                faults.fault("file outside of a case folder", member.image, "put it into one")
        elif (name := parse_name(file[2])) is None:
            mend = "restore its name"
            faults.fault("file whose name has no segment and number", member.image, mend)
        else:
            case = case_of(member, int(file[1]))
            files = case.xmls if member.suffix == ".xml" else case.images
            if name in files:
                faults.fault("second file of an image", member.image, "remove one of them")
            else:
                files[name] = member
    return [cases[key] for key in sorted(cases)]


def parse_name(stem: str) -> ImageName | None:
    """Read an image's name without its ending; None where it has no segment or number."""
    segment, image = _SEGMENT.search(stem), _IMAGE.search(stem)
    if segment is None or image is None:
        return None
    return ImageName(int(segment[1]), stem[: image.start(1)], int(image[1]))


def number_frames(names: Iterable[ImageName]) -> dict[ImageName, int]:
    """Give the images of a case frame numbers, so that every segment is a tracklet of its own.

    Image 1 of the first segment is frame 0. Inside a segment the step between two images is that
    of their numbers. One frame number is left out before each further segment: its image 1 comes
    two frames after the last image of the segment before. Nothing else is known of the time
    between segments.

    Args:
        names: The images of one case, each once.

    Returns:
        The frame number of each, in the order of the frames.

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


def _read_boxes(tree: Tree, cases: list[_Case], faults: Faults) -> None:
    """Read the annotations of all cases, those of an archive in one pass."""
    texts = {member: case for case in cases for member in case.texts}
    lines = tree.parse_each(texts, lambda data, name: parse_case(data, name, faults), faults)
    for member, read in lines.items():
        case = texts[member]
        for stem, edges in read:
            name, where = parse_name(stem), f"{member.image} ({stem})"
            if name is None:
                faults.fault("image name without segment and number", where, "restore its name")
                continue
            if name in case.boxes:
                faults.warn("image named in two lines, all boxes kept", where)
            case.boxes.setdefault(name, []).extend(edges)
            case.where[name] = where
    xmls = {member: (case, name) for case in cases for name, member in case.xmls.items()}
    for member, frame in tree.parse_each(xmls, parse_voc_file, faults).items():
        case, name = xmls[member]
        polyps = [box.edges for box in frame.objects if box.label.lower() not in _NO_POLYP]
        if others := len(frame.objects) - len(polyps):
            faults.warn("box of class 1 (no polyp), not taken", member.image, others)
        if name in case.boxes:
            faults.fault("image annotated as text and as XML", member.image, "remove one of them")
        else:
            case.boxes[name], case.where[name] = polyps, member.image


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
        PolyplinkError: If the file is no text; if strict, at the first line that cannot be read.
    """
    lines = []
    kind, mend = "line that cannot be read", "write `filename xmin,ymin,xmax,ymax,class`"
    for number, text in enumerate(decode_text(data, name).splitlines(), 1):
        words = text.split()
        boxes = [word for word in words if "," in word]
        image = text.partition(boxes[0])[0].strip() if boxes else text.strip()
        where = f"{name}, line {number}"
        if not words:
            continue
        in_order = words[len(words) - len(boxes) :] == boxes  # the name, then boxes alone
        if not image or not in_order or (not boxes and len(words) > 1):
            faults.fault(kind, f"{where} ({text.strip()[:80]!r})", mend)
            continue
        polyps: list[Edges] = []
        for word in boxes:
            *sides, label = word.split(",")
            try:
                left, top, right, bottom = map(float, sides)
            except ValueError:
                faults.fault(kind, f"{where} ({word[:80]!r})", mend)
                continue
            if label == "0":
                polyps.append((left, top, right, bottom))
            elif label == "1":
                faults.warn("box of class 1 (no polyp), not taken", where)
            else:
                faults.fault("box of an unknown class", f"{where} ({word})", "write 0 for a polyp")
        path = PurePosixPath(image.replace("\\", "/"))
        is_image = path.suffix.lower() in IMAGE_ENDINGS
        lines.append((path.stem if is_image else path.name, polyps))
    return lines


def _recording(case: _Case) -> Recording:
    """The files and boxes of a case by frame number instead of by name."""
    frames = number_frames({*case.images, *case.boxes})
    recording = Recording(
        case.name,
        "positive" if case.positive else "negative",
        n_frames=max(frames.values(), default=-1) + 1,
        procedure={"fps": FPS},
        images={frames[name]: member for name, member in case.images.items()},
        where={frames[name]: where for name, where in case.where.items()},
        boxes={frames[name]: boxes for name, boxes in case.boxes.items()},
    )
    if not case.positive:  # an image without an annotation is what is expected
        for frame, member in recording.images.items():
            recording.where.setdefault(frame, member.image)
    return recording


def _add_facts(
    recordings: list[Recording],
    table: dict[int, dict[str, str | float | None]],
    path: Path | None,
    faults: Faults,
) -> None:
    """Add what the table of cases says of the patients and polyps."""
    left = dict(table)
    for recording in recordings:
        if recording.part == "negative":
            facts = {}
        else:
            number = int(recording.name.removeprefix("case"))
            facts = dict(left.pop(number, {}))
            if number not in table:
                told = "no table of cases given" if path is None else f"no row in {path.name}"
                kind = f"case without size, histology, location and shape, {told}"
                faults.warn(kind, recording.name)
            if facts.get("patient") is None:
                kind = "case whose patient is not known, taken as its own patient"
                faults.warn(kind, recording.name)
        if patient := facts.pop("patient", None):
            recording.procedure["patient"] = patient
        if any(recording.boxes.values()):
            recording.polyp = facts
    for number in sorted(left):
        faults.warn("row of the table of cases without a case", f"case{number}")


def read_cases(path: Path, faults: Faults) -> dict[int, dict[str, str | float | None]]:
    """Read the table of cases, a CSV file that the user makes.

    The site (sundatabase.org) lists shape, size, location and pathology of every case on a page and
    not as a file, and its terms forbid to distribute the data. Columns, in any order: `case` (7 or
    case7), and any of `patient`, `shape` (Is, IIa, ...), `size` (`5mm`, `15mm-` for 15 mm or more),
    `location` and `pathology`, both in words or in the abbreviations C A T D S R and LA HA HP SSL
    TSA IC.

    Args:
        path: The CSV file.
        faults: Counts rows, sizes and pathologies that cannot be read, sizes that are a lower
            bound, and unknown columns.

    Returns:
        Case number -> patient, and columns of `POLYPS`.

    Raises:
        PolyplinkError: If the file is missing or no table, or has no column `case`; if strict, at
            the first value that cannot be read.
    """
    table = read_text_table(path)
    table = table.rename({name: name.lower() for name in table.columns})
    if "case" not in table.columns:
        raise PolyplinkError(f"{path} has no column 'case'", f"its columns: {', '.join(COLUMNS)}")
    for name in table.columns:
        if name not in COLUMNS:
            faults.warn("column of the table of cases that is not known, not read", name)
    cases: dict[int, dict[str, str | float | None]] = {}
    for row in table.iter_rows(named=True):
        words = {name: (row.get(name) or "").strip() or None for name in COLUMNS}
        match = _CASE.fullmatch(words["case"] or "")
        where = f"{path.name}, case {words['case']}"
        if match is None:
            faults.fault("row of no case", where, "write the case's number")
        elif int(match[1]) in cases:
            faults.fault("second row of a case", where, "remove one of them")
        else:
            cases[int(match[1])] = _case_facts(words, where, faults)
    return cases


def _case_facts(
    words: Mapping[str, str | None], where: str, faults: Faults
) -> dict[str, str | float | None]:
    location, pathology = words["location"], words["pathology"]
    if location is not None:
        location = LOCATIONS.get(location.lower(), location)
        location = normalise_location(pl.Series([location]))[0]
    known = CLASSES.get((pathology or "").lower())
    if pathology is not None and known is None:
        faults.fault("pathology of no known class", f"{where} ({pathology})", "use a site's word")
    text = words["size"]
    size = _SIZE.fullmatch(text or "")
    if text is not None and size is None:
        faults.fault("size that is no number", f"{where} ({text})", "write it as 5mm")
    elif size is not None and size[2]:
        faults.warn("size that is a lower bound, taken as the number", f"{where} ({text})")
    return {
        "patient": words["patient"],
        "morphology": words["shape"],
        "size_mm": None if size is None else float(size[1]),
        "location": location,
        "histology": pathology,
        "histology_class": known,
    }


def write_sun(data: DataSet, root: Path, *, frames: FrameSource | None = None) -> None:
    """Write a data set as the SUN database is packed: texts, images where given, `cases.csv`.

    As in the release the positive part holds only frames with a box, the image number starts
    again after every gap, and the file names do not hold the case. Lost are frames behind a
    case's last box, scores, image sizes (without images), further polyps of a case, frame rates
    other than 30, and procedures without a box unless there are images. The terms of SUN forbid
    to distribute files made of it: write them for your own use only.

    Args:
        data: Procedures named `case<number>` or `negative<number>`.
        root: Folder to write into; made if absent.
        frames: Gives the image of a frame.

    Raises:
        PolyplinkError: If a procedure is named otherwise, or a box is not of whole pixels.
    """
    boxes = whole_edges(data, "SUN")
    write_origin(data, root, DATASET)
    for procedure_id, n_frames in data.procedures.select("procedure_id", "n_frames").iter_rows():
        match = re.fullmatch(r"(case|negative)(\d+)", procedure_id)
        if match is None:
            raise PolyplinkError(
                f"procedure {procedure_id!r} is no case of SUN", "name it case<number>"
            )
        positive, number = match[1] == "case", int(match[2])
        found = boxes.get(procedure_id, {})
        names = _name_images(sorted(found) if positive else list(range(n_frames)), number)
        folder = root / f"sundatabase_{'positive' if positive else 'negative'}_part1"
        if frames is not None:
            for frame, name in names.items():
                image = folder / f"case{number}" / f"{name}.jpg"
                write_image(image, frames(procedure_id, frame))
        lines = [
            " ".join([f"{names[frame]}.jpg", *(",".join(map(str, (*b, 0))) for b in found[frame])])
            for frame in sorted(found)
        ]
        if lines:
            text = "\n".join(lines) + "\n\n"
            write_text(folder / "annotation_txt" / f"case{number}.txt", text)
    _write_cases(data, root / "cases.csv")


def _name_images(frames: list[int], case: int) -> dict[int, str]:
    """Image names of frames in rising order; a new segment, counted from 1, after every gap."""
    names: dict[int, str] = {}
    segment, start, last = 1, 0, -1
    for frame in frames:
        if frame > last + 1 and names:
            segment, start = segment + 1, last + 2
        # The names of the release say the recording, not the case.
        names[frame] = (
            f"case_M_20180101000000_0U{case * 7919:014d}_1_{case % 7:03d}_001-1"
            f"_a{segment}_ayy_image{frame - start + 1:04d}"
        )
        last = frame
    return names


def _write_cases(data: DataSet, path: Path) -> None:
    """Write the table that `read_cases` reads; 15 mm becomes `15mm-` as on the site."""
    patients = dict(data.procedures.select("procedure_id", "patient").iter_rows())
    word = pl.coalesce("histology_class", "histology").alias("word")
    columns = data.polyps.select("procedure_id", "morphology", "size_mm", "location", word)
    rows = [
        (
            procedure_id.removeprefix("case"),
            patients[procedure_id],
            shape,
            None if size is None else f"{short_number(size)}mm{'-' if size == 15 else ''}",
            location,
            pathology,
        )
        for procedure_id, shape, size, location, pathology in columns.iter_rows()
    ]
    schema = dict.fromkeys(COLUMNS, pl.String)
    write_text(path, pl.DataFrame(rows, schema=schema, orient="row").write_csv())
