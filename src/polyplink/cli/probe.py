"""The verb `probe`: size or histology of polyps from frozen vectors."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from polyplink.cli import options
from polyplink.cli.options import StrPath, check_inputs, names_of
from polyplink.cli.verb import UNMEASURED, inform, verb
from polyplink.core.artefacts import write_json, write_text
from polyplink.core.errors import PolyplinkError, find_named
from polyplink.core.results import Progress, Result
from polyplink.core.runs import RunRecord
from polyplink.core.text import many

if TYPE_CHECKING:
    from polyplink.evaluate.probe_tasks import Probed


@verb
def probe(
    task: Annotated[
        str,
        Argument(
            help="size or histology.",
            autocompletion=names_of("polyplink.evaluate.probe_tasks:PROBES"),
        ),
    ],
    weights: options.Weights,
    data: options.Data,
    *,
    out: options.Out = Path("probe"),
    part: Annotated[
        str, Option(help="Part to split 70 to 30 by patient; rsp and rspp are the papers'.")
    ] = "eval",
    length: Annotated[int, Option(min=1, help="Crops of a fragment.")] = 8,
    seeds: Annotated[int, Option(min=1, help="Training runs of the probe, averaged.")] = 3,
    split_seed: Annotated[int, Option(help="Seed of the split.")] = 0,
    split: Annotated[
        StrPath | None,
        Option(help='JSON file that divides polyps, {"train": [ids], "test": [ids]}.'),
    ] = None,
    rate: Annotated[float | None, Option(help="Learning rate; the paper's by default.")] = None,
    epochs: Annotated[int | None, Option(help="Epochs; the paper's 20 by default.")] = None,
    device: options.Device = "auto",
    workers: options.Workers = 2,
    progress: Progress = inform,
) -> "Result[Probed]":
    """Probe frozen vectors for the size or the histology of polyps; writes figures.

    Args:
        out: The output folder, which gets probe.json, figures.csv and run.json.
        progress: Called for crops, fragments and seeds.

    Raises:
        PolyplinkError: If the task is unknown, labels are missing, the encoder has seen these
            procedures, a side of the split has only one class, or the file of a division names
            a polyp twice or an unknown one.
    """
    from polyplink.evaluate.probe_tasks import PAIRS, PROBES, divide, patients, probe_encoders

    probed_task = find_named("probe", task, PROBES)
    weights, data, out = Path(weights), Path(data), Path(out)
    split = None if split is None else Path(split)
    check_inputs(weights, data, [part], device)
    if split_seed and (split is not None or part in PAIRS):
        divided = "--split" if split is not None else f"--part {part}"
        raise PolyplinkError(f"--split-seed draws a split, and {divided} is one", "leave it out")
    from polyplink.data.origin import read_origin
    from polyplink.data.tables import read_data
    from polyplink.encoders.weights import guard, read_record, weights_path

    settings = replace(
        probed_task.settings,
        rate=probed_task.settings.rate if rate is None else rate,
        epochs=probed_task.settings.epochs if epochs is None else epochs,
    )
    choice = {
        "part": part,
        "length": length,
        "seeds": seeds,
        "split_seed": split_seed,
        "split": split,
        "rate": rate,
        "epochs": epochs,
    }
    recorded = {"task": task, "weights": weights, "choice": choice, "probe": settings}
    record = RunRecord("probe", settings=recorded, seed=split_seed)
    record.claim(out)

    # Refuse missing labels and procedures seen in training before cutting and embedding crops.
    dataset = read_data(data)
    train, test = divide(probed_task, dataset, part, split_seed, split)
    sides = [side["procedure_id"].to_list() for side in (train, test)]
    guard(read_record(weights_path(weights)).seen, dataset, [*sides[0], *sides[1]])
    shared = sorted(patients(dataset, sides[0]) & patients(dataset, sides[1]))
    from polyplink.encoders.load import load_named
    from polyplink.evaluate.probe import PROBE_METRICS
    from polyplink.report.printed_tables import probe_table

    with record.stage("probe"):
        encoder = load_named(weights, device, origin=read_origin(data))
        (probed,) = probe_encoders(
            probed_task,
            [encoder],
            data,
            part,
            length=length,
            seeds=seeds,
            split_seed=split_seed,
            split=split,
            settings=settings,
            workers=workers,
            progress=progress,
        ).values()
    record.inputs |= {"weights": encoder.key, "data": dataset.key}

    # Files, tables and warnings.
    probed = replace(probed, out=out)
    result = probed.result
    with record.results(out) as new:
        write_json(new / "probe.json", probed.as_dict())
        write_text(new / "figures.csv", probed.figures.write_csv())
    text = (
        f"trained on {sum(probed.trained_polyps)} polyps {probed.trained_polyps}, tested on "
        f"{sum(result.polyps)} {result.polyps}: (negative, positive); left out: "
        f"{many(probed.left_out, 'labelled polyp')} without a whole fragment"
    )
    meanings = {name: metric.meaning for name, metric in PROBE_METRICS.items()}
    printed = [probe_table(probed.task, result.figures, meanings), text]
    warnings = []
    if shared:
        warnings.append(
            f"{many(len(shared), 'patient')} with polyps on both sides of {split} ({min(shared)})"
        )
    unmeasured = all(figure.value is None for figure in result.figures.values())
    if unmeasured:
        warnings.append(UNMEASURED)
    return Result(probed, probed.as_dict(), printed, warnings, code=int(unmeasured))
