"""Reading a data set as it was released into a data folder."""

from collections.abc import Callable, Mapping
from pathlib import Path

from polyplink.artefacts import RunRecord
from polyplink.data import Imported, import_real_colon, write_data
from polyplink.errors import PolyplinkError, find_named
from polyplink.jobs.progress import Progress, counter, silent

IMPORTERS: Mapping[str, Callable[..., Imported]] = {"real-colon": import_real_colon}


def import_data(
    data_format: str,
    source: Path,
    out: Path,
    *,
    images: bool = True,
    strict: bool = False,
    workers: int = 1,
    progress: Progress = silent,
) -> Imported:
    """Read a released data set and write its tables to `out`; nothing in `source` is changed.

    Args:
        data_format: A key of `IMPORTERS`.
        source: The data set.
        out: Folder for the tables; tables already there are replaced.
        images: Use the images where they are there.
        strict: Raise at the first thing that cannot be used, instead of leaving it out and
            counting it.
        workers: Processes that read.
        progress: Told of procedures read.

    Raises:
        PolyplinkError: If the format is unknown, or the data set has a fault.
    """
    importer = find_named("format", data_format, IMPORTERS)
    settings = {"format": data_format, "source": source, "images": images, "strict": strict}
    record = RunRecord("import", settings=settings)
    if out.resolve().is_relative_to(source.resolve()):
        raise PolyplinkError(
            f"{out} is inside the data set {source}, in which nothing is changed",
            "name another folder for the tables",
        )
    record.claim(out)
    with record.stage("read"):
        imported = importer(
            source,
            images=images,
            strict=strict,
            workers=workers,
            progress=counter(progress, "procedures"),
        )
    with record.stage("write"):
        write_data(out, imported.data)
    record.write(out)
    return imported
