"""Which data set a folder looks like, so that a wrong one can be named."""

import re
from collections.abc import Mapping

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.trees import Tree

# Format -> what one of its files looks like, as a path in the tree.
_MARKS: Mapping[str, re.Pattern[str]] = {
    "real-colon": re.compile(r"(?:^|/)lesion_info\.csv$|_annotations?(?:/|\.tar\.gz$)", re.I),
    "ldpolyp": re.compile(r"(?:^|/)(?:TrainValid|Test)/(?:Images|Annotations)/[^/]+/\d+\.", re.I),
    "polypsset": re.compile(r"(?:^|/)(?:train|val|test)2019/(?:Image|Annotation)/", re.I),
    "sun": re.compile(r"(?:^|/)(?:annotation_(?:txt|xml)/|case\d+/)|sundatabase", re.I),
    "coco": re.compile(r"(?:^|/)instances_[^/]+\.json$", re.I),
    "mot": re.compile(r"(?:^|/)(?:gt/gt|det/det)\.txt$|(?:^|/)seqinfo\.ini$", re.I),
    "polyp-size": re.compile(r"(?:^|/)(?:Video)?\d+\.mp4$", re.I),
}


def recognise(tree: Tree) -> list[str]:
    """The formats that a tree could be of, the surest first."""
    names = [member.path for member in tree.members] + list(tree.archives)
    return [name for name, mark in _MARKS.items() if any(mark.search(path) for path in names)]


def nothing_found(tree: Tree, source: str, wanted: str, own: str) -> PolyplinkError:
    """The error for a folder in which an importer found nothing of its own.

    Args:
        tree: What was looked through.
        source: What the user named.
        wanted: What was looked for.
        own: The importer's format, which is not suggested.
    """
    others = [name for name in recognise(tree) if name != own]
    mend = f"this looks like {others[0]}: import it as that" if others else "check the path"
    return PolyplinkError(f"{source} has no {wanted}", mend)
