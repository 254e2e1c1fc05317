"""NTSSL: contrastive learning under noisy temporal self-supervision."""

from dataclasses import replace
from pathlib import Path

from polyplink.encoders.config import EncoderConfig
from polyplink.learn.noise_aware import NoiseAwareLoss
from polyplink.learn.temporal_bags import TemporalBags
from polyplink.learn.train_config import OptimConfig, TrainConfig, ValidationConfig
from polyplink.tracklets.settings import PrepareSettings


def ntssl() -> TrainConfig:
    """NTSSL in the paper's setting: table 1, row "Ours"; table 2, last rows.

    Published, on the 19 evaluation procedures of REAL-Colon after training on the other 27: mAP
    63.13, HR@1 90.22, HR@5 96.47, AUROC 94.17, AUPR 51.94. Ours: not run; the 945 GB of images
    and the ImageNet weights of the backbone are needed first (docs/how-to/backbone-weights.md).

    Details that the text leaves open follow the program: symmetric loss, temperature 0.07, weights
    1 and 1, weight decay 1e-4, crops of 5 times the box. Two things differ from the program: inputs
    are normalised in training as in evaluation, and every ninth training procedure is held out for
    validation, whereas the paper selected its checkpoint on ten of the evaluated procedures.

    Command: polyplink train ntssl DATA --out RUN --set encoder.frame_weights=resnet50.safetensors
    """
    return TrainConfig(
        name="ntssl",
        encoder=EncoderConfig(frame_weights=Path("resnet50.tv2_in1k.safetensors")),
        optim=OptimConfig(precision="tf32"),
        validation=ValidationConfig(loss="tracklet", bags_per_batch=3),  # 6 views
        part="rc27",
    )


def ntssl_text() -> TrainConfig:
    """NTSSL with the loss of the text, eq. 1, instead of the program's.

    No published row: the published figures were computed by the program.

    Command: polyplink train ntssl-text DATA --out RUN --set encoder.frame_weights=FILE
    """
    return replace(ntssl(), name="ntssl-text", loss=NoiseAwareLoss(form="anchored"))


def ntssl_nearest() -> TrainConfig:
    """NTSSL without sampling: table 2, top, row 1; bags hold the K nearest fragments in time.

    Published: mAP 54.92, HR@1 89.40, HR@5 97.28, AUROC 91.92, AUPR 50.53. Ours: not run.

    Command: polyplink train ntssl-nearest DATA --out RUN --set encoder.frame_weights=FILE
    """
    return replace(ntssl(), name="ntssl-nearest", bags=TemporalBags(sampling="nearest"))


def ntssl_fixed() -> TrainConfig:
    """NTSSL without a curriculum: table 2, top, row 2; the temperature of the ranks is constant.

    Published: mAP 58.83, HR@1 89.67, HR@5 96.60, AUROC 92.77, AUPR 48.23. Ours: not run. The
    paper does not state the temperature; 6.15 is the middle of the curriculum.

    Command: polyplink train ntssl-fixed DATA --out RUN --set encoder.frame_weights=FILE
    """
    return replace(ntssl(), name="ntssl-fixed", bags=TemporalBags(tau_min=6.15, tau_max=6.15))


def ntssl_frame() -> TrainConfig:
    """NTSSL with the loss on frames only: table 2, bottom, row 1.

    Published: mAP 62.15, HR@1 90.90, HR@5 97.42, AUROC 93.85, AUPR 50.84. Ours: not run.

    Command: polyplink train ntssl-frame DATA --out RUN --set encoder.frame_weights=FILE
    """
    return replace(ntssl(), name="ntssl-frame", loss=NoiseAwareLoss(tracklet=0.0))


def ntssl_tracklet() -> TrainConfig:
    """NTSSL with the loss on tracklets only: table 2, bottom, row 2.

    Published: mAP 61.49, HR@1 91.17, HR@5 97.55, AUROC 93.89, AUPR 51.78. Ours: not run.

    Command: polyplink train ntssl-tracklet DATA --out RUN --set encoder.frame_weights=FILE
    """
    return replace(ntssl(), name="ntssl-tracklet", loss=NoiseAwareLoss(frame=0.0))


def ntssl_demo() -> TrainConfig:
    """NTSSL at a size that trains on two CPU cores in minutes.

    No published row: a randomly initialised backbone of 0.4 M parameters, 48 px crops of 1.3 times
    the box, fragments of 2 crops. Bags, curriculum and loss are the paper's. The last epoch is
    used, so that no label enters the training; labels of the held-out procedures determine the
    operating point for counting. The README shows results on `polyplink simulate --preset tiny`.

    Command: polyplink train ntssl-demo DATA --out RUN
    """
    return TrainConfig(
        name="ntssl-demo",
        encoder=EncoderConfig(
            frame_encoder="timm:test_resnet", width=128, layers=1, heads=4, feedforward=256
        ),
        prepare=PrepareSettings(crop_factor=1.3, size=48),
        fragment_length=2,
        optim=OptimConfig(epochs=5, bags_per_batch=24, rate=1e-3),
        validation=ValidationConfig(every=8, select="last"),
    )


NTSSL = (ntssl, ntssl_text, ntssl_nearest, ntssl_fixed, ntssl_frame, ntssl_tracklet, ntssl_demo)
