"""Benchmarks of learning (bags, a training step, its precision) and of an exported encoder."""

import copy
import itertools
import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

from polyplink.core.artefacts import atomic_file
from polyplink.data.tables import DataSet, write_data
from polyplink.encoders.build import TrackletEncoder
from polyplink.encoders.config import EncoderConfig
from polyplink.encoders.device import pick_device
from polyplink.encoders.embed import NetworkEmbedder
from polyplink.encoders.encode import embed as embed_prepared
from polyplink.encoders.export import ExportedEncoder, export_encoder
from polyplink.encoders.weights import Seen, WeightsRecord
from polyplink.evaluate.retrieval import retrieve
from polyplink.evaluate.samples import Samples
from polyplink.learn.bags import Bags, Batch, batches, rng_of
from polyplink.learn.fragment_set import FragmentSet
from polyplink.learn.model import Model
from polyplink.learn.temporal_bags import sampled_bags
from polyplink.learn.train_config import TrainConfig
from polyplink.recipes.ntssl import ntssl, ntssl_demo
from polyplink.tracklets.prepare import Prepared, prepare
from polyplink.tracklets.settings import PrepareSettings
from polyplink_lab.bench.harness import Call, Work
from polyplink_lab.bench.pixel_cases import smooth_pictures

K, TAU = 4, 6.0  # members of a bag, and its temperature


def bags(size: int, device: torch.device, folder: Path) -> Work:
    """Drawing the bags of an epoch of `size` fragments, spread evenly over 27 procedures.

    As in the papers' program, the rival computes all distances, sorts every row, and draws by
    Gumbel top-k over all ranks. Both draws are random: `equal` is whether the fragments at the
    ranks that ours drew are the same.
    """
    procedures, positions = np.arange(size) % 27, np.random.default_rng(0).random(size)

    def rival() -> np.ndarray:
        distance = np.abs(positions[:, None] - positions[None, :])  # n n
        distance[procedures[:, None] != procedures[None, :]] = np.inf
        np.fill_diagonal(distance, np.inf)
        order = np.argsort(distance, axis=1, kind="stable")  # n n
        ranks = np.arange(1, len(positions) + 1)
        noise = np.random.default_rng(0).gumbel(size=distance.shape)
        score = np.where(np.isfinite(distance), noise - ranks[None, :] / TAU, -np.inf)
        np.argpartition(-score, K, axis=1)[:, :K]
        return order

    def equal(ours: Bags, order: np.ndarray) -> bool:
        drawn = ours.valid[:, 1:]
        expected = np.take_along_axis(order, np.where(drawn, ours.ranks, 1) - 1, axis=1)
        return bool((ours.members[:, 1:][drawn] == expected[drawn]).all())

    rng = np.random.default_rng
    return Work(lambda: sampled_bags(procedures, positions, K, TAU, rng(0)), rival, equal)


PROCEDURES, POLYPS, VIEWS = 8, 3, 10  # procedures, polyps per procedure, tracklets per polyp
LONG, PAUSE = 32, 10  # boxes of a tracklet (8 crops), frames between two tracklets


def synthetic_prepared(folder: Path, settings: PrepareSettings) -> Prepared:
    """Write 8 procedures of 30 tracklets of 8 crops each, and prepare them.

    Args:
        folder: An empty folder.
        settings: Settings with stride 4 and `min_length` 32 or less.

    Returns:
        240 tracklets of 24 polyps, all in the part "train".
    """
    names = [f"p{number}" for number in range(PROCEDURES)]
    steps = np.arange(POLYPS * VIEWS * LONG)
    view = steps // LONG
    frame = view * (LONG + PAUSE) + steps % LONG
    boxes = pl.DataFrame({"frame": frame, "x": 10.0 + steps % 5, "polyp": view // VIEWS})
    procedures = pl.DataFrame({"procedure_id": names})
    detections = procedures.join(boxes.with_columns(y=8.0, w=16.0, h=12.0), how="cross")
    detections = detections.with_columns(polyp_id=pl.format("{}_{}", "procedure_id", "polyp"))
    procedures = procedures.with_columns(
        dataset=pl.lit("bench"),
        patient=pl.col("procedure_id"),
        n_frames=POLYPS * VIEWS * (LONG + PAUSE),
        fps=25.0,
        width=48,
        height=40,
        source=pl.lit("made"),
    )
    polyps = detections.select("polyp_id", "procedure_id").unique(maintain_order=True)
    write_data(folder, DataSet.of(detections, procedures, polyps, {"train": names}))
    prepared = prepare(folder, settings, with_crops=False)
    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(POLYPS), VIEWS * LONG // settings.stride)
    for name in names:
        with atomic_file(prepared.crops_path(name)) as path, path.open("wb") as file:
            np.save(file, synthetic_crops(owner, settings.size, rng))
    return prepared


def synthetic_crops(polyp: np.ndarray, side: int, rng: np.random.Generator) -> np.ndarray:
    """Crops (n, side, side, 3) uint8 of polyps (n,), with a smooth picture for each polyp.

    The 8 crops of a tracklet share their lighting; the noise is drawn for each crop.
    """
    plain = smooth_pictures(polyp.max() + 1, side, side, rng)
    crops = np.empty((len(polyp), side, side, 3), np.uint8)
    light = np.repeat(rng.normal(0, 60, (len(polyp) // 8 + 1, 3)), 8, axis=0)
    for row, owner in enumerate(polyp):
        noisy = plain[owner] + light[row] + rng.normal(0, 20, (side, side, 1))
        crops[row] = np.clip(noisy, 0, 255).astype(np.uint8)
    return crops


EPOCHS, FRAGMENTS = 50, 7_000  # of the paper's training on 27 procedures; a bag per fragment
SAME_LOSS = {"cuda": 0.05, "cpu": 1e-4}  # tolerance: bf16 to float32, and float32 to itself


def recipe(device: torch.device) -> TrainConfig:
    """The paper's recipe with random weights on a GPU; on a CPU its small version at 32 pixels."""
    if device.type == "cuda":
        paper = ntssl()
        return replace(paper, encoder=EncoderConfig(), optim=replace(paper.optim, precision=None))
    demo = ntssl_demo()
    return replace(demo, prepare=replace(demo.prepare, size=32), fragment_length=8)


def exact(config: TrainConfig) -> TrainConfig:
    """The recipe, computed in float32."""
    return replace(config, optim=replace(config.optim, precision="float32"))


class Stepper:
    """Runs steps of the training loop with its model, fragments and bags.

    Attributes:
        model: Encoder, projector and optimiser.
        data: The fragments, with their crops on the device.
        batches: Batches of an epoch in the middle of the training.
    """

    def __init__(
        self, config: TrainConfig, prepared: Prepared, device: torch.device, bags: int
    ) -> None:
        self.model = Model(config, device)
        self.data = FragmentSet(prepared, prepared.procedures, config.fragment_length, device)
        self.drawn = config.bags.draw(self.data, 0.5, bags, rng_of(config.seed))
        self.batches = list(batches(self.drawn.bags, bags, device))
        self._next = itertools.cycle(self.batches)
        self._generator = torch.Generator().manual_seed(config.seed)

    def constant(self, batch: Batch) -> FragmentSet:
        """A copy of the fragments that always returns the crops of one batch, read in advance."""
        rows = self.drawn.clips[batch.fragments].reshape(-1)
        crops = torch.cat([self.data.pixels(rows[i : i + 1]) for i in range(len(rows))])
        data = copy.copy(self.data)
        data.pixels = lambda clips: crops  # type: ignore[method-assign]  # m*s h w 3
        return data

    def step(self, data: FragmentSet | None = None) -> None:
        """Take a step (crops, augmentation, forward, loss, backward, AdamW) and wait for it.

        With `data`, the step uses the first batch, with crops from `data`.
        """
        self.model.module.train()
        batch = next(self._next) if data is None else self.batches[0]
        self.model.learn(data or self.data, self.drawn, [batch], self._generator)
        if self.data.device.type == "cuda":
            torch.cuda.synchronize(self.data.device)

    def loss_error(self) -> float:
        """Relative difference between the loss and that of float32 on crops read one by one.

        Both are losses of the first batch, without dropout and augmentation.
        """
        self.model.module.eval()
        losses, config = [], self.model.config
        for data, variant in ((self.data, config), (self.constant(self.batches[0]), exact(config))):
            self.model.config = variant
            with torch.no_grad():
                views = self.model.views(data, self.drawn, self.batches[0])
                losses.append(float(variant.loss(views)))
        self.model.config = config
        return abs(losses[0] - losses[1]) / abs(losses[1])


def step(size: int, device: torch.device, folder: Path) -> Work:
    """A step of `polyplink train ntssl` with `size` bags, using the classes of the training loop.

    Bags have 5 fragments of 8 frames; a step reads crops on the device, augments, embeds, computes
    the loss and updates by AdamW. On a GPU it is the paper's recipe (ResNet-50, three transformer
    layers, 232 pixels, bf16); on a CPU it is `ntssl-demo` at 32 pixels in float32, only so that the
    command works. The rival's crops are already a tensor on the device: a ratio of 1 means that
    data loading takes no time. `equal` compares the loss with that of float32 on crops read one by
    one. The rate is frames per second.
    """
    config, cuda = recipe(device), device.type == "cuda"
    prepared = synthetic_prepared(folder, config.prepare)
    stepper = Stepper(config, prepared, device, size)
    error, ready = stepper.loss_error(), stepper.constant(stepper.batches[0])
    stepper.step(ready)  # the first step allocates memory and selects kernels

    def at(bags: int) -> Call:
        at_size = Stepper(config, prepared, device, max(bags, 2))
        at_size.step()
        return at_size.step

    def more(output: object, seconds: float) -> dict[str, Any]:
        steps = EPOCHS * math.ceil(FRAGMENTS / size)
        name = f"seconds of {steps} steps ({EPOCHS} epochs of {FRAGMENTS} bags)"
        peak = torch.cuda.max_memory_allocated(device) / 1e6 if cuda else None
        frames = len(stepper.batches[0].fragments) * int(stepper.drawn.clips.shape[1])
        return {"rate": frames / seconds, "peak_mb": peak, "also": {name: steps * seconds}}

    return Work(
        stepper.step,
        lambda: stepper.step(ready),
        lambda *_: error <= SAME_LOSS[device.type],
        at=at,
        more=more,
    )


def profile_step(size: int, device: str = "auto", steps: int = 3) -> str:
    """Profile of training steps: torch's table by operation, the slowest first."""
    torch_device = pick_device(device)
    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch_device.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    config = recipe(torch_device)
    with tempfile.TemporaryDirectory(prefix="polyplink-bench-") as folder:
        prepared = synthetic_prepared(Path(folder), config.prepare)
        stepper = Stepper(config, prepared, torch_device, size)
        stepper.step()  # allocates memory and selects kernels
        with torch.profiler.profile(activities=activities) as profiler:
            for _ in range(steps):
                stepper.step()
    key = f"self_{torch_device.type}_time_total"
    return str(profiler.key_averages().table(sort_by=key, row_limit=30))


SEEDS = (0, 1, 2)
T_QUANTILE = 4.303  # of Student's t with two degrees of freedom: 95 % interval of 3 differences
NEGLIGIBLE = 0.005  # of mAP


def same_mean(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    """Whether the mean difference of three pairs is negligible or its 95 % interval holds 0."""
    apart = np.subtract(ours, theirs)
    half = T_QUANTILE * apart.std(ddof=1) / math.sqrt(len(apart))
    return bool(abs(apart.mean()) <= max(half, NEGLIGIBLE))


def precision(size: int, device: torch.device, folder: Path) -> Work:
    """`size` steps of `polyplink train ntssl` in bf16 and in float32, with three seeds.

    `equal` is whether the 95 % interval of the three differences in retrieval mAP includes 0, or
    their mean is negligible. On a CPU both are float32, only so that the command works.
    """
    config = recipe(device)
    prepared = synthetic_prepared(folder, config.prepare)
    kind = "bf16" if device.type == "cuda" else "float32 again"
    figures: dict[str, float] = {}
    table = prepared.tracklets
    ids, procedures, polyps = (
        table[name].to_list() for name in ("tracklet_id", "procedure_id", "polyp_id")
    )
    samples = Samples.of(ids, procedures, polyps, np.zeros(table.height))

    def train(name: str, variant: TrainConfig) -> list[tuple[float, float]]:
        """Seconds of the steps, and mAP on the training tracklets, for each seed."""
        runs = []
        for seed in SEEDS:
            stepper = Stepper(replace(variant, seed=seed), prepared, device, 12)
            start = time.perf_counter()
            for _ in range(size):
                stepper.step()
            seconds = time.perf_counter() - start
            embedder = NetworkEmbedder(stepper.model.encoder)
            vectors = embed_prepared(prepared, embedder, "bench").vectors
            runs.append((seconds, retrieve(vectors, samples).mean_ap or 0.0))
            figures[f"mAP {name}, seed {seed}"] = runs[-1][1]
        return runs

    return Work(
        lambda: train(kind, config),
        lambda: train("float32", exact(config)),
        lambda ours, theirs: same_mean([r[1] for r in ours], [r[1] for r in theirs]),
        seconds=lambda runs: min(runs)[0],
        more=lambda output, seconds: {"also": figures},
    )


CROPS = 4  # of a tracklet
CALIBRATION = 16  # crops to calibrate the 8-bit activations of the export
BRANCH = 0.3  # weight of a residual branch, relative to its shortcut
HALF_A_POINT = 0.005  # of mAP


def embed(
    size: int,
    device: torch.device,
    folder: Path,
    config: EncoderConfig | None = None,
    side: int = 232,
) -> Work:
    """Embedding `size` tracklets of 4 crops of 232 pixels on a CPU by an 8-bit export of ResNet-50.

    The rival is torch, one tracklet at a time, in float32. Weights are random, because none are
    shipped. `equal` is whether retrieval mAP agrees within half a point.
    """
    torch.manual_seed(0)
    encoder = TrackletEncoder(config or EncoderConfig()).eval()
    for module in encoder.modules():
        # Untrained residual branches are 0, so that they would not test the precision.
        if isinstance(module, torch.nn.BatchNorm2d) and not module.weight.any():
            torch.nn.init.constant_(module.weight, BRANCH)

    def views(tracklets: int) -> np.ndarray:
        """Crops (n * 4, side, side, 3) of n tracklets, two per polyp."""
        owner = np.arange(tracklets * CROPS) // CROPS // 2
        return synthetic_crops(owner, side, np.random.default_rng(0))

    crops, polyps = views(size), [f"p{k // 2}" for k in range(size)]
    samples = Samples.of([f"t{k}" for k in range(size)], polyps, polyps, np.zeros(size))
    record = WeightsRecord(encoder.config, PrepareSettings(size=side), {}, Seen(), {})
    narrow = export_encoder(encoder, folder / "int8", record, "int8", crops[:CALIBRATION])
    exported, eager = ExportedEncoder(narrow), NetworkEmbedder(encoder)

    def at(tracklets: int) -> Call:
        batch = views(tracklets)
        return lambda: exported(batch, [CROPS] * tracklets)

    def rival() -> np.ndarray:
        tracklets = (crops[k * CROPS : (k + 1) * CROPS] for k in range(size))
        return np.concatenate([eager(tracklet, [CROPS]) for tracklet in tracklets])

    def equal(ours: np.ndarray, theirs: np.ndarray) -> bool:
        means = [retrieve(vectors, samples).mean_ap or math.nan for vectors in (ours, theirs)]
        return abs(means[0] - means[1]) <= HALF_A_POINT

    return Work(lambda: exported(crops, [CROPS] * size), rival, equal, at=at)
