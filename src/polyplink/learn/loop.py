"""The training loop, the same for every encoder, way of drawing bags and loss."""

import csv
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from polyplink.core.artefacts import atomic_file, to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.core.parts import BAGS
from polyplink.core.text import many, short_repr
from polyplink.data.tables import DataSet
from polyplink.encoders.encoder import Encoder
from polyplink.encoders.finetune import merge_adapters
from polyplink.learn.bags import (
    VALIDATED,
    EpochBags,
    batches,
    checked_bags,
    purity,
    rng_of,
    view_bags,
)
from polyplink.learn.checkpoint import load_checkpoint, read_state, save_checkpoint
from polyplink.learn.contrastive import Views, in_batch_accuracy
from polyplink.learn.devices import Devices, processes
from polyplink.learn.fragment_set import FragmentSet
from polyplink.learn.held_out import hold_out
from polyplink.learn.model import Model, loss_of
from polyplink.learn.noise_aware import NoiseAwareLoss
from polyplink.learn.train_config import LAST, TrainConfig, ValidationConfig
from polyplink.tracklets.prepare import Prepared

Row = dict[str, float]
TRACKLET_LOSS = NoiseAwareLoss(frame=0.0)  # the validation loss of NTSSL's program
# Figures of an epoch without procedures to validate on.
NOT_VALIDATED: Mapping[str, float] = dict.fromkeys(VALIDATED, math.nan)
BEST = "best.safetensors"
_BAGS, _DROPOUT, _LABELS, _TIME, _AUGMENT = range(5)  # purposes of random numbers


@torch.no_grad()
def _mean_measures(
    model: Model,
    data: FragmentSet,
    drawn: EpochBags,
    size: int,
    measures: Mapping[str, Callable[[Views], float]],
) -> Row:
    """Means of measures over batches of `size` bags, weighted by bags; NaN if below two bags."""
    if len(drawn.bags.members) < 2:
        return dict.fromkeys(measures, math.nan)
    sums, total = dict.fromkeys(measures, 0.0), 0
    for batch in batches(drawn.bags, drawn.per_batch or size, data.device):
        views, bags = model.views(data, drawn, batch), int(batch.anchor.sum())
        for name, measure in measures.items():
            sums[name] += measure(views) * bags
        total += bags
    return {name: value / total for name, value in sums.items()}


def validation_bags(config: TrainConfig, data: FragmentSet) -> dict[str, EpochBags]:
    """The bags of the validation procedures, the same in every epoch, by `validation.select`.

    Those of "labels" show known polyps; those of "bags" are drawn as in training.
    """
    validation, size = config.validation, _validation_size(config)
    rng = rng_of(config.seed, _LABELS)
    labelled_bags = view_bags(data.polyps, data.labelled, validation.views, size, rng)
    rng = rng_of(config.seed, _TIME)
    with BAGS.running(config.bags.kind):
        drawn = config.bags.draw_validation(data, validation.tau, size, rng)
    return {
        "labels": EpochBags(data.rows, labelled_bags),
        "bags": checked_bags(config.bags.kind, drawn, data),
    }


def _validation_size(config: TrainConfig) -> int:
    """Bags per validation batch."""
    return config.validation.bags_per_batch or config.optim.bags_per_batch


def validate(model: Model, data: FragmentSet) -> Row:
    """Losses on the validation procedures.

    `loss_labels` is the loss on bags of known polyps, and `top1` and `top5` are the accuracies in
    their batches; all three are NaN if fewer than two polyps have `validation.views` fragments.
    `loss_bags` is the loss on bags drawn as in training; NaN if there are fewer than two.
    """
    config, size = model.config, _validation_size(model.config)
    model.module.eval()
    loss = config.loss if config.validation.loss == "training" else TRACKLET_LOSS
    drawn = validation_bags(config, data)

    def of_loss(views: Views) -> float:
        return loss_of(loss, views).item()

    by_label: dict[str, Callable[[Views], float]] = {
        "loss_labels": of_loss,
        "top1": lambda views: in_batch_accuracy(views.tracklets, views.bag, 1),
        "top5": lambda views: in_batch_accuracy(views.tracklets, views.bag, 5),
    }
    row = _mean_measures(model, data, drawn["labels"], size, by_label)
    return row | _mean_measures(model, data, drawn["bags"], size, {"loss_bags": of_loss})


def split_procedures(data: DataSet, config: TrainConfig) -> tuple[list[str], list[str]]:
    """Procedures to train on, and procedures of other patients to validate on.

    Raises:
        PolyplinkError: If a part is unknown, a procedure is in both parts, or none remains to
            train on.
    """
    if config.validation.part is None:
        patients = data.patients
        part = {name: patients[name] for name in data.part(config.part)}
        return hold_out(part, config.validation.every)
    hint = "validate on procedures that are not trained on"
    return data.disjoint_parts(config.part, config.validation.part, hint)


def is_best(row: Row, history: Sequence[Row], select: str) -> bool:
    """Whether an epoch's checkpoint is better than those of all earlier epochs."""
    if select == "last":
        return True
    column = f"loss_{select}"
    earlier_losses = [r[column] for r in history if not math.isnan(r[column])]
    return not earlier_losses or row[column] < min(earlier_losses)


def is_over(history: Sequence[Row], config: ValidationConfig) -> bool:
    """Whether the selection loss has not decreased for `patience` epochs."""
    if not config.patience or not history:
        return False
    best = max(i for i, row in enumerate(history) if is_best(row, history[:i], config.select))
    return len(history) - 1 - best >= config.patience


def check_selection(config: TrainConfig, held: FragmentSet | None) -> None:
    """Refuse a way of selecting the checkpoint for which the held-out procedures do not suffice.

    Raises:
        PolyplinkError: If fewer than two fragments are held out, they give fewer than two bags, or
            all are of one procedure and the loss compares procedures.
    """
    select = config.validation.select
    if select == "last":
        return
    if held is None or len(held) < 2:
        raise PolyplinkError(
            "no fragments to validate on",
            "hold some out with --set validation.every=N, or give --set validation.select=last",
        )
    of_recipe = config.validation.loss == "training"
    if of_recipe and _compares_procedures(config) and len(np.unique(held.procedures)) < 2:
        raise PolyplinkError(
            "all fragments to validate on are of one procedure, and "
            "loss.negatives=other_procedures needs others",
            "hold out more procedures with a smaller --set validation.every=N, or give --set "
            "validation.loss=tracklet",
        )
    if len(validation_bags(config, held)[select].bags.members) >= 2:
        return
    if select == "labels":
        raise too_few_labels(config)
    raise PolyplinkError(
        f"the held-out procedures give fewer than two bags of bags.kind={config.bags.kind}",
        "hold out more procedures with a smaller --set validation.every=N, or give --set "
        "validation.select=last",
    )


def _compares_procedures(config: TrainConfig) -> bool:
    """Whether the loss has no negatives within a procedure: with one procedure it is always 0."""
    return isinstance(config.loss, NoiseAwareLoss) and config.loss.negatives != "all"


def too_few_labels(config: TrainConfig) -> PolyplinkError:
    """The error if too few polyps of the held-out procedures are known to select on labels."""
    return PolyplinkError(
        "validation on labels needs two held-out polyps with "
        f"{config.validation.views} fragments each",
        "give --set validation.select=bags, which needs no label, or hold out more procedures "
        "with a smaller --set validation.every=N",
    )


@dataclass(frozen=True)
class Fitted:
    """A finished training run.

    Attributes:
        encoder: The encoder of the selected epoch, in evaluation mode.
        history: One row per epoch: epoch, figures of the bags (tau, alpha), purity, loss, frames
            (seen in training), loss_labels, loss_bags, top1, top5, seconds.
        chosen: The row of the selected epoch.
        train: Procedures trained on.
        held: Procedures held out for validation.
    """

    __repr__ = short_repr

    encoder: Encoder
    history: Sequence[Row]
    chosen: Row
    train: Sequence[str]
    held: Sequence[str]


def _epoch(model: Model, data: FragmentSet, epoch: int) -> Row:
    """Train for one epoch; returns its tau or alpha, purity, loss and number of frames."""
    config = model.config
    epochs, size = config.optim.epochs, config.optim.bags_per_batch

    # Bags, and seeds of dropout and augmentations, depend on the epoch alone.
    rng = rng_of(config.seed, _BAGS, epoch)
    with BAGS.running(config.bags.kind):
        returned = config.bags.draw(data, epoch / epochs, size, rng)
    drawn = checked_bags(config.bags.kind, returned, data)
    if not len(drawn.bags.members):
        raise PolyplinkError(
            f"bags.kind={config.bags.kind} draws no bag from the fragments to train on",
            "give more procedures, or another --set bags.kind=NAME",
        )
    rank = model.fabric.global_rank  # dropout and augmentations differ between processes
    torch.manual_seed(int(rng_of(config.seed, _DROPOUT, epoch, rank).integers(2**31)))
    generator = torch.Generator().manual_seed(
        int(rng_of(config.seed, _AUGMENT, epoch, rank).integers(2**31))
    )

    # A step for each group of batches.
    model.module.train()
    all_batches = list(batches(drawn.bags, drawn.per_batch or size, data.device))
    losses: list[float] = []
    for start in range(0, len(all_batches), config.optim.accumulate):
        model.set_rate((epoch + start / len(all_batches)) / epochs)
        group = all_batches[start : start + config.optim.accumulate]
        losses += model.learn(data, drawn, group, generator)

    frames = sum(len(batch.fragments) for batch in all_batches) * drawn.clips.shape[1]
    polyps = data.tracklets.polyps[data.tracklet_of[drawn.clips[:, 0]]]
    return {
        **{name: float(value) for name, value in drawn.figures.items()},
        "purity": purity(drawn.bags, polyps) if data.tracklets.labelled.all() else math.nan,
        "loss": sum(losses) / len(losses),
        "frames": float(frames),
    }


def _write_history(path: Path, history: Sequence[Row]) -> None:
    """Write history.csv, a row for each epoch, atomically."""
    columns = dict.fromkeys(name for row in history for name in row)  # figures may be of some rows
    with atomic_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(columns))
        writer.writeheader()
        for row in history:
            counts = {name: int(row[name]) for name in ("epoch", "frames")}
            writer.writerow(row | counts)


def _dotted_fields(plain: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Fields of a recipe by dotted name ("optim.epochs")."""
    fields: dict[str, Any] = {}
    for name, value in plain.items():
        if isinstance(value, Mapping):
            fields |= _dotted_fields(value, f"{prefix}{name}.")
        else:
            fields[f"{prefix}{name}"] = value
    return fields


def read_resumed(config: TrainConfig, folder: Path) -> dict[str, Any]:
    """The state of the run in a folder, which is to be continued by a recipe.

    Raises:
        PolyplinkError: If there is no run, or it is one of another recipe or of more epochs.
    """
    state = read_state(folder / LAST)
    recipe, before = _dotted_fields(to_plain(config)), _dotted_fields(state["recipe"])
    before["optim.epochs"] = config.optim.epochs  # a run may be extended
    # The name of the recipe and the kinds of its parts decide which other fields there are.
    for name in sorted({*recipe, *before}, key=lambda name: (name != "name", ".kind" not in name)):
        as_before = before.get(name) if name == "name" else f"--set {name}={before.get(name)}"
        if recipe.get(name) != before.get(name):
            raise PolyplinkError(
                f"{folder} holds a run of another recipe: {name} is {before.get(name)!r} there and "
                f"{recipe.get(name)!r} here",
                f"resume with the same recipe ({as_before}), or start anew in another folder",
            )
    files: dict[str, str] = state.get("files") or {}  # none in runs of earlier versions
    for name, key in config.files.items():
        if files.get(name, key) != key:
            raise PolyplinkError(
                f"{folder} holds a run with another {name}",
                "resume with the file as it was, or start anew in another folder",
            )
    epochs = len(state["history"])
    if epochs > config.optim.epochs:
        raise PolyplinkError(
            f"{folder} holds a run of {many(epochs, 'epoch')}, and optim.epochs is "
            f"{config.optim.epochs}",
            "give as many or more with --set optim.epochs=N",
        )
    return state


def _resumed_history(
    config: TrainConfig, model: Model, folder: Path, resume: bool, key: str
) -> list[Row]:
    """The history of the run to continue, with its checkpoint loaded; empty for a new run."""
    if not resume:
        return []
    state = read_resumed(config, folder)
    if state["data"] != key:
        raise PolyplinkError(
            f"{folder} holds a run of other data",
            "resume with the same data, or start anew in another folder",
        )
    load_checkpoint(folder / LAST, model.module, model.optimizer)
    return list[Row](state["history"])


def _run_epochs(
    fabric: Devices,
    config: TrainConfig,
    prepared: Prepared,
    folder: Path,
    resume: bool,
    *,
    progress: Callable[[int, int, Mapping[str, float]], None] | None = None,
) -> tuple[Model, list[Row]]:
    """Run all epochs, in every process of a training; the first process writes and reports."""
    # The fragments to train and to validate on.
    train, held = split_procedures(prepared.data, config)
    data = FragmentSet(prepared, train, config.fragment_length, fabric.device)
    if len(data) < 2:
        raise PolyplinkError(
            f"the procedures to train on give {many(len(data), 'fragment')} of "
            f"{many(config.fragment_length, 'crop')}, and two are needed",
            "give more procedures, --set fragment_length=1, or --stride, --min-length and "
            "--max-gap: `polyplink doctor` says which values keep how many tracklets",
        )
    if _compares_procedures(config) and len(np.unique(data.procedures)) < 2:
        raise PolyplinkError(
            "all fragments are of one procedure, and loss.negatives=other_procedures needs others",
            "give more procedures, or --set loss.negatives=all",
        )
    held_out = FragmentSet(prepared, held, config.fragment_length, fabric.device) if held else None
    check_selection(config, held_out)

    # The epochs that are not in the history yet.
    model = Model(config, fabric.device, fabric)
    history = _resumed_history(config, model, folder, resume, prepared.key)
    for epoch in range(len(history), config.optim.epochs):
        if is_over(history, config.validation):
            break
        started = time.perf_counter()
        row = {"epoch": float(epoch)} | _epoch(model, data, epoch)
        if held_out is None or len(held_out) < 2:
            row |= NOT_VALIDATED
        else:
            row |= validate(model, held_out)
        row["seconds"] = time.perf_counter() - started
        if fabric.global_rank == 0:
            _record_epoch(model, folder, prepared.key, history, row)
        else:
            history.append(row)
        if progress is not None:
            progress(epoch + 1, config.optim.epochs, row)
    return model, history


def fit(
    config: TrainConfig,
    prepared: Prepared,
    folder: Path,
    *,
    device: torch.device,
    devices: int = 1,
    resume: bool = False,
    progress: Callable[[int, int, Mapping[str, float]], None] | None = None,
) -> Fitted:
    """Train by a recipe on a part of a prepared data set.

    After every epoch, last.safetensors (to resume from), best.safetensors (selected as the recipe
    says) and history.csv are written to `folder`. On one CPU thread a resumed run gives exactly the
    numbers of an uninterrupted one: all randomness is drawn from (seed, purpose, epoch). A run may
    be resumed for more epochs, or with another number of devices, which changes only dropout,
    augmentations and rounding.

    Args:
        config: The recipe.
        prepared: Tracklets and crops, prepared as the recipe says.
        folder: Folder for checkpoints.
        device: CPU or GPU (on a GPU: bf16, and crops on the device if they fit).
        devices: Processes, each with a separate GPU or all on the CPU, see `learn.devices`.
        resume: Continue from last.safetensors.
        progress: Called with (epochs done, epochs, row) after each epoch.

    Raises:
        PolyplinkError: If there is too little to train or validate on, a loss is not finite, the
            checkpoint is of another recipe or data set, or there are fewer devices.
    """
    train, held = split_procedures(prepared.data, config)
    settings = (config, prepared, folder, resume)
    # Of the encoders that polyplink trains, a loss uses all parameters; of others it may not.
    has_unused = config.encoder.kind not in ("transformer", "sfe", "mve")
    with processes(devices, device, _run_as_follower, settings, has_unused=has_unused) as fabric:
        model, history = _run_epochs(fabric, *settings, progress=progress)
    chosen = load_checkpoint(folder / BEST, model.module)["history"][-1]
    return Fitted(merge_adapters(model.as_used()).eval(), history, chosen, train, held)


def _run_as_follower(fabric: Devices, *settings: Any) -> None:
    """Train in a process that is not the first; the result is dropped, as it would be pickled."""
    _run_epochs(fabric, *settings)


def _record_epoch(model: Model, folder: Path, key: str, history: list[Row], row: Row) -> None:
    """Append an epoch to the history and write it with its weights, also as the best if it is."""
    best = is_best(row, history, model.config.validation.select)
    history.append(row)
    state = {"recipe": model.config, "files": model.config.files, "data": key, "history": history}
    _write_history(folder / "history.csv", history)
    for name in (BEST, LAST) if best else (LAST,):  # LAST last: it is complete only with the others
        save_checkpoint(folder / name, model.module, model.optimizer, state)
