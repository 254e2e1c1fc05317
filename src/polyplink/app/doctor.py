"""The verb `doctor`: say what is wrong with a data folder."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option, echo

from polyplink.app.request import Data, Progress, Result, counter, silent
from polyplink.core.artefacts import to_plain

if TYPE_CHECKING:
    from polyplink.data import Finding


@dataclass(frozen=True)
class DoctorRequest:
    """What to examine."""

    data: Data
    images: Annotated[bool, Option(help="Also look for the images, and open a sample of them.")] = (
        True
    )
    deep: Annotated[
        bool, Option("--deep", help="Open all images; takes as long as decoding them.")
    ] = False


@dataclass(frozen=True)
class Diagnosed(Result):
    """Findings, worst first; any error makes the exit code 1."""

    findings: "list[Finding]"

    def as_dict(self) -> list[Any]:
        """One object per finding."""
        plain: list[Any] = to_plain(self.findings)
        return plain

    def print_text(self) -> None:
        """Two lines per finding: what is wrong, and how to mend it."""
        for f in self.findings:
            echo(f"{f.severity:8}{f.check} ({f.count}): {f.what}\n        {f.mend}")
        if not self.findings:
            echo("nothing found")

    def exit_code(self) -> int:
        """1 if there is an error."""
        return int(any(f.severity == "error" for f in self.findings))


def doctor(request: DoctorRequest, progress: Progress = silent) -> Diagnosed:
    """Say what is wrong with a data set, worst first.

    Raises:
        PolyplinkError: If the folder is no data folder.
    """
    from polyplink.data import diagnose, read_data

    found = diagnose(
        read_data(request.data),
        images=request.images,
        deep=request.deep,
        folder=request.data,
        progress=counter(progress, "images opened"),
    )
    return Diagnosed(found)
