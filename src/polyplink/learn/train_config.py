"""A recipe's fields: everything that decides what a training run does."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from polyplink.core.errors import PolyplinkError
from polyplink.core.parts import BAGS, LOSSES
from polyplink.core.ranges import AT_LEAST_ONE, NOT_NEGATIVE, POSITIVE, Range, Ranged
from polyplink.core.registry import keys_of_files
from polyplink.core.text import short_repr
from polyplink.encoders.config import AnyEncoderConfig, EncoderConfig
from polyplink.encoders.finetune import FineTune
from polyplink.learn.augment import AugmentConfig
from polyplink.learn.noise_aware import NoiseAwareLoss
from polyplink.learn.temporal_bags import TemporalBags
from polyplink.tracklets.settings import PrepareSettings

LAST = "last.safetensors"  # checkpoint of a run's newest epoch, which --resume continues

NEED_POLYPS = ("polyp_views", "polyp_parts")  # kinds of bags that need known polyps

AnyLoss = Annotated[Any, LOSSES.of_kind()]
"""A loss of the registry: maps the `Views` of a batch to a scalar."""


AnyBags = Annotated[Any, BAGS.of_kind()]
"""A bag sampler of the registry: see `BagSampler` for its methods."""


@dataclass(frozen=True)
class OptimConfig(Ranged, prefix="optim"):
    """The optimisation; by default AdamW with a constant rate, as in the reference.

    Attributes:
        epochs: Number of epochs; the kind of bags defines an epoch (docs/explanation/methods.md).
        bags_per_batch: Bags per batch; the loss compares only views of one batch.
        rate: Learning rate; with a schedule, its maximum.
        weight_decay: Decoupled from the gradient with "adamw", added to it with "adam".
        method: The optimiser.
        schedule: The learning-rate schedule (see `model.one_cycle`).
        warm_up: Share of the training in which a one-cycle rate rises.
        accumulate: Batches whose gradients are averaged in a step. This saves memory but adds no
            negatives, because views are compared only within a batch.
        precision: Precision on a GPU: "bf16", "tf32" (float32 with matrix products in TF32, as in
            the papers' programs) or "float32"; None for bf16 on a GPU and float32 on a CPU. On a
            CPU tf32 is float32.
        checkpointing: Recompute the backbone's activations in the backward pass instead of storing
            them: less memory, a third more time. Statistics of trained BatchNorm layers adapt
            faster, because they see each batch twice.
    """

    epochs: Annotated[int, AT_LEAST_ONE] = 50
    bags_per_batch: Annotated[int, Range(2)] = 12  # a single bag has no negatives
    rate: Annotated[float, POSITIVE] = 1e-5
    weight_decay: Annotated[float, NOT_NEGATIVE] = 1e-4
    method: Literal["adamw", "adam"] = "adamw"
    schedule: Literal["constant", "one_cycle"] = "constant"
    warm_up: Annotated[float, Range(0, 1, above=True, below=True)] = 0.3
    accumulate: Annotated[int, AT_LEAST_ONE] = 1
    precision: Literal["bf16", "tf32", "float32"] | None = None
    checkpointing: bool = False


@dataclass(frozen=True)
class ValidationConfig(Ranged, prefix="validation"):
    """Which procedures are used for validation, and how the checkpoint is selected.

    Attributes:
        every: The procedures of every `every`-th patient of the training part (in order of name)
            are held out; 0 for none. The paper selected on ten of the evaluated procedures
            (`reproduce --as-published`).
        part: A part of the data set to validate on instead; the whole training part is then used
            for training. None to hold procedures out.
        loss: The loss on validation bags: that of the recipe ("training"), or the noise-aware loss
            on tracklet embeddings alone ("tracklet", as in NTSSL's program).
        bags_per_batch: Bags per validation batch; None for as many as in training.
        select: Which checkpoint is kept: that with the lowest loss on views of known polyps
            ("labels", as published: true identities enter a self-supervised method here), that with
            the lowest loss on bags drawn as in training ("bags", needs no labels with temporal
            bags), or the last one ("last").
        views: Fragments per polyp in the validation bags of known polyps.
        tau: Fixed temperature of temporal validation bags.
        patience: Early stopping: end when the selection loss has not decreased for this many
            epochs; 0 disables it.
    """

    every: Annotated[int, NOT_NEGATIVE] = 9
    part: str | None = None
    loss: Literal["training", "tracklet"] = "training"
    bags_per_batch: Annotated[int | None, Range(2)] = None
    select: Literal["labels", "bags", "last"] = "labels"
    views: Annotated[int, Range(2)] = 2
    tau: Annotated[float, POSITIVE] = 3.0
    patience: Annotated[int, NOT_NEGATIVE] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.patience and self.select == "last":
            raise PolyplinkError(
                f"validation.patience is {self.patience} and validation.select is last",
                "set validation.select to labels or bags: patience needs a validation loss",
            )


@dataclass(frozen=True)
class TrainConfig(Ranged):
    """A training run: an encoder, bags and a loss. Recipes are functions that return one of these.

    Attributes:
        name: The recipe's name.
        encoder: The tracklet encoder.
        init_from: Weights of another run to start from (file, run folder or name), in place of
            the encoder's `frame_weights`; None for none. See `encoders.load.build_started`.
        finetune: Which parts of the backbone are trained.
        prepare: How tracklets and crops are prepared for training; evaluation differs only in the
            stride.
        evaluation_stride: Boxes from one crop to the next outside training; None for the stride of
            the training.
        fragment_length: Crops L in a fragment.
        bags: How batches are sampled.
        loss: The loss.
        augment: Augmentation of views in training.
        raw_training: Feed pixels in [0, 1] without normalisation in training and validation, but
            normalised pixels whenever the encoder is used later, as NTSSL's commands do.
        optim: Optimiser, learning rate and number of epochs.
        validation: Held-out procedures and the selection of the checkpoint.
        part: Part of the data set's splits to train on.
        seed: Seeds initial weights, bags, order and dropout.
    """

    __repr__ = short_repr

    name: str
    encoder: AnyEncoderConfig = field(default_factory=EncoderConfig)
    init_from: Path | None = None
    finetune: FineTune = field(default_factory=FineTune)
    prepare: PrepareSettings = field(default_factory=PrepareSettings)
    evaluation_stride: Annotated[int | None, AT_LEAST_ONE] = None
    fragment_length: Annotated[int, AT_LEAST_ONE] = 8
    bags: AnyBags = field(default_factory=TemporalBags)
    loss: AnyLoss = field(default_factory=NoiseAwareLoss)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    raw_training: bool = False
    optim: OptimConfig = field(default_factory=OptimConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    part: str = "train"
    seed: Annotated[int, NOT_NEGATIVE] = 42

    @property
    def files(self) -> dict[str, str]:
        """Name of each file of the user's with encoder, bags or loss -> key of its content."""
        return keys_of_files(self.encoder, self.bags, self.loss)

    @property
    def prepare_evaluation(self) -> PrepareSettings:
        """How tracklets and crops are prepared for the trained encoder; stored with its weights."""
        return replace(self.prepare, stride=self.evaluation_stride or self.prepare.stride)
