"""The files of PolypsSet, sorted into its videos, and the shuffled images of its training part.

Layout: `{train2019,val2019,test2019}/{Image,Annotation}`; val and test hold a folder for each
video, train none. An annotation belongs to the image of the same folder and number; the names
inside the files are not to be relied on.
"""

import re
from dataclasses import dataclass, field

from polyplink.data.faults import Faults
from polyplink.data.files.folders import IMAGE_ENDINGS, LARGEST
from polyplink.data.files.trees import Member, Tree
from polyplink.data.sets.plain_voc import PlainFrame

PARTS = ("train", "val", "test")

_FILE = re.compile(
    r"(?:^|/)(train|val|test)2019/(Image|Annotation)s?/(?:([^/]+)/)?([^/]+)\.[^/.]+$", re.I
)


@dataclass
class VideoFiles:
    """The files of one folder by their numbers.

    Attributes:
        part: train, val or test.
        folder: Name of the folder; None in train.
        images: The images.
        xmls: The annotations.
        frames: What the annotations say, once they are read.
        sizes: Width and height of the images, once they are read.
    """

    part: str
    folder: str | None
    images: dict[int, Member] = field(default_factory=dict)
    xmls: dict[int, Member] = field(default_factory=dict)
    frames: dict[int, PlainFrame] = field(default_factory=dict)
    sizes: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """`val_10`, as the papers name it; `train` for the training part."""
        return self.part if self.folder is None else f"{self.part}_{self.folder}"


def find_videos(tree: Tree, faults: Faults) -> list[VideoFiles]:
    """Sort the files of a tree.

    Args:
        tree: The tree.
        faults: Told of files in the wrong depth, without a number, or of which there are two.

    Returns:
        train (if it is there), then the videos of val and test, folders in order of their number.
    """
    videos: dict[tuple[str, str | None], VideoFiles] = {}
    for member in tree.members:
        match = _FILE.search(member.path)
        if match is None or member.suffix not in (*IMAGE_ENDINGS, ".xml"):
            continue
        part, folder, stem = match[1].lower(), match[3], match[4]
        if (folder is None) != (part == "train"):
            where = "in a folder" if part == "train" else "outside of a video's folder"
            faults.fault(f"file of {part} {where}", member.image, "move it as it was released")
        elif not stem.isdecimal() or int(stem) >= LARGEST // 2:
            faults.fault("file whose name is no number", member.image, "restore its name")
        else:
            video = videos.setdefault((part, folder), VideoFiles(part, folder))
            files = video.xmls if member.suffix == ".xml" else video.images
            if int(stem) in files:
                faults.fault("second file of a frame", member.image, "remove one of them")
            else:
                files[int(stem)] = member
    return sorted(videos.values(), key=_order)


def _order(video: VideoFiles) -> tuple[int, int, str]:
    folder = video.folder or ""
    return PARTS.index(video.part), int(folder) if folder.isdecimal() else LARGEST, folder
