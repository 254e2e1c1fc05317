"""Learning: bags and batches, losses, curricula, the training loop."""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink.learn.augment import AugmentConfig, augment
    from polyplink.learn.bags import Bags, BagSampler, EpochBags, purity
    from polyplink.learn.config import AnyBags, AnyLoss, OptimConfig, TrainConfig, ValidationConfig
    from polyplink.learn.contrastive import Views, cosine_logits, masked_logsumexp, mean_over
    from polyplink.learn.loop import Fitted, fit
    from polyplink.learn.model import one_cycle
    from polyplink.learn.noise_aware import (
        NoiseAwareLoss,
        anchored_noise_aware,
        symmetric_noise_aware,
    )
    from polyplink.learn.pairs import FramePairs, PolypParts, TrackletParts
    from polyplink.learn.polyp_views import PolypViews
    from polyplink.learn.supervised import (
        IntraInterLoss,
        NtXentLoss,
        SupervisedLoss,
        TemporallyAwareLoss,
        intra_inter,
        soft_target_loss,
        supervised,
        temporally_aware,
    )
    from polyplink.learn.temporal_bags import TemporalBags, cosine_tau, nearest_bags, sampled_bags

__all__ = [
    "AnyBags",
    "AnyLoss",
    "AugmentConfig",
    "BagSampler",
    "Bags",
    "EpochBags",
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
    "nearest_bags",
    "one_cycle",
    "purity",
    "sampled_bags",
    "soft_target_loss",
    "supervised",
    "symmetric_noise_aware",
    "temporally_aware",
]

hand_on(__name__)
