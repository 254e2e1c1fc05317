"""The folder of a count: its name, what a new count may replace in it, and where the count is.

`count` writes a count; `run` and `live` write a folder with the data, the count and its tracks.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from polyplink.core.artefacts import finish_change, remove
from polyplink.core.errors import PolyplinkError
from polyplink.core.runs import RunRecord, read_run
from polyplink.core.text import readable_path
from polyplink.counting.corrections import LOG
from polyplink.counting.result import FILE
from polyplink.data.files.folders import check_is_folder

SOURCE = "source"  # key in the settings of run.json: the recording or data that was counted
SOURCE_SIZE = "source_size"  # bytes of the video that was counted
BOXES, VIDEOS = "boxes-with-tracks", "video-with-boxes"  # folders that counts may write
# What a new count replaces: that of `count` overwrites all other files, `run` and `live` write
# these folders.
COUNT_FILES = (FILE, BOXES, VIDEOS)
RUN_PARTS = ("data", "count", "tracks", BOXES, VIDEOS)
LIVE_SOURCE = "live/source.json"  # file of `live`, which writes run.json with its report
_HINT = "give a folder that `polyplink run` or `polyplink count` wrote"


def output_folder(out: str | Path | None, command: str, source: str | Path) -> Path:
    """The output folder of a count: `out`, or COMMAND/NAME, named after the source.

    Args:
        out: The folder that the user named; None for the default.
        command: The verb.
        source: A recording, a file or folder of boxes, a data folder, or the address of a device.

    Example:
        >>> output_folder(None, "run", "films/a.mp4"), output_folder(Path("x"), "run", "a.mp4")
        (PosixPath('run/a'), PosixPath('x'))
        >>> output_folder(None, "live", "rtsp://tower.local/1")
        PosixPath('live/tower.local-1')
    """
    if out is not None:
        is_file = Path(out).is_file()
        if is_file:
            raise PolyplinkError(f"--out {out} is a file", "name a folder")
        return Path(out)
    path = Path(source).resolve()
    name = path.name if path.is_dir() else path.stem
    if "://" in str(source):  # an address
        name = re.sub(r"[^\w.]+", "-", str(source).partition("://")[2])
    return readable_path(Path(command), name.strip("-") or "all")


def file_size(source: str | Path | None) -> int | None:
    """Bytes of a recording that is one file; None for any other source."""
    return Path(source).stat().st_size if source and Path(source).is_file() else None


def claim_for_count(
    record: RunRecord,
    folder: Path,
    source: str | Path | None,
    parts: Sequence[str],
    *,
    replace: bool,
    size: int | None = None,
) -> None:
    """Refuse the output folder of another command or source; with `replace`, remove its count.

    The answers of its review stay: they apply again if the recording was only moved, and to no
    other views.

    Args:
        record: The record of the command that counts.
        folder: The output folder.
        source: The source to count; None if the same name may stand for another procedure, as that
            of a camera does.
        parts: Files and folders in `folder` that belong to a count.
        replace: Whether to remove the existing count.
        size: Bytes of the recording, see `file_size`: another size is another recording.

    Raises:
        PolyplinkError: If the folder holds a run of another command, files of another program
            under the names of `parts`, or the count of another source and `replace` is False.
    """
    record.claim(folder)
    if size is not None:
        record.settings[SOURCE_SIZE] = size
    existing = [part for part in (folder / name for name in parts) if part.exists()]
    if not existing:
        return
    signs = [folder / LIVE_SOURCE, *(place / "run.json" for place in (folder, *existing))]
    if not any(sign.is_file() for sign in signs):
        parts_there = " and ".join(part.name for part in existing)
        raise PolyplinkError(f"{folder} holds {parts_there} of another kind", "name another --out")
    recorded = read_run(folder).get("settings", {})
    counted = recorded.get(SOURCE)
    recording = "another recording" if counted in (None, "-") else counted
    if source is not None and counted == str(Path(source).resolve()):
        if recorded.get(SOURCE_SIZE, size) == size:
            return
        recording = f"a recording of another size that was at {counted}"
    if not replace:
        raise PolyplinkError(
            f"{folder} holds the count of {recording}",
            "name another --out, or replace that count with --replace, which keeps answers of a "
            "review",
        )
    for part in existing:
        reviewed = (part / LOG).is_file()
        for path in [path for path in part.iterdir() if path.name != LOG] if reviewed else [part]:
            remove(path)


def counted_folder(folder: Path) -> Path:
    """The folder that `count` wrote: `folder`, or its subfolder `count` if `run` wrote it.

    Raises:
        PolyplinkError: If neither holds a count, or `folder` is not a folder.
    """
    for path in (folder / "count", folder):
        finish_change(path)
    check_is_folder(folder, _HINT)
    folders = [path for path in (folder / "count", folder) if (path / FILE).is_file()]
    if not folders:
        near = [*sorted(folder.glob(f"*/count/{FILE}")), *folder.parent.glob(f"count/{FILE}")]
        hint = f"did you mean {near[0].parent}?" if near else _HINT
        raise PolyplinkError(f"{folder} holds no count ({FILE} is missing)", hint)
    return folders[0]


def check_recording(count: Path) -> None:
    """Refuse a count of `run` or `live` if another file has taken the place of its recording.

    A missing recording is no mistake: stored close-ups are shown in its place.

    Args:
        count: The folder with count.json.

    Raises:
        PolyplinkError: If the recording that was counted has another size.
    """
    counted = read_run(count.resolve().parent).get("settings") or {}
    source, size = counted.get(SOURCE), counted.get(SOURCE_SIZE)
    if source and size is not None and file_size(source) not in (None, size):
        raise PolyplinkError(
            f"{source} is not the recording that was counted: its size is another",
            "restore it, or move it away to show the stored close-ups alone",
        )
