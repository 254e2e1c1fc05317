"""Bags (views assumed to show one polyp), the sampler interface, and the batches of an epoch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from polyplink.core.errors import PolyplinkError
from polyplink.core.lazy_torch import torch
from polyplink.core.parts import BAGS
from polyplink.learn.fragment_set import FragmentSet

VALIDATED = ("loss_labels", "loss_bags", "top1", "top5")
"""Columns of a training's history that are measured on procedures to validate on."""

HISTORY = ("epoch", "purity", "loss", "frames", *VALIDATED, "seconds")
"""Columns of a training's history, beside the figures of its sampler."""


@dataclass(frozen=True)
class Bags:
    """One bag for every fragment as anchor.

    Attributes:
        members: (n, 1 + K) int64 rows of the fragments; column 0 is the anchor, row i its bag.
        valid: (n, 1 + K) bool; False where a procedure had fewer than K other fragments (the
            entry of `members` is then meaningless). Column 0 is always True.
        ranks: (n, K) int64 rank in time of every drawn member, from 1.
    """

    members: np.ndarray
    valid: np.ndarray
    ranks: np.ndarray


def purity(bags: Bags, polyps: np.ndarray) -> float:
    """Share of bags in which all members show the anchor's polyp (NTSSL figure 2, right).

    Args:
        bags: The bags, in any order.
        polyps: (n,) integer code of each fragment's polyp.

    Returns:
        The share, in [0, 1]; NaN if there are no bags.
    """
    if not len(bags.members):
        return float("nan")
    bag_polyps = polyps[bags.members]  # b 1+K
    one_polyp = bag_polyps == bag_polyps[:, :1]  # b 1+K
    return float((one_polyp | ~bags.valid).all(axis=1).mean())


def shuffled(bags: Bags, rng: np.random.Generator) -> Bags:
    """The same bags in random order."""
    return bags_at(bags, rng.permutation(len(bags.members)))


def bags_at(bags: Bags, rows: np.ndarray) -> Bags:
    """Some of the bags, in the order of `rows`."""
    return Bags(bags.members[rows], bags.valid[rows], bags.ranks[rows])


def pair_bags(second: np.ndarray) -> Bags:
    """Bags of two consecutive clips each, 2 i and 2 i + 1.

    Args:
        second: (b,) bool, whether each pair has a second view.
    """
    members = np.arange(2 * len(second)).reshape(-1, 2)
    valid = np.column_stack([np.ones(len(second), bool), second])
    return Bags(members, valid, np.zeros((len(second), 1), np.int64))


def ragged_bags(rows: Sequence[np.ndarray], views: int) -> Bags:
    """Bags of different sizes, each from its rows (at most `views`); their ranks are 0."""
    members = np.zeros((len(rows), views), np.int64)
    valid = np.zeros((len(rows), views), bool)
    for i, members_of_bag in enumerate(rows):
        members[i, : len(members_of_bag)], valid[i, : len(members_of_bag)] = members_of_bag, True
    return Bags(members, valid, np.zeros((len(rows), views - 1), np.int64))


@dataclass(frozen=True)
class EpochBags:
    """The bags of an epoch, in training order.

    Attributes:
        clips: (c, s) int64, rows of the crops of every view that a bag may hold.
        bags: Bags whose members are rows of `clips`.
        figures: Columns that the sampler adds to the history (tau, alpha).
        per_batch: Bags of a batch; None for as many as were asked for.
    """

    clips: np.ndarray
    bags: Bags
    figures: Mapping[str, float] = field(default_factory=dict)
    per_batch: int | None = None


class BagSampler(Protocol):
    """A sampler of bags, configured by a recipe."""

    def draw(
        self, data: FragmentSet, progress: float, size: int, rng: np.random.Generator
    ) -> EpochBags:
        """The bags of an epoch.

        Args:
            data: The fragments to draw from.
            progress: Epoch divided by the number of epochs, in [0, 1).
            size: Bags per batch.
            rng: Source of randomness; the same state gives the same epoch.
        """
        ...

    def draw_validation(
        self, data: FragmentSet, tau: float, size: int, rng: np.random.Generator
    ) -> EpochBags:
        """The validation bags, equally difficult in every epoch.

        By default they are drawn as in the first epoch of a training.

        Args:
            data: The held-out procedures.
            tau: Temperature of the rank sampling, if the bags are temporal.
            size: Bags per batch.
            rng: Source of randomness.
        """
        return self.draw(data, 0.0, size, rng)


def problem_of(drawn: EpochBags, crops: int) -> str | None:
    """The first problem of an epoch's bags, which a sampler must not return; None without one.

    Args:
        drawn: The bags.
        crops: Number of crops that clips may be made of.
    """
    members, valid, clips = drawn.bags.members, drawn.bags.valid, drawn.clips
    if members.ndim != 2 or members.shape != valid.shape or clips.ndim != 2:
        return "members, valid or clips of another shape than described"
    if not valid[:, 0].all():
        return "a bag without its anchor"
    if not _are_rows(members[valid], len(clips)):
        return "a member that is no row of clips"
    if not _are_rows(clips, crops):
        return "a clip with a crop that is none"
    if drawn.per_batch is not None and drawn.per_batch < 1:
        return "batches without a bag"
    wrong_figures = [
        name
        for name, value in drawn.figures.items()
        if name in HISTORY or not isinstance(value, int | float | np.number)
    ]
    wrong = "that has the name of another column or is no number"
    return f"a figure {wrong_figures[0]} {wrong}" if wrong_figures else None


def _are_rows(indices: np.ndarray, rows: int) -> bool:
    """Whether indices of any shape are whole numbers from 0 to `rows` - 1."""
    whole = np.issubdtype(indices.dtype, np.integer)
    return bool(whole and ((indices >= 0) & (indices < rows)).all())


def checked_bags(kind: str, returned: object, data: FragmentSet) -> EpochBags:
    """The bags of an epoch as a sampler of some kind returned them; there may be none.

    Raises:
        PolyplinkError: If it returned something else, or bags with a problem (see `problem_of`).
    """
    drawn = BAGS.check_returned(kind, returned, EpochBags)
    with BAGS.running(kind):
        problem = problem_of(drawn, len(data.tracklet_of))
    if problem is not None:
        raise PolyplinkError(
            f"bags {kind!r} return {problem}", "`polyplink.testing.check_bags` checks a sampler"
        )
    return drawn


@dataclass(frozen=True)
class Batch:
    """The bags of a training step, flattened: n views of b bags.

    Attributes:
        fragments: (n,) int64, indices of the epoch's fragments (or other clips); the anchor comes
            first in each bag.
        bag: (n,) int64 tensor, the bag of each view.
        anchor: (n,) bool tensor, True for each bag's anchor.
    """

    fragments: np.ndarray
    bag: torch.Tensor
    anchor: torch.Tensor


def rng_of(*seeds: int) -> np.random.Generator:
    """A generator seeded by (seed, epoch, purpose), so that resuming needs no saved state."""
    return np.random.default_rng(seeds)


def cut_into_batches(order: np.ndarray, size: int) -> list[np.ndarray]:
    """Cut a sequence of bags into batches of `size`; every bag is in exactly one batch.

    If one bag remains, it joins the previous batch, because a single bag has no negatives.
    """
    pieces = [order[i : i + size] for i in range(0, len(order), size)]
    if len(pieces) > 1 and len(pieces[-1]) == 1:
        pieces[-2:] = [np.concatenate(pieces[-2:])]
    return pieces


def batches(bags: Bags, size: int, device: torch.device) -> Iterator[Batch]:
    """All bags in order, in batches of `size`, without the members that are not valid."""
    for rows in cut_into_batches(np.arange(len(bags.members)), size):
        valid = bags.valid[rows]  # b 1+K
        bag, column = np.nonzero(valid)
        yield Batch(
            fragments=bags.members[rows][valid],
            bag=torch.from_numpy(bag).to(device),
            anchor=torch.from_numpy(column == 0).to(device),
        )


def view_bags(
    polyps: np.ndarray, is_known: np.ndarray, views: int, size: int, rng: np.random.Generator
) -> Bags:
    """Bags by true identity, drawn as the programs of NTSSL and TA draw them.

    A batch holds `size` polyps, sampled in proportion to their unused fragments, and `views` unused
    fragments of each. Sampling ends when fewer than `size` polyps have `views` unused fragments. If
    there are fewer from the start, one batch holds them all, so that no batch holds a polyp twice.

    Args:
        polyps: (n,) polyp code of each fragment.
        is_known: (n,) whether the polyp of each fragment is known.
        views: Fragments in a bag; polyps with fewer give no bag.
        size: Bags per batch.
        rng: Source of randomness.

    Returns:
        The bags in order of the batches; ranks are 0.
    """
    polyp_rows = (
        rng.permutation(np.flatnonzero(is_known & (polyps == p))) for p in np.unique(polyps)
    )
    pools = [rows for rows in polyp_rows if len(rows) >= views]
    drawn: list[np.ndarray] = []
    picks = min(size, len(pools))
    while picks:
        unused = np.array([len(rows) if len(rows) >= views else 0 for rows in pools], float)
        if np.count_nonzero(unused) < picks:
            break
        for i in rng.choice(len(pools), picks, replace=False, p=unused / unused.sum()):
            drawn.append(pools[i][:views])
            pools[i] = pools[i][views:]
        if picks < size:
            break
    return ragged_bags(drawn, views)
