"""Supervised training on true polyps: supervised, temporally-aware and intra-inter losses.

On NTSSL's encoder, and on EndoFM fine-tuned as in the thesis (Bongiovanni, University of Padova
2025, 5.3).
"""

from dataclasses import replace
from pathlib import Path

from polyplink.encoders.config import FoundationConfig
from polyplink.learn.polyp_views import PolypViews
from polyplink.learn.soft_targets import IntraInterLoss, SupervisedLoss, TemporallyAwareLoss
from polyplink.learn.train_config import AnyLoss, OptimConfig, TrainConfig, ValidationConfig
from polyplink.recipes.earlier import counting_encoder
from polyplink.tracklets.settings import PrepareSettings

BATCH = 56  # views in a batch (arXiv 2507.02493, 3.2)


def temporally_aware_views(views: int) -> TrainConfig:
    """Temporally-aware counting with a number of views per polyp in a batch of 56.

    Table 2 of arXiv 2507.02493, FR and FPR: 2 x 28 2.57 and 0.0276, 4 x 14 3.97 and 0.0417,
    7 x 8 2.36 and 0.0325, 14 x 4 2.32 and 0.0225, 28 x 2 4.54 and 0.0317. The paper writes 3
    polyps for 14 views; its batch of 56 makes it 4.
    """
    polyps = BATCH // views
    return TrainConfig(
        name=f"temporally-aware-{views}x{polyps}",
        encoder=counting_encoder(),
        bags=PolypViews(views=views),
        loss=TemporallyAwareLoss(),
        optim=OptimConfig(bags_per_batch=polyps, precision="tf32"),
        validation=ValidationConfig(bags_per_batch=8),  # 16 views, 2 of each polyp
        part="rc27",
    )


def temporally_aware() -> TrainConfig:
    """Temporally-aware counting: arXiv 2507.02493, table 1, row "Ours"; NTSSL table 1, row "TA".

    Published: FR 2.32, FPR 0.0225 (trained on four public sets); mAP 57.52, HR@1 84.24, AUROC
    94.33, AUPR 43.81 (trained on REAL-Colon). Ours: not run; the images, and the ImageNet
    weights of the backbone, are needed first.

    Temperature 0.25, lambda 1, 14 views of 4 polyps, fragments of 8 crops. AdamW at 1e-5 for 50
    epochs, as in the program. Inputs are normalised here, but not in the program.

    Command: polyplink train temporally-aware DATA --out RUN --set encoder.frame_weights=FILE
    """
    return replace(temporally_aware_views(14), name="temporally-aware")


def temporally_aware_2x28() -> TrainConfig:
    """With 2 views of 28 polyps: table 2, FR 2.57, FPR 0.0276. Equals supervised training.

    Command: polyplink train temporally-aware-2x28 DATA --out RUN
    """
    return temporally_aware_views(2)


def temporally_aware_4x14() -> TrainConfig:
    """With 4 views of 14 polyps: table 2, FR 3.97, FPR 0.0417.

    Command: polyplink train temporally-aware-4x14 DATA --out RUN
    """
    return temporally_aware_views(4)


def temporally_aware_7x8() -> TrainConfig:
    """With 7 views of 8 polyps: table 2, FR 2.36, FPR 0.0325.

    Command: polyplink train temporally-aware-7x8 DATA --out RUN
    """
    return temporally_aware_views(7)


def temporally_aware_28x2() -> TrainConfig:
    """With 28 views of 2 polyps: table 2, FR 4.54, FPR 0.0317.

    Command: polyplink train temporally-aware-28x2 DATA --out RUN
    """
    return temporally_aware_views(28)


def supervised() -> TrainConfig:
    """Supervised contrastive: arXiv 2507.02493, table 3, row 2; NTSSL table 1, row "Sup".

    Published: FR 3.96, FPR 0.0252; mAP 54.72, HR@1 81.93, AUROC 93.85, AUPR 41.58. Ours: not
    run, as for `temporally_aware`.

    Command: polyplink train supervised DATA --out RUN --set encoder.frame_weights=FILE
    """
    return replace(temporally_aware(), name="supervised", loss=SupervisedLoss())


def intra_inter() -> TrainConfig:
    """The thesis's intra-inter loss (eq. 5.10) on the encoder of temporally-aware counting.

    No published row: the thesis trains EndoFM with it (see `endofm_intra_inter`).

    Command: polyplink train intra-inter DATA --out RUN --set encoder.frame_weights=FILE
    """
    return replace(temporally_aware(), name="intra-inter", loss=IntraInterLoss())


ENDOFM_BATCH = 8  # views in a batch: limited by the memory of the thesis's GPU


def endofm_with(name: str, loss: AnyLoss) -> TrainConfig:
    """EndoFM fine-tuned with a loss.

    Batches of 8 views, 4 of each polyp (2: `--set bags.views=2 --set optim.bags_per_batch=4`);
    fragments of 8 whole frames at stride 4, resized to 224 pixels, because the thesis crops only in
    evaluation (`--set prepare.crop_factor=5` trains on crops); 50 epochs of AdamW at 1e-5, weight
    decay 1e-4; temperature 0.25. The weights must have been added with `polyplink weights add`.
    """
    return TrainConfig(
        name=name,
        encoder=FoundationConfig(model="endofm", frame_weights=Path("endofm")),
        prepare=PrepareSettings(crop_factor=None, size=224),
        bags=PolypViews(views=4),
        loss=loss,
        optim=OptimConfig(bags_per_batch=ENDOFM_BATCH // 4, precision="tf32"),
        validation=ValidationConfig(bags_per_batch=8),  # 16 views, 2 of each polyp
        part="rc27",
    )


def endofm_supervised() -> TrainConfig:
    """Thesis, tables 5.12 to 5.14, row "Supervised", evaluated on crops of 5 boxes.

    Published: mAP 0.499, HR@1 0.847, AUROC 0.904, AUPR 0.362; temporal AP FR 1.920, FPR 0.031.
    Ours: not run; EndoFM's weights and the images are needed first.

    Command: polyplink train endofm-supervised DATA --out RUN
    """
    return endofm_with("endofm-supervised", SupervisedLoss())


def endofm_temporally_aware() -> TrainConfig:
    """Thesis, tables 5.12 to 5.14, row "Temporally-aware", evaluated on crops of 5 boxes.

    Published: mAP 0.523, HR@1 0.874, AUROC 0.903, AUPR 0.404; temporal AP FR 2.047, FPR 0.027.
    Ours: not run, as above.

    Command: polyplink train endofm-temporally-aware DATA --out RUN
    """
    return endofm_with("endofm-temporally-aware", TemporallyAwareLoss())


def endofm_intra_inter() -> TrainConfig:
    """Thesis, tables 5.12 to 5.14, row "Intra-inter", evaluated on crops of 5 boxes.

    Published: mAP 0.524, HR@1 0.875, AUROC 0.889, AUPR 0.382; temporal AP FR 2.065, FPR 0.030.
    Ours: not run, as above.

    Command: polyplink train endofm-intra-inter DATA --out RUN
    """
    return endofm_with("endofm-intra-inter", IntraInterLoss())


SUPERVISED = (
    supervised,
    temporally_aware,
    temporally_aware_2x28,
    temporally_aware_4x14,
    temporally_aware_7x8,
    temporally_aware_28x2,
    intra_inter,
    endofm_supervised,
    endofm_temporally_aware,
    endofm_intra_inter,
)
