"""Output folders of counts: named after the recording, and overwritten only with --replace."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from polyplink.core.artefacts import read_json
from polyplink.core.errors import PolyplinkError
from polyplink.core.text import readable_path

SOURCE = "source"  # key in the settings of run.json: the recording or data that was counted
BOXES, VIDEOS = "boxes-with-tracks", "video-with-boxes"  # folders that counts may write
RUN_PARTS = ("data", "count", "tracks", BOXES, VIDEOS)  # folders that `run` writes


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
        PolyplinkError.unless(not is_file, f"--out {out} is a file", "name a folder")
        return Path(out)
    path = Path(source).resolve()
    name = path.name if path.is_dir() else path.stem
    if "://" in str(source):  # an address
        name = re.sub(r"[^\w.]+", "-", str(source).partition("://")[2])
    return readable_path(Path(command), name.strip("-") or "all")


def protect_other_counts(
    folder: Path, source: str | Path | None, parts: Sequence[str], *, replace: bool
) -> None:
    """Refuse to overwrite the count of another source; with `replace`, remove that count.

    Args:
        folder: The output folder.
        source: The source to count; None if the same name may stand for another procedure, as that
            of a camera does.
        parts: Files and folders in `folder` that belong to a count.
        replace: Whether to remove the existing count.

    Raises:
        PolyplinkError: If the folder holds the count of another source and `replace` is False.
    """
    existing = [part for part in (folder / name for name in parts) if part.exists()]
    if not existing:
        return
    record = folder / "run.json"
    counted = read_json(record).get("settings", {}).get(SOURCE) if record.is_file() else None
    if counted is not None and source is not None and counted == str(Path(source).resolve()):
        return
    recording = "another recording" if counted in (None, "-") else counted
    PolyplinkError.unless(
        replace,
        f"{folder} holds the count of {recording}",
        "name another --out, or replace that count with --replace",
    )
    for part in existing:
        if part.is_dir():
            shutil.rmtree(part)
        else:
            part.unlink()
