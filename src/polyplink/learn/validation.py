"""Losses on the held-out procedures, and what they decide."""

import math
from collections.abc import Mapping, Sequence

import torch

from polyplink.core.errors import PolyplinkError
from polyplink.learn.config import TrainConfig, ValidationConfig
from polyplink.learn.drawn import Drawn
from polyplink.learn.epoch import batches, rng_of, view_bags
from polyplink.learn.fragment_set import FragmentSet
from polyplink.learn.model import Model

Row = dict[str, float]
NOTHING: Mapping[str, float] = {"loss_labels": math.nan, "loss_bags": math.nan}
LABELS, TIME = 2, 3  # purposes of random numbers, beside those of the loop


@torch.no_grad()
def _mean_loss(model: Model, data: FragmentSet, drawn: Drawn) -> float:
    if len(drawn.bags.members) < 2:
        return math.nan
    parts = []
    for batch in batches(drawn.bags, model.config.optim.bags_per_batch, data.device):
        loss = model.config.loss(model.views(data, drawn, batch))
        parts.append((loss.item(), int(batch.anchor.sum())))
    return float(sum(x * n for x, n in parts) / sum(n for _, n in parts))


def validate(model: Model, data: FragmentSet) -> Row:
    """Losses on the held-out procedures; the bags are the same in every epoch.

    `loss_labels` is that on pairs of views of one polyp, NaN where fewer than two polyps have
    them; `loss_bags` that on bags drawn as in training.
    """
    config = model.config
    model.mode(training=False)
    known = view_bags(data.polyps, data.known, config.validation.views, rng_of(config.seed, LABELS))
    drawn = config.bags.watch(
        data, config.validation.tau, config.optim.bags_per_batch, rng_of(config.seed, TIME)
    )
    return {
        "loss_labels": _mean_loss(model, data, Drawn(data.rows, known)),
        "loss_bags": _mean_loss(model, data, drawn),
    }


def is_best(row: Row, history: Sequence[Row], select: str) -> bool:
    """Whether an epoch is to be kept rather than those before it."""
    if select == "last":
        return True
    column = f"loss_{select}"
    earlier = [r[column] for r in history if not math.isnan(r[column])]
    return not earlier or row[column] < min(earlier)


def is_over(history: Sequence[Row], config: ValidationConfig) -> bool:
    """Whether the loss that chooses has not fallen for `patience` epochs."""
    if not config.patience or not history:
        return False
    losses = [row[f"loss_{config.select}"] for row in history]
    best = min(range(len(losses)), key=losses.__getitem__)
    return len(losses) - 1 - best >= config.patience


def check_selection(config: TrainConfig, held: FragmentSet | None) -> None:
    """Refuse a choice of the checkpoint that the held-out procedures cannot make.

    Raises:
        PolyplinkError: If there are no fragments, or no two polyps with two known views.
    """
    select = config.validation.select
    if select == "last":
        return
    if held is None or len(held) < 2:
        raise PolyplinkError(
            "no fragments to validate on", "hold procedures out, or set validation.select=last"
        )
    bags = view_bags(held.polyps, held.known, config.validation.views, rng_of(0))
    if select == "labels" and len(bags.members) < 2:
        raise PolyplinkError(
            "validation on labels needs two held-out polyps with two fragments each",
            "set validation.select=bags, which needs no label, or hold out more procedures",
        )
