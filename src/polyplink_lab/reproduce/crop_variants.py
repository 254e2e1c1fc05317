"""Measure figures of an encoder by name, also on other crops and clips than in its training.

Source: thesis (Bongiovanni 2025), 5.2: crop factors 1, 2, 3, 5, 10 and the full frame; fragments
of 8 and 32 crops, and whole tracklets. Figures have the names of `reproduce.published`: "mAP",
"AUROC", "temporal_ap/FR", "dbscan/AssA", ...
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from polyplink.cli.verb import inform
from polyplink.core.errors import PolyplinkError, find_named
from polyplink.core.parts import CLUSTERERS
from polyplink.core.results import Progress
from polyplink.encoders.encode import encode
from polyplink.encoders.load import NamedEncoder
from polyplink.evaluate.counting_figures import rates
from polyplink.evaluate.evaluation import EncoderFigures, EvaluationSettings, evaluate_encoder
from polyplink.evaluate.intervals import Figure, Resampled
from polyplink.evaluate.metric import metrics_of
from polyplink.evaluate.samples import Samples, TrackletBoxes
from polyplink.evaluate.truth import samples_of, tracklet_boxes
from polyplink.learn.bags import batches, rng_of, view_bags
from polyplink.learn.contrastive import in_batch_accuracy

TOP = {"top-1": 1, "top-5": 5}
BATCH = 8  # polyps of a validation batch, 2 fragments of each (thesis, 5.3.2)
DRAWS = 20  # passes over batches that are averaged

Measured = tuple[Figure, Resampled | None]
"""A figure, and its resamples if it has any."""


@dataclass(frozen=True)
class Variant:
    """An input variant: crop factor and clip length.

    Attributes:
        crop: Crop factor psi; None for the full frame.
        clip: Crops of a sample; None for the whole tracklet.
    """

    crop: float | None
    clip: int | None

    @property
    def words(self) -> str:
        """A readable description, as "psi 2, whole tracklets"."""
        crop = "full frame" if self.crop is None else f"psi {self.crop:g}"
        return f"{crop}, {'whole tracklets' if self.clip is None else f'fragments of {self.clip}'}"


def compare_variants(
    encoder: NamedEncoder,
    folder: Path,
    part: str,
    figures_of: Mapping[Variant, Sequence[str]],
    *,
    settings: EvaluationSettings | None = None,
    workers: int = 2,
    progress: Progress = inform,
) -> dict[Variant, dict[str, Measured]]:
    """Prepare, embed and measure an encoder on variants; crops and vectors are cached.

    Args:
        encoder: The encoder.
        folder: The data folder.
        part: Part of the data set.
        figures_of: Variant -> names of the figures to measure.
        settings: Grid, form of the similarity, threads and resamples.
        workers: Threads that cut crops.
        progress: Called for crops, tracklets or fragments.

    Returns:
        Variant -> name -> figure; figures that cannot be measured state the reason.
    """
    by_variant: dict[Variant, dict[str, Measured]] = {}
    for variant, names in figures_of.items():
        variant_encoder = replace(
            encoder, prepare=replace(encoder.prepare, crop_factor=variant.crop)
        )
        reason, figures = "no such figure", dict[str, Measured]()
        try:
            encoded = encode(
                [variant_encoder],
                folder,
                part,
                clip=variant.clip,
                workers=workers,
                progress=progress,
            )
            samples = samples_of(encoded.prepared, variant.clip)
            boxes = tracklet_boxes(encoded.prepared, samples) if variant.clip is None else None
            vectors = encoded.vectors[encoder.name]
            figures = named_figures(names, vectors, samples, boxes, settings)
        except PolyplinkError as error:
            reason = str(error)
        missing = Figure(None, why=reason), None
        by_variant[variant] = {name: figures.get(name, missing) for name in names}
    return by_variant


def named_figures(
    requested: Iterable[str],
    vectors: np.ndarray,
    samples: Samples,
    boxes: TrackletBoxes | None = None,
    settings: EvaluationSettings | None = None,
) -> dict[str, Measured]:
    """Figures of vectors by name, from an evaluation of only the tasks that they need.

    Retrieval and re-identification have intervals; counting and tracking are means over
    procedures with standard deviations, as the papers print them.

    Args:
        requested: Names of figures.
        vectors: Embeddings (n, d) in the order of the samples.
        samples: The samples of the vectors.
        boxes: Boxes of the samples, for tracking; None if samples are not whole tracklets.
        settings: Grid, form of the similarity, threads and resamples; its tasks are not used.

    Returns:
        Name -> figure; unknown names are left out.

    Raises:
        PolyplinkError: If a vector is zero or not finite.
    """
    names = list(dict.fromkeys(requested))
    tracking = metrics_of("tracking")
    clusterers = tuple(c for c in CLUSTERERS if any(name.startswith(f"{c}/") for name in names))
    tracked = any(name.partition("/")[2] in tracking for name in names) and boxes is not None
    needs = {
        "retrieval": bool(set(names) & set(metrics_of("retrieval"))),
        "reid": bool(set(names) & set(metrics_of("reid"))),
        "counting": bool(clusterers),
        "tracking": bool(clusterers) and tracked,
    }
    tasks = tuple(task for task, is_needed in needs.items() if is_needed)
    by_name: dict[str, Figure] = {}
    resampled: dict[str, Resampled] = {}
    if tasks:
        settings = settings or EvaluationSettings()
        grid = {name: find_named("clusterer", name, settings.grid) for name in clusterers}
        task_settings = replace(settings, tasks=tasks, grid=grid)
        evaluated, resampled = evaluate_encoder(
            vectors, samples, task_settings, boxes if tracked else None
        )
        by_name |= evaluated.figures
        for clusterer in clusterers:
            by_name |= _clustering_figures(evaluated, clusterer)
    if any(name.startswith("none/") for name in names):
        by_name |= _unclustered_figures(samples)
    if set(names) & set(TOP):
        by_name |= _batch_accuracies(vectors, samples)

    def draws(name: str) -> Resampled | None:
        return resampled.get(name, resampled.get(f"tracking/{name} mean"))

    return {name: (by_name[name], draws(name)) for name in names if name in by_name}


def _clustering_figures(evaluated: EncoderFigures, clusterer: str) -> dict[str, Figure]:
    """Figures of counting and tracking, with the setting of each procedure chosen on the others."""
    summary = evaluated.counting[clusterer].summary
    tracking = evaluated.tracking[clusterer]["spreads"] if clusterer in evaluated.tracking else {}
    if summary is None:
        alone = Figure(None, why="only one labelled procedure: no other to choose a setting on")
        return {f"{clusterer}/{name}": alone for name in (*rates(), *metrics_of("tracking"))}
    by_name = {name: summary[rate.key] for name, rate in rates().items()}
    no_boxes = Figure(None, why="tracking needs whole tracklets")
    by_name |= {name: tracking.get(name, no_boxes) for name in metrics_of("tracking")}
    return {f"{clusterer}/{name}": figure for name, figure in by_name.items()}


def _unclustered_figures(samples: Samples) -> dict[str, Figure]:
    """Baseline with a cluster per tracklet: FR is tracklets over polyps."""
    rates: list[float | None] = []
    several = 0
    for place in range(len(samples.procedures)):
        rows = samples.labelled & (samples.procedure == place)
        polyps = len(np.unique(samples.polyp[rows]))
        rates.append(float(rows.sum() / polyps) if polyps else None)
        several += polyps > 1
    no_pair = Figure(0.0 if several else None, n=several, sd=0.0)
    return {"none/FR": Figure.mean_of(rates), "none/FPR": no_pair}


def _batch_accuracies(vectors: np.ndarray, samples: Samples) -> dict[str, Figure]:
    """Top-1 and top-5 accuracy in validation batches (thesis, table 5.11)."""
    correct, views, polyps = dict.fromkeys(TOP, 0.0), 0, set[int]()
    for draw in range(DRAWS):
        bags = view_bags(samples.polyp, samples.labelled, 2, BATCH, rng_of(draw))
        if len(bags.members) < 2:
            reason = "accuracy in batches needs two polyps with two fragments each"
            return dict.fromkeys(TOP, Figure(None, why=reason))
        polyps |= set(samples.polyp[bags.members[:, 0]].tolist())
        for batch in batches(bags, BATCH, torch.device("cpu")):
            embedded = torch.from_numpy(vectors[batch.fragments])
            views += len(embedded)
            for name, k in TOP.items():
                correct[name] += in_batch_accuracy(embedded, batch.bag, k) * len(embedded)
    return {name: Figure(value / views, n=len(polyps)) for name, value in correct.items()}
