"""Learning: bags and batches, losses, curricula, the training loop."""

from polyplink.learn.bags import Bags, nearest_bags, purity, sampled_bags
from polyplink.learn.config import (
    BagConfig,
    OptimConfig,
    TrainConfig,
    ValidationConfig,
)
from polyplink.learn.curriculum import cosine_tau
from polyplink.learn.intra_inter import intra_inter
from polyplink.learn.loop import Fitted, fit
from polyplink.learn.noise_aware import (
    LossConfig,
    anchored_noise_aware,
    multi_level_loss,
    symmetric_noise_aware,
)
from polyplink.learn.nt_xent import nt_xent
from polyplink.learn.soft_targets import soft_target_loss
from polyplink.learn.supervised import supervised
from polyplink.learn.temporally_aware import temporally_aware

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
    "intra_inter",
    "multi_level_loss",
    "nearest_bags",
    "nt_xent",
    "purity",
    "sampled_bags",
    "soft_target_loss",
    "supervised",
    "symmetric_noise_aware",
    "temporally_aware",
]
