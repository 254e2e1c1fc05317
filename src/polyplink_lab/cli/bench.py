"""The verb `bench`: time the hot paths, each against its rival."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from typer import Argument, echo

from polyplink.cli.options import Request, names_of, option
from polyplink.cli.verb import inform
from polyplink.core.artefacts import to_plain, write_text
from polyplink.core.errors import PolyplinkError, find_named
from polyplink.core.progress import Progress

if TYPE_CHECKING:
    from polyplink_lab.bench import BenchResult

# Names of `bench.CASES`, known here before that room is imported.
NAMES = dict.fromkeys(
    (
        *("startup", "tracklets", "tracks", "bags", "input", "first-pass", "recording", "sweep"),
        *(
            "links",
            "retrieval",
            "search",
            "reid",
            "embed",
            "bootstrap",
            "step",
            "precision",
            "simulate",
        ),
        *("tracking", "tracking-general"),
    )
)


@dataclass(frozen=True)
class BenchRequest(Request):
    """Which paths to time."""

    names: Sequence[str] = option(
        "Paths to time; all by default.",
        (),
        kind=Argument,
        metavar="[NAME]...",
        autocompletion=names_of("polyplink_lab.cli.bench", "NAMES"),
    )
    size: int | None = option("Size of the input instead of the default.", min=1)
    device: str = option("auto, cpu or cuda, for the paths that can use a GPU.", "auto")
    profile: Path | None = option("Write a profile of a training step; with step.")
    compare: bool = option("List paths that became slower than recorded; exit 1.", False)
    record: bool = option("Record the ratios for later comparison.", False)


@dataclass
class Benched:
    """Results of benchmarks, measured lazily while iterating.

    Attributes:
        results: Measured one by one while they are iterated over.
        behind: Filled meanwhile with the paths that became slower; any makes the exit code 1.
    """

    results: "Iterator[BenchResult]"
    behind: list[str] = field(default_factory=list)

    warnings = ()

    @property
    def code(self) -> int:
        """1 if a path became slower."""
        return int(bool(self.behind))

    def print_json(self) -> None:
        """Print one line of JSON per path, as soon as it is measured."""
        self._print(lambda result: json.dumps(to_plain(result)))

    def print_text(self) -> None:
        """Print one line per path, as soon as it is measured."""
        self._print(lambda result: result.line())

    def _print(self, line: "Callable[[BenchResult], str]") -> None:
        for result in self.results:
            echo(line(result))
        for complaint in self.behind:
            echo(complaint, err=True)


def bench(request: BenchRequest, progress: Progress = inform) -> Benched:
    """Time the hot paths, each against its rival, and compare their outputs.

    Raises:
        PolyplinkError: If `profile` is asked for without the path `step`; while iterating, if
            there is no such path or device, or the size is too small.
    """
    for name in request.names:
        find_named("benchmark", name, NAMES)
    from polyplink.encoders import check_device

    check_device(request.device)  # a path that uses no GPU is refused before a missing GPU
    if request.profile is not None and "step" not in request.names:
        raise PolyplinkError("--profile is for the path step", "name it: polyplink bench step")
    behind: list[str] = []
    return Benched(_measured(request, behind), behind)


def _measured(request: BenchRequest, behind: list[str]) -> "Iterator[BenchResult]":
    from polyplink_lab.bench import (
        CASES,
        complaint,
        profile_step,
        read_recorded,
        record,
        run_benches,
    )

    recorded = read_recorded()
    for result in run_benches(request.names, request.size, request.device):
        yield result
        message = complaint(result, recorded)
        if request.compare and message is not None:
            behind.append(message)
        if request.record:
            record([result])
    if request.profile is not None:
        size = request.size or CASES["step"].size
        write_text(request.profile, profile_step(size, request.device))
