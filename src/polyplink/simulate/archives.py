"""Annotation archives as REAL-Colon is released: one tar.gz a procedure, one XML file a frame."""

import gzip
import io
import tarfile
from pathlib import Path

import polars as pl

from polyplink.core.artefacts import whole_file
from polyplink.core.workers import HEAVY, as_done
from polyplink.data import (
    DataSet,
    VocFrame,
    annotations_folder,
    boxes_by_frame,
    format_voc,
    frame_stem,
    frames_folder,
)

RELEASED_AT = 1_677_542_400  # 2023-02-28, the date in the release's name: the same in every run
WITH_POINT = frozenset({"001-012"})  # the release writes the frames of this one as `_0.0`

ArchiveJob = tuple[Path, tuple[str, int, int, int], pl.DataFrame]
"""The file; procedure_id, number of frames, width and height; the procedure's boxes."""


def write_archives(data: DataSet, root: Path, *, workers: int = 1) -> None:
    """Write the annotation archives of a data set, each whole or not at all.

    The same data set gives the same bytes (with the same zlib). Archives that exist already are
    kept, so that an interrupted run can be resumed.

    Args:
        data: The data set; scores and image paths have no place in the release.
        root: Folder to write into; made if absent.
        workers: Processes that write.
    """
    boxes = data.detections.partition_by("procedure_id", as_dict=True)
    # The longest first, so that no worker is left with it at the end.
    rows = data.procedures.sort("n_frames", descending=True, maintain_order=True)
    jobs: list[ArchiveJob] = []
    for row in rows.select("procedure_id", "n_frames", "width", "height").iter_rows():
        path = root / f"{annotations_folder(row[0])}.tar.gz"
        if not path.exists():
            jobs.append((path, row, boxes.get(row[:1], data.detections.clear())))
    for _ in as_done(write_archive, jobs, workers, HEAVY):
        pass


def write_archive(job: ArchiveJob) -> None:
    """Write one archive, members in the order of the frames."""
    path, (name, n_frames, width, height), detections = job
    boxes = boxes_by_frame(detections)
    point = ".0" if name in WITH_POINT else ""
    # Level 1: the text repeats itself, and higher levels save another tenth only. Without a name
    # or a time in it, so that equal annotations give equal bytes.
    with (
        whole_file(path) as temporary,
        temporary.open("wb") as file,
        gzip.GzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for frame in range(n_frames):
            stem = frame_stem(name, frame) + point
            text = format_voc(
                VocFrame(
                    folder=frames_folder(name),
                    filename=f"{stem}.jpg",
                    width=width,
                    height=height,
                    objects=boxes.get(frame, ()),
                )
            ).encode()
            member = tarfile.TarInfo(f"{annotations_folder(name)}/{stem}.xml")
            member.size, member.mtime = len(text), RELEASED_AT
            archive.addfile(member, io.BytesIO(text))
