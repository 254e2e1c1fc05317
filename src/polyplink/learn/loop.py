"""The training loop of NTSSL."""

import csv
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from polyplink.artefacts import to_plain, whole_file
from polyplink.encoders import Projector, TrackletEncoder, place, precision
from polyplink.errors import PolyplinkError
from polyplink.learn.bags import Bags, purity
from polyplink.learn.checkpoint import load_checkpoint, read_state, save_checkpoint
from polyplink.learn.config import TrainConfig
from polyplink.learn.curriculum import cosine_tau
from polyplink.learn.epoch import Batch, batches, draw_bags, rng_of, view_bags
from polyplink.learn.fragment_set import FragmentSet, hold_out
from polyplink.learn.noise_aware import multi_level_loss
from polyplink.tracklets import Prepared

LAST = "last.safetensors"
BEST = "best.safetensors"
Row = dict[str, float]
_BAGS, _DROPOUT, _LABELS, _TIME = range(4)  # purposes of random numbers


@dataclass(frozen=True)
class Fitted:
    """A finished training run.

    Attributes:
        encoder: The chosen encoder, in evaluation mode.
        history: One row per epoch: epoch, tau, purity, loss, loss_labels, loss_bags, seconds.
        chosen: The row of the epoch whose weights were kept.
        train: Procedures trained on.
        held: Procedures held out for validation.
    """

    encoder: TrackletEncoder
    history: Sequence[Row]
    chosen: Row
    train: Sequence[str]
    held: Sequence[str]


class _Model:
    """Encoder, projector and optimiser, and the one step they take together."""

    def __init__(self, config: TrainConfig, device: torch.device) -> None:
        torch.manual_seed(config.seed)
        self.config = config
        self.encoder = TrackletEncoder(config.encoder)
        self.projector = Projector(config.encoder)
        self.modules = {"encoder": self.encoder, "projector": self.projector}
        for module in self.modules.values():
            place(module, device)
        self.optimizer = torch.optim.AdamW(
            [p for module in self.modules.values() for p in module.parameters()],
            lr=config.optim.rate,
            weight_decay=config.optim.weight_decay,
            fused=device.type == "cuda",
        )

    def mode(self, training: bool) -> None:
        for module in self.modules.values():
            module.train(training)

    def loss(self, data: FragmentSet, batch: Batch) -> torch.Tensor:
        length = self.config.fragment_length
        with precision(data.device):
            crops = data.crops(batch.fragments)  # n*s h w 3
            tokens = self.encoder(crops, [length] * len(batch.fragments))
            tracklets = self.projector(tokens.tracklet)  # n d
            frames = self.projector(tokens.frames)  # n*s d
        return multi_level_loss(self.config.loss, tracklets, frames, batch.bag, batch.anchor)

    def step(self, data: FragmentSet, batch: Batch) -> torch.Tensor:
        loss = self.loss(data, batch)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach()


@torch.no_grad()
def _mean_loss(model: _Model, data: FragmentSet, bags: Bags) -> float:
    if len(bags.members) < 2:
        return math.nan
    size = model.config.optim.bags_per_batch
    parts = [
        (model.loss(data, b), int(b.anchor.sum())) for b in batches(bags, size, data.device, None)
    ]
    return float(sum(x.item() * n for x, n in parts) / sum(n for _, n in parts))


def _validate(model: _Model, data: FragmentSet) -> Row:
    """Losses on the held-out procedures; the bags are the same in every epoch."""
    config = model.config
    model.mode(training=False)
    known = view_bags(
        data.polyps, data.known, config.validation.views, rng_of(config.seed, _LABELS)
    )
    in_time = draw_bags(config.bags, config.validation.tau, data, rng_of(config.seed, _TIME))
    return {
        "loss_labels": _mean_loss(model, data, known),
        "loss_bags": _mean_loss(model, data, in_time),
    }


def _epoch(model: _Model, data: FragmentSet, epoch: int) -> Row:
    config = model.config
    tau = cosine_tau(epoch / config.optim.epochs, config.bags.tau_min, config.bags.tau_max)
    rng = rng_of(config.seed, _BAGS, epoch)
    bags = draw_bags(config.bags, tau, data, rng)
    torch.manual_seed(int(rng_of(config.seed, _DROPOUT, epoch).integers(2**31)))
    model.mode(training=True)
    losses = [
        model.step(data, batch)
        for batch in batches(bags, config.optim.bags_per_batch, data.device, rng)
    ]
    pure = purity(bags, data.polyps) if data.known.all() else math.nan
    return {"tau": tau, "purity": pure, "loss": torch.stack(losses).mean().item()}


def _is_best(row: Row, history: Sequence[Row], select: str) -> bool:
    if select == "last":
        return True
    column = f"loss_{select}"
    earlier = [r[column] for r in history if not math.isnan(r[column])]
    return not earlier or row[column] < min(earlier)


def _check_selection(config: TrainConfig, held: FragmentSet | None) -> None:
    select = config.validation.select
    if select == "last":
        return
    if held is None or len(held) < 2:
        raise PolyplinkError(
            "no fragments to validate on", "hold procedures out, or set validation.select=last"
        )
    bags = view_bags(held.polyps, held.known, config.validation.views, rng_of(0))
    if select == "labels" and len(bags.members) < 2:
        raise PolyplinkError(
            "validation on labels needs two held-out polyps with two fragments each",
            "set validation.select=bags, which needs no label, or hold out more procedures",
        )


def _write_history(path: Path, history: Sequence[Row]) -> None:
    with whole_file(path) as temporary, temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(history[0]))
        writer.writeheader()
        writer.writerows(history)


def _start(config: TrainConfig, model: _Model, folder: Path, resume: bool, key: str) -> list[Row]:
    """The history to go on from: empty for a new run."""
    if not resume:
        return []
    state = read_state(folder / LAST)
    for name, now in (("recipe", to_plain(config)), ("data", key)):
        if state[name] != now:
            raise PolyplinkError(
                f"{folder} holds a run of another {name}",
                f"resume with the same {name}, or start anew in another folder",
            )
    load_checkpoint(folder / LAST, model.modules, model.optimizer)
    history: list[Row] = state["history"]
    return history


def fit(
    config: TrainConfig,
    prepared: Prepared,
    folder: Path,
    *,
    device: torch.device,
    resume: bool = False,
    progress: Callable[[int, int, Mapping[str, float]], None] | None = None,
) -> Fitted:
    """Train NTSSL on a part of a prepared data set.

    After every epoch `folder` gets last.safetensors (to resume from), best.safetensors (by the
    recipe's choice) and history.csv. A resumed run on one CPU thread continues bit by bit: all
    randomness is drawn anew from (seed, purpose, epoch).

    Args:
        config: The recipe.
        prepared: Tracklets and crops, prepared as the recipe says.
        folder: Where checkpoints go.
        device: CPU or GPU (there bf16, crops on the device where they fit).
        resume: Go on from last.safetensors.
        progress: Called with (epochs done, epochs, row) after each epoch.

    Raises:
        PolyplinkError: If there is too little to train or validate on, the loss is no longer
            finite, or the checkpoint is of another recipe or data set.
    """
    train, held = hold_out(prepared.data.part(config.part), config.validation.every)
    data = FragmentSet(prepared, train, config.fragment_length, device)
    if len(data) < 2:
        raise PolyplinkError(
            f"{len(data)} fragments of {config.fragment_length} crops in the training procedures",
            "give longer tracklets or more procedures",
        )
    watch = FragmentSet(prepared, held, config.fragment_length, device) if held else None
    _check_selection(config, watch)
    model = _Model(config, device)
    history = _start(config, model, folder, resume, prepared.key)
    for epoch in range(len(history), config.optim.epochs):
        started = time.perf_counter()
        row = {"epoch": float(epoch)} | _epoch(model, data, epoch)
        if not math.isfinite(row["loss"]):
            raise PolyplinkError(
                f"the loss is {row['loss']} in epoch {epoch}",
                "start anew in another folder with a lower optim.rate",
            )
        nothing = {"loss_labels": math.nan, "loss_bags": math.nan}
        row |= nothing if watch is None or len(watch) < 2 else _validate(model, watch)
        row["seconds"] = time.perf_counter() - started
        best = _is_best(row, history, config.validation.select)
        history.append(row)
        state = {"recipe": config, "data": prepared.key, "history": history}
        _write_history(folder / "history.csv", history)
        for name in (BEST, LAST) if best else (LAST,):  # LAST last: what it counts is all there
            save_checkpoint(folder / name, model.modules, model.optimizer, state)
        if progress is not None:
            progress(epoch + 1, config.optim.epochs, row)
    load_checkpoint(folder / BEST, model.modules)
    chosen = read_state(folder / BEST)["history"][-1]
    return Fitted(model.encoder.eval(), history, chosen, train, held)
