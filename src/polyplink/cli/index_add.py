"""The verb `index add`: adds views to an index."""

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from polyplink.cli import options
from polyplink.cli.indexed import DataFolders, IndexFolder, described
from polyplink.cli.options import TrackletOptions
from polyplink.cli.verb import check_given, inform
from polyplink.core.results import Progress, Result

if TYPE_CHECKING:
    from polyplink.scale.index import Index


def add_to_index(
    weights: options.Weights,
    data: DataFolders,
    *,
    index: IndexFolder = Path("index"),
    device: options.Device = "auto",
    workers: options.Workers = 2,
    progress: Progress = inform,
    **tracklets: Unpack[TrackletOptions],
) -> "Result[Index]":
    """Add the procedures of data folders that an index does not have yet.

    Args:
        weights: A file, a folder of `train` or `export`, or a name.
        data: Data folders; missing vectors are computed.
        index: Folder of the index.
        device: Name of the device: auto, cpu, cuda or cuda:N.
        workers: Processes that cut crops.
        progress: Called for crops and tracklets.
        tracklets: Settings of tracklets.

    Raises:
        PolyplinkError: If the index holds vectors of other weights, or a procedure of the same
            name with other boxes.
    """
    weights, folders = Path(weights), list(map(Path, data))
    for folder in folders:
        check_given(weights, folder, device=device)
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
            tracklets=tracklets,
            workers=workers,
            progress=progress,
        ),
    )
    return described(extended, len(extended) - len(before))
