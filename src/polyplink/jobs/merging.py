"""Putting imported data sets into one data folder."""

import os
from collections.abc import Sequence
from pathlib import Path

from polyplink.core.artefacts import RunRecord, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.data import Imported, find_maps, merge, overlaps, read_data, write_data


def merge_data(out: Path, folders: Sequence[Path], *, histology_map: str | None = None) -> Imported:
    """Write one data folder with the procedures of several (see `data.merged.merge`).

    Args:
        out: Folder for the tables; tables of an earlier merge there are replaced.
        folders: Data folders. Images stay in the places these know them in.
        histology_map: Name or file of the map of adenoma (see `data.adenoma_maps.find_maps`);
            None for what the folders say.

    Returns:
        The data set, and the overlaps known between its sets, which are also written to
        `out`/warnings.json.

    Raises:
        PolyplinkError: If a folder is no data folder, is named twice or is `out`, or ids clash.
    """
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
    record = RunRecord("merge", settings={"folders": list(folders), "map": histology_map})
    record.claim(out)
    maps = None if histology_map is None else find_maps(histology_map)
    with record.stage("read"):
        sets = [(folder, read_data(folder)) for folder in folders]
    with record.stage("merge"):
        data = merge(sets, maps)
    record.inputs = {str(folder): each.key for folder, each in sets}
    warnings = overlaps(data)
    with record.stage("write"):
        write_data(out, data)
        write_json(out / "warnings.json", warnings)
    record.write(out)
    return Imported(data, warnings)
