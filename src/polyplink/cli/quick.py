"""From a recording to a count in one call: `polyplink.run("colonoscopy.mp4")`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polyplink.cli.counted import Counted
    from polyplink.cli.verb import Result


def run(source: str | Path, **options: Any) -> "Result[Counted]":
    """Count the polyps of a recording with the shipped models; writes a report.

    Args:
        source: A video, or a folder of videos or images; a data folder.
        options: Other fields of `polyplink.cli.RunRequest`: `out`, `detector`, `weights` ...

    Returns:
        The count: `value.polyps` is the number of polyps, `value.report` the file of the report.

    Raises:
        PolyplinkError: If the recording or an option is at fault.
    """
    from polyplink.cli.detect import RunRequest, run as count_recording

    return count_recording(RunRequest(Path(source), **options))
