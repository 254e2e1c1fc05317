"""The verb `simulate`: procedures with known identities, or the check of them (`--check`)."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Argument

from polyplink.cli import options
from polyplink.cli.options import Request, names_of, option
from polyplink.cli.verb import Result, inform
from polyplink.core.errors import PolyplinkError, find_named
from polyplink.core.progress import Progress, counter
from polyplink.core.text import many

if TYPE_CHECKING:
    from polyplink.data import DataSet
    from polyplink_lab.simulate.tolerance_checks import Row


@dataclass(frozen=True)
class SimulateRequest(Request):
    """What to simulate."""

    out: Path | None = option(
        "Folder to write; --check needs none.", kind=Argument, show_default=False
    )
    preset: str | None = option(
        "tiny, small, real-colon-sim or smoke; tiny by default.",
        autocompletion=names_of("polyplink_lab.simulate.presets", "PRESETS"),
    )
    seed: int = option("Seed; the same seed gives the same bytes.", 0, min=0)
    difficulty: float | None = option("From 0 (easy) to 1; by default that of the preset.")
    times: int = option(
        "Procedures for each of the preset's, from different random numbers.", 1, min=1
    )
    write: str | None = option("tables, archives or frames; by default that of the preset.")
    preview: bool = option("Also a contact sheet and a short film.", False)
    check: bool = option("Compare real-colon-sim with published figures.", False)
    device: str | None = option("cpu or cuda; cpu by default.")
    workers: options.Workers = 2


def simulate(
    request: SimulateRequest, progress: Progress = inform
) -> "Result[DataSet] | Result[list[Row]]":
    """Simulate procedures with known identities, or check them against published figures.

    A figure that does not hold makes the exit code 1.

    Raises:
        PolyplinkError: If a name is unknown, a value out of range, or `out` holds something else.
    """
    from polyplink.core.workers import HEAVY, start_server

    out, seed, workers = request.out, request.seed, request.workers
    if request.check:
        _refuse_unread(request)
    elif out is None:
        raise PolyplinkError("no output folder", "name one: polyplink simulate OUT")
    from polyplink_lab import simulate as room

    chosen = room.preset(request.preset or "tiny").at_difficulty(request.difficulty)
    chosen = chosen.repeated(request.times)
    if request.write is not None:
        chosen = find_named("way to write", request.write, room.WRITINGS)(chosen)
    device = request.device or "cpu"
    if out is not None:
        room.SimulationSettings.of(chosen, seed, device).check(out)
    if workers > 1 and seed >= 0:
        start_server(HEAVY)  # in parallel with the imports of this process, which take as long
    if out is None:
        from polyplink_lab.simulate.tolerance_checks import check_simulation, rows_text

        rows = check_simulation(room.real_colon_sim(), seed, workers=workers, progress=progress)
        return Result(rows, shown=[rows_text(rows)], code=int(not all(row.holds for row in rows)))
    stage = counter(progress, "procedures")
    data = room.simulate(out, chosen, seed, device=device, workers=workers, progress=stage)
    files: dict[str, Path] = {}
    if request.preview:
        stage = counter(progress, "preview")
        files = room.write_preview(out / "preview", chosen, seed, device=device, progress=stage)
    counts: dict[str, Any] = {
        "out": str(out),
        "procedures": data.procedures.height,
        "polyps": data.polyps.height,
        "frames": int(data.procedures["n_frames"].sum()),
        "boxes": data.detections.height,
        "preview": {name: str(path) for name, path in files.items()},
    }
    text = f"{out}: {data.contents}, {many(counts['frames'], 'frame')}"
    shown = [text, *(f"{name}: {path}" for name, path in files.items())]
    return Result(data, counts, shown)


def _refuse_unread(request: SimulateRequest) -> None:
    """Refuse options that --check does not read."""
    if request.out is not None:
        raise PolyplinkError(
            "--check writes nothing", f"leave {request.out} out, or leave --check out"
        )
    default = SimulateRequest()
    for name in ("preset", "difficulty", "times", "write", "preview", "device"):
        if getattr(request, name) != getattr(default, name):
            raise PolyplinkError(
                f"--check lays out real-colon-sim as it is and does not read --{name}",
                f"leave --{name} out, or leave --check out",
            )
