"""Size and histology from frozen vectors: embed fragments once, probe them with several seeds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from polyplink.core.artefacts import RunRecord, to_plain, write_json, write_text
from polyplink.core.errors import PolyplinkError, find_named
from polyplink.data import DataSet, read_data
from polyplink.data.protocols import SHARE, split_by_patient
from polyplink.encoders import (
    Embedder,
    NetworkEmbedder,
    load_encoder,
    pick_device,
    read_record,
    weights_path,
)
from polyplink.encoders.embed import fragment_table
from polyplink.evaluate.intervals import RESAMPLES, draw_weights
from polyplink.evaluate.probe import (
    HISTOLOGY_PROBE,
    SIZE_PROBE,
    PolypCounts,
    ProbeFigures,
    ProbeSettings,
    fit_probe,
    histology_labels,
    polyp_counts,
    probe_figures,
    probe_scores,
    size_labels,
)
from polyplink.jobs.fragments import kept_fragments
from polyplink.jobs.leakage import guard
from polyplink.jobs.progress import Progress, counter, silent
from polyplink.tracklets import PrepareSettings, prepare

LENGTH = 8  # crops of a fragment


@dataclass(frozen=True)
class ProbeTask:
    """A question that a probe answers.

    Attributes:
        name: "size" or "histology".
        positive: The positive class, in words.
        labels: procedure_id, polyp_id and label of those polyps that have one.
        settings: Of the paper.
        figure: The paper's figure.
        column: Where the labels are.
    """

    name: str
    positive: str
    labels: Callable[[DataSet], pl.DataFrame]
    settings: ProbeSettings
    figure: str
    column: str


PROBES: Mapping[str, ProbeTask] = {
    "size": ProbeTask("size", "larger than 5 mm", size_labels, SIZE_PROBE, "F1", "size_mm"),
    "histology": ProbeTask(
        "histology", "adenoma", histology_labels, HISTOLOGY_PROBE, "accuracy", "histology_class"
    ),
}
PAIRS = ("rsp", "rspp")  # parts of the papers that come as a training and a test side


@dataclass(frozen=True)
class ProbeChoice:
    """What is probed, and how often.

    Attributes:
        part: Part to divide 70 to 30; "rsp" and "rspp" are the papers'.
        length: Crops of a fragment.
        seeds: Trainings of the probe, averaged.
        split_seed: Another one, another division.
        rate: Learning rate; None for the paper's.
        epochs: Of the probe; None for the paper's 20.
    """

    part: str = "eval"
    length: int = LENGTH
    seeds: int = 3
    split_seed: int = 0
    rate: float | None = None
    epochs: int | None = None

    def __post_init__(self) -> None:
        PolyplinkError.unless(self.seeds >= 1, f"{self.seeds} seeds", "give 1 or more")

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the data set that are looked at."""
        two = (f"{self.part}-train", f"{self.part}-test")
        return two if self.part in PAIRS else (self.part,)

    def settings(self, task: ProbeTask) -> ProbeSettings:
        """The task's settings with what was changed."""
        found = task.settings
        if self.rate is not None:
            found = replace(found, rate=self.rate)
        return found if self.epochs is None else replace(found, epochs=self.epochs)


@dataclass(frozen=True)
class Probed:
    """What a probe found.

    Attributes:
        task: Its name.
        result: Figures over the seeds, on the test polyps.
        trained_polyps: Polyps trained on: (negative, positive).
        left_out: Labelled polyps without any fragment.
        out: The folder written, or None.
    """

    task: str
    result: ProbeFigures
    trained_polyps: tuple[int, int]
    left_out: int
    out: Path | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values: what is in probe.json."""
        plain: dict[str, Any] = to_plain(self)
        del plain["result"]["measures"]
        return plain


def sides(
    data: DataSet, labels: pl.DataFrame, part: str, split_seed: int
) -> tuple[list[str], list[str]]:
    """Procedures to train and to test a probe on, 70 to 30 by labelled polyps; no patient in both.

    Args:
        data: The data set.
        labels: Polyps with a label.
        part: A part to divide; "rsp" and "rspp" are divided as `data.protocols` does.
        split_seed: Another one, another division; "rsp" and "rspp" have one alone.
    """
    if part in PAIRS:
        return data.part(f"{part}-train"), data.part(f"{part}-test")
    own = labels.filter(pl.col("procedure_id").is_in(data.part(part)))
    rows = data.procedures.filter(pl.col("procedure_id").is_in(own["procedure_id"].implode()))
    return split_by_patient(rows, own, share=SHARE, seed=split_seed)


def check_apart(data: DataSet, train: Sequence[str], test: Sequence[str]) -> None:
    """Refuse sides that share a procedure or a patient.

    Raises:
        PolyplinkError: Naming one.
    """
    patients = {p: f"{d}/{who}" for p, d, who in _owners(data)}
    shared = sorted({patients[p] for p in train} & {patients[p] for p in test})
    if shared:
        raise PolyplinkError(
            f"patient {shared[0]} would be on both sides of the probe", "divide by patient"
        )


def _owners(data: DataSet) -> list[tuple[str, str, str]]:
    return data.procedures.select("procedure_id", "dataset", "patient").rows()


def _labelled(
    fragments: pl.DataFrame, labels: pl.DataFrame, procedures: Sequence[str]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of some procedures' fragments with a label, their polyps' codes, the polyps' labels."""
    mine = fragments.with_row_index("row").join(labels, on=["procedure_id", "polyp_id"])
    mine = mine.filter(pl.col("procedure_id").is_in(list(procedures))).sort("row")
    code = mine.select(pl.struct("procedure_id", "polyp_id").rank("dense").cast(pl.Int64) - 1)
    polyp = code.to_series().to_numpy()
    label = np.zeros(int(polyp.max()) + 1 if len(polyp) else 0, dtype=np.bool_)
    label[polyp] = mine["label"].to_numpy()
    return mine["row"].to_numpy(), polyp, label


def probe_vectors(
    fragments: pl.DataFrame,
    vectors: np.ndarray,
    labels: pl.DataFrame,
    train: Sequence[str],
    test: Sequence[str],
    *,
    settings: ProbeSettings,
    seeds: Sequence[int] = (0, 1, 2),
    resamples: int = RESAMPLES,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[ProbeFigures, tuple[int, int]]:
    """Train and test a probe on vectors that are there, once for each seed.

    Args:
        fragments: n of them, with procedure_id and polyp_id.
        vectors: (n, d) float32.
        labels: procedure_id, polyp_id and label.
        train: Procedures to train on.
        test: Procedures to test on.
        settings: Of the probe.
        seeds: Of the training.
        resamples: Of the bootstrap over test polyps.
        progress: Called with (seeds done, seeds in all).

    Returns:
        The figures, and the numbers of polyps trained on: (negative, positive).

    Raises:
        PolyplinkError: If a side has no fragment of a labelled polyp, or one class.
    """
    rows, polyp, label = _labelled(fragments, labels, train)
    test_rows, test_polyp, test_label = _labelled(fragments, labels, test)
    for side, found in (("train", rows), ("test", test_rows)):
        if not len(found):
            raise PolyplinkError(
                f"no labelled polyp to {side} the probe on has a whole fragment",
                "give a part with more polyps, or shorter fragments",
            )
    runs: list[PolypCounts] = []
    for done, seed in enumerate(seeds, start=1):
        fitted = fit_probe(vectors[rows], label[polyp], settings, seed)
        runs.append(polyp_counts(probe_scores(fitted, vectors[test_rows]), test_polyp, test_label))
        if progress is not None:
            progress(done, len(seeds))
    weights = draw_weights(len(test_label), resamples=resamples)
    positive = int(label.sum())
    return probe_figures(runs, weights), (len(label) - positive, positive)


def probe_embedder(
    task: ProbeTask,
    folder: Path,
    how: PrepareSettings,
    embedder: Embedder,
    key: str,
    *,
    choice: ProbeChoice,
    workers: int = 2,
    progress: Progress = silent,
) -> Probed:
    """Probe whatever turns crops into vectors, without asking what it has seen.

    Args:
        task: What is asked.
        folder: The data folder.
        how: Crops and sampling.
        embedder: Turns packed crops into vectors.
        key: Names the embedder's weights and the kind of device.
        choice: Of part, fragments and seeds.
        workers: Threads that cut crops.
        progress: Told of crops, fragments and seeds.

    Raises:
        PolyplinkError: If labels are missing, or a side has no fragment or one class alone.
    """
    data = read_data(folder)
    labels = task.labels(data)
    train, test = sides(data, labels, choice.part, choice.split_seed)
    check_apart(data, train, test)
    prepared = prepare(
        folder,
        how,
        procedures=[p for p in data.part(None) if p in {*train, *test}],
        workers=workers,
        progress=counter(progress, "crops"),
    )
    found = kept_fragments(prepared, embedder, key, choice.length, progress=progress)
    result, trained = probe_vectors(
        fragment_table(prepared, choice.length),
        found.vectors,
        labels,
        train,
        test,
        settings=choice.settings(task),
        seeds=range(choice.seeds),
        progress=counter(progress, f"probe {task.name}"),
    )
    mine = labels.filter(pl.col("procedure_id").is_in([*train, *test]))
    return Probed(task.name, result, trained, mine.height - sum(trained) - sum(result.polyps))


def probe(
    name: str,
    weights: Path,
    folder: Path,
    out: Path | None = None,
    *,
    choice: ProbeChoice | None = None,
    device: str = "auto",
    workers: int = 2,
    progress: Progress = silent,
) -> Probed:
    """Probe an encoder for the size or the histology of polyps.

    Writes probe.json, figures.csv and run.json. Vectors of fragments are kept beside the crops.

    Args:
        name: "size" or "histology".
        weights: Weights file, or the folder of a training run.
        folder: The data folder.
        out: Folder to write; None to write nothing.
        choice: Of part, fragments and seeds; None for the paper's on the part "eval".
        device: Where to embed; the probe itself takes seconds on a CPU.
        workers: Threads that cut crops.
        progress: Told of crops, fragments and seeds.

    Raises:
        PolyplinkError: If the task is unknown, labels are missing, the encoder has seen these
            procedures, or a side has one class alone.
    """
    task, choice = find_named("probe", name, PROBES), choice or ProbeChoice()
    told = {"task": name, "weights": weights, "choice": choice, "probe": choice.settings(task)}
    record = RunRecord("probe", settings=told, seed=choice.split_seed)
    if out is not None:
        record.claim(out)
    data = read_data(folder)
    task.labels(data)  # before anything is cut or embedded
    seen = read_record(weights_path(weights)).seen
    for side in choice.parts:
        guard(seen, data, side)
    with record.stage("probe"):
        where = pick_device(device)
        loaded = load_encoder(weights, where)
        probed = probe_embedder(
            task,
            folder,
            loaded.record.prepare,
            NetworkEmbedder(loaded.encoder),
            f"{loaded.weights_id}-{where.type}",
            choice=choice,
            workers=workers,
            progress=progress,
        )
    record.inputs |= {"weights": loaded.weights_id, "data": data.key}
    if out is not None:
        probed = replace(probed, out=out)
        write_json(out / "probe.json", probed.as_dict())
        write_text(out / "figures.csv", figures_csv(probed))
        record.write(out)
    return probed


def figures_csv(probed: Probed) -> str:
    """One row per figure: its mean over seeds, its interval over polyps, their number."""
    rows = [
        {
            "task": probed.task,
            "figure": name,
            "value": found.value,
            "low": found.low,
            "high": found.high,
            "polyps": found.n,
            "published_figure": name == PROBES[probed.task].figure,
        }
        for name, found in probed.result.figures.items()
    ]
    text: str = pl.DataFrame(rows).write_csv()
    return text
