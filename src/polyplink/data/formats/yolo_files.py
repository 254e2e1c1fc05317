"""Where a YOLO data set's labels and images are, and what its `data.yaml` says."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.folders import IMAGE_ENDINGS, refuse
from polyplink.data.formats.frame_names import PARTS
from polyplink.data.formats.procedure_rows import Size

NOT_LABELS = {"classes.txt", "train.txt", "val.txt", "test.txt", "README.txt"}
_SIDE = re.compile(r"^(width|height)\s*:\s*(.*?)\s*(?:#.*)?$")


@dataclass(frozen=True)
class LabelFile:
    """One file of labels.

    Attributes:
        path: The file.
        name: What its procedure and frame are read from: below `labels`, part first.
        image: The frame's image, relative to the source; None where there is none.
    """

    path: str
    name: str
    image: str | None


def label_files(source: Path) -> list[LabelFile]:
    """Find the labels of a source and their images, one listing for each folder.

    Args:
        source: A folder with `labels/` (and `images/` of the same shape), with
            `<part>/labels/` and `<part>/images/`, or of the label files themselves.

    Raises:
        PolyplinkError: If there is no such folder, or no label file in it.
    """
    if not source.is_dir():
        raise PolyplinkError(f"no folder {source}", "check the path")
    homes = [(source / "labels", source / "images", "")]
    homes += [(source / p / "labels", source / p / "images", f"{p}/") for p in PARTS]
    homes = [home for home in homes if home[0].is_dir()]
    if not homes:
        beside = source.parent / "images" if source.name == "labels" else source
        homes = [(source, beside, "")]
    files = [file for home in homes for file in _of_home(*home, source)]
    if not files:
        raise PolyplinkError(f"{source} has no labels (labels/*.txt)", "check the path")
    return files


def _of_home(labels: Path, images: Path, prefix: str, source: Path) -> list[LabelFile]:
    files = []
    for folder, below, names in os.walk(labels, onerror=refuse):
        below.sort()
        texts = [n for n in names if n.lower().endswith(".txt") and n[0] != "."]
        inside = os.path.relpath(folder, labels)
        inside = "" if inside == "." else f"{inside}/"
        there = _images(images / inside)
        home = os.path.relpath(images / inside, source)
        for name in sorted(set(texts) - NOT_LABELS):
            image = there.get(name[:-4])
            files.append(
                LabelFile(
                    f"{folder}/{name}",
                    f"{prefix}{inside}{name}",
                    None if image is None else os.path.normpath(f"{home}/{image}"),
                )
            )
    return files


def _images(folder: Path) -> dict[str, str]:
    """Stem to name of the images in a folder."""
    if not folder.is_dir():
        return {}
    names = sorted(os.listdir(folder))  # noqa: PTH208 - names alone
    return {n.rpartition(".")[0]: n for n in names if n.lower().endswith(IMAGE_ENDINGS)}


def yaml_size(source: Path) -> Size | None:
    """The keys `width` and `height` of `data.yaml`; None where either is missing.

    Only these two lines are read, and only at the file's top level.

    Raises:
        PolyplinkError: If one is no whole number above 0.
    """
    path = source / "data.yaml"
    if not path.is_file():
        return None
    found: dict[str, int] = {}
    for line in path.read_text(encoding="utf-8-sig").splitlines():
        side = _SIDE.match(line)
        if side is None:
            continue
        text = side.group(2)
        if not text.isdecimal() or int(text) < 1:
            raise PolyplinkError(
                f"{path}: {side.group(1)} is {text!r}", "write a whole number of pixels"
            )
        found[side.group(1)] = int(text)
    return (found["width"], found["height"]) if len(found) == 2 else None
