"""A recipe's fields: everything that decides what a training run does."""

import math
from dataclasses import dataclass, field
from typing import Literal

from polyplink.encoders import EncoderConfig
from polyplink.errors import PolyplinkError
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

    def __post_init__(self) -> None:
        PolyplinkError.unless(self.k >= 1, f"bags.k is {self.k}", "give 1 or more")
        PolyplinkError.unless(
            0.0 < self.tau_min <= self.tau_max < math.inf,
            f"bags.tau_min is {self.tau_min} and bags.tau_max {self.tau_max}",
            "give 0 < tau_min <= tau_max",
        )


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

    def __post_init__(self) -> None:
        at_least_one, two = "give 1 or more", "give 2 or more: a bag alone has no negatives"
        PolyplinkError.unless(self.epochs >= 1, f"optim.epochs is {self.epochs}", at_least_one)
        size = self.bags_per_batch
        PolyplinkError.unless(size >= 2, f"optim.bags_per_batch is {size}", two)
        PolyplinkError.unless(
            0.0 < self.rate < math.inf, f"optim.rate is {self.rate}", "give one above 0"
        )
        PolyplinkError.unless(
            0.0 <= self.weight_decay < math.inf,
            f"optim.weight_decay is {self.weight_decay}",
            "give 0 or more",
        )


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

    def __post_init__(self) -> None:
        PolyplinkError.unless(
            self.every >= 0, f"validation.every is {self.every}", "give 0 (none) or more"
        )
        PolyplinkError.unless(
            self.views >= 2, f"validation.views is {self.views}", "give 2 or more"
        )
        PolyplinkError.unless(
            0.0 < self.tau < math.inf, f"validation.tau is {self.tau}", "give one above 0"
        )


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

    def __post_init__(self) -> None:
        PolyplinkError.unless(
            self.fragment_length >= 1,
            f"fragment_length is {self.fragment_length}",
            "give 1 or more",
        )
        PolyplinkError.unless(
            0 <= self.seed < 2**63, f"seed is {self.seed}", "give one from 0 to 2^63 - 1"
        )
