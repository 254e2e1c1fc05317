"""Reading a data set, as it was released or exported, into a data folder."""

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from polyplink.core.artefacts import RunRecord, write_json
from polyplink.core.errors import PolyplinkError, find_named
from polyplink.data import (
    Imported,
    find_maps,
    import_coco,
    import_csv,
    import_cvat,
    import_ldpolyp,
    import_mot,
    import_polyp_size,
    import_polypsset,
    import_real_colon,
    import_sun,
    import_yolo,
    write_data,
)
from polyplink.jobs.progress import Progress, counter, silent

Importer = Callable[..., Imported]

IMPORTERS: Mapping[str, Importer] = {
    "real-colon": import_real_colon,
    "ldpolyp": import_ldpolyp,
    "sun": import_sun,
    "polypsset": import_polypsset,
    "polyp-size": import_polyp_size,
    "coco": import_coco,
    "mot": import_mot,
    "yolo": import_yolo,
    "cvat": import_cvat,
    "csv": import_csv,
}


def own_options(importer: Importer) -> list[str]:
    """The options that an importer has beside those that all have."""
    common = {"source", "images", "strict", "progress", "workers"}
    return [name for name in inspect.signature(importer).parameters if name not in common]


def import_data(
    data_format: str,
    source: Path,
    out: Path,
    *,
    images: bool = True,
    strict: bool = False,
    histology_map: str | None = None,
    workers: int = 1,
    progress: Progress = silent,
    **own: Any,
) -> Imported:
    """Read a data set and write its tables to `out`; nothing in `source` is changed.

    Args:
        data_format: A key of `IMPORTERS`.
        source: The data set.
        out: Folder for the tables; tables already there are replaced.
        images: Use the images where they are there.
        strict: Raise at the first thing that cannot be used, instead of leaving it out and
            counting it.
        histology_map: Name or file of the map of adenoma (see `data.adenoma_maps.find_maps`);
            None for the papers'.
        workers: Processes that read.
        progress: Told of procedures read.
        own: What this format alone takes (see `own_options`); None for its default.

    Returns:
        The data set and its warnings, which are also written to `out`/warnings.json.

    Raises:
        PolyplinkError: If the format or map is unknown, the format does not take an option, or the
            data set has a fault.
    """
    importer = find_named("format", data_format, IMPORTERS)
    given = {name: value for name, value in own.items() if value is not None}
    _refuse_options(data_format, given)
    settings = {"format": data_format, "source": source, "images": images, "strict": strict}
    settings |= {} if histology_map is None else {"histology_map": histology_map}
    maps = find_maps(histology_map or "papers")
    record = RunRecord("import", settings=settings | given)
    # Of realpath, because resolve fails on a link that leads to itself.
    if Path(os.path.realpath(out)).is_relative_to(os.path.realpath(source)):
        raise PolyplinkError(
            f"{out} is inside the data set {source}, in which nothing is changed",
            "name another folder for the tables",
        )
    record.claim(out)
    with record.stage("read"), _unreadable_is_an_error():
        imported = importer(
            source,
            images=images,
            strict=strict,
            workers=workers,
            progress=counter(progress, "procedures"),
            **given,
        )
    imported = replace(imported, data=replace(imported.data, adenoma=maps))
    with record.stage("write"):
        write_data(out, imported.data)
        write_json(out / "warnings.json", imported.warnings)
    record.write(out)
    return imported


@contextmanager
def _unreadable_is_an_error() -> Iterator[None]:
    """What the system does not let an importer read is named, as all else that it refuses."""
    try:
        yield
    except OSError as error:
        raise PolyplinkError(
            f"{error.filename or 'the source'}: {error.strerror or error}",
            "check the path and its permissions",
        ) from None


def _refuse_options(data_format: str, given: Mapping[str, Any]) -> None:
    taken = own_options(IMPORTERS[data_format])
    for name in given:
        if name not in taken:
            takers = [f for f, importer in IMPORTERS.items() if name in own_options(importer)]
            raise PolyplinkError(
                f"{data_format} takes no --{name.replace('_', '-')}",
                f"leave it out; those that take it: {', '.join(takers) or 'none'}",
            )
