"""Learning: bags and batches, losses, curricula, the training loop."""

from polyplink.learn.bags import Bags, nearest_bags, purity, sampled_bags
from polyplink.learn.config import (
    BagConfig,
    OptimConfig,
    TrainConfig,
    ValidationConfig,
)
from polyplink.learn.curriculum import cosine_tau
from polyplink.learn.loop import Fitted, fit
from polyplink.learn.noise_aware import (
    LossConfig,
    anchored_noise_aware,
    multi_level_loss,
    symmetric_noise_aware,
)

__all__ = [
    "BagConfig",
    "Bags",
    "Fitted",
    "LossConfig",
    "OptimConfig",
    "TrainConfig",
    "ValidationConfig",
    "anchored_noise_aware",
    "cosine_tau",
    "fit",
    "multi_level_loss",
    "nearest_bags",
    "purity",
    "sampled_bags",
    "symmetric_noise_aware",
]
