"""An epoch, cut into batches; what is in it, the ways of drawing bags say."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch

from polyplink.core.errors import PolyplinkError
from polyplink.learn.bags import Bags

Piece = TypeVar("Piece")


@dataclass(frozen=True)
class Batch:
    """Bags of a step, flat: n views of b bags.

    Attributes:
        fragments: (n,) int64, which fragments (or other clips) of the epoch; anchor first in
            each bag.
        bag: (n,) int64 tensor, the bag of each.
        anchor: (n,) bool tensor, True for each bag's anchor.
    """

    fragments: np.ndarray
    bag: torch.Tensor
    anchor: torch.Tensor


def rng_of(*seeds: int) -> np.random.Generator:
    """A generator of its own for (seed, epoch, purpose): nothing to save for a resume."""
    return np.random.default_rng(seeds)


def cut(order: np.ndarray, size: int) -> list[np.ndarray]:
    """Cut an order of bags into batches of `size`; a last batch of one joins the one before.

    A bag alone has no negatives. Every bag is in exactly one batch.
    """
    pieces = [order[i : i + size] for i in range(0, len(order), size)]
    if len(pieces) > 1 and len(pieces[-1]) == 1:
        pieces[-2:] = [np.concatenate(pieces[-2:])]
    return pieces


def to_batch(bags: Bags, chosen: np.ndarray, device: torch.device) -> Batch:
    """Flatten some bags, leaving out the members that a short procedure could not give."""
    valid = bags.valid[chosen]  # b 1+K
    bag, column = np.nonzero(valid)
    return Batch(
        fragments=bags.members[chosen][valid],
        bag=torch.from_numpy(bag).to(device),
        anchor=torch.from_numpy(column == 0).to(device),
    )


def batches(bags: Bags, size: int, device: torch.device) -> Iterator[Batch]:
    """All bags in their order, in batches of `size`."""
    for chosen in cut(np.arange(len(bags.members)), size):
        yield to_batch(bags, chosen, device)


def shard(pieces: Sequence[Piece], rank: int, world: int) -> list[Piece]:
    """The batches of one of `world` processes: every `world`-th, from `rank` on.

    All processes draw the same epoch from the same seed; their shards have no batch in common
    and together are all of it.

    Raises:
        PolyplinkError: If there is no such rank.
    """
    PolyplinkError.unless(
        0 <= rank < world, f"shard {rank} of {world}", "give a rank from 0 to world - 1"
    )
    return list(pieces[rank::world])


def view_bags(polyps: np.ndarray, known: np.ndarray, views: int, rng: np.random.Generator) -> Bags:
    """Bags by true identity, for the published validation: `views` fragments of each polyp.

    Args:
        polyps: (n,) polyp code of each fragment.
        known: (n,) whether it is known.
        views: Fragments drawn per polyp, without replacement; polyps with fewer than two known
            fragments give no bag.
        rng: Source of randomness.

    Returns:
        One bag per polyp; its ranks are 0.
    """
    names, counts = np.unique(polyps[known], return_counts=True)
    several = names[counts >= 2]
    members = np.zeros((len(several), views), np.int64)
    valid = np.zeros((len(several), views), bool)
    for i, polyp in enumerate(several):
        found = rng.permutation(np.flatnonzero(known & (polyps == polyp)))[:views]
        members[i, : len(found)] = found
        valid[i, : len(found)] = True
    return Bags(members, valid, np.zeros((len(several), views - 1), np.int64))
