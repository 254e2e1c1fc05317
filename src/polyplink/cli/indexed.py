"""Shared by the verbs of an index: their option, and the summary that they print."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from polyplink.cli.options import StrPath
from polyplink.core.results import Result
from polyplink.core.text import many

if TYPE_CHECKING:
    from polyplink.scale.index import Index

IndexFolder = Annotated[StrPath, Option("--index", help="Folder of the index.")]
DataFolders = Annotated[
    Sequence[StrPath], Argument(help="Data folders; vectors they lack are computed.")
]


def described(index: "Index", added: int) -> "Result[Index]":
    """Summarise an index for the terminal and --json.

    Args:
        index: The index.
        added: Views that were added.
    """
    approximate = index.record.get("approximate")
    facts = {
        "index": str(index.folder),
        "views": len(index),
        "added": added,
        "weights": index.weights,
        "width": index.width,
        "approximate": approximate,
    }
    printed = [
        f"{index.folder}: {many(len(index), 'view')} ({added} added) of weights {index.weights}"
    ]
    if approximate is not None:
        printed.append(
            "approximate search: recall {recall} of the {recall_at} most similar, measured against "
            "the exact search on {recall_queries} views".format(**approximate)
        )
    return Result(index, facts, printed)
