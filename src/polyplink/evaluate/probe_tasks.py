"""The tasks of a probe, size and histology: polyps divided, fragments embedded, probes trained.

`probe` holds the probe itself. Source: NTSSL (arXiv 2605.12320), section 3.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from pydantic import ValidationError

from polyplink.core.artefacts import read_json, to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import Progress, ShownFields, StageProgress, silent, silent_stage
from polyplink.data.protocols import SHARE, SPLITS, split_by_patient
from polyplink.data.tables import DataSet, read_data
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

if TYPE_CHECKING:
    from polyplink.encoders.load import NamedEncoder


@dataclass(frozen=True)
class ProbeTask:
    """A binary task of a probe.

    Attributes:
        name: "size" or "histology".
        positive: The positive class, in words.
        labels: Returns procedure_id, polyp_id and label of a data set's labelled polyps.
        settings: Settings of the paper.
        figure: The paper's figure.
        column: Column of the polyps table from which labels are computed.
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
SIDES = ("train", "test")
PAIRS = ("rsp", "rspp")  # published parts with a training and a test side


@dataclass(frozen=True)
class Probed(ShownFields):
    """Results of a probe.

    Attributes:
        task: Name of the task.
        result: Figures over the seeds, on the test polyps.
        trained_polyps: Numbers of training polyps: (negative, positive).
        left_out: Number of labelled polyps without any fragment.
        out: The folder written, or None.
    """

    task: str
    result: ProbeFigures = field(repr=False)
    trained_polyps: tuple[int, int]
    left_out: int
    out: Path | None = None

    @property
    def figures(self) -> pl.DataFrame:
        """Contents of figures.csv: a row for each figure."""
        rows = [
            {
                "task": self.task,
                "figure": name,
                "value": figure.value,
                "low": figure.low,
                "high": figure.high,
                "polyps": figure.n,
                "published_figure": name == PROBES[self.task].figure,
            }
            for name, figure in self.result.figures.items()
        ]
        return pl.DataFrame(rows)

    def as_dict(self) -> dict[str, Any]:
        """Contents of probe.json."""
        plain: dict[str, Any] = to_plain(self)
        del plain["result"]["measures"]
        return plain


def check_labels(tasks: Sequence[str], data: DataSet, part: str) -> None:
    """Check that probes can be trained and tested, before crops are cut; raises as `divide`."""
    for task in tasks:
        divide(PROBES[task], data, part)


def divide(
    task: ProbeTask, data: DataSet, part: str, split_seed: int = 0, split: Path | None = None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Divide labelled polyps into training and test sides, by default 70 to 30 by patient.

    Args:
        task: The task of the probe.
        data: The data set.
        part: The part to divide; "rsp" and "rspp" are divided as in `data.protocols`.
        split_seed: Seed of the division, which "rsp" and "rspp" do not use.
        split: JSON file that divides polyps, {"train": [ids], "test": [ids]}, in place of the
            part; polyps without a label are left out.

    Returns:
        procedure_id, polyp_id and label of both sides.

    Raises:
        PolyplinkError: If no polyp has a label of the task, a side has only one class, a patient
            would be on both sides, or the file lists a polyp twice or an unknown one.
    """
    labels = task.labels(data)
    if split is not None:
        origin, sides = str(split), read_split(split, data, labels)
    else:
        origin = f"part {part!r}"
        sides = _split_part(data, labels, part, split_seed)
        if not any(not side.is_empty() for side in sides):
            raise PolyplinkError(
                f"table polyps: column {task.column} is empty in the part {part!r}, but the "
                f"{task.name} task needs it",
                "give another --part, or leave the task out",
            )
    for name, side in zip(SIDES, sides, strict=True):
        if side["label"].n_unique() != 2:
            raise PolyplinkError(
                f"{task.name}: the {len(side)} labelled polyps of {origin} to {name} the probe on "
                "are not of both classes",
                f"give more polyps of known {task.column}, or leave {task.name} out",
            )
    return sides


def _split_part(
    data: DataSet, labels: pl.DataFrame, part: str, seed: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The labelled polyps of both sides of a part; no patient is on both."""
    if part in PAIRS:
        train, test = data.part(f"{part}-train"), data.part(f"{part}-test")
    else:
        part_labels = labels.filter(pl.col("procedure_id").is_in(data.part(part)))
        rows = data.procedures.filter(
            pl.col("procedure_id").is_in(part_labels["procedure_id"].implode())
        )
        train, test = split_by_patient(rows, part_labels, share=SHARE, seed=seed)
    shared = patients(data, train) & patients(data, test)
    if shared:
        raise PolyplinkError(
            f"patient {min(shared)} would be on both sides of the probe",
            "name another --part, or give a file that divides the polyps with --split",
        )
    return (
        labels.filter(pl.col("procedure_id").is_in(train)),
        labels.filter(pl.col("procedure_id").is_in(test)),
    )


def read_split(
    path: Path, data: DataSet, labels: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The labelled polyps of both sides of a file, see `divide`."""
    if not path.is_file():
        raise PolyplinkError(f"no file {path} that divides polyps", "give a JSON file with --split")
    content = read_json(path)
    try:
        sides = SPLITS.validate_python({side: content[side] for side in SIDES})
    except (ValidationError, TypeError, KeyError):
        raise PolyplinkError(
            f"{path} does not divide polyps", 'write {"train": [polyp ids], "test": [polyp ids]}'
        ) from None
    polyp_ids = [*sides["train"], *sides["test"]]
    unknown = sorted(set(polyp_ids) - set(data.polyps["polyp_id"]))
    if unknown:
        raise PolyplinkError(
            f"{path} names polyps that are not in the data set: {', '.join(unknown[:3])}"
            f"{', ...' * (len(unknown) > 3)}",
            "correct the names, or import and merge the data sets that contain them",
        )
    repeated = sorted(name for name, times in Counter(polyp_ids).items() if times > 1)
    if repeated:
        raise PolyplinkError(
            f"{path} names polyp {min(repeated)} twice", "list it once, on one side"
        )
    train = labels.filter(pl.col("polyp_id").is_in(sides["train"]))
    test = labels.filter(pl.col("polyp_id").is_in(sides["test"]))
    return train, test


def patients(data: DataSet, procedures: Sequence[str]) -> set[str]:
    """Patients of procedures, as DATASET/PATIENT."""
    return {data.patients[procedure] for procedure in procedures}


def probe_encoders(
    task: ProbeTask,
    encoders: "Sequence[NamedEncoder]",
    folder: Path,
    part: str,
    *,
    length: int = 8,
    seeds: int = 3,
    split_seed: int = 0,
    split: Path | None = None,
    settings: ProbeSettings | None = None,
    workers: int = 2,
    progress: Progress = silent,
) -> dict[str, Probed]:
    """Probe encoders on the same split of polyps, without checking their training data.

    Args:
        task: The task of the probe.
        encoders: The encoders, at least one.
        folder: The data folder.
        part: Part to divide 70 to 30; "rsp" and "rspp" are the papers'.
        length: Number of crops of a fragment.
        seeds: Number of trainings of the probe, which are averaged.
        split_seed: Seed of the division.
        split: File that divides polyps, see `divide`.
        settings: Settings of the probe; None for the paper's.
        workers: Number of threads that cut crops.
        progress: Callback for crops, fragments and seeds.

    Returns:
        Results by the encoder's name.

    Raises:
        PolyplinkError: If labels are missing, or a side has no fragment or only one class.
    """
    if seeds < 1:
        raise PolyplinkError(f"{seeds} seeds", "give --seeds 1 or more")
    data = read_data(folder)
    train, test = divide(task, data, part, split_seed, split)
    used = {*train["procedure_id"], *test["procedure_id"]}
    procedures = [name for name in data.part(None) if name in used]
    from polyplink.encoders.encode import encode  # noqa: PLC0415  torch

    encoded = encode(encoders, folder, procedures, clip=length, workers=workers, progress=progress)
    probed = {}
    for name, vectors in encoded.vectors.items():
        result, trained = probe_vectors(
            encoded.table,
            vectors,
            train,
            test,
            settings=settings or task.settings,
            seeds=range(seeds),
            progress=partial(progress, f"probe {task.name}"),
        )
        left_out = len(train) + len(test) - sum(trained) - sum(result.polyps)
        probed[name] = Probed(task.name, result, trained, left_out)
    return probed


def probe_vectors(
    fragments: pl.DataFrame,
    vectors: np.ndarray,
    train: pl.DataFrame,
    test: pl.DataFrame,
    *,
    settings: ProbeSettings,
    seeds: Sequence[int] = (0, 1, 2),
    progress: StageProgress = silent_stage,
) -> tuple[ProbeFigures, tuple[int, int]]:
    """Train and test a probe on vectors, once for each seed.

    Args:
        fragments: Table of n fragments with procedure_id and polyp_id.
        vectors: Vectors of the fragments (n, d), float32.
        train: procedure_id, polyp_id and label of the training polyps.
        test: procedure_id, polyp_id and label of the test polyps.
        settings: Settings of the probe.
        seeds: Seeds of the trainings.
        progress: Callback with (seeds done, total).

    Returns:
        The figures, and the numbers of training polyps: (negative, positive).

    Raises:
        PolyplinkError: If a side has no fragment of a labelled polyp, or only one class.
    """
    rows, polyp, label = _labelled_fragments(fragments, train)
    test_rows, test_polyp, test_label = _labelled_fragments(fragments, test)
    for side, side_rows in (("train", rows), ("test", test_rows)):
        if not len(side_rows):
            raise PolyplinkError(
                f"no labelled polyp to {side} the probe on has a whole fragment",
                "give another --part, or a smaller --length",
            )
    runs: list[PolypCounts] = []
    for done, seed in enumerate(seeds, start=1):
        fitted = fit_probe(vectors[rows], label[polyp], settings, seed)
        runs.append(polyp_counts(probe_scores(fitted, vectors[test_rows]), test_polyp, test_label))
        progress(done, len(seeds))
    weights = draw_weights(len(test_label), resamples=RESAMPLES)
    positive = int(label.sum())
    return probe_figures(runs, weights), (len(label) - positive, positive)


def _labelled_fragments(
    fragments: pl.DataFrame, labels: pl.DataFrame
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of fragments with a label (m,), codes of their polyps (m,), labels of polyps (p,)."""
    labelled = fragments.with_row_index("row").join(labels, on=["procedure_id", "polyp_id"])
    labelled = labelled.sort("row")
    code = labelled.select(pl.struct("procedure_id", "polyp_id").rank("dense").cast(pl.Int64) - 1)
    polyp = code.to_series().to_numpy()
    label = np.zeros(int(polyp.max()) + 1 if len(polyp) else 0, dtype=np.bool_)
    label[polyp] = labelled["label"].to_numpy()
    return labelled["row"].to_numpy(), polyp, label
