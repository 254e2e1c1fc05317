"""Learning: bags and batches, losses, curricula, the training loop."""

from polyplink.learn.augment import AugmentConfig, augment
from polyplink.learn.bags import Bags, nearest_bags, purity, sampled_bags
from polyplink.learn.config import OptimConfig, TrainConfig, ValidationConfig
from polyplink.learn.curriculum import cosine_tau
from polyplink.learn.drawn import BagSampler, Drawn
from polyplink.learn.frame_pairs import FramePairs
from polyplink.learn.intra_inter import IntraInterLoss, intra_inter
from polyplink.learn.loop import Fitted, fit
from polyplink.learn.losses import AnyLoss
from polyplink.learn.masked import cosine_logits, masked_logsumexp, mean_over
from polyplink.learn.noise_aware import (
    NoiseAwareLoss,
    anchored_noise_aware,
    multi_level_loss,
    symmetric_noise_aware,
)
from polyplink.learn.nt_xent import NtXentLoss, nt_xent
from polyplink.learn.polyp_parts import PolypParts
from polyplink.learn.polyp_views import PolypViews
from polyplink.learn.sampling import AnyBags
from polyplink.learn.schedule import one_cycle
from polyplink.learn.soft_targets import soft_target_loss
from polyplink.learn.supervised import SupervisedLoss, supervised
from polyplink.learn.temporal_bags import TemporalBags
from polyplink.learn.temporally_aware import TemporallyAwareLoss, temporally_aware
from polyplink.learn.tracklet_parts import TrackletParts
from polyplink.learn.views import Views

__all__ = [
    "AnyBags",
    "AnyLoss",
    "AugmentConfig",
    "BagSampler",
    "Bags",
    "Drawn",
    "Fitted",
    "FramePairs",
    "IntraInterLoss",
    "NoiseAwareLoss",
    "NtXentLoss",
    "OptimConfig",
    "PolypParts",
    "PolypViews",
    "SupervisedLoss",
    "TemporalBags",
    "TemporallyAwareLoss",
    "TrackletParts",
    "TrainConfig",
    "ValidationConfig",
    "Views",
    "anchored_noise_aware",
    "augment",
    "cosine_logits",
    "cosine_tau",
    "fit",
    "intra_inter",
    "masked_logsumexp",
    "mean_over",
    "multi_level_loss",
    "nearest_bags",
    "nt_xent",
    "one_cycle",
    "purity",
    "sampled_bags",
    "soft_target_loss",
    "supervised",
    "symmetric_noise_aware",
    "temporally_aware",
]
