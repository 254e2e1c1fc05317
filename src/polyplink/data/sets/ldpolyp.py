"""Read LDPolypVideo as it is released: 160 annotated videos, no identities.

Source: Ma et al., MICCAI 2021; github.com/dashishi/LDPolypVideo-Benchmark. Layout, as the scripts
of cosmoimd/yolov7 and sing-group/public-datasets-to-voc read it:
`TrainValid/Images/<id>/0001.jpg`, `TrainValid/Annotations/<id>/0001.txt`, and the same under
`Test`. A download in several parts unpacks into siblings that each hold some of it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.files.folders import IMAGE_ENDINGS, LARGEST
from polyplink.data.files.trees import Member, Tree, open_tree
from polyplink.data.formats.edge_boxes import EdgeBox, Edges, PolypRow, ProcedureRow, join_edges
from polyplink.data.sets.ldpolyp_text import parse_boxes
from polyplink.data.sets.ldpolyp_videos import PART, negative_videos
from polyplink.data.sets.origin import Origin, read_origin
from polyplink.data.sets.recognise import nothing_found
from polyplink.data.tables import Imported

DATASET = "ldpolyp"
SIZE = (560, 480)  # of every frame, by the paper
PARTS: Mapping[str, str] = {"TrainValid": "train", "Test": "test"}  # folder -> our part

Identity = Literal["video", "tracklet-safe"]

_FILE = re.compile(r"(?:^|/)(TrainValid|Test)/(Images|Annotations)/([^/]+)/([^/]+)\.(\w+)$", re.I)


@dataclass
class _Video:
    """The files of one video, by frame number from 0."""

    procedure_id: str
    part: str
    images: dict[int, Member] = field(default_factory=dict)
    texts: dict[int, Member] = field(default_factory=dict)
    boxes: dict[int, list[Edges]] = field(default_factory=dict)


def import_ldpolyp(
    source: Path,
    *,
    images: bool = True,
    strict: bool = False,
    progress: Callable[[int, int], None] | None = None,
    workers: int = 1,
    identity: Identity = "video",
) -> Imported:
    """Read LDPolypVideo into the three tables.

    Procedures are named `<part>_<id>` (`TrainValid_1`), since ids may occur in both parts; the
    parts are `train` and `test`. File 0001 is frame 0. The frame rate is not given and null.
    Videos without polyp, in a folder that says so, have no boxes and are the part `negative`.

    Args:
        source: A folder above `TrainValid` and `Test`, plain or in archives, or one archive.
        images: Name each box's image, where the procedure has any.
        strict: Raise at the first fault instead of leaving it out and counting it.
        progress: Called after every procedure with how many are read and how many there are.
        workers: Taken so that all importers are called alike; one process reads this set.
        identity: `video`: all boxes of a video are one polyp, as in the papers (160 identities,
            although 200 polyps are labelled). `tracklet-safe`: frames with two boxes or more are
            left out, and the boxes of a video that has such a frame, and so more than one polyp,
            name none.

    Returns:
        The data set and its warnings.

    Raises:
        PolyplinkError: If the identity is unknown, the folder is not of this set or an archive is
            broken; if strict, at the first faulty file or box.
    """
    del workers
    if identity not in get_args(Identity):
        raise PolyplinkError(
            f"no identity {identity!r}", f"choose: {', '.join(get_args(Identity))}"
        )
    faults = Faults(strict)
    tree = open_tree(source, faults)
    videos = _videos(tree, faults)
    if not videos:
        wanted = "files TrainValid/Annotations/<id>/0001.txt or Test/Annotations/<id>/0001.txt"
        raise nothing_found(tree, str(source), wanted, DATASET)
    _read_boxes(tree, videos, faults)
    sizes = _sizes(tree, videos, faults)
    origin = read_origin(tree, DATASET)
    procedures, polyps, boxes = [], [], []
    for done, video in enumerate(videos, 1):
        procedures.append(_procedure(video, origin, sizes[video.procedure_id]))
        named = _apply_identity(video, identity, faults)
        polyps += [PolypRow(named, video.procedure_id)] if named else []
        boxes += list(_boxes(video, named, images, faults))
        if progress is not None:
            progress(done, len(videos))
    splits = {
        ours: [video.procedure_id for video in videos if video.part == part]
        for part, ours in PARTS.items()
    }
    negative = negative_videos(tree, origin, faults)
    splits[PART] = [row.procedure_id for row in negative]
    procedures += negative
    kind = "video whose patient is not published, taken as its own patient"
    faults.warn(kind, procedures[0].procedure_id, len(procedures))
    return Imported(join_edges(boxes, procedures, polyps, splits, faults), faults.lines())


def _videos(tree: Tree, faults: Faults) -> list[_Video]:
    """The videos of both parts, in the order of part and number."""
    videos: dict[tuple[str, str], _Video] = {}
    for member in tree.members:
        match = _FILE.search(member.path)
        if match is None:
            continue
        part = next(name for name in PARTS if name.lower() == match[1].lower())
        kind, folder, stem = match[2].lower(), match[3], match[4]
        if member.suffix not in (IMAGE_ENDINGS if kind == "images" else (".txt",)):
            continue
        number = int(stem) if stem.isdecimal() else 0
        if not 1 <= number <= LARGEST:
            faults.fault("file whose name is no number from 1", member.image, "rename it")
            continue
        name = f"{part}_{folder}"
        video = videos.setdefault((part, folder), _Video(name, part))
        files = video.images if kind == "images" else video.texts
        if number - 1 in files:
            faults.fault("second file of a frame", member.image, "remove one of them")
            continue
        files[number - 1] = member
    order = sorted(videos, key=lambda key: (list(PARTS).index(key[0]), *_natural(key[1])))
    return [videos[key] for key in order]


def _natural(name: str) -> tuple[int, str]:
    return (int(name) if name.isdecimal() else LARGEST, name)


def _read_boxes(tree: Tree, videos: list[_Video], faults: Faults) -> None:
    place = {member: (video, i) for video in videos for i, member in video.texts.items()}
    for member, boxes in tree.parse_each(place, parse_boxes, faults).items():
        video, frame = place[member]
        video.boxes[frame] = boxes


def _sizes(tree: Tree, videos: list[_Video], faults: Faults) -> dict[str, tuple[int, int]]:
    """Size of each video's frames, from its first image that can be read."""
    first = {min(v.images.items())[1]: v.procedure_id for v in videos if v.images}
    sizes = {first[m]: size for m, size in tree.image_sizes(list(first), faults).items()}
    for video in videos:
        if video.procedure_id not in sizes:
            faults.warn(
                f"video without an image to take the size from, {SIZE[0]} x {SIZE[1]} as published",
                video.procedure_id,
            )
    return {v.procedure_id: sizes.get(v.procedure_id, SIZE) for v in videos}


def _procedure(video: _Video, origin: Origin, size: tuple[int, int]) -> ProcedureRow:
    return ProcedureRow(
        procedure_id=video.procedure_id,
        dataset=origin.dataset,
        patient=video.procedure_id,
        n_frames=max([*video.images, *video.texts]) + 1,
        width=size[0],
        height=size[1],
        source=origin.source,
    )


def _apply_identity(video: _Video, identity: Identity, faults: Faults) -> str | None:
    """The one polyp of a video; None where it has no box or more polyps than one."""
    several = [frame for frame, boxes in sorted(video.boxes.items()) if len(boxes) > 1]
    for frame in several:
        where = video.texts[frame].image
        if identity == "video":
            faults.warn("frame with several boxes that share the video's one identity", where)
        else:
            faults.warn("frame with several boxes, left out", where)
            del video.boxes[frame]
    if several and identity != "video":
        faults.warn("video of several polyps, its boxes name none", video.procedure_id)
        return None
    return video.procedure_id if any(video.boxes.values()) else None


def _boxes(video: _Video, named: str | None, images: bool, faults: Faults) -> Iterator[EdgeBox]:
    for frame in sorted(video.boxes):
        image = video.images.get(frame)
        where = video.texts[frame].image
        if video.boxes[frame] and images and video.images and image is None:
            mend = "unpack the images again, import without images"
            faults.fault("frame with a box without an image", where, mend)
            continue
        for edges in video.boxes[frame]:
            name = image.image if images and image is not None else None
            yield EdgeBox(video.procedure_id, frame, named, name, where, *edges)
    for frame in sorted(set(video.images) - set(video.texts)):
        where = video.images[frame].image
        faults.warn("image without an annotation, taken as without polyp", where)
