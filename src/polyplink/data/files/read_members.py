"""One parser over many small files of a tree; those it cannot read are counted."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.files.trees import Member, Tree

Parsed = TypeVar("Parsed")


def read_members(
    tree: Tree,
    members: Iterable[Member],
    parse: Callable[[bytes, str], Parsed],
    faults: Faults,
) -> dict[Member, Parsed]:
    """Read and parse files, those of an archive in one pass over it.

    Args:
        tree: The tree they lie in.
        members: Which, each once.
        parse: Makes something of a file's bytes and name; raises PolyplinkError if it cannot.
        faults: Told of the files that cannot be parsed, which are left out.

    Returns:
        What each file became.

    Raises:
        PolyplinkError: If strict, at the first file that cannot be parsed; if a file or archive
            cannot be read at all.
    """
    parsed = {}
    for member, data in tree.read_many(members):
        try:
            parsed[member] = parse(data, member.image)
        except PolyplinkError as error:
            if faults.strict:
                raise
            faults.warn("annotation file that cannot be read, left out", error.what)
    return parsed
