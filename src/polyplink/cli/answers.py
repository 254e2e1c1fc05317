"""The verbs that answer: demo, count, evaluate.

Heavy rooms are imported inside the verbs, so that `polyplink --help` is instant.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyplink.cli.shell import AsJson, Data, Device, Out, Weights, Workers, app, bars, guarded

if TYPE_CHECKING:
    from polyplink.jobs import Evaluated


@app.command()
@guarded
def demo(
    out: Annotated[Path, typer.Argument(help="Folder to write.")] = Path("demo-out"),
    seed: Annotated[int, typer.Option(help="Seed of the simulated procedures.")] = 0,
    workers: Workers = 2,
    as_json: AsJson = False,
) -> None:
    """The whole way on simulated procedures; ends in a table and a report."""
    from polyplink import jobs

    with bars() as progress:
        result = jobs.demo(out, seed=seed, workers=workers, progress=progress)
    if as_json:
        typer.echo(json.dumps(result.as_dict()))
        return
    _print_figures(result)
    typer.echo(f"report: {result.report}")


@app.command()
@guarded
def count(
    weights: Weights,
    data: Data,
    out: Out = Path("count"),
    part: Annotated[str | None, typer.Option(help="Part of the data set; all by default.")] = None,
    device: Device = "auto",
    workers: Workers = 2,
    as_json: AsJson = False,
) -> None:
    """Count the polyps of every procedure; writes count.json, tables and a report."""
    from polyplink import jobs

    with bars() as progress:
        counted = jobs.count(
            weights, data, out, part=part, device=device, workers=workers, progress=progress
        )
    if as_json:
        typer.echo(json.dumps(counted.as_dict()))
        return
    from rich.console import Console

    from polyplink.report import count_table

    Console().print(count_table(counted.page))
    typer.echo(f"report: {counted.report}")


@app.command()
@guarded
def evaluate(
    weights: Weights,
    data: Data,
    out: Out = Path("evaluation"),
    part: Annotated[str, typer.Option(help="Part of the data set.")] = "eval",
    task: Annotated[
        list[str] | None,
        typer.Option(
            help="retrieval, reid, counting, tracking (these by default), size, histology or all; "
            "may be repeated."
        ),
    ] = None,
    clusterer: Annotated[
        list[str] | None,
        typer.Option(
            help="temporal_ap, ap, threshold, dbscan, hdbscan, agglomerative or all; may be "
            "repeated; temporal_ap and threshold by default."
        ),
    ] = None,
    grid: Annotated[str, typer.Option(help="Settings searched for counting: paper or demo.")] = (
        "paper"
    ),
    choose_on: Annotated[
        str | None,
        typer.Option(help="Part to choose settings on; by default on the other procedures."),
    ] = None,
    without_own: Annotated[
        bool,
        typer.Option(
            "--without-own", help="Also retrieval without other polyps of the query's procedure."
        ),
    ] = False,
    curve_csv: Annotated[
        bool, typer.Option("--curve-csv", help="Also curve.csv: all figures of every setting.")
    ] = False,
    baselines: Annotated[
        bool, typer.Option(help="Also an untrained encoder and a colour histogram.")
    ] = True,
    device: Device = "auto",
    workers: Workers = 2,
    as_json: AsJson = False,
) -> None:
    """All tasks, or those named, with intervals; writes tables and a report."""
    from polyplink import jobs
    from polyplink.associate import CLUSTERERS

    tasks = jobs.ALL_TASKS if task == ["all"] else task or jobs.TASKS
    named = CLUSTERERS if clusterer == ["all"] else clusterer or jobs.DEFAULT_CLUSTERERS
    with bars() as progress:
        result = jobs.evaluate(
            weights,
            data,
            out,
            part=part,
            grid=grid,
            tasks=tasks,
            clusterers=named,
            choose_on=choose_on,
            without_own=without_own,
            curve_csv=curve_csv,
            with_baselines=baselines,
            device=device,
            workers=workers,
            progress=progress,
        )
    if as_json:
        typer.echo(json.dumps(result.as_dict()))
        return
    _print_figures(result)
    typer.echo(f"report: {result.report}")


def _print_figures(result: "Evaluated") -> None:
    from rich.console import Console

    from polyplink.report import comparison_table

    Console().print(comparison_table(result.comparison))
    for note in result.notes:
        typer.echo(f"note: {note}")
