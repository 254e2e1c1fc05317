"""Read REAL-Colon as it is released: 60 procedures, 132 polyps, 2.76 million annotation files.

Source: Biffi et al., Scientific Data 2024, 11:539 (figshare 22202866). Images are optional: the
annotations and the two tables are enough to build tracklets and count from boxes.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from pathlib import Path

import polars as pl

from polyplink.core.artefacts import read_json
from polyplink.core.errors import PolyplinkError
from polyplink.core.workers import worker_pool
from polyplink.data.faults import Faults
from polyplink.data.files.trees import open_tree
from polyplink.data.protocols import split_by_rule
from polyplink.data.sets.origin import named_origin
from polyplink.data.sets.real_colon_boxes import ProcedureBoxes, ProcedureSource, read_boxes
from polyplink.data.sets.real_colon_files import frames_place, place_of
from polyplink.data.sets.real_colon_tables import read_lesion_info, read_video_info
from polyplink.data.sets.recognise import nothing_found
from polyplink.data.sets.write_real_colon import frames_folder
from polyplink.data.tables import DataSet, Imported
from polyplink.data.vocabulary import SIMULATED

DATASET = "real-colon"


def import_real_colon(
    source: Path,
    *,
    images: bool = True,
    strict: bool = False,
    progress: Callable[[int, int], None] | None = None,
    workers: int = 1,
) -> Imported:
    """Read a REAL-Colon folder into the three tables; archives are read without unpacking.

    Procedures are those with annotations, in the order of `video_info.csv`, each its own patient.
    The splits are those of `split_by_rule`. A `dataset.txt`, which the release has not and our
    writers leave, gives the data set another name than real-colon.

    Args:
        source: Folder with `video_info.csv`, `lesion_info.csv` and, for every procedure,
            `<procedure>_annotations.tar.gz` as downloaded, or the folder unpacked from it, which
            goes before the archive.
        images: Name each box's image, where the procedure's frames are there, archive or folder.
        strict: Raise at the first thing that cannot be used, instead of leaving it out and
            counting it. The frame of a missing image loses its boxes, so that a tracklet is cut
            there.
        progress: Called after every procedure with how many are read and how many there are.
        workers: Processes that read. More than one needs the main module to be importable.

    Returns:
        The data set and its warnings.

    Raises:
        PolyplinkError: If a folder, table or column is missing; if strict, at the first
            faulty file or box (see `read_boxes`).
    """
    if not source.is_dir():
        raise PolyplinkError(f"no folder {source}", "check the path")
    folders = _annotation_folders(source)
    videos = read_video_info(source / "video_info.csv")
    lesions = read_lesion_info(source / "lesion_info.csv")
    _refuse_unlisted(source, folders, videos)
    videos = videos.filter(pl.col("procedure_id").is_in(list(folders)))
    lesions = lesions.filter(pl.col("procedure_id").is_in(list(folders)))
    sources = [
        ProcedureSource(
            procedure_id=procedure_id,
            annotations=folders[procedure_id],
            frames=frames_place(source, frames_folder(procedure_id)) if images else None,
            polyp_ids=frozenset(lesions.filter(pl.col("procedure_id") == procedure_id)["polyp_id"]),
            strict=strict,
        )
        for procedure_id in videos["procedure_id"]
    ]
    read: list[ProcedureBoxes] = []
    with closing(_read_all(sources, workers)) as results:
        for boxes in results:
            read.append(boxes)
            if progress is not None:
                progress(len(read), len(sources))
    faults = _warnings(videos, lesions, read, strict)
    return Imported(_join(source, videos, lesions, read), faults.lines())


def _annotation_folders(source: Path) -> dict[str, Path]:
    """Procedure id to its folder or archive, under either of the two names in use."""
    folders: dict[str, Path] = {}
    for path in sorted(source.iterdir()):
        procedure_id = place_of(path.name, ("annotations", "annotation"))
        if procedure_id is None:
            continue
        before = folders.get(procedure_id)
        if before is not None and before.is_dir() and not path.is_dir():
            continue  # unpacked beside its archive, which sorts behind it
        if before is not None:
            raise PolyplinkError(f"{path} and {before} are of one procedure", "remove one of them")
        folders[procedure_id] = path
    if not folders:
        raise nothing_found(
            open_tree(source, Faults()),
            str(source),
            "<procedure>_annotations.tar.gz, nor a folder <procedure>_annotations",
            DATASET,
        )
    return folders


def _refuse_unlisted(source: Path, folders: dict[str, Path], videos: pl.DataFrame) -> None:
    unknown = sorted(set(folders) - set(videos["procedure_id"]))
    if unknown:
        raise PolyplinkError(
            f"{source / 'video_info.csv'} has no row for {unknown[0]}",
            f"add the row, or move {folders[unknown[0]].name} away",
        )


def _dataset(source: Path) -> str:
    """What lies in this layout: what `dataset.txt` says, or the simulator's run.json.

    The release has neither. A simulation's preset and seed are part of its name, because
    procedures of two seeds are others under the same ids.
    """
    if named := named_origin(source):
        return named
    run = source / "run.json"
    record = read_json(run) if run.is_file() else {}
    if not isinstance(record, Mapping) or record.get("command") != "simulate":
        return DATASET
    settings = record.get("settings")
    name = settings.get("name") if isinstance(settings, Mapping) else None
    return simulated_name(str(name or "?"), record.get("seed"))


def simulated_name(preset: str, seed: int | None) -> str:
    """Name of a simulated data set."""
    return f"{SIMULATED} {preset} {seed}"


def _read_all(
    sources: list[ProcedureSource], workers: int
) -> Generator[ProcedureBoxes, None, None]:
    if workers <= 1 or len(sources) <= 1:
        yield from map(read_boxes, sources)
        return
    with worker_pool(min(workers, len(sources))) as pool:
        yield from pool.map(read_boxes, sources)


def _join(
    source: Path, videos: pl.DataFrame, lesions: pl.DataFrame, read: list[ProcedureBoxes]
) -> DataSet:
    procedures = videos.with_columns(
        dataset=pl.lit(_dataset(source)),
        patient=pl.col("procedure_id"),
        width=pl.Series([boxes.width for boxes in read], dtype=pl.Int32),
        height=pl.Series([boxes.height for boxes in read], dtype=pl.Int32),
        source=pl.lit(str(source.resolve())),
    )
    detections = pl.concat(
        boxes.boxes.with_columns(procedure_id=pl.lit(procedure_id))
        for procedure_id, boxes in zip(videos["procedure_id"], read, strict=True)
    )
    splits = split_by_rule(videos["procedure_id"], set(lesions["procedure_id"]))
    return DataSet.of(detections, procedures, lesions, splits)


def _warnings(
    videos: pl.DataFrame, lesions: pl.DataFrame, read: list[ProcedureBoxes], strict: bool
) -> Faults:
    faults = Faults(strict)
    listed = dict(lesions.group_by("procedure_id").len().iter_rows())
    columns = videos.select("procedure_id", "n_frames", "num_lesions")
    for (procedure_id, n_frames, claimed), boxes in zip(columns.iter_rows(), read, strict=True):
        rows = listed.get(procedure_id, 0)
        if claimed is not None and claimed != rows:
            faults.warn(
                "num_lesions of video_info.csv is not the number of rows of lesion_info.csv, "
                "which counts",
                f"{procedure_id}: {claimed} and {rows}",
            )
        if boxes.n_files != n_frames:
            faults.warn(
                "num_frames of video_info.csv is not the number of annotation files",
                f"{procedure_id}: {n_frames} and {boxes.n_files}",
            )
        faults.add(boxes.faults)
    return faults
