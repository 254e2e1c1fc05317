"""The verb `probe`: size or histology of polyps from frozen vectors."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from polyplink.cli import options
from polyplink.cli.options import Request, names_of, option
from polyplink.cli.verb import UNMEASURED, Result, check_given, inform
from polyplink.core.artefacts import RunRecord, write_json, write_text
from polyplink.core.errors import find_named
from polyplink.core.progress import Progress

if TYPE_CHECKING:
    from polyplink.evaluate.probing import Probed


@dataclass(frozen=True)
class ProbeRequest(Request):
    """What to probe, and how often."""

    task: Annotated[
        str,
        Argument(
            help="size or histology.",
            autocompletion=names_of("polyplink.evaluate.probing", "PROBES"),
        ),
    ]
    weights: options.Weights
    data: options.Data
    out: options.Out = Path("probe")
    part: str = option("Part to split 70 to 30 by patient; rsp and rspp are the papers'.", "eval")
    length: int = option("Crops of a fragment.", 8, min=1)
    seeds: int = option("Training runs of the probe, averaged.", 3, min=1)
    split_seed: int = option("Seed of the split.", 0)
    split: Path | None = option('JSON file that divides polyps, {"train": [ids], "test": [ids]}.')
    rate: float | None = option("Learning rate; the paper's by default.")
    epochs: int | None = option("Epochs; the paper's 20 by default.")
    device: options.Device = "auto"
    workers: options.Workers = 2


def probe(request: ProbeRequest, progress: Progress = inform) -> "Result[Probed]":
    """Probe frozen vectors for the size or the histology of polyps; writes figures.

    Args:
        request: Task, weights, data folder, and the output folder, which gets probe.json,
            figures.csv and run.json.
        progress: Called for crops, fragments and seeds.

    Raises:
        PolyplinkError: If the task is unknown, labels are missing, the encoder has seen these
            procedures, a side of the split has only one class, or the file of a division names
            a polyp twice or an unknown one.
    """
    from polyplink.evaluate.probing import PROBES, divide, patients, probe_encoders

    task = find_named("probe", request.task, PROBES)
    check_given(request.weights, request.data, [request.part], request.device)
    import polars as pl

    from polyplink.data import read_data
    from polyplink.encoders import read_record, weights_path
    from polyplink.encoders.leakage import guard

    settings = replace(
        task.settings,
        rate=task.settings.rate if request.rate is None else request.rate,
        epochs=task.settings.epochs if request.epochs is None else request.epochs,
    )
    names = ("part", "length", "seeds", "split_seed", "split", "rate", "epochs")
    choices = {
        "task": task.name,
        "weights": request.weights,
        "choice": {name: getattr(request, name) for name in names},
        "probe": settings,
    }
    record = RunRecord("probe", settings=choices, seed=request.split_seed)
    record.claim(request.out)
    data = read_data(request.data)
    # Missing labels and procedures that were seen are refused before anything is cut or embedded.
    train, test = divide(task, data, request.part, request.split_seed, request.split)
    sides = [side["procedure_id"].to_list() for side in (train, test)]
    guard(read_record(weights_path(request.weights)).seen, data, [*sides[0], *sides[1]])
    from polyplink.encoders.load import load_named
    from polyplink.report.tables import probe_table

    shared = sorted(patients(data, sides[0]) & patients(data, sides[1]))
    overlap = f"{len(shared)} patients have polyps on both sides of {request.split} ({shared[:1]})"
    with record.stage("probe"):
        encoder = load_named(request.weights, request.device)
        (probed,) = probe_encoders(
            task,
            [encoder],
            request.data,
            request.part,
            length=request.length,
            seeds=request.seeds,
            split_seed=request.split_seed,
            split=request.split,
            settings=settings,
            workers=request.workers,
            progress=progress,
        ).values()
    record.inputs |= {"weights": encoder.key, "data": data.key}
    probed = replace(probed, out=request.out)
    result = probed.result
    rows = [
        {
            "task": task.name,
            "figure": name,
            "value": figure.value,
            "low": figure.low,
            "high": figure.high,
            "polyps": figure.n,
            "published_figure": name == task.figure,
        }
        for name, figure in result.figures.items()
    ]
    with record.results(request.out) as new:
        write_json(new / "probe.json", probed.as_dict())
        write_text(new / "figures.csv", pl.DataFrame(rows).write_csv())
    text = (
        f"trained on {sum(probed.trained_polyps)} polyps {probed.trained_polyps}, tested on "
        f"{sum(result.polyps)} {result.polyps}: (negative, positive); {probed.left_out} "
        "labelled polyps without a whole fragment left out"
    )
    shown = [probe_table(probed.task, result.figures), text]
    warnings = [overlap] if shared else []
    code = int(all(figure.value is None for figure in result.figures.values()))
    return Result(probed, probed.as_dict(), shown, [*warnings, *code * [UNMEASURED]], code)
