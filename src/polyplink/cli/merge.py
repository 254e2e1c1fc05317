"""The verb `merge`: several data folders as one."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from polyplink.cli import options
from polyplink.cli.options import StrPath
from polyplink.cli.verb import verb, written_data
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import Result
from polyplink.core.runs import RunRecord

if TYPE_CHECKING:
    from polyplink.data.tables import DataSet


@verb
def merge_data(
    out: Annotated[StrPath, Argument(help="Folder for the tables.")],
    data: Annotated[
        Sequence[StrPath], Argument(help="Data folders that `polyplink import` wrote.")
    ],
    *,
    histology_map: options.HistologyMap = None,
) -> "Result[DataSet]":
    """Merge several data folders; images are not copied.

    Overlaps known between the data sets become warnings.

    Args:
        histology_map: Name or file of the map of histology terms to adenoma; None for the folders'
            own map.

    Raises:
        PolyplinkError: If a folder is not a data folder, is listed twice or is `out`, or ids clash.
    """
    import polars as pl

    from polyplink.core.messages import Message
    from polyplink.data.empty import read_empty, write_empty
    from polyplink.data.importing import new_data_folder
    from polyplink.data.merge import merge, overlaps, patients_of_several_sets
    from polyplink.data.origin import read_origin, read_warnings, write_origin
    from polyplink.data.tables import read_data
    from polyplink.data.vocabulary import find_maps
    from polyplink.tracklets.scenes import read_scenes, write_scenes

    # Each folder once, and none of them for the result.
    out, folders = Path(out), list(map(Path, data))
    places: dict[str, Path] = {}
    for folder in folders:
        place = os.path.realpath(folder)
        if place in places:
            raise PolyplinkError(f"{folder} is named twice", "name each folder once")
        places[place] = folder
    if os.path.realpath(out) in places:
        raise PolyplinkError(
            f"{out} is one of the folders to merge", "name another folder for the result"
        )

    # The tables.
    settings = {"folders": folders, "map": histology_map}
    record = RunRecord("merge", settings=settings)
    record.claim(out)
    maps = None if histology_map is None else find_maps(histology_map)
    with record.stage("read"):
        sets = [(folder, read_data(folder)) for folder in folders]
    with record.stage("merge"):
        merged = merge(sets, maps)
    record.inputs = {str(folder): dataset.key for folder, dataset in sets}
    scenes = {name: scene for folder in folders for name, scene in read_scenes(folder).items()}

    # Warnings, and what the folders store beside their tables.
    warnings = overlaps(merged)
    origins = [read_origin(folder) for folder in folders]
    same_origin = all(origin == origins[0] for origin in origins)
    if not same_origin:
        names = ", ".join("none" if origin is None else origin.name for origin in origins)
        warnings.append(
            f"the folders record different detectors ({names}): the result records none, so the "
            "default thresholds of tracks apply, and counts have no interval"
        )
    messages = [message for folder in folders for message in read_warnings(folder)]
    messages += [line for line in map(Message.of, warnings) if line not in messages]
    with new_data_folder(out, merged, messages, record) as folder:
        empty = [read_empty(source, dataset.part(None)) for source, dataset in sets]
        write_empty(folder, pl.concat(empty))
        write_scenes(folder, scenes)
        write_origin(folder, origins[0] if same_origin else None)
    return written_data(out, merged, warnings + patients_of_several_sets(merged))
