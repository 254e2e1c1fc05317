"""LDPolypVideo as released: 160 annotated videos, no identities. Reader and writer.

Source: Ma et al., MICCAI 2021; github.com/dashishi/LDPolypVideo-Benchmark. Layout, as read by the
scripts of cosmoimd/yolov7 and sing-group/public-datasets-to-voc:
`TrainValid/Images/<id>/0001.jpg`, `TrainValid/Annotations/<id>/0001.txt` (the number of boxes, then
`xmin ymin xmax ymax` for each), and the same under `Test`. A download in several parts unpacks into
sibling folders that each contain some of the files.

103 further videos only have a label for the whole video. Those in a folder such as `videos without
polyps` show no polyp in any frame: they are procedures without a box. The others show a polyp in
unknown frames.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Unpack, get_args

from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message
from polyplink.core.text import many
from polyplink.data.faults import Faults
from polyplink.data.files.folders import is_video
from polyplink.data.files.trees import Member, decode_text
from polyplink.data.files.values import whole_number
from polyplink.data.formats.format import ONE_A_VIDEO, Format, ImportOptions
from polyplink.data.sets import layout
from polyplink.data.sets.layout import Edges, FrameKey, Release
from polyplink.data.tables import DataSet, Imported

DATASET = "ldpolyp"
SIZE = (560, 480)  # of every frame, according to the paper
PARTS: Mapping[str, str] = {"TrainValid": "train", "Test": "test"}  # folder -> part
_FOLDERS = {name.lower(): name for name in PARTS}
NEGATIVE = "negative"  # the part of the videos without polyp

Identity = Literal["video", "tracklet-safe"]

_FILE = re.compile(r"(?:^|/)(TrainValid|Test)/(Images|Annotations)/([^/]+)/([^/]+)\.(\w+)$", re.I)
_WITHOUT = re.compile(r"(?:^|/)[^/]*without[^/]*/", re.I)
_AGAIN = "download or unpack this file again"


def import_ldpolyp(
    source: Path, *, identity: Identity = "video", **options: Unpack[ImportOptions]
) -> Imported:
    """Read LDPolypVideo into the three tables.

    Procedures are named `<part>_<id>` (`TrainValid_1`), since ids may occur in both parts; the
    parts are `train` and `test`. File 0001 is frame 0. The frame rate is unknown and null. Videos
    in a folder named as without polyps have no boxes and form the part `negative`.

    Args:
        source: A folder that contains `TrainValid` and `Test`, plain or in archives, or one
            archive.
        identity: `video`: all boxes of a video are one polyp, as in the papers (160 identities,
            although 200 polyps are labelled). `tracklet-safe`: frames with two boxes or more are
            left out, and all boxes of a video with such a frame, which shows more than one polyp,
            have no polyp id.
        options: See `ImportOptions`.

    Returns:
        The data set and its warnings.

    Raises:
        PolyplinkError: If the identity is unknown, the folder is not of this set or an archive is
            broken; if strict, at the first faulty file or box.
    """
    if identity not in get_args(Identity):
        raise PolyplinkError(
            f"no identity {identity!r}", f"give --identity {' or '.join(get_args(Identity))}"
        )
    release = Release(DATASET, source, **options)
    faults = release.faults
    videos = list(release.sort(_place, ".txt").values())
    if not videos:
        missing = "files TrainValid/Annotations/<id>/0001.txt or Test/Annotations/<id>/0001.txt"
        raise release.nothing_found(missing)

    # Boxes and sizes of the annotated videos, and whether a video shows one polyp.
    for _, frame, _, boxes in release.parse(videos, parse_boxes):
        frame.boxes = boxes
    release.size_by_first_image(videos)
    for video in videos:
        if video.size == (0, 0):
            video.size = SIZE
            size = dict(zip(("width", "height"), SIZE, strict=True))
            faults.warn(Message("import.published_size", size), video.name)
        several = [frame for _, frame in sorted(video.frames.items()) if len(frame.boxes or ()) > 1]
        shared = Message("import.shared_identity")
        for frame in several:
            kind = shared if identity == "video" else Message("import.several_boxes_left_out")
            faults.warn(kind, frame.where)
            frame.boxes = frame.boxes if identity == "video" else None
        if several and identity != "video":
            faults.warn(Message("import.several_polyps"), video.name)
        elif video.has_boxes:
            video.polyp = {}

    # Videos without any polyp are procedures too.
    negative = {}
    for member in release.tree.members:
        if is_video(member.name) and _WITHOUT.search(member.path):
            negative[member] = f"{NEGATIVE}_{member.name.rpartition('.')[0]}"
        elif is_video(member.name):
            kind = Message("import.label_of_video")
            faults.warn(kind, member.image)
    opened = release.open_videos(negative, part=NEGATIVE)
    videos += sorted(opened, key=lambda video: (len(video.name), video.name))
    return release.join(videos, progress=release.progress)


def _place(member: Member, faults: Faults) -> FrameKey | None:
    """The recording and frame of an image or annotation."""
    match = _FILE.search(member.path)
    if match is None or (match[2].lower() == "images") == (match[5].lower() == "txt"):
        return None
    part, folder, stem = _FOLDERS[match[1].lower()], match[3], match[4]
    frame = (whole_number(stem) or 0) - 1
    if frame < 0:
        faults.fault(Message("import.unnumbered_from_1"), member.image, "rename it")
        return None
    order = (part == "Test", *layout.numbers_first(folder))
    return order, f"{part}_{folder}", PARTS[part], frame


def parse_boxes(data: bytes, name: str) -> list[Edges]:
    """Read one annotation; blank lines are skipped.

    Args:
        data: The file's bytes.
        name: The file's name, for messages.

    Returns:
        The edges of its boxes; empty if the frame shows no polyp.

    Raises:
        PolyplinkError: If the number of boxes is missing, negative or differs from the number of
            lines, or a line is not four numbers.
    """
    lines = [line.split() for line in decode_text(data, name).splitlines() if line.strip()]
    first = " ".join(lines[0]) if lines else ""
    count = whole_number(first)
    if count is None:
        raise PolyplinkError(f"{name} begins with {first!r}, not a number of boxes", _AGAIN)
    if count != len(lines) - 1:
        raise PolyplinkError(f"{name} has {many(len(lines) - 1, 'box')} but states {count}", _AGAIN)
    boxes = []
    for words in lines[1:]:
        try:
            left, top, right, bottom = map(float, words)
        except ValueError:
            line = " ".join(words)
            raise PolyplinkError(f"{name}: {line!r} is not four numbers", _AGAIN) from None
        boxes.append((left, top, right, bottom))
    return boxes


def write_ldpolyp(data: DataSet, root: Path) -> None:
    """Write a data set in the layout of LDPolypVideo: a text for every frame.

    The layout requires boxes of whole pixels. It has no field for polyps (number, identity, size
    and histology are lost), patients, frame rates, scores, and image sizes.

    Args:
        data: Procedures named `TrainValid_<id>` or `Test_<id>`.
        root: Folder to write into; created if absent.

    Raises:
        PolyplinkError: If a procedure has another name, or a box is not of whole pixels.
    """
    boxes = layout.whole_edges(data, "LDPolypVideo")
    names, example = r"(TrainValid|Test)_(.+)", "TrainValid_<id> or Test_<id>"
    for procedure, match in layout.procedures_to_write(data, root, DATASET, names, example):
        name, part, folder = match.group(0, 1, 2)
        texts = root / part / "Annotations" / folder
        texts.mkdir(parents=True, exist_ok=True)
        for frame in range(procedure["n_frames"]):
            frame_boxes = boxes.get(name, {}).get(frame, [])
            lines = [str(len(frame_boxes)), *(" ".join(map(str, box)) for box in frame_boxes)]
            (texts / f"{frame + 1:04d}.txt").write_text("\n".join(lines) + "\n", "utf-8")


LDPOLYP = Format(
    import_ldpolyp,
    write_ldpolyp,
    (
        *(*ONE_A_VIDEO, "patients", "age, sex and brand", "frame sizes"),
        *("sizes", "histology", "locations", "morphology"),
    ),
)
