"""The model in training (encoder, projector and optimiser) and its training step."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from polyplink.core.errors import PolyplinkError, one_line
from polyplink.core.parts import ENCODERS, LOSSES
from polyplink.encoders.build import build_projector
from polyplink.encoders.device import memory_suffices, place, precision, products
from polyplink.encoders.encoder import Encoder
from polyplink.encoders.finetune import trainable
from polyplink.encoders.load import build_started
from polyplink.learn.augment import augment
from polyplink.learn.bags import Batch, EpochBags
from polyplink.learn.contrastive import Views, identities
from polyplink.learn.devices import Devices, gather, share, share_statistics
from polyplink.learn.fragment_set import FragmentSet
from polyplink.learn.train_config import AnyLoss, TrainConfig

_FIRST, _LAST = 25.0, 1e4  # top rate over the first rate, and first rate over the last


def one_cycle(progress: float, warm_up: float = 0.3) -> float:
    """Learning rate relative to its maximum under the one-cycle policy (Smith and Topin 2018).

    It rises from 1/25 to 1 along half a cosine and falls to 1/250,000 along another, the defaults
    of torch's OneCycleLR. It depends on the progress alone, so that a resumed run needs no state.
    (torch also changes Adam's first momentum; this does not.)

    Args:
        progress: Steps done divided by all steps, in [0, 1].
        warm_up: Share of the training in which the rate rises, in (0, 1).

    Returns:
        In (0, 1].

    Example:
        >>> round(one_cycle(0.0), 3), one_cycle(0.3)
        (0.04, 1.0)
    """
    if progress < warm_up:
        start, end, phase = 1 / _FIRST, 1.0, progress / warm_up
    else:
        start, end = 1.0, 1 / _FIRST / _LAST
        phase = (progress - warm_up) / (1 - warm_up)
    return end + (start - end) / 2 * (1 + math.cos(math.pi * phase))


_SMALLER_STEP = "lower optim.bags_per_batch or set optim.checkpointing=true, in another folder"
_OPTIMIZERS = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}


class _Network(nn.Module):
    """Encoder and projector as one module, kept equal between processes."""

    def __init__(self, encoder: nn.Module, projector: nn.Module) -> None:
        super().__init__()
        self.encoder, self.projector = encoder, projector

    def forward(
        self, crops: torch.Tensor, lengths: Sequence[int]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Embed crops (n s, h, w, 3) of n views; projected tracklets (n, d), frames (n s, d)."""
        tokens = self.encoder(crops, lengths)
        return self.projector(tokens.tracklet), self.projector(tokens.frames)


class Model:
    """Encoder, projector and optimiser of a training.

    Attributes:
        config: The recipe.
        fabric: The devices it is trained on.
        encoder: The encoder.
        module: Encoder and projector, whose tensors a checkpoint holds.
        network: The module, with gradients averaged over the processes of a training.
        optimizer: The optimiser of both.
    """

    def __init__(
        self, config: TrainConfig, device: torch.device, fabric: Devices | None = None
    ) -> None:
        torch.manual_seed(config.seed)
        self.config, self.fabric = config, fabric or Devices(device)
        with memory_suffices(device):
            self.encoder = trainable(
                build_started(config.encoder, config.init_from), config.finetune
            )
            self.encoder.checkpointing(config.optim.checkpointing)
            # In raw training, the normalisation of pixels is switched off until `as_used`.
            self._scales: list[tuple[Encoder, torch.Tensor, torch.Tensor]] = []
            for part in self.encoder.modules():
                if config.raw_training and isinstance(part, Encoder):
                    self._scales.append((part, part.mean.clone(), part.std.clone()))
                    part.keep_pixel_scale((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
            self.module = place(_Network(self.encoder, build_projector(self.encoder)), device)
            if self.fabric.world_size > 1:
                share_statistics(self.module, device.type)
            self.network = self.fabric.setup_module(self.module, move_to_device=False)
        self.optimizer = _OPTIMIZERS[config.optim.method](
            [parameter for parameter in self.module.parameters() if parameter.requires_grad],
            lr=config.optim.rate,
            weight_decay=config.optim.weight_decay,
            fused=device.type == "cuda",
        )

    def as_used(self) -> Encoder:
        """The encoder as used after training: it normalises pixels, even after raw training."""
        for part, mean, std in self._scales:
            part.mean, part.std = mean.to(part.device), std.to(part.device)
        return self.encoder

    def views(
        self,
        data: FragmentSet,
        drawn: EpochBags,
        batch: Batch,
        generator: torch.Generator | None = None,
    ) -> Views:
        """Embed a batch; several processes embed a share each and get the views of all.

        Args:
            data: The fragments.
            drawn: The bags of the batch's epoch.
            batch: The batch.
            generator: Source of randomness of the augmentations; None for no augmentation.
        """
        clips = drawn.clips[batch.fragments]  # n s
        length, world = clips.shape[1], self.fabric.world_size
        local_clips = clips[share(len(clips), self.fabric.global_rank, world)]  # m s
        recipe = self.config
        with memory_suffices(data.device, _SMALLER_STEP):
            crops = data.pixels(local_clips)  # m*s h w 3
            if generator is not None:  # in float32: bf16 would round the places of pixels
                crops = augment(recipe.augment, crops, length, generator)
            with precision(data.device, recipe.optim.precision):
                tracklets, frames = self.network(crops, [length] * len(local_clips))  # m d, m*s d
        tracklets, frames = gather(tracklets, frames, len(clips), world)  # n d, n*s d
        return views_of_clips(data, clips, batch, tracklets, frames)

    def set_rate(self, progress: float) -> None:
        """Set the learning rate for the progress of the training, from 0 to 1."""
        optim = self.config.optim
        if optim.schedule == "one_cycle":
            for group in self.optimizer.param_groups:
                group["lr"] = optim.rate * one_cycle(progress, optim.warm_up)

    def learn(
        self,
        data: FragmentSet,
        drawn: EpochBags,
        group: Sequence[Batch],
        generator: torch.Generator,
    ) -> list[float]:
        """Take one step on the mean gradient of a few batches; returns their losses.

        Raises:
            PolyplinkError: If a loss is not finite; the message names a tracklet, and no step is
                taken.
        """
        self.optimizer.zero_grad(set_to_none=True)
        losses = []
        # Also those of the gradients.
        matrix_products = products(data.device, self.config.optim.precision)
        with matrix_products, memory_suffices(data.device, _SMALLER_STEP):
            for i, batch in enumerate(group, start=1):
                with self.fabric.no_backward_sync(self.network, enabled=i < len(group)):
                    views = self.views(data, drawn, batch, generator)
                    loss = loss_of(self.config.loss, views)
                    if not loss.requires_grad:
                        raise PolyplinkError(
                            f"loss {self.config.loss.kind!r} has no gradient",
                            "compute it from views.tracklets or views.frames with operations of "
                            "torch",
                        )
                    losses.append(loss.item())
                    if not math.isfinite(losses[-1]):
                        clips = drawn.clips[batch.fragments]
                        raise _bad_batch(self.config, losses[-1], views, data, clips)
                    self.fabric.backward(loss / len(group))
            self.optimizer.step()  # the first step allocates the moments
        return losses


def loss_of(loss: AnyLoss, views: Views) -> torch.Tensor:
    """The loss of a batch.

    Raises:
        PolyplinkError: If it is not a scalar tensor.
    """
    with LOSSES.running(loss.kind):
        value = loss(views)
    if isinstance(value, torch.Tensor) and value.ndim == 0:
        return value
    is_tensor = isinstance(value, torch.Tensor)
    returned = f"a tensor of shape {tuple(value.shape)}" if is_tensor else one_line(repr(value), 60)
    raise PolyplinkError(
        f"loss {loss.kind!r} returns {returned}, not a scalar tensor",
        "return the mean over its rows",
    )


def views_of_clips(
    data: FragmentSet,
    clips: np.ndarray,
    batch: Batch,
    tracklets: torch.Tensor,
    frames: torch.Tensor,
) -> Views:
    """Embeddings of clips (n, s) with their bags, polyps, procedures and positions in time."""
    owner = data.tracklet_of[clips[:, 0]]  # n
    tracklet_table = data.tracklets

    def on_device(values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(values).to(data.device)

    return Views(
        tracklets=tracklets,
        frames=frames,
        bag=batch.bag,
        anchor=batch.anchor,
        polyp=identities(
            on_device(tracklet_table.polyps[owner]), on_device(tracklet_table.labelled[owner])
        ),
        procedure=on_device(tracklet_table.procedures[owner]),
        position=on_device(data.polyp_positions[clips[:, 0]]).float(),
    )


def _bad_batch(
    config: TrainConfig, loss: float, views: Views, data: FragmentSet, clips: np.ndarray
) -> PolyplinkError:
    """The error for a batch without a finite loss; names the first tracklet that is not finite."""
    names = [data.tracklets.names[i] for i in data.tracklet_of[clips[:, 0]]]
    per_view = views.frames.view(len(names), -1)
    finite = torch.isfinite(views.tracklets).all(dim=1) & torch.isfinite(per_view).all(dim=1)
    broken = [name for name, ok in zip(names, finite.tolist(), strict=True) if not ok]
    if not broken:
        problem = (
            f"the loss is {loss} in a batch with tracklet {names[0]}, which has finite embeddings"
        )
        change = "a higher --set loss.temperature"
        if not hasattr(config.loss, "temperature"):
            change = f"loss {config.loss.kind!r} corrected"
        return PolyplinkError(problem, f"start anew in another --out with {change}")
    problem = (
        f"the loss is {loss}: the embedding of tracklet {broken[0]} is not finite "
        f"({len(broken)} of the {len(names)} views of its batch are not)"
    )
    encoder = config.encoder.kind
    code = "" if encoder in ENCODERS else f"the code of encoder {encoder!r}, "
    return PolyplinkError(
        problem,
        f"look at {code}its crops and weights; --resume continues after the last whole epoch, or "
        "start anew in another --out with a lower --set optim.rate",
    )
