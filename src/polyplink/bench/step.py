"""A step of `polyplink train ntssl` with its loader, against the same fed a constant tensor."""

import itertools
import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from polyplink.bench.crops import made_prepared
from polyplink.bench.harness import BenchResult, against, best_of, growth
from polyplink.encoders import EncoderConfig, pick_device
from polyplink.learn import TrainConfig
from polyplink.learn.bags import Batch, batches, rng_of
from polyplink.learn.fragment_set import FragmentSet
from polyplink.learn.model import Model
from polyplink.recipes.ntssl import ntssl, ntssl_demo
from polyplink.tracklets import Prepared

BAGS = 12
EPOCHS, FRAGMENTS = 50, 7_000  # of the paper's training on 27 procedures; each anchors a bag
PROFILED = 3  # steps under the profiler
CLOSE = {"cuda": 0.05, "cpu": 1e-4}  # of losses: bf16 against float32, and float32 against itself


def recipe(device: torch.device) -> TrainConfig:
    """The paper's recipe from random weights on a GPU; on a CPU its small sibling at 32 pixels."""
    if device.type == "cuda":
        return replace(ntssl(), encoder=EncoderConfig())
    demo = ntssl_demo()
    return replace(demo, prepare=replace(demo.prepare, size=32), fragment_length=8)


class Fed(FragmentSet):
    """A fragment set whose pixels lie ready: the same tensor whatever is asked for."""

    def __init__(self, data: FragmentSet, crops: torch.Tensor) -> None:
        self.__dict__.update(vars(data))
        self._ready = crops  # m*s h w 3

    def pixels(self, clips: object) -> torch.Tensor:
        """The tensor."""
        return self._ready


class Stepper:
    """The training loop's own model, fragments and bags, a step at a time.

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

    def ready(self, batch: Batch) -> Fed:
        """The fragments with the crops of one batch gathered beforehand, one by one."""
        rows = self.drawn.clips[batch.fragments].reshape(-1)
        return Fed(
            self.data, torch.cat([self.data.pixels(rows[i : i + 1]) for i in range(len(rows))])
        )

    def step(self, data: FragmentSet | None = None) -> None:
        """Crops, augmentation, forward, loss, backward, AdamW, and the wait for all of it.

        With `data` given, the first batch, its crops read from there.
        """
        self.model.mode(training=True)
        batch = next(self._next) if data is None else self.batches[0]
        self.model.learn(data or self.data, self.drawn, [batch], self._generator)
        if self.data.device.type == "cuda":
            torch.cuda.synchronize(self.data.device)

    def loss(self, data: FragmentSet, *, exact: bool) -> float:
        """The loss of the first batch without dropout and augmentation; `exact` in float32."""
        self.model.mode(training=False)
        self.model.exact = exact
        with torch.no_grad():
            found = self.model.config.loss(self.model.views(data, self.drawn, self.batches[0]))
        self.model.exact = False
        return float(found)

    def gap(self) -> float:
        """How far the loss of the fast path is from the plain one's, as a share of it."""
        expected = self.loss(self.ready(self.batches[0]), exact=True)
        return abs(self.loss(self.data, exact=False) - expected) / abs(expected)


@contextmanager
def steppers(device: torch.device) -> Iterator[Callable[[int], Stepper]]:
    """Steppers on a device by bags of a step, on crops that are made once."""
    config = recipe(device)
    with tempfile.TemporaryDirectory(prefix="polyplink-bench-") as folder:
        prepared = made_prepared(Path(folder), config.prepare)
        yield lambda bags: Stepper(config, prepared, device, bags)


def profile(size: int, device: torch.device) -> str:
    """Where the time of a few steps goes: torch's table by operation, the dearest first."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with steppers(device) as made:
        stepper = made(size)
        stepper.step()  # allocates and chooses kernels
        with torch.profiler.profile(activities=activities) as profiler:
            for _ in range(PROFILED):
                stepper.step()
    key = f"self_{device.type}_time_total"
    return str(profiler.key_averages().table(sort_by=key, row_limit=30))


def _call(stepper: Stepper, *, constant: bool) -> Callable[[], None]:
    data = stepper.ready(stepper.batches[0]) if constant else None
    stepper.step(data)  # the first one allocates and chooses kernels
    return lambda: stepper.step(data)


def _measured(size: int, device: torch.device, made: Callable[[int], Stepper]) -> BenchResult:
    stepper = made(size)
    cuda = device.type == "cuda"
    equal = stepper.gap() <= CLOSE[device.type]
    repeats = 10 if cuda else 3
    rival_s = best_of(_call(stepper, constant=True), repeats)
    if cuda:
        torch.cuda.reset_peak_memory_stats(device)
    ours_s = best_of(_call(stepper, constant=False), repeats)
    frames = len(stepper.batches[0].fragments) * stepper.drawn.clips.shape[1]
    steps = EPOCHS * math.ceil(FRAGMENTS / size)
    model = "the paper's model" if cuda else "a small model"
    return against(
        "step",
        f"the same step of {model} on {device.type} fed a constant tensor",
        size,
        ours_s=ours_s,
        rival_s=rival_s,
        exponent=growth(lambda n: _call(made(max(n, 2)), constant=False), size, 2),
        equal=equal,
        rate=frames / ours_s,
        peak_mb=torch.cuda.max_memory_allocated(device) / 1e6 if cuda else None,
        also={f"seconds of {steps} steps ({EPOCHS} epochs of {FRAGMENTS} bags)": steps * ours_s},
    )


def run_on(size: int, device: torch.device) -> BenchResult:
    """Measure a step of `polyplink train ntssl` on a device; size is bags, at least 8.

    The loop's own objects: bags of 5 fragments of 8 frames, crops on the device, augmentation,
    encoder, loss and AdamW. On a GPU the paper's recipe (ResNet-50, three transformer layers,
    232 pixels, bf16); its peak memory and frames a second are told. On a CPU `ntssl-demo` at 32
    pixels, in float32: a small model, so that the command works. The ratio says how much of the
    speed is left with the loader in the step: 1 is all. `equal` compares the loss with that of a
    float32 pass over crops gathered one by one. The time of a whole training is extrapolated.
    """
    with steppers(device) as made:
        return _measured(size, device, made)


def run(size: int = BAGS) -> BenchResult:
    """Measure a step of `polyplink train ntssl`, on a GPU where there is one: see `run_on`."""
    return run_on(size, pick_device())
