"""EndoFM fine-tuned whole, as in the thesis (Bongiovanni, University of Padova 2025, 5.3)."""

from pathlib import Path

from polyplink.encoders import FoundationConfig
from polyplink.learn import (
    AnyLoss,
    IntraInterLoss,
    OptimConfig,
    PolypViews,
    SupervisedLoss,
    TemporallyAwareLoss,
    TrainConfig,
)
from polyplink.recipes.supervised import polyps_in
from polyplink.tracklets import PrepareSettings

BATCH = 8  # views in a batch: what the thesis's GPU held


def endofm_with(name: str, loss: AnyLoss, views: int = 4) -> TrainConfig:
    """EndoFM fine-tuned with a loss.

    Batches of 8 views, 2 or 4 of each polyp; 8 frames at stride 4, 224 pixels; 50 epochs of
    AdamW at 1e-5, weight decay 1e-4; temperature 0.25. The reported models have 4 views. The
    checkpoint is that of `polyplink weights add` (docs/how-to/encoders.md).

    Args:
        name: The recipe's name.
        loss: The loss.
        views: Of each polyp: 2 or 4.

    Raises:
        PolyplinkError: If the views do not divide 8.
    """
    return TrainConfig(
        name=name,
        encoder=FoundationConfig(model="endofm", frame_weights=Path("endofm")),
        prepare=PrepareSettings(size=224),
        bags=PolypViews(views=views),
        loss=loss,
        optim=OptimConfig(bags_per_batch=polyps_in(BATCH, views)),
    )


def endofm_supervised() -> TrainConfig:
    """Thesis, tables 5.12 to 5.14, row "Supervised", crops of 5 boxes.

    Published: mAP 0.499, HR@1 0.847, AUROC 0.904, AUPR 0.362; temporal AP FR 1.920, FPR 0.031.
    Ours: not run; EndoFM's weights and the images are needed first.

    Command: polyplink train endofm-supervised DATA --out RUN
    """
    return endofm_with("endofm-supervised", SupervisedLoss())


def endofm_temporally_aware() -> TrainConfig:
    """Thesis, tables 5.12 to 5.14, row "Temporally-aware", crops of 5 boxes.

    Published: mAP 0.523, HR@1 0.874, AUROC 0.903, AUPR 0.404; temporal AP FR 2.047, FPR 0.027.
    Ours: not run, as above.

    Command: polyplink train endofm-temporally-aware DATA --out RUN
    """
    return endofm_with("endofm-temporally-aware", TemporallyAwareLoss())


def endofm_intra_inter() -> TrainConfig:
    """Thesis, tables 5.12 to 5.14, row "Intra-inter", crops of 5 boxes.

    Published: mAP 0.524, HR@1 0.875, AUROC 0.889, AUPR 0.382; temporal AP FR 2.065, FPR 0.030.
    Ours: not run, as above.

    Command: polyplink train endofm-intra-inter DATA --out RUN
    """
    return endofm_with("endofm-intra-inter", IntraInterLoss())
