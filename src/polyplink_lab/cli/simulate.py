"""The command `simulate`: simulate procedures, or check the simulation (`--check`)."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from polyplink.cli import options
from polyplink.cli.options import StrPath, names_of
from polyplink.cli.verb import inform, verb
from polyplink.core.errors import PolyplinkError, find_named
from polyplink.core.results import Progress, Result
from polyplink.core.text import many

if TYPE_CHECKING:
    from polyplink.data.tables import DataSet
    from polyplink_lab.simulate.tolerance_checks import Row


@verb
def simulate(
    out: Annotated[
        StrPath | None,
        Argument(help="Folder to write; --check needs none.", show_default=False),
    ] = None,
    *,
    preset: Annotated[
        str | None,
        Option(
            help="tiny, small, real-colon-sim or smoke; tiny by default.",
            autocompletion=names_of("polyplink_lab.simulate.presets:PRESETS"),
        ),
    ] = None,
    seed: Annotated[int, Option(min=0, help="Seed; the same seed gives the same bytes.")] = 0,
    difficulty: Annotated[
        float | None, Option(help="From 0 (easy) to 1; by default that of the preset.")
    ] = None,
    times: Annotated[
        int,
        Option(min=1, help="Simulate this many procedures for each of the preset's."),
    ] = 1,
    write: Annotated[
        str | None,
        Option(
            help="tables (a data folder), or archives or frames (REAL-Colon's layout, for "
            "`polyplink import real-colon`); by default that of the preset."
        ),
    ] = None,
    preview: Annotated[bool, Option(help="Also a contact sheet and a short film.")] = False,
    check: Annotated[bool, Option(help="Compare real-colon-sim with published figures.")] = False,
    device: Annotated[str | None, Option(help="cpu or cuda; cpu by default.")] = None,
    workers: options.Workers = 2,
    progress: Progress = inform,
) -> "Result[DataSet] | Result[list[Row]]":
    """Simulate procedures with known identities, or check them against published figures.

    With `check` the exit code is 1 if a figure is outside its tolerance.

    Args:
        out: Folder to write.
        seed: The same seed gives the same bytes.
        progress: Called for procedures.

    Raises:
        PolyplinkError: If a name is unknown, a value out of range, or `out` holds something else.
    """
    if check:
        _refuse_unread(
            out,
            preset=preset is not None,
            difficulty=difficulty is not None,
            times=times != 1,
            write=write is not None,
            preview=preview,
            device=device is not None,
        )
        return _check(seed, workers, progress)
    if out is None:
        raise PolyplinkError("no output folder", "name one: polyplink simulate OUT")
    from polyplink.core.workers import HEAVY, start_server
    from polyplink_lab.simulate import presets

    out = Path(out)
    chosen = presets.preset(preset or "tiny").at_difficulty(difficulty).repeated(times)
    if write is not None:
        chosen = find_named("way to write", write, presets.WRITINGS)(chosen)
    device = device or "cpu"
    presets.SimulationSettings.of(chosen, seed, device).check(out)
    if workers > 1:
        start_server(HEAVY)  # in parallel with the imports of this process
    from polyplink_lab.simulate import data_set

    stage = partial(progress, "procedures")
    data = data_set.simulate(out, chosen, seed, device=device, workers=workers, progress=stage)
    files: dict[str, Path] = {}
    if preview:
        from polyplink_lab.simulate.preview import write_preview

        stage = partial(progress, "preview")
        files = write_preview(out / "preview", chosen, seed, device=device, progress=stage)
    counts: dict[str, Any] = {
        "out": str(out),
        "procedures": data.procedures.height,
        "polyps": data.polyps.height,
        "frames": int(data.procedures["n_frames"].sum()),
        "boxes": data.detections.height,
        "preview": {name: str(path) for name, path in files.items()},
    }
    text = f"{out}: {data.contents}, {many(counts['frames'], 'frame')}"
    printed = [text, *(f"{name}: {path}" for name, path in files.items())]
    return Result(data, counts, printed)


def _check(seed: int, workers: int, progress: Progress) -> "Result[list[Row]]":
    """Compare the simulation with published figures."""
    from polyplink_lab.simulate.presets import real_colon_sim
    from polyplink_lab.simulate.tolerance_checks import check_simulation, rows_text

    rows = check_simulation(real_colon_sim(), seed, workers=workers, progress=progress)
    return Result(rows, printed=[rows_text(rows)], code=int(not all(row.holds for row in rows)))


def _refuse_unread(out: StrPath | None, **changed: bool) -> None:
    """Refuse options that were set but that --check does not use."""
    if out is not None:
        raise PolyplinkError("--check writes nothing", f"leave {out} out, or leave --check out")
    for name, is_changed in changed.items():
        if is_changed:
            raise PolyplinkError(
                f"--check lays out real-colon-sim as it is and does not read --{name}",
                f"leave --{name} out, or leave --check out",
            )
