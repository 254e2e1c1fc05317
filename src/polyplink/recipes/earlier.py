"""The earlier methods: SFE and MVE (Intrator et al. 2023), TPC (Parolari et al. 2025)."""

from dataclasses import replace
from pathlib import Path

from polyplink.encoders.config import EncoderConfig, SfeConfig
from polyplink.learn.augment import AugmentConfig
from polyplink.learn.pairs import FramePairs, PolypParts, TrackletParts
from polyplink.learn.soft_targets import NtXentLoss
from polyplink.learn.train_config import OptimConfig, TrainConfig, ValidationConfig
from polyplink.tracklets.settings import PrepareSettings

WEIGHTS = Path("resnet50.tv2_in1k.safetensors")
PAIRS = 56


def counting_encoder() -> EncoderConfig:
    """NTSSL's encoder at the width of its predecessors: 128, feed-forward 2048 (25.6 M)."""
    return EncoderConfig(frame_weights=WEIGHTS, width=128, feedforward=2048, projector_hidden=128)


def simclr_augmentations() -> AugmentConfig:
    """Flips, affine maps and colour jitter as in the papers, with the strengths of the program."""
    return AugmentConfig(
        flip=0.5,
        degrees=15.0,
        translate=0.1,
        scale=0.1,
        brightness=0.2,
        contrast=0.2,
        saturation=0.2,
        hue=0.1,
    )


def adam_one_cycle() -> OptimConfig:
    """Adam with a one-cycle schedule and a maximum rate scaled by pairs / 256, as in SFE's program.

    The rate rises during a tenth of the training. The unscaled rate of 1e-3 is our choice.
    """
    return OptimConfig(
        bags_per_batch=PAIRS,
        rate=1e-3 * PAIRS / 256,
        method="adam",
        schedule="one_cycle",
        warm_up=0.1,
        precision="tf32",
    )


def sfe() -> TrainConfig:
    """The single-frame encoder: NTSSL table 1, row "SFE".

    Published: mAP 51.04, HR@1 86.96, HR@5 95.52, AUROC 89.36, AUPR 46.13; counting FR 9.37, FPR
    0.0314 (arXiv 2507.02493, table 1). Ours: not run; the images, and the ImageNet weights of
    the backbone, are needed first.

    A pair is two frames of a tracklet, at a Gaussian distance with a standard deviation of 30
    frames. Training uses crops of every frame, evaluation of one in four, as for all methods of the
    comparison. Details that the papers leave open (rate, batch, strengths of the augmentations) are
    chosen here. The predecessor crops the exact box (`--set prepare.crop_factor=1`) and uses the
    output of the projection head (`--set encoder.vector=projected`). NTSSL's table includes the
    head (28.0 M parameters; 23.5 M without). The checkpoint is selected on bags, so that no label
    is used.

    Command: polyplink train sfe DATA --out RUN --set encoder.frame_weights=FILE
    """
    return TrainConfig(
        name="sfe",
        encoder=SfeConfig(frame_weights=WEIGHTS),
        prepare=PrepareSettings(stride=1),
        evaluation_stride=4,
        bags=FramePairs(),
        loss=NtXentLoss(),
        augment=simclr_augmentations(),
        optim=adam_one_cycle(),
        validation=ValidationConfig(select="bags"),
        part="rc27",
    )


def sfe_uniform() -> TrainConfig:
    """SFE with the second frame sampled uniformly from a window of 30 frames on either side.

    No published row.

    Command: polyplink train sfe-uniform DATA --out RUN --set encoder.frame_weights=FILE
    """
    return replace(sfe(), name="sfe-uniform", bags=FramePairs(distance="uniform"))


def mve() -> TrainConfig:
    """The multi-view encoder: NTSSL table 1, row "MVE".

    Published: mAP 42.05, HR@1 81.25, HR@5 94.16, AUROC 79.73, AUPR 27.47; counting FR 8.42, FPR
    0.0449 (arXiv 2507.02493, table 1). Ours: not run, as for `sfe`.

    A pair is two parts of a tracklet without a common frame: 8 frames each at a stride of 1 to 4,
    longer strides being more probable. The encoder is NTSSL's re-implementation (25.6 M parameters,
    as printed), in which the transformer reads the features of the backbone; in the predecessor's
    encoder (`--set encoder.kind=mve`, 29.8 M) it reads the output of SFE's projection head. Adam
    has a constant rate of 1e-4, the program's default: the rate that was used is not recorded. The
    papers start from a trained SFE, and with `encoder.kind=mve` also from its head (train it with
    `--set encoder.vector=projected`).

    Command: polyplink train mve DATA --out RUN --init-from SFE_RUN
    """
    return replace(
        sfe(),
        name="mve",
        encoder=counting_encoder(),
        bags=TrackletParts(),
        optim=replace(adam_one_cycle(), rate=1e-4, schedule="constant", weight_decay=0.0),
    )


def tpc() -> TrainConfig:
    """Towards polyp counting: NTSSL table 1, row "TPC".

    Published: mAP 43.25, HR@1 75.82, HR@5 91.85, AUROC 78.40, AUPR 27.58; counting FR 5.10, FPR
    0.0249 (arXiv 2507.02493, table 1), FR 6.30 at FPR < 5 % in the paper of TPC. Ours: not run, as
    for `sfe`.

    MVE with a curriculum: a pair comes from one tracklet with probability alpha, otherwise from two
    tracklets of one polyp; alpha decreases linearly from 1 to 0. It needs polyp ids. The selected
    checkpoint has the lowest loss on pairs, half of them from one tracklet, as in the program.

    Command: polyplink train tpc DATA --out RUN --init-from SFE_RUN
    """
    return replace(mve(), name="tpc", bags=PolypParts())


EARLIER = (sfe, sfe_uniform, mve, tpc)
