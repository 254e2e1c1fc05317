"""Learning: bags and batches, losses, curricula, the training loop."""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink.learn.augment import AugmentConfig as AugmentConfig, augment as augment
    from polyplink.learn.bags import (
        Bags as Bags,
        BagSampler as BagSampler,
        EpochBags as EpochBags,
        purity as purity,
    )
    from polyplink.learn.contrastive import (
        Views as Views,
        cosine_logits as cosine_logits,
        masked_logsumexp as masked_logsumexp,
        mean_over as mean_over,
    )
    from polyplink.learn.loop import Fitted as Fitted, fit as fit
    from polyplink.learn.model import one_cycle as one_cycle
    from polyplink.learn.noise_aware import (
        NoiseAwareLoss as NoiseAwareLoss,
        anchored_noise_aware as anchored_noise_aware,
        symmetric_noise_aware as symmetric_noise_aware,
    )
    from polyplink.learn.pairs import (
        FramePairs as FramePairs,
        PolypParts as PolypParts,
        TrackletParts as TrackletParts,
    )
    from polyplink.learn.polyp_views import PolypViews as PolypViews
    from polyplink.learn.soft_targets import (
        IntraInterLoss as IntraInterLoss,
        NtXentLoss as NtXentLoss,
        SupervisedLoss as SupervisedLoss,
        TemporallyAwareLoss as TemporallyAwareLoss,
        intra_inter as intra_inter,
        soft_target_loss as soft_target_loss,
        supervised as supervised,
        temporally_aware as temporally_aware,
    )
    from polyplink.learn.temporal_bags import (
        TemporalBags as TemporalBags,
        cosine_tau as cosine_tau,
        nearest_bags as nearest_bags,
        sampled_bags as sampled_bags,
    )
    from polyplink.learn.train_config import (
        AnyBags as AnyBags,
        AnyLoss as AnyLoss,
        OptimConfig as OptimConfig,
        TrainConfig as TrainConfig,
        ValidationConfig as ValidationConfig,
    )

hand_on(__name__)
