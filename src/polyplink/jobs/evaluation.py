"""All tasks on a labelled part of a data set, beside methods that learned nothing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyplink.artefacts import RunRecord, to_plain, write_json, write_text
from polyplink.associate import Grid, demo_grid, paper_grid
from polyplink.data import DataSet, read_data
from polyplink.encoders import Seen, pick_device, read_record, weights_path
from polyplink.errors import PolyplinkError, find_named
from polyplink.evaluate import Evaluation, EvaluationSettings, Samples, evaluate_embeddings
from polyplink.jobs.comparison import by_procedure, comparison, notes
from polyplink.jobs.embedding import baselines, embed_data, kept
from polyplink.jobs.leakage import meetings
from polyplink.jobs.operating import from_record
from polyplink.jobs.progress import Progress, silent
from polyplink.jobs.reporting import link_all, report_on
from polyplink.report import Comparison, write_csv, write_report
from polyplink.tracklets import Prepared

_TWO_CHOICES = (
    "The table chooses each procedure's setting on the others; the time lines below are at the "
    "operating point that travels with the weights."
)
GRIDS: Mapping[str, Callable[[], Grid]] = {"paper": paper_grid, "demo": demo_grid}


@dataclass(frozen=True)
class Evaluated:
    """A finished evaluation.

    Attributes:
        report: The report's file.
        evaluation: All figures.
        comparison: The table of methods by figures.
        notes: What a reader of the table must know.
    """

    report: Path
    evaluation: Evaluation
    comparison: Comparison
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values: what is in evaluation.json."""
        plain: dict[str, Any] = to_plain(self.evaluation)
        return plain


def find_grid(name: str) -> Grid:
    """A grid of settings by name.

    Raises:
        PolyplinkError: If there is none.
    """
    return find_named("grid", name, GRIDS)()


def guard(seen: Seen, data: DataSet, part: str) -> None:
    """Refuse to evaluate on procedures that an encoder has seen.

    Raises:
        PolyplinkError: Naming them.
    """
    met = meetings(seen, data, data.part(part))
    if met:
        raise PolyplinkError(
            f"the encoder was trained or validated on {len(met)} of these procedures, or saw "
            f"their patients: {', '.join(f'{name} ({why})' for name, why in met[:5])}",
            "evaluate on another --part",
        )


def samples_of(prepared: Prepared) -> Samples:
    """The tracklets as the tasks see them.

    Raises:
        PolyplinkError: If there is no tracklet, or no polyp is known.
    """
    table = prepared.tracklets
    if table.is_empty():
        raise PolyplinkError(
            f"no tracklet of {prepared.settings.min_length} frames or more to evaluate on",
            "name a --part with longer tracklets",
        )
    if table["polyp_id"].is_null().all():
        raise PolyplinkError(
            "table detections: column polyp_id is empty, and evaluation needs true polyps",
            "give labelled procedures, or use `polyplink count`",
        )
    return Samples.of(
        table["tracklet_id"].to_list(),
        table["procedure_id"].to_list(),
        table["polyp_id"].to_list(),
        table["position"].to_numpy(),
    )


def evaluate(
    weights: Path,
    folder: Path,
    out: Path,
    *,
    part: str = "eval",
    grid: str = "paper",
    with_baselines: bool = True,
    device: str = "auto",
    workers: int = 2,
    progress: Progress = silent,
) -> Evaluated:
    """Retrieval, re-identification and counting, with intervals over procedures.

    Writes evaluation.json, figures.csv, procedures.csv, report.html and run.json.

    Args:
        weights: Weights file, or the folder of a training run.
        folder: The data folder.
        out: Folder to write.
        part: Part of the data set; its polyps must be known.
        grid: Settings searched for counting: "paper" or "demo".
        with_baselines: Also an untrained encoder and a colour histogram.
        device: Where to embed.
        workers: Threads that cut crops and search settings.
        progress: Told of crops, tracklets and methods.

    Raises:
        PolyplinkError: If the encoder has seen these procedures, polyps are unknown, or weights,
            data folder or an image is at fault.
    """
    settings = EvaluationSettings(grid=find_grid(grid), threads=workers)
    record = RunRecord("evaluate", settings={"weights": weights, "part": part, "grid": grid})
    record.claim(out)
    # Before anything is cut or embedded, which may take a night.
    guard(read_record(weights_path(weights)).seen, read_data(folder), part)
    with record.stage("embed"):
        done = embed_data(
            weights, folder, part=part, device=device, workers=workers, progress=progress
        )
        samples = samples_of(done.prepared)
        ours = str(done.loaded.record.recipe.get("name", "trained"))
        vectors = {ours: done.embeddings.vectors}
        if with_baselines:
            where = pick_device(device)
            for name, (own_id, embedder) in baselines(done.loaded, where).items():
                found, _ = kept(done.prepared, embedder, own_id, where, progress)
                vectors[name] = found.vectors
    record.inputs |= {"weights": done.loaded.weights_id, "crops": done.prepared.key}
    with record.stage("evaluate"):
        evaluation = evaluate_embeddings(vectors, samples, settings)
    table, said = comparison(evaluation), notes(evaluation)
    with record.stage("report"):
        write_json(out / "evaluation.json", evaluation)
        write_csv(out / "figures.csv", table)
        write_text(out / "procedures.csv", by_procedure(evaluation).write_csv())
        operating = from_record(done.loaded.record.operating)
        page = report_on(
            "Evaluation",
            weights,
            done,
            operating,
            link_all(done, operating),
            seconds=record.seconds,
            comparison=table,
            notes=(*said, _TWO_CHOICES),
        )
        write_report(out / "report.html", page)
    record.write(out)
    return Evaluated(out / "report.html", evaluation, table, said)
