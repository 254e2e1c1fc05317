"""The files of the SUN database, sorted into cases, and the boxes they hold.

Two packagings are in use: `case1/*.jpg` with `annotation_txt/case1.txt`, and `imgs/case1/*.jpg`
with `annotation_xml/case1/*.xml`. What lies under a path that says `negative` shows no polyp.
"""

import re
from dataclasses import dataclass, field
from functools import partial

from polyplink.data.faults import Faults
from polyplink.data.files.folders import IMAGE_ENDINGS
from polyplink.data.files.trees import Member, Tree
from polyplink.data.formats.edge_boxes import Edges
from polyplink.data.sets.plain_voc import parse_plain_voc
from polyplink.data.sets.sun_names import SunName, parse_name
from polyplink.data.sets.sun_text import SunLine, parse_case

_TEXT = re.compile(r"(?:^|/)case_?0*(\d+)\.txt$", re.I)
_FILE = re.compile(r"(?:^|/)(?:case|negative)_?0*(\d+)/([^/]+)\.[^/.]+$", re.I)
_NO_POLYP = ("1", "non-polyp", "non_polyp", "nonpolyp", "normal")


@dataclass
class CaseFiles:
    """The files of one case or video, by the image's name.

    Attributes:
        number: Of its folder.
        positive: Whether it is a case with a polyp.
        images: The images.
        texts: Annotations as text, usually one.
        xmls: Annotations as XML.
        boxes: Polyps' edges of every image that has an annotation, once they are read.
        where: Where they were read, for messages.
    """

    number: int
    positive: bool
    images: dict[SunName, Member] = field(default_factory=dict)
    boxes: dict[SunName, list[Edges]] = field(default_factory=dict)
    where: dict[SunName, str] = field(default_factory=dict)
    texts: list[Member] = field(default_factory=list)
    xmls: dict[SunName, Member] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the procedure, `case7` or `negative7`."""
        return f"{'case' if self.positive else 'negative'}{self.number}"


def find_cases(tree: Tree, source: str, faults: Faults) -> list[CaseFiles]:
    """Sort the files of a tree into cases.

    Args:
        tree: The tree.
        source: Name of the folder or archive that the user gave, which may say `negative`.
        faults: Told of files outside of case folders, with odd names, or of which there are two.

    Returns:
        The cases by number, those with polyps first.
    """
    cases: dict[tuple[bool, int], CaseFiles] = {}

    def case_of(member: Member, number: int) -> CaseFiles:
        positive = "negative" not in f"{source}/{member.image}".lower()
        return cases.setdefault((not positive, number), CaseFiles(number, positive))

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


def read_case_boxes(tree: Tree, cases: list[CaseFiles], faults: Faults) -> None:
    """Read the annotations of all cases into their `boxes` and `where`, archives in one pass."""
    texts = {member: case for case in cases for member in case.texts}
    for member, lines in tree.parse_each(texts, partial(_lines, faults), faults).items():
        for line in lines:
            name = parse_name(line.stem)
            if name is None:
                where = f"{member.image} ({line.stem})"
                faults.fault("image name without segment and number", where, "restore its name")
                continue
            case, where = texts[member], f"{member.image} ({line.stem})"
            if name in case.boxes:
                faults.warn("image named in two lines, all boxes kept", where)
            case.boxes.setdefault(name, []).extend(line.edges)
            case.where[name] = where
    xmls = {member: (case, name) for case in cases for name, member in case.xmls.items()}
    for member, frame in tree.parse_each(xmls, parse_plain_voc, faults).items():
        case, name = xmls[member]
        polyps = [box.edges for box in frame.objects if box.name.lower() not in _NO_POLYP]
        for _ in range(len(frame.objects) - len(polyps)):
            faults.warn("box of class 1 (no polyp), not taken", member.image)
        if name in case.boxes:
            faults.fault("image annotated as text and as XML", member.image, "remove one of them")
            continue
        case.boxes[name], case.where[name] = polyps, member.image


def _lines(faults: Faults, data: bytes, name: str) -> list[SunLine]:
    return parse_case(data, name, faults)
