"""The verb `doctor`: what is wrong with a data folder, and what fixes it."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from polyplink.cli import options
from polyplink.cli.verb import inform, verb
from polyplink.core.results import Progress, Result

if TYPE_CHECKING:
    from polyplink.data.doctor import Finding


@verb
def doctor(
    data: options.Data,
    *,
    images: Annotated[
        bool, Option(help="Also look for the images, and open a sample of them.")
    ] = True,
    deep: Annotated[bool, Option(help="Open all images; takes as long as decoding them.")] = False,
    progress: Progress = inform,
) -> "Result[list[Finding]]":
    """Check a data set and list problems, worst first.

    An error among the findings makes the exit code 1.

    Args:
        progress: Called for images.

    Raises:
        PolyplinkError: If the folder is not a data folder, or a file in it is broken.
    """
    from polyplink.data.doctor import SEVERITIES, diagnose
    from polyplink.data.origin import read_origin, read_warnings
    from polyplink.data.tables import read_data
    from polyplink.tracklets.unused_boxes import diagnose_tracklets

    dataset = read_data(Path(data))
    read_origin(Path(data))  # refuses a broken file, as `count` would
    read_warnings(Path(data))
    findings = diagnose(
        dataset,
        images=images,
        deep=deep,
        folder=Path(data),
        progress=partial(progress, "images opened"),
    )
    findings += diagnose_tracklets(dataset, Path(data))
    findings.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    lines = [
        f"{finding.severity:8}{finding.check} ({finding.count}): {finding.what}\n"
        f"        {finding.hint}"
        for finding in findings
    ]
    code = int(any(finding.severity == "error" for finding in findings))
    return Result(findings, printed=lines or ["no problems"], code=code)
