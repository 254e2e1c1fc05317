"""Annotation archives as REAL-Colon is released: one tar.gz a procedure, one XML a frame.

A release has 2.76 million members. Nearly all differ in their frame number alone, so that header
and XML are laid out once and only the digits and the checksum are filled in, thousands at a time.
Layout of the blocks: POSIX.1-2017, pax, "ustar Interchange Format".
"""

import tarfile
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from polyplink.core.artefacts import whole_file
from polyplink.core.errors import PolyplinkError
from polyplink.core.workers import worker_pool
from polyplink.data import (
    DataSet,
    VocFrame,
    VocObject,
    annotations_folder,
    format_voc,
    frame_stem,
    frames_folder,
)
from polyplink.data.sets.write_real_colon import boxes_by_frame

BLOCK, RECORD = 512, 10240  # bytes; an archive is filled up to whole records
RELEASED_AT = 1_677_542_400  # 2023-02-28, the date in the release's name: the same in every run
AT_A_TIME = 4096  # frames: their blocks stay in the cache
_SIZE, _CHECKSUM = slice(124, 136), slice(148, 156)  # fields of a header
WITH_POINT = frozenset({"001-012"})  # the release writes the frames of this one as `_0.0`


@dataclass(frozen=True)
class ArchiveJob:
    """One archive to write.

    Attributes:
        path: The file.
        procedure_id: Its procedure.
        n_frames: Number of members.
        width: Frame width, pixels.
        height: Frame height, pixels.
        detections: The boxes of the procedure, see `polyplink.data.DETECTIONS`.
    """

    path: Path
    procedure_id: str
    n_frames: int
    width: int
    height: int
    detections: pl.DataFrame


def archive_name(procedure_id: str) -> str:
    """Name of the archive of a procedure's annotations."""
    return f"{annotations_folder(procedure_id)}.tar.gz"


def write_archives(
    data: DataSet,
    root: Path,
    *,
    workers: int = 1,
    keep: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write the annotation archives of a data set, each whole or not at all.

    The same data set gives the same bytes (with the same zlib).

    Args:
        data: The data set; scores and image paths have no place in the release.
        root: Folder to write into; made if absent.
        workers: Processes that write.
        keep: Leave archives that are there already as they are (a run that goes on).
        progress: Called after every archive with how many are written and how many there are.

    Raises:
        PolyplinkError: If an archive exists and `keep` is not asked for, or a box lies beyond its
            procedure's last frame.
    """
    jobs = _jobs(data, root)
    there = [job.path for job in jobs if job.path.exists()]
    if there and not keep:
        raise PolyplinkError(f"{there[0]} exists already", "choose another folder, or remove it")
    missing = [job for job in jobs if job.path not in there]
    with closing(_written(missing, workers)) as written:
        for count, _ in enumerate(written, start=1 + len(there)):
            if progress is not None:
                progress(count, len(jobs))


def _jobs(data: DataSet, root: Path) -> list[ArchiveJob]:
    """The longest first, so that no worker is left with it at the end."""
    boxes = data.detections.partition_by("procedure_id", as_dict=True)
    columns = data.procedures.sort("n_frames", descending=True, maintain_order=True).select(
        "procedure_id", "n_frames", "width", "height"
    )
    return [
        ArchiveJob(
            root / archive_name(name),
            name,
            n_frames,
            width,
            height,
            boxes.get((name,), data.detections.clear()),
        )
        for name, n_frames, width, height in columns.iter_rows()
    ]


def _written(jobs: Sequence[ArchiveJob], workers: int) -> Generator[str, None, None]:
    if workers == 1 or len(jobs) < 2:
        yield from map(write_archive, jobs)
        return
    with worker_pool(min(workers, len(jobs))) as pool:
        yield from pool.map(write_archive, jobs)


def write_archive(job: ArchiveJob) -> str:
    """Write one archive, whole or not at all.

    Returns:
        The procedure's id.

    Raises:
        PolyplinkError: If a box lies beyond the last frame.
    """
    last = job.detections["frame"].max()
    if isinstance(last, int) and last >= job.n_frames:
        raise PolyplinkError(
            f"procedure {job.procedure_id}: a box in frame {last} of {job.n_frames}",
            "correct n_frames, or leave the box out",
        )
    # As gzip files are, without a name or a time. Level 1: the text repeats itself, and what
    # higher levels save is a tenth.
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    with whole_file(job.path) as temporary, temporary.open("wb") as file:
        for block in tar_blocks(job):
            file.write(packer.compress(block))
        file.write(packer.flush())
    return job.procedure_id


def tar_blocks(job: ArchiveJob) -> Iterator[bytes]:
    """The uncompressed archive, a few thousand members at a time, in the order of the frames."""
    boxes = boxes_by_frame(job.detections)
    total, first = 0, 0
    while first < job.n_frames:
        last = min(first + AT_A_TIME, 10 ** len(str(first)), job.n_frames)
        blocks = _without_boxes(job, first, last)  # s bytes
        parts, begin = [], first
        for frame in sorted(frame for frame in range(first, last) if frame in boxes):
            parts.append(blocks[begin - first : frame - first].tobytes())
            parts.append(_with_boxes(job, frame, boxes, blocks[frame - first, :BLOCK].tobytes()))
            begin = frame + 1
        parts.append(blocks[begin - first :].tobytes())
        total += sum(map(len, parts))
        yield b"".join(parts)
        first = last
    yield bytes(2 * BLOCK + -(total + 2 * BLOCK) % RECORD)


def voc_text(job: ArchiveJob, frame: int, objects: Sequence[VocObject] = ()) -> str:
    """The XML of one frame."""
    return format_voc(
        VocFrame(
            folder=frames_folder(job.procedure_id),
            filename=f"{_stem(job, frame)}.jpg",
            width=job.width,
            height=job.height,
            objects=objects,
        )
    )


def _stem(job: ArchiveJob, frame: int) -> str:
    point = ".0" if job.procedure_id in WITH_POINT else ""
    return frame_stem(job.procedure_id, frame) + point


def _header(job: ArchiveJob, frame: int, size: int) -> bytes:
    info = tarfile.TarInfo(f"{annotations_folder(job.procedure_id)}/{_stem(job, frame)}.xml")
    info.size, info.mtime = size, RELEASED_AT
    return info.tobuf(tarfile.USTAR_FORMAT)


def _padded(text: bytes) -> bytes:
    return text + bytes(-len(text) % BLOCK)


def _without_boxes(job: ArchiveJob, first: int, last: int) -> NDArray[np.uint8]:
    """Header and XML (s, b bytes) of frames of equally many digits, as if none had a box."""
    text = voc_text(job, first).encode()
    member = _header(job, first, len(text)) + _padded(text)
    blocks = np.tile(np.frombuffer(member, np.uint8), (last - first, 1))
    digits = len(str(first))
    frames = np.arange(first, last)
    powers = 10 ** np.arange(digits - 1, -1, -1)
    written = frames[:, None] // powers % 10 + ord("0")  # s d
    for place in _digit_places(job, member, first):
        blocks[:, place : place + digits] = written
    blocks[:, _CHECKSUM] = ord(" ")
    _sign(blocks[:, :BLOCK])
    return blocks


def _digit_places(job: ArchiveJob, member: bytes, first: int) -> tuple[int, int]:
    """Where a member names its frame: in the header's path and in the XML's file name."""
    stem = _stem(job, first).encode()
    before = len(frame_stem(job.procedure_id, first)) - len(str(first))
    in_header = member.index(b"/" + stem) + 1
    in_text = member.index(b"<filename>" + stem) + len(b"<filename>")
    return in_header + before, in_text + before


def _sign(headers: NDArray[np.uint8]) -> None:
    """Write the checksums of headers (s, 512) whose fields for it hold blanks."""
    sums = headers.sum(axis=1, dtype=np.int64)
    octal = sums[:, None] >> np.arange(15, -1, -3) & 7  # s 6
    headers[:, _CHECKSUM.start : _CHECKSUM.start + 6] = octal + ord("0")
    headers[:, _CHECKSUM.start + 6] = 0  # a blank stands behind it already


def _with_boxes(
    job: ArchiveJob, frame: int, boxes: Mapping[int, Sequence[VocObject]], header: bytes
) -> bytes:
    """Header and XML of a frame with boxes, from the header that it would have without."""
    text = voc_text(job, frame, boxes[frame]).encode()
    size = b"%011o\0" % len(text)
    signed = int(header[_CHECKSUM][:6], 8) + sum(size) - sum(header[_SIZE])
    parts = (
        header[: _SIZE.start],
        size,
        header[_SIZE.stop : _CHECKSUM.start],
        b"%06o\0 " % signed,
        header[_CHECKSUM.stop :],
        _padded(text),
    )
    return b"".join(parts)
