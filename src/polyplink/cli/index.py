"""The verbs `index build` and `index add`: an index of views, to search for similar ones."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from typer import Argument, Option

from polyplink.cli import options
from polyplink.cli.options import StrPath, TrackletOptions, check_inputs
from polyplink.cli.verb import inform, verb
from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import Progress, Result
from polyplink.core.text import many

if TYPE_CHECKING:
    from polyplink.scale.index import Index

DataFolders = Annotated[
    Sequence[StrPath], Argument(help="Data folders; vectors they lack are computed.")
]


@verb
def build_index(
    weights: options.Weights,
    data: DataFolders,
    *,
    index: options.IndexFolder = Path("index"),
    approximate: Annotated[
        bool, Option(help="Also write an approximate form, by LanceDB.")
    ] = False,
    alarms: options.Alarms = "drop",
    device: options.Device = "auto",
    workers: options.Workers = 2,
    progress: Progress = inform,
    **tracklets: Unpack[TrackletOptions],
) -> "Result[Index]":
    """Build an index of all views of data folders, to search for similar ones.

    Args:
        progress: Called for crops and tracklets.

    Raises:
        PolyplinkError: If the index exists, there is no view, or weights or data are missing or
            broken.
    """
    weights, index, folders = Path(weights), Path(index), list(map(Path, data))
    for folder in folders:
        check_inputs(weights, folder, device=device)
    if index.exists():
        from polyplink.scale.index import RECORD

        if not (index / RECORD).is_file():
            raise PolyplinkError(f"{index} holds no index", "name another folder with --index")
        raise PolyplinkError(
            f"{index} exists already",
            "add to it with `polyplink index add`, or name another with --index",
        )
    from polyplink.encoders.load import load_named
    from polyplink.scale.folder_views import views_of
    from polyplink.scale.index import approximate_index, build_index as build

    encoder = load_named(weights, device, tracklets=tracklets)
    views = views_of(
        folders,
        encoder,
        index,
        {},
        keep_alarms=alarms == "keep",
        tracklets=tracklets,
        workers=workers,
        progress=progress,
    )
    built = build(index, views, encoder.key)
    if approximate:
        built = approximate_index(built)
    return _summary(built, len(built))


@verb
def add_to_index(
    weights: options.Weights,
    data: DataFolders,
    *,
    index: options.IndexFolder = Path("index"),
    alarms: options.Alarms = "drop",
    device: options.Device = "auto",
    workers: options.Workers = 2,
    progress: Progress = inform,
    **tracklets: Unpack[TrackletOptions],
) -> "Result[Index]":
    """Add the procedures of data folders that an index does not have yet.

    Nothing is removed from the index or changed in it; build it again for that.

    Args:
        progress: Called for crops and tracklets.

    Raises:
        PolyplinkError: If the index holds vectors of other weights, or a procedure of the same
            name with other boxes.
    """
    weights, folders = Path(weights), list(map(Path, data))
    for folder in folders:
        check_inputs(weights, folder, device=device)
    from polyplink.encoders.load import load_named
    from polyplink.scale.folder_views import views_of
    from polyplink.scale.index import Index, add_rows

    before = Index(Path(index))
    encoder = load_named(weights, device, tracklets=tracklets)
    before.check(encoder.key)
    extended = add_rows(
        before,
        lambda indexed_keys: views_of(
            folders,
            encoder,
            before.folder,
            indexed_keys,
            keep_alarms=alarms == "keep",
            tracklets=tracklets,
            workers=workers,
            progress=progress,
        ),
    )
    return _summary(extended, len(extended) - len(before))


def _summary(index: "Index", added: int) -> "Result[Index]":
    """Summarise an index for the terminal and --json.

    Args:
        index: The index.
        added: Views that were added.
    """
    approximate = to_plain(index.record.approximate)
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
