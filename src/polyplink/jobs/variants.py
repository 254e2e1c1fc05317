"""An encoder on other crops and clips: measure it where its crop factor and clip length differ.

Source: thesis (Bongiovanni 2025), 5.2: crop factors 1, 2, 3, 5, 10 and the full frame; fragments
of 8 and 32 crops, and whole tracklets.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
import torch

from polyplink.core.errors import PolyplinkError
from polyplink.encoders import Embedder, NetworkEmbedder, load_encoder, pick_device
from polyplink.encoders.embed import fragment_table
from polyplink.evaluate import Samples, TrackletBoxes
from polyplink.jobs.embedding import kept, prepare_part
from polyplink.jobs.evaluation import samples_of
from polyplink.jobs.fragments import kept_fragments
from polyplink.jobs.measured import Asked, Measured, measure
from polyplink.jobs.progress import Progress, silent
from polyplink.tracklets import Prepared, PrepareSettings


@dataclass(frozen=True)
class Subject:
    """An encoder to be measured.

    Attributes:
        name: For people.
        embedder: Turns packed crops into vectors.
        key: Names its weights.
        how: Crops and sampling it is used with, but for what a variant changes.
        device: Where it computes.
    """

    name: str
    embedder: Embedder
    key: str
    how: PrepareSettings
    device: torch.device


@dataclass(frozen=True)
class Variant:
    """What is seen of a tracklet.

    Attributes:
        crop: Crop factor psi; None for the full frame.
        clip: Crops of a sample; None for the whole tracklet.
    """

    crop: float | None
    clip: int | None

    @property
    def words(self) -> str:
        """As a reader says it."""
        crop = "full frame" if self.crop is None else f"psi {self.crop:g}"
        return f"{crop}, {'whole tracklets' if self.clip is None else f'fragments of {self.clip}'}"


def fragment_samples(prepared: Prepared, length: int) -> Samples:
    """The fragments of a prepared part as the tasks see them.

    Raises:
        PolyplinkError: If no tracklet is that long, or no polyp is known.
    """
    table = fragment_table(prepared, length)
    return Samples.of(
        table["fragment_id"].to_list(),
        table["procedure_id"].to_list(),
        table["polyp_id"].to_list(),
        table["position"].to_numpy(),
    )


def boxes_of(prepared: Prepared, samples: Samples) -> Callable[[int], TrackletBoxes]:
    """The boxes of each procedure's tracklets, by the procedure's place in the samples."""
    table = prepared.tracklets
    frame = prepared.detections["frame"].to_numpy().astype(np.int64)
    box = prepared.detections.select("x", "y", "w", "h").to_numpy().astype(np.float64)

    def boxes(place: int) -> TrackletBoxes:
        part, _ = samples.of_procedure(place)
        mine = table.filter(pl.col("procedure_id") == samples.procedures[place])
        offset, n = (mine[name].to_numpy().astype(np.int64) for name in ("offset", "n"))
        rows = np.concatenate([np.arange(a, a + k) for a, k in zip(offset, n, strict=True)])
        ends = np.concatenate([[0], np.cumsum(n)])
        return TrackletBoxes(part.polyp, ends, frame[rows], box[rows])

    return boxes


def measure_variant(
    subject: Subject,
    folder: Path,
    part: str,
    variant: Variant,
    wanted: Iterable[str],
    *,
    asked: Asked | None = None,
    workers: int = 2,
    progress: Progress = silent,
) -> dict[str, Measured]:
    """Prepare, embed and measure an encoder on one variant; what is there is used again.

    Args:
        subject: The encoder.
        folder: The data folder.
        part: Part of the data set.
        variant: Crop factor and clip length.
        wanted: Names of figures, see `measured`.
        asked: How to measure.
        workers: Threads that cut crops.
        progress: Told of crops, tracklets or fragments.

    Raises:
        PolyplinkError: If data, crops, fragments or vectors are at fault.
    """
    how = replace(subject.how, crop_factor=variant.crop)
    prepared = prepare_part(folder, how, part, workers, progress)
    if variant.clip is None:
        samples = samples_of(prepared)
        found, _ = kept(prepared, subject.embedder, subject.key, subject.device, progress)
        boxes = boxes_of(prepared, samples)
        return measure(wanted, found.vectors, samples, boxes, asked)
    samples = fragment_samples(prepared, variant.clip)
    key = f"{subject.key}-{subject.device.type}"
    found = kept_fragments(prepared, subject.embedder, key, variant.clip, progress=progress)
    return measure(wanted, found.vectors, samples, None, asked)


def loaded_subject(weights: Path, device: str = "auto") -> Subject:
    """Weights as a subject.

    Raises:
        PolyplinkError: If they are missing or broken.
    """
    where = pick_device(device)
    loaded = load_encoder(weights, where)
    name = str(loaded.record.recipe.get("name", weights.stem))
    key = loaded.weights_id
    return Subject(name, NetworkEmbedder(loaded.encoder), key, loaded.record.prepare, where)


def compare_variants(
    subject: Subject,
    folder: Path,
    part: str,
    variants: Sequence[Variant],
    wanted: Sequence[str],
    *,
    asked: Asked | None = None,
    workers: int = 2,
    progress: Progress = silent,
) -> list[tuple[Variant, dict[str, Measured]]]:
    """One encoder on several variants; one that cannot be measured says why in every figure.

    Raises:
        PolyplinkError: If none of them can be.
    """
    rows: list[tuple[Variant, dict[str, Measured]]] = []
    failed: list[PolyplinkError] = []
    for variant in variants:
        try:
            found = measure_variant(
                subject,
                folder,
                part,
                variant,
                wanted,
                asked=asked,
                workers=workers,
                progress=progress,
            )
        except PolyplinkError as error:
            failed.append(error)
            found = {name: Measured(None, why=str(error)) for name in wanted}
        rows.append((variant, found))
    if failed and len(failed) == len(variants):
        raise failed[0]
    return rows
