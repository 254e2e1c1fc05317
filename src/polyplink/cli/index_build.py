"""The verb `index build`: an index of views, to search for similar ones."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from typer import Option

from polyplink.cli import options
from polyplink.cli.indexed import DataFolders, IndexFolder, described
from polyplink.cli.options import TrackletOptions
from polyplink.cli.verb import check_given, inform
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import Progress, Result

if TYPE_CHECKING:
    from polyplink.scale.index import Index


def build_index(
    weights: options.Weights,
    data: DataFolders,
    *,
    index: IndexFolder = Path("index"),
    approximate: Annotated[
        bool, Option(help="Also write an approximate form, by LanceDB.")
    ] = False,
    device: options.Device = "auto",
    workers: options.Workers = 2,
    progress: Progress = inform,
    **tracklets: Unpack[TrackletOptions],
) -> "Result[Index]":
    """Build an index of all views of data folders, to search for similar ones.

    Args:
        weights: A file, a folder of `train` or `export`, or a name.
        data: Data folders; missing vectors are computed.
        index: Folder of the index.
        approximate: Also write an approximate form, by LanceDB.
        device: Name of the device: auto, cpu, cuda or cuda:N.
        workers: Processes that cut crops.
        progress: Called for crops and tracklets.
        tracklets: Settings of tracklets.

    Raises:
        PolyplinkError: If the index exists, there is no view, or weights or data are missing or
            broken.
    """
    weights, index, folders = Path(weights), Path(index), list(map(Path, data))
    for folder in folders:
        check_given(weights, folder, device=device)
    PolyplinkError.unless(
        not index.exists(),
        f"{index} exists already",
        "add to it with `polyplink index add`, or name another with --index",
    )
    from polyplink.encoders.load import load_named
    from polyplink.scale.folder_views import views_of
    from polyplink.scale.index import approximated, build_index as build

    encoder = load_named(weights, device, tracklets=tracklets)
    views = views_of(
        folders, encoder, index, {}, tracklets=tracklets, workers=workers, progress=progress
    )
    built = build(index, views, encoder.key)
    if approximate:
        built = approximated(built)
    return described(built, len(built))
