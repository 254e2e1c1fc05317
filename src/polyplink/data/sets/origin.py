"""The name of the data set that is written in another one's layout, kept beside it.

So that nothing simulated, and nothing of another set, is called by the layout's own name when it
is read again. A release has no such file.
"""

from dataclasses import dataclass
from pathlib import Path

from polyplink.core.artefacts import write_text
from polyplink.core.errors import PolyplinkError
from polyplink.data.files.trees import Tree, decode_text
from polyplink.data.tables import DataSet

FILE = "dataset.txt"


def write_origin(data: DataSet, root: Path, own: str) -> None:
    """Leave the name of a data set that is not the layout's own in the folder's root.

    Args:
        data: What is written.
        root: The folder; made if absent.
        own: The data set whose layout it is, which needs no file.

    Raises:
        PolyplinkError: If the procedures are of several data sets.
    """
    names = data.procedures["dataset"].unique(maintain_order=True).to_list()
    if len(names) > 1:
        raise PolyplinkError(
            f"procedures of several data sets ({', '.join(names)})",
            "write each into a folder of its own",
        )
    if names and names != [own]:
        write_text(root / FILE, f"{names[0]}\n")


@dataclass(frozen=True)
class Origin:
    """Columns `dataset` and `source` of all procedures of a tree."""

    dataset: str
    source: str


def read_origin(tree: Tree, own: str) -> Origin:
    """Where procedures come from; the data set is that of the tree's file, else the layout's."""
    source = str(tree.root.resolve())
    for member in tree.members:
        if member.path == FILE:
            name = decode_text(tree.read(member), member.image).strip()
            return Origin(name or own, source)
    return Origin(own, source)


def named_origin(source: Path) -> str | None:
    """The name in a folder's file; None where there is no such file, or nothing in it."""
    path = source / FILE
    return decode_text(path.read_bytes(), str(path)).strip() or None if path.is_file() else None
