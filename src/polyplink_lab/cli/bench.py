"""The command `bench`: time the hot paths, each against its rival."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, echo

from polyplink.cli.options import StrPath, names_of
from polyplink.cli.verb import verb
from polyplink.core.artefacts import to_plain, write_text
from polyplink.core.errors import PolyplinkError, find_named

if TYPE_CHECKING:
    from polyplink_lab.bench.harness import BenchResult

# Keys of `bench.cases.CASES`, listed here because importing that module is slow.
NAMES = dict.fromkeys(
    [
        "startup",
        "tracklets",
        "tracks",
        "bags",
        "first-pass",
        "recording",
        "sweep",
        "links",
        "retrieval",
        "search",
        "reid",
        "embed",
        "bootstrap",
        "step",
        "precision",
        "simulate",
        "tracking",
        "tracking-general",
    ]
)


@dataclass
class Benched:
    """Results of benchmarks, measured lazily.

    Attributes:
        results: Results, measured one by one during iteration.
        behind: Paths that became slower or differ from their rival, filled during iteration; any
            makes the exit code 1.
    """

    results: "Iterator[BenchResult]"
    behind: list[str] = field(default_factory=list)

    warnings = ()

    @property
    def code(self) -> int:
        """1 if a path became slower, or its output differs from its rival's."""
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


@verb
def bench(
    names: Annotated[
        Sequence[str],
        Argument(
            help="Paths to time; all by default.",
            metavar="[NAME]...",
            autocompletion=names_of("polyplink_lab.cli.bench:NAMES"),
        ),
    ] = (),
    *,
    size: Annotated[
        int | None, Option(min=1, help="Size of the input instead of the default.")
    ] = None,
    device: Annotated[
        str, Option(help="auto, cpu or cuda, for the paths that can use a GPU.")
    ] = "auto",
    profile: Annotated[
        StrPath | None, Option(help="Write a profile of a training step; with step.")
    ] = None,
    record: Annotated[
        StrPath | None, Option(help="Write the ratios to this file, for --compare.")
    ] = None,
    compare: Annotated[
        StrPath | None,
        Option(help="List paths that became slower than in this file; exit 1."),
    ] = None,
) -> Benched:
    """Time the hot paths, each against its rival, and compare their outputs.

    Args:
        record: File to write the ratios to; those of other paths in it stay.
        compare: File of `record`, made on the same machine; paths that became slower are listed.

    Raises:
        PolyplinkError: If a path is unknown, the device is missing, or `profile` is given without
            the path `step`; during iteration, if a path cannot use the device or the size.
    """
    for name in names:
        find_named("benchmark", name, NAMES)
    from polyplink.encoders.device import check_device

    check_device(device)
    if profile is not None and "step" not in names:
        raise PolyplinkError("--profile is for the path step", "name it: polyplink bench step")
    from polyplink_lab.bench import harness

    recorded = {} if compare is None else harness.read_ratios(Path(compare))
    if record is not None and Path(record).is_file():
        harness.read_ratios(Path(record))  # refused before anything is measured
    behind: list[str] = []

    def measured() -> "Iterator[BenchResult]":
        from polyplink_lab.bench import cases

        for result in cases.run_benches(names, size, device):
            yield result
            message = harness.complaint(result, recorded)
            if message is not None:
                behind.append(message)
            if record is not None:
                harness.record([result], Path(record))
        if profile is not None:
            from polyplink_lab.bench.training import profile_step

            text = profile_step(size or cases.CASES["step"].size, device)
            write_text(Path(profile), text)

    return Benched(measured(), behind)
