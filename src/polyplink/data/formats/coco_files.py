"""Where a COCO data set's annotation files are, and which part each holds."""

import re
from dataclasses import dataclass
from pathlib import Path

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.folders import files_in
from polyplink.data.formats.frame_names import PARTS

_PREFIX = "instances_"


@dataclass(frozen=True)
class CocoFile:
    """One annotation file.

    Attributes:
        path: The file.
        root: Folder of the data set, which holds `images`.
        part: Part that the file's name tells ("train"); None: none.
    """

    path: Path
    root: Path
    part: str | None


def coco_files(source: Path) -> list[CocoFile]:
    """Find the annotation files of a data set.

    Args:
        source: A file, or a folder with files in `annotations` or in itself. Of several files
            in a folder those called `instances_<part>.json` (or `instances.json`) count, and
            where there are none, all.

    Raises:
        PolyplinkError: If there is no such file or folder.
    """
    if source.is_file():
        parent = source.parent
        root = parent.parent if parent.name == "annotations" else parent
        return [CocoFile(source, root, _part(source.stem))]
    if not source.is_dir():
        raise PolyplinkError(f"no file or folder {source}", "check the path")
    folder = source / "annotations" if (source / "annotations").is_dir() else source
    paths = [path for path in files_in(folder, ".json") if path.name != "run.json"]
    paths = [p for p in paths if re.match(r"instances(_|$)", p.stem)] or paths
    if not paths:
        raise PolyplinkError(f"{folder} has no annotation file (*.json)", "check the path")
    return [CocoFile(path, source, _part(path.stem)) for path in paths]


def _part(stem: str) -> str | None:
    name = stem.removeprefix(_PREFIX)
    return name if name != stem or stem in PARTS else None


def image_prefix(file: CocoFile, first: str) -> str:
    """What stands before a file name to lead to the image, seen from the data set's folder.

    Args:
        file: The annotation file.
        first: The first image's file name.

    Returns:
        The first of `images/`, nothing, `images/<part>/`, `<part>/` under which it is there;
        `images/` where there is a folder of that name, else nothing.
    """
    part = [f"images/{file.part}/", f"{file.part}/"] if file.part else []
    for prefix in ("images/", "", *part):
        if (file.root / prefix / first).is_file():
            return prefix
    return "images/" if (file.root / "images").is_dir() else ""
