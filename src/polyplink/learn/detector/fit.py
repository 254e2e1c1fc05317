"""Training of the detector: epochs that can be stopped and continued.

AdamW with a cosine schedule and an exponential mean of the weights. The first part of the epochs is
trained on small inputs, the rest at full size (progressive resizing), which costs half.
"""

import copy
import hashlib
import math
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import AdamW
from torch.optim.swa_utils import get_ema_multi_avg_fn
from torch.utils.data import DataLoader, Dataset, Subset

from polyplink.core.artefacts import content_key
from polyplink.core.errors import PolyplinkError
from polyplink.core.ranges import AT_LEAST_ONE, POSITIVE, Range, Ranged
from polyplink.core.results import StageProgress, silent_stage
from polyplink.encoders.device import memory_suffices
from polyplink.learn.checkpoint import load_checkpoint, read_state, save_checkpoint
from polyplink.learn.detector.augmented_frames import TrainingFrames, draw_batch
from polyplink.learn.detector.loss import detection_loss
from polyplink.learn.detector.yolox import YoloxNano, grid

CLIP = 10.0  # largest norm of the gradient
WEIGHT_DECAY = 0.05
WARM_UP = 100  # steps
SMALL = 0.8  # side of the small inputs
SMALL_EPOCHS = 0.7  # share of the epochs on small inputs
CPU = torch.device("cpu")


@dataclass(frozen=True)
class FitConfig(Ranged):
    """How a detector is trained.

    Attributes:
        side: Width and height of its input, pixels; a multiple of 32.
        epochs: Times that each frame is seen.
        batch: Most frames in a step; the steps of an epoch have equally many, or one less.
        rate: Largest learning rate; that of the body is half of it.
        keep: Decay of the mean of the weights, once it is warm.
        empty_repeats: How often in an epoch a frame without a polyp is seen.
        freeze: Leave the first two stages as they are, if the network starts from weights.
        seed: Of order and augmentation.
    """

    side: Annotated[int, Range(64)] = 320
    epochs: Annotated[int, AT_LEAST_ONE] = 24
    batch: Annotated[int, AT_LEAST_ONE] = 16
    rate: Annotated[float, POSITIVE] = 1e-3
    keep: Annotated[float, Range(0, 1)] = 0.999
    empty_repeats: Annotated[int, AT_LEAST_ONE] = 2
    freeze: bool = True
    seed: int = 0


@dataclass
class FitState:
    """Where a training stands.

    Attributes:
        network: The network that learns.
        mean: Exponential mean of its weights: the result.
        epoch: Epochs done.
        losses: Mean loss of each epoch.
    """

    network: YoloxNano
    mean: YoloxNano
    epoch: int = 0
    losses: list[float] = field(default_factory=list)


class _Batches(Dataset[tuple[Tensor, Tensor]]):
    """The batches of all epochs; batch k is the same whenever and wherever it is drawn."""

    def __init__(self, frames: TrainingFrames, config: FitConfig) -> None:
        self.frames, self.config = frames, config
        empty = np.flatnonzero(~np.isfinite(frames.boxes).any((1, 2)))
        self.rows = np.concatenate(
            [np.arange(len(frames.pixels)), *[empty] * (config.empty_repeats - 1)]
        )
        self.in_an_epoch = -(-len(self.rows) // config.batch)

    def __len__(self) -> int:
        return self.config.epochs * self.in_an_epoch

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        config = self.config
        epoch, batch = divmod(index, self.in_an_epoch)
        order = np.random.default_rng([config.seed, epoch]).permutation(self.rows)
        rows = np.array_split(order, self.in_an_epoch)[batch]
        small = epoch < SMALL_EPOCHS * config.epochs
        side = max(64, round(config.side * SMALL / 32) * 32) if small else config.side
        rng = np.random.default_rng([config.seed, epoch, batch])
        return draw_batch(self.frames, rows, side, rng)


def _optimiser(network: YoloxNano, config: FitConfig) -> AdamW:
    """AdamW with the full rate for the neck and the head, and half of it for the body."""
    body = [network.stem, network.dark2, network.dark3, network.dark4, network.dark5]
    in_body = {id(weight) for stage in body for weight in stage.parameters()}
    learned = [weight for weight in network.parameters() if weight.requires_grad]
    groups = [
        {"params": [weight for weight in learned if id(weight) in in_body], "lr": config.rate / 2},
        {"params": [weight for weight in learned if id(weight) not in in_body], "lr": config.rate},
    ]
    return AdamW(groups, weight_decay=WEIGHT_DECAY)


def _rate_factor(step: int, steps: int) -> float:
    """Factor of the learning rate: a linear warm-up times a cosine from 1 to 0.01."""
    warm_up = min(1.0, (step + 1) / min(WARM_UP, max(1, steps // 10)))
    return warm_up * (0.01 + 0.99 * (1 + math.cos(math.pi * min(1.0, step / steps))) / 2)


def _training_key(frames: TrainingFrames, start: YoloxNano, config: FitConfig) -> str:
    """A key of all that decides what is learned: the frames, the first weights and the settings."""
    weights = [tensor.numpy() for tensor in start.state_dict().values()]
    digest = hashlib.sha256()
    for array in (frames.pixels, frames.sizes, frames.boxes, *weights):
        digest.update(np.ascontiguousarray(array).data)
    return content_key("train-detector", digest.hexdigest(), config)


def _leave_to_main_process(worker: int) -> None:
    """Ignore Ctrl-C in a process that draws batches, and print nothing: the main one does both.

    An error of a batch is raised in the main process. What would be printed here is that the main
    process broke a connection, as it does when it is interrupted.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.excepthook = lambda *_: None


def fit_detector(
    frames: TrainingFrames,
    start: YoloxNano,
    config: FitConfig,
    checkpoint: Path,
    *,
    device: torch.device = CPU,
    workers: int = 1,
    after_epoch: Callable[[FitState], None] = lambda state: None,
    progress: StageProgress = silent_stage,
) -> FitState:
    """Train a detector; continues from a checkpoint of the same training.

    Args:
        frames: The frames.
        start: The network to start from, on the CPU; not changed.
        config: How.
        checkpoint: File of the state after each epoch.
        device: Where the network is trained.
        workers: Processes that draw batches. The same batches are drawn by any number.
        after_epoch: Called with the state after each epoch.
        progress: Callback (steps done in this epoch, steps of it).

    Raises:
        PolyplinkError: If the checkpoint is broken or of another training, the loss is not finite,
            or the memory of the device does not suffice.
    """
    network = copy.deepcopy(start).to(device).train()
    mean = copy.deepcopy(start).to(device).eval()
    for stage in (network.stem, network.dark2):
        stage.requires_grad_(not config.freeze)
    batches = _Batches(frames, config)
    steps = len(batches)
    optimiser = _optimiser(network, config)
    rates = [group["lr"] for group in optimiser.param_groups]
    state = FitState(network, mean)
    networks = nn.ModuleDict({"network": network, "mean": mean})
    key = _training_key(frames, start, config)
    if checkpoint.is_file():
        before = read_state(checkpoint)
        if before.get("key") != key:
            raise PolyplinkError(
                f"{checkpoint.parent} holds a training with other data or options",
                "give another --out, or delete that folder",
            )
        load_checkpoint(checkpoint, networks, optimiser)
        state.epoch, state.losses = before["epoch"], before["losses"]
    first_step = state.epoch * batches.in_an_epoch
    loader = DataLoader(
        Subset(batches, range(first_step, steps)),
        batch_size=None,
        num_workers=workers,
        prefetch_factor=4,
        worker_init_fn=_leave_to_main_process,
    )
    learned = [weight for weight in network.parameters() if weight.requires_grad]
    mean_weights: list[Tensor] = list(mean.parameters())
    weights: list[Tensor] = list(network.parameters())
    loss_sum = torch.zeros((), device=device)
    for step, (images, truth) in enumerate(loader, first_step + 1):
        # One step of the network.
        with memory_suffices(device, "give a smaller --batch or --side, or another --device"):
            logits, boxes = network.cells(images.to(device))  # b n, b 4 n
            cells = grid(*images.shape[-2:]).to(device)  # 3 n
            loss = detection_loss(logits, boxes, truth.to(device), cells)
            for group, rate in zip(optimiser.param_groups, rates, strict=True):
                group["lr"] = rate * _rate_factor(step - 1, steps)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(learned, CLIP)
            optimiser.step()

        # The mean of its weights.
        decay = min(config.keep, (1 + step) / (10 + step))
        average = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]
        average(mean_weights, weights, step)

        # The end of an epoch.
        loss_sum += loss.detach()
        done = step - state.epoch * batches.in_an_epoch
        progress(done, batches.in_an_epoch)
        if done < batches.in_an_epoch:
            continue
        mean_loss = loss_sum.item() / done
        if not math.isfinite(mean_loss):
            raise PolyplinkError("the loss is not finite", "train with a smaller --rate")
        loss_sum.zero_()
        state.epoch += 1
        state.losses.append(mean_loss)
        values = {"key": key, "epoch": state.epoch, "losses": state.losses}
        save_checkpoint(checkpoint, networks, optimiser, values)
        after_epoch(state)
    return FitState(network.cpu(), mean.cpu(), state.epoch, state.losses)
