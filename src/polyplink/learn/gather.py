"""The views of all processes in every process: contrastive losses over several GPUs.

A loss over the views of one process alone would have fewer negatives. Here every process computes
the loss of the whole batch, and the mean over processes of the gradients of its parameters (as
DistributedDataParallel takes it) equals the gradient of a single process.
"""

from dataclasses import fields
from typing import Any

import torch
from torch import distributed

from polyplink.learn.contrastive import Views, identities


def _collected(value: torch.Tensor) -> list[torch.Tensor]:
    """Rows (n_r, ...) of every process r; n_r may differ."""
    own = torch.tensor([len(value)], device=value.device)
    lengths = [torch.zeros_like(own) for _ in range(distributed.get_world_size())]
    distributed.all_gather(lengths, own)
    counts = [int(length) for length in lengths]
    padded = value.new_zeros(max(counts), *value.shape[1:])
    padded[: len(value)] = value
    every = [torch.empty_like(padded) for _ in counts]
    distributed.all_gather(every, padded)
    return [rows[:count] for rows, count in zip(every, counts, strict=True)]


class _Gather(torch.autograd.Function):
    """Rows of all processes; gradients flow back to the rows of this process."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        every = _collected(value)
        rank = distributed.get_rank()
        start = sum(len(rows) for rows in every[:rank])
        ctx.own = slice(start, start + len(value))
        return torch.cat(every)

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> torch.Tensor:
        # Every process computes the same loss of the same rows, so the gradient of a process's own
        # rows is complete: no sum over processes is needed. The following mean over processes
        # divides by their number, although only one process had the gradient of each row.
        return slopes[0][ctx.own] * distributed.get_world_size()


def gather_rows(value: torch.Tensor) -> torch.Tensor:
    """Rows (n_r, ...) of every process r, one after the other by rank, with gradient.

    Source: the traps of distributed contrastive losses (gradients off by 1 / world size, labels
    shifted by rank). With a single process, returns the value itself.
    """
    if not distributed.is_initialized() or distributed.get_world_size() == 1:
        return value
    gathered: torch.Tensor = _Gather.apply(value)  # type: ignore[no-untyped-call]
    return gathered


def _apart(codes: torch.Tensor) -> torch.Tensor:
    """Make codes (n,) that are local to a process unique over all processes."""
    parts = _collected(codes)
    rank = distributed.get_rank()
    spans = [int(part.max() - part.min()) + 1 if len(part) else 0 for part in parts]
    return codes - codes.min() + sum(spans[:rank]) if len(codes) else codes


def gather_views(views: Views) -> Views:
    """The views of all processes as one batch, in every process.

    Bags are numbered anew, because every process counts from 0, and so are views of unknown
    polyps; polyps and procedures are codes of the data set, the same everywhere.

    Args:
        views: Of this process; on all processes together.

    Returns:
        All views by rank, the same in every process; `views` where there is one process.
    """
    if not distributed.is_initialized() or distributed.get_world_size() == 1:
        return views
    values = {field.name: getattr(views, field.name) for field in fields(Views)}
    values["bag"] = _apart(views.bag)
    gathered = {name: gather_rows(value) for name, value in values.items()}
    polyp = gathered["polyp"]
    return Views(**(gathered | {"polyp": identities(polyp, polyp >= 0)}))
