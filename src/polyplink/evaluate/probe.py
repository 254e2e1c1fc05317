"""The probe of NTSSL: how much a frozen encoder tells of a polyp beyond its identity.

Source: NTSSL (arXiv 2605.12320), 3 "Datasets and Downstream Setup" and "Implementation Details";
the LayerNorm in front, the schedule and the weight decay are those of the released program.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from polyplink.core.errors import PolyplinkError

Reals = npt.NDArray[np.float32]


@dataclass(frozen=True)
class ProbeSettings:
    """How a probe is built and trained.

    Attributes:
        rate: Highest learning rate of the cycle.
        hidden: Width of the hidden layer.
        dropout: In front of the last layer.
        epochs: Passes over the training fragments.
        batch: Fragments in a step; the last one of an epoch may hold fewer.
        weight_decay: Of AdamW.
        warm_up: Share of the steps in which the rate rises.
    """

    rate: float = 1e-4
    hidden: int = 256
    dropout: float = 0.1
    epochs: int = 20
    batch: int = 64
    weight_decay: float = 0.0
    warm_up: float = 0.1

    def __post_init__(self) -> None:
        for name in ("hidden", "epochs", "batch"):
            value = getattr(self, name)
            PolyplinkError.unless(value >= 1, f"probe.{name} is {value}", "give 1 or more")
        PolyplinkError.unless(self.rate > 0, f"probe.rate is {self.rate}", "give one above 0")
        PolyplinkError.unless(
            0.0 < self.warm_up < 1.0, f"probe.warm_up is {self.warm_up}", "give one in (0, 1)"
        )


def build_probe(width: int, settings: ProbeSettings) -> nn.Sequential:
    """LayerNorm, linear to the hidden width, GELU, dropout, linear to one logit."""
    return nn.Sequential(
        nn.LayerNorm(width),
        nn.Linear(width, settings.hidden),
        nn.GELU(),
        nn.Dropout(settings.dropout),
        nn.Linear(settings.hidden, 1),
    )


def fit_probe(
    features: Reals, labels: npt.NDArray[np.bool_], settings: ProbeSettings, seed: int
) -> nn.Sequential:
    """Train a probe on features that were computed once.

    Args:
        features: Vectors of n fragments (n, d), float32.
        labels: Class of each fragment (n,).
        settings: How to build and train it.
        seed: Of the first weights, the order of fragments and the dropout.

    Returns:
        The probe after the last epoch, in evaluation mode.

    Raises:
        PolyplinkError: If there is no fragment or only one class.
    """
    _check(features, labels)
    x = torch.from_numpy(np.ascontiguousarray(features, dtype=np.float32))  # n d
    y = torch.from_numpy(np.asarray(labels, dtype=np.float32))  # n
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        probe = build_probe(x.shape[1], settings)
        optimiser = torch.optim.AdamW(
            probe.parameters(), lr=settings.rate, weight_decay=settings.weight_decay
        )
        total = settings.epochs * -(-len(x) // settings.batch)
        cycle = torch.optim.lr_scheduler.OneCycleLR(
            optimiser,
            max_lr=settings.rate,
            total_steps=total,
            # Its rise needs a second step to end in.
            pct_start=max(settings.warm_up, min(0.9, 2 / total)),
        )
        for _ in range(settings.epochs):
            for rows in torch.split(torch.randperm(len(x)), settings.batch):
                logits = probe(x[rows]).squeeze(1)  # b
                loss = nn.functional.binary_cross_entropy_with_logits(logits, y[rows])
                optimiser.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                cycle.step()
    return probe.eval()


def _check(features: Reals, labels: npt.NDArray[np.bool_]) -> None:
    if len(features) != len(labels) or not len(labels):
        raise PolyplinkError(
            f"{len(features)} vectors and {len(labels)} labels to train a probe on",
            "give one label for each, and at least one",
        )
    if bool(labels.all()) or not bool(labels.any()):
        raise PolyplinkError(
            "all polyps to train the probe on are of one class",
            "give a part with polyps of both, or another split seed",
        )
    if not np.isfinite(features).all():
        raise PolyplinkError("a vector to train the probe on is not finite", "embed again")


@torch.inference_mode()
def probe_scores(probe: nn.Sequential, features: Reals) -> npt.NDArray[np.float64]:
    """Probability of the positive class for n fragments (n,), from vectors (n, d)."""
    x = torch.from_numpy(np.ascontiguousarray(features, dtype=np.float32))  # n d
    found: npt.NDArray[np.float64] = probe(x).squeeze(1).sigmoid().double().numpy()
    return found
