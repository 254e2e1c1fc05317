"""Training by a recipe, down to weights that know how they were made and how to count."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyplink.core.artefacts import RunRecord, to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.encoders import (
    WEIGHTS_FILE,
    NetworkEmbedder,
    Seen,
    WeightsRecord,
    build_started,
    embed,
    inherited,
    pick_device,
    save_weights,
)
from polyplink.jobs.clustering import scenes
from polyplink.jobs.embedding import prepare_part
from polyplink.jobs.leakage import and_before, seen_by
from polyplink.jobs.operating import Operating, find_operating, untuned
from polyplink.jobs.progress import Progress, silent
from polyplink.learn import Fitted, TrainConfig, fit
from polyplink.learn.loggers import Loggers
from polyplink.learn.loop import LAST
from polyplink.tracklets import Prepared


@dataclass(frozen=True)
class Trained:
    """What a training run left.

    Attributes:
        weights: The weights file.
        epoch: Epoch whose weights were kept, from 0.
        epochs: Epochs trained.
        loss: Training loss of that epoch.
        operating: Where the operating point came from, in words.
        warnings: What the user should know.
    """

    weights: Path
    epoch: int
    epochs: int
    loss: float
    operating: str
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        plain: dict[str, Any] = to_plain(self)
        return plain


def _operating(fitted: Fitted, prepared: Prepared, workers: int) -> Operating:
    if not fitted.held:
        return untuned("no procedure was held out")
    held = prepared.select(fitted.held)
    if held.tracklets.is_empty():
        return untuned("the held-out procedures have no tracklets")
    embeddings = embed(held, NetworkEmbedder(fitted.encoder), "in training")
    return find_operating(scenes(held, embeddings, "l2"), threads=workers)


def _record(
    config: TrainConfig,
    fitted: Fitted,
    prepared: Prepared,
    operating: Operating,
    before: Seen,
) -> WeightsRecord:
    # Not the time it took: equal trainings must give equal files.
    chosen = {k: v for k, v in fitted.chosen.items() if k != "seconds" and not math.isnan(v)}
    return WeightsRecord(
        encoder=config.encoder,
        prepare=config.prepare,
        recipe=to_plain(config),
        seen=and_before(seen_by(prepared.data, fitted.train, fitted.held), before),
        origin={"selected_by": config.validation.select} | chosen,
        operating=operating.as_record(),
    )


def train(
    config: TrainConfig,
    folder: Path,
    out: Path,
    *,
    device: str = "auto",
    resume: bool = False,
    workers: int = 2,
    log: Sequence[str] = (),
    progress: Progress = silent,
) -> Trained:
    """Train by a recipe and write `out`/weights.safetensors.

    Crops are cut first where they are not yet. `out` also gets checkpoints after every epoch,
    history.csv and run.json.

    Args:
        config: The recipe.
        folder: The data folder.
        out: The run's folder.
        device: Where to compute.
        resume: Go on with the run in `out`.
        workers: Threads for crops and for the search of the operating point.
        log: Loggers beside history.csv: "tensorboard", "wandb" (offline).
        progress: Told of crops and epochs.

    Raises:
        PolyplinkError: If `out` holds a run already (or none, to resume), or data or recipe are
            at fault.
    """
    if (out / LAST).is_file() and not resume:
        raise PolyplinkError(
            f"{out} holds a training run already", "go on with --resume, or name another --out"
        )
    where = pick_device(device)
    # Before crops are cut, which may take a night: is there such a backbone, and its weights?
    build_started(config.encoder, config.init_from)
    seen, started = inherited(config.encoder, config.init_from)
    record = RunRecord("train", settings=config, seed=config.seed)
    record.claim(out)
    with record.stage("prepare"):
        prepared = prepare_part(folder, config.prepare, config.part, workers, progress)
    record.inputs |= {"crops": prepared.key} | started

    with record.stage("train"), Loggers(log, out, config) as loggers:

        def tick(done: int, total: int, row: Mapping[str, float]) -> None:
            loggers.log(row)
            progress("epochs", done, total)

        fitted = fit(config, prepared, out, device=where, resume=resume, progress=tick)
    with record.stage("operating point"):
        operating = _operating(fitted, prepared, workers)
    weights = out / WEIGHTS_FILE
    save_weights(weights, fitted.encoder, _record(config, fitted, prepared, operating, seen))
    record.write(out)
    warnings = () if operating.calibration else (f"operating point: {operating.origin}",)
    return Trained(
        weights=weights,
        epoch=int(fitted.chosen["epoch"]),
        epochs=len(fitted.history),
        loss=fitted.chosen["loss"],
        operating=operating.origin,
        warnings=warnings,
    )
