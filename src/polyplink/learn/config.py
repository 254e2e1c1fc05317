"""A recipe's fields: everything that decides what a training run does."""

from dataclasses import dataclass, field
from typing import Literal

from polyplink.encoders import EncoderConfig
from polyplink.learn.noise_aware import LossConfig
from polyplink.tracklets import PrepareSettings


@dataclass(frozen=True)
class BagConfig:
    """How bags are drawn (NTSSL 2.1).

    Attributes:
        k: Members beside the anchor.
        sampling: "exponential" ranks, or the k "nearest" (an ablation).
        tau_min: Temperature in ranks at the start of the curriculum.
        tau_max: Temperature at its end; equal to tau_min for a fixed temperature.
    """

    k: int = 4
    sampling: Literal["exponential", "nearest"] = "exponential"
    tau_min: float = 0.3
    tau_max: float = 12.0


@dataclass(frozen=True)
class OptimConfig:
    """AdamW with a constant rate, as in the reference.

    Attributes:
        epochs: An epoch anchors every training fragment once.
        bags_per_batch: Bags of 1 + k fragments in a step.
        rate: Learning rate.
        weight_decay: Decoupled weight decay.
    """

    epochs: int = 50
    bags_per_batch: int = 12
    rate: float = 1e-5
    weight_decay: float = 1e-4


@dataclass(frozen=True)
class ValidationConfig:
    """Which procedures validate, and what chooses the checkpoint.

    Attributes:
        every: Each `every`-th training procedure (in order of name) is held out; 0 for none.
            The paper validates on ten procedures that it does not name.
        select: The checkpoint kept has the lowest loss on pairs of views of one polyp ("labels",
            as published: true identities enter a self-supervised method here), or on bags drawn
            from time ("bags", needs no label), or is the last one ("last").
        views: Fragments per polyp in the validation on labels.
        tau: Fixed temperature of the bags in the validation on bags.
    """

    every: int = 9
    select: Literal["labels", "bags", "last"] = "labels"
    views: int = 2
    tau: float = 3.0


@dataclass(frozen=True)
class TrainConfig:
    """A training run of NTSSL. Recipes are functions that return one of these.

    Attributes:
        name: The recipe's name.
        encoder: The tracklet encoder.
        prepare: Tracklets and crops it is trained on; evaluation uses the same.
        fragment_length: Crops L in a fragment.
        bags: Bag sampling.
        loss: The noise-aware loss.
        optim: Optimiser and length.
        validation: Held-out procedures and the choice of the checkpoint.
        part: Part of the data set's splits to train on.
        seed: Seeds initial weights, bags, order and dropout.
    """

    name: str
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    prepare: PrepareSettings = field(default_factory=PrepareSettings)
    fragment_length: int = 8
    bags: BagConfig = field(default_factory=BagConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    part: str = "train"
    seed: int = 42
