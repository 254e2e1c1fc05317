"""The verb `doctor`: check a data folder."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from typer import Option

from polyplink.app.request import Data, Progress, Result, counter, silent

if TYPE_CHECKING:
    from polyplink.data import Finding


@dataclass(frozen=True)
class DoctorRequest:
    """What to check."""

    data: Data
    images: Annotated[bool, Option(help="Also look for the images, and open a sample of them.")] = (
        True
    )
    deep: Annotated[
        bool, Option("--deep", help="Open all images; takes as long as decoding them.")
    ] = False


def doctor(request: DoctorRequest, progress: Progress = silent) -> "Result[list[Finding]]":
    """Check a data set and list problems, worst first.

    An error among the findings makes the exit code 1.

    Raises:
        PolyplinkError: If the folder is not a data folder.
    """
    from polyplink.data import diagnose, read_data

    findings = diagnose(
        read_data(request.data),
        images=request.images,
        deep=request.deep,
        folder=request.data,
        progress=counter(progress, "images opened"),
    )
    lines = [f"{f.severity:8}{f.check} ({f.count}): {f.what}\n        {f.mend}" for f in findings]
    code = int(any(f.severity == "error" for f in findings))
    return Result(findings, shown=lines or ["nothing found"], code=code)
