"""Embedding tracklets on a CPU with exported encoders, against one at a time in float32."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from polyplink.bench.harness import BenchResult, against, best_of, growth
from polyplink.encoders import Embedder, EncoderConfig, NetworkEmbedder, TrackletEncoder
from polyplink.encoders.export import ExportedEmbedder, export_frames, quantise
from polyplink.evaluate import Samples, retrieve

TRACKLETS = 16
LENGTH = 4  # crops of a tracklet
SIDE = 232
CALIBRATION = 16  # crops that scale the activations
BRANCH = 0.3  # of a residual branch, beside the 1 that passes it by
POINTS = 0.005  # of mAP that an export may differ


@dataclass(frozen=True)
class Work:
    """Crops (n s, h, w, 3) of n tracklets of one length, and whose they are."""

    crops: np.ndarray
    lengths: list[int]
    samples: Samples


def synthetic_work(tracklets: int, side: int) -> Work:
    """Tracklets of two views per polyp: smooth pictures of their own with noise on every frame."""
    rng = np.random.default_rng(0)
    polyps = (tracklets + 1) // 2
    small = torch.from_numpy(rng.uniform(0, 255, (polyps, 3, 4, 4)).astype(np.float32))
    pictures = torch.nn.functional.interpolate(small, (side, side), mode="bicubic")
    owner = np.arange(tracklets * LENGTH) // LENGTH // 2
    frames = pictures[torch.from_numpy(owner)].permute(0, 2, 3, 1).numpy()
    noisy = frames + rng.normal(0, 20, frames.shape)
    names = [f"p{k // 2}" for k in range(tracklets)]
    ids = [f"t{k}" for k in range(tracklets)]
    samples = Samples.of(ids, names, names, np.zeros(tracklets))
    crops = np.clip(noisy, 0, 255).astype(np.uint8)
    return Work(crops, [LENGTH] * tracklets, samples)


def waken(encoder: TrackletEncoder) -> TrackletEncoder:
    """Give residual branches weight: fresh ones add nothing, and trained ones do.

    Without it 8 bits in them could not change a vector.
    """
    for module in encoder.modules():
        if isinstance(module, torch.nn.BatchNorm2d) and not module.weight.any():
            torch.nn.init.constant_(module.weight, BRANCH)
    return encoder


def eager(encoder: TrackletEncoder, work: Work) -> np.ndarray:
    """The rival: one tracklet at a time, float32."""
    embedder, step = NetworkEmbedder(encoder), LENGTH
    return np.concatenate(
        [embedder(work.crops[k * step : (k + 1) * step], [step]) for k in range(len(work.lengths))]
    )


def exported(encoder: TrackletEncoder, work: Work, side: int, folder: Path) -> ExportedEmbedder:
    """Ours: the frames by an 8-bit export, calibrated on the first crops."""
    plain = export_frames(encoder, folder / "encoder.onnx", side)
    narrow = quantise(plain, folder / "encoder-int8.onnx", work.crops[:CALIBRATION])
    return ExportedEmbedder(encoder, narrow)


def _call(embedder: Embedder, side: int) -> Callable[[int], Callable[[], object]]:
    def prepare(tracklets: int) -> Callable[[], object]:
        work = synthetic_work(tracklets, side)
        return lambda: embedder(work.crops, work.lengths)

    return prepare


def measure(size: int, config: EncoderConfig, side: int) -> BenchResult:
    """As `run`, with any encoder and crops of any side."""
    torch.manual_seed(0)
    encoder = waken(TrackletEncoder(config).eval())
    work = synthetic_work(size, side)
    with tempfile.TemporaryDirectory(prefix="polyplink-bench-") as folder:
        ours = exported(encoder, work, side, Path(folder))
        vectors = ours(work.crops, work.lengths)
        theirs: list[np.ndarray] = []
        rival_s = best_of(lambda: theirs.append(eager(encoder, work)), 2)
        found = [retrieve(each, work.samples).mean_ap for each in (vectors, theirs[0])]
        apart = np.diff(np.array(found, dtype=np.float64))[0]  # NaN where there is no mAP
        return against(
            "embed",
            "torch, one tracklet at a time, float32",
            size,
            ours_s=best_of(lambda: ours(work.crops, work.lengths), 3),
            rival_s=rival_s,
            exponent=growth(_call(ours, side), size, 1),
            equal=bool(abs(apart) <= POINTS),
            rate=None,
        )


def run(size: int = TRACKLETS) -> BenchResult:
    """Measure embedding by an 8-bit export of ResNet-50 at 232 pixels; size is tracklets.

    Tracklets of 4 crops, at least 8 of them; the weights are random, as none are shipped. `equal`
    is retrieval mAP within half a point of the rival's.
    """
    return measure(size, EncoderConfig(), SIDE)
