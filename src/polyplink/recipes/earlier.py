"""The earlier methods: SFE and MVE (Intrator et al. 2023), TPC (Parolari et al. 2025)."""

from dataclasses import replace
from pathlib import Path

from polyplink.encoders import EncoderConfig, SfeConfig
from polyplink.learn import (
    AugmentConfig,
    FramePairs,
    NtXentLoss,
    OptimConfig,
    PolypParts,
    TrackletParts,
    TrainConfig,
    ValidationConfig,
)
from polyplink.tracklets import PrepareSettings

WEIGHTS = Path("resnet50.tv2_in1k.safetensors")
PAIRS = 56


def counting_encoder() -> EncoderConfig:
    """NTSSL's encoder at the width of its predecessors: 128, feed-forward 2048 (25.6 M)."""
    return EncoderConfig(frame_weights=WEIGHTS, width=128, feedforward=2048, projector_hidden=128)


def simclr_augmentations() -> AugmentConfig:
    """Flips, affine and colour jitter: the papers name the kinds, their program the strengths."""
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

    The rate rises during a tenth of the training. 1e-3, which is scaled, is ours.
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

    Two frames of a tracklet are a pair, at a Gaussian distance of 30 frames; crops of every frame
    in training, of one in four in evaluation, as of all methods of the comparison. What the
    papers leave open (rate, batch, strengths of the augmentations) is chosen here. The
    predecessor crops the exact box: `--set prepare.crop_factor=1`; its vector is what the head
    projected: `--set encoder.vector=projected`. NTSSL's table counts the head (28.0 M parameters;
    23.5 M without). The checkpoint is selected on bags, so that no label is used.

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
    """SFE with the second frame sampled uniformly from a window of 30 frames to either side.

    No published row.

    Command: polyplink train sfe-uniform DATA --out RUN --set encoder.frame_weights=FILE
    """
    return replace(sfe(), name="sfe-uniform", bags=FramePairs(distance="uniform"))


def mve() -> TrainConfig:
    """The multi-view encoder: NTSSL table 1, row "MVE".

    Published: mAP 42.05, HR@1 81.25, HR@5 94.16, AUROC 79.73, AUPR 27.47; counting FR 8.42, FPR
    0.0449 (arXiv 2507.02493, table 1). Ours: not run, as for `sfe`.

    Two parts of a tracklet without a frame in common are a pair: 8 frames each at a stride of 1
    to 4, longer strides more probable. The encoder is NTSSL's re-implementation (25.6 M, as
    printed), whose transformer reads features of the backbone; in the predecessor's own
    (`--set encoder.kind=mve`, 29.8 M) it reads what the head of the SFE projected. Adam at a
    constant 1e-4, the program's default: the rate that was used is not recorded. The papers
    start from a trained SFE, with `encoder.kind=mve` from its head too (train it with
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
    0.0249 (arXiv 2507.02493, table 1), FR 6.30 at FPR < 5 % in its own paper. Ours: not run, as
    for `sfe`.

    MVE with a curriculum: a pair comes from one tracklet with probability alpha, else from two
    of its polyp; alpha decreases linearly from 1 to 0. It needs polyp ids. The checkpoint has the
    lowest loss on pairs, half of them from one tracklet, as in the program.

    Command: polyplink train tpc DATA --out RUN --init-from SFE_RUN
    """
    return replace(mve(), name="tpc", bags=PolypParts())


EARLIER = (sfe, sfe_uniform, mve, tpc)
