"""A training step of NTSSL with its loader, against the same step fed from a constant tensor."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from polyplink.bench.harness import BenchResult, against, best_of, growth
from polyplink.encoders import EncoderConfig, Projector, TrackletEncoder, place, precision
from polyplink.learn.bags import sampled_bags
from polyplink.learn.noise_aware import symmetric_noise_aware

MEMBERS = 5  # of a bag: the anchor and four more
LENGTH = 8  # frames of a fragment
TEMPERATURE = 0.07
FRAGMENTS = 240  # of the resident set
CLOSE = {"cuda": 0.05, "cpu": 1e-4}  # of losses: bf16 against float32, and float32 against itself


@dataclass(frozen=True)
class Scale:
    """How large a step is.

    Attributes:
        side: Width and height of a crop, pixels.
        encoder: The tracklet encoder.
    """

    side: int
    encoder: EncoderConfig


BAGS = 12
PAPER = Scale(232, EncoderConfig())
SMALL = Scale(
    32,
    EncoderConfig(frame_encoder="timm:test_resnet", width=64, layers=1, heads=4, feedforward=128),
)


class Stepper:
    """A model, crops that lie on its device, and the step that reads them.

    Attributes:
        crops: All crops (fragments s, side, side, 3), uint8, on the device.
    """

    def __init__(self, scale: Scale, device: torch.device) -> None:
        torch.manual_seed(0)
        self.device = device
        config = dataclasses.replace(scale.encoder, dropout=0.0)  # so that losses can be compared
        self.encoder = place(TrackletEncoder(config), device)
        self.projector = place(Projector(config), device)
        self.parameters = [*self.encoder.parameters(), *self.projector.parameters()]
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=1e-5, weight_decay=1e-4, fused=device.type == "cuda"
        )
        shape = (FRAGMENTS * LENGTH, scale.side, scale.side, 3)
        self.crops = torch.randint(0, 256, shape, dtype=torch.uint8, device=device)
        self._rng = np.random.default_rng(0)

    def draw(self, bags: int) -> np.ndarray:
        """Rows of the crops of some bags of 5 fragments, as an epoch draws them (n s,)."""
        procedures = np.arange(FRAGMENTS) % 8
        positions = self._rng.random(FRAGMENTS)
        drawn = sampled_bags(procedures, positions, MEMBERS - 1, 6.0, self._rng)
        fragments = drawn.members[:bags].reshape(-1)  # n
        return (fragments[:, None] * LENGTH + np.arange(LENGTH)).reshape(-1)

    def load(self, rows: np.ndarray) -> torch.Tensor:
        """The crops of a batch (n s, h, w, 3), an index into those on the device."""
        return self.crops[torch.from_numpy(rows).to(self.device, non_blocking=True)]

    def loss(self, frames: torch.Tensor, *, plain: bool = False) -> torch.Tensor:
        """Both levels of the loss; `plain` computes all of it in float32."""
        fragments = len(frames) // LENGTH
        bag = torch.arange(fragments // MEMBERS, device=self.device).repeat_interleave(MEMBERS)
        with precision(torch.device("cpu") if plain else self.device):
            tokens = self.encoder(frames, [LENGTH] * fragments)
            tracklets = self.projector(tokens.tracklet)  # n d
            each = self.projector(tokens.frames)  # n s d
        return symmetric_noise_aware(tracklets, bag, TEMPERATURE) + symmetric_noise_aware(
            each, bag.repeat_interleave(LENGTH), TEMPERATURE
        )

    def step(self, frames: torch.Tensor) -> None:
        """Forward, backward, AdamW."""
        loss = self.loss(frames)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    def wait(self) -> None:
        """Until the device has done all it was given."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def gap(stepper: Stepper, bags: int) -> float:
    """How far the loss of the fast path is from the plain one's, as a share of it."""
    rows = stepper.draw(bags)
    plain = torch.stack([stepper.crops[int(row)] for row in rows])
    with torch.no_grad():
        expected = float(stepper.loss(plain, plain=True))
        found = float(stepper.loss(stepper.load(rows)))
    return abs(found - expected) / abs(expected)


def _call(stepper: Stepper, bags: int, constant: bool) -> Callable[[], None]:
    frames = stepper.load(stepper.draw(bags))

    def call() -> None:
        stepper.step(frames if constant else stepper.load(stepper.draw(bags)))
        stepper.wait()

    call()  # the first one allocates and chooses kernels
    return call


def run(size: int = BAGS) -> BenchResult:
    """Measure a training step; size is bags of 5 fragments of 8 frames, at least 8.

    On a GPU as in the paper: 12 bags, ResNet-50 and three transformer layers at 232 pixels, in
    bf16 with the crops on the device; its peak memory and frames a second are told. On a CPU
    small, so that the command works. The ratio says how much of the speed is left with the
    loader in the step: 1 is all. `equal` compares the loss with that of a plain float32 pass over
    crops gathered one by one.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    scale = PAPER if device.type == "cuda" else SMALL
    stepper = Stepper(scale, device)
    equal = gap(stepper, size) <= CLOSE[device.type]
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    repeats = 10 if device.type == "cuda" else 3
    rival_s = best_of(_call(stepper, size, constant=True), repeats)
    ours_s = best_of(_call(stepper, size, constant=False), repeats)
    peak = torch.cuda.max_memory_allocated(device) / 1e6 if device.type == "cuda" else None
    return against(
        "step",
        f"the same step on {device.type} fed from a constant tensor",
        size,
        ours_s=ours_s,
        rival_s=rival_s,
        exponent=growth(lambda n: _call(stepper, n, constant=False), size, 2),
        equal=equal,
        rate=size * MEMBERS * LENGTH / ours_s,
        peak_mb=peak,
    )
