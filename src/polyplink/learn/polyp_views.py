"""Bags by true identity: several views of several polyps (temporally-aware counting, 3.2)."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from polyplink.core.errors import PolyplinkError
from polyplink.core.ranges import Range, Ranged
from polyplink.core.text import many
from polyplink.learn.bags import Bags, BagSampler, EpochBags, ragged_bags, view_bags
from polyplink.learn.fragment_set import FragmentSet


class _Polyp:
    """The fragments of one polyp, drawn without replacement until all are used, then again.

    Attributes:
        fragments: The fragments in random order; unused ones are drawn from the end.
        n_unused: Number of unused fragments, the first of `fragments`.
    """

    def __init__(self, fragments: np.ndarray, rng: np.random.Generator) -> None:
        self.fragments = rng.permutation(fragments)
        self.n_unused = len(fragments)

    def draw(self, views: int, rng: np.random.Generator) -> np.ndarray:
        """Draw `views` fragments: unused ones first, then used ones, each at most once."""
        used = self.fragments[self.n_unused :]
        new = self.fragments[: self.n_unused][-views:]
        self.n_unused -= len(new)
        return np.concatenate([new, rng.permutation(used)[: views - len(new)]])


def refilled_bags(
    fragments: list[np.ndarray], views: int, size: int, rng: np.random.Generator
) -> Bags:
    """Distribute the fragments of polyps over batches of `size` bags of `views` views each.

    A batch holds `size` different polyps (or all polyps, if there are fewer), sampled in proportion
    to their unused fragments; if too few polyps have unused fragments, others are added uniformly
    and their fragments are used again. Sampling ends when every fragment has been used at least
    once.

    Args:
        fragments: The rows of each polyp's fragments, at least one per polyp.
        views: Views in a bag; a polyp with fewer fragments gives all of them.
        size: Bags per batch.
        rng: Source of randomness.

    Returns:
        The bags in order of the batches; ranks are 0.
    """
    polyps = [_Polyp(rows, rng) for rows in fragments]
    drawn: list[np.ndarray] = []
    size = min(size, len(polyps))
    while any(polyp.n_unused for polyp in polyps):
        unused = np.array([polyp.n_unused for polyp in polyps], float)
        picks = min(size, int(np.count_nonzero(unused)))
        picked = rng.choice(len(polyps), picks, replace=False, p=unused / unused.sum())
        filling = rng.permutation(np.flatnonzero(unused == 0))[: size - picks]
        drawn += [polyps[i].draw(views, rng) for i in (*picked, *filling)]
    return ragged_bags(drawn, views)


def fragments_of_polyps(data: FragmentSet) -> list[np.ndarray]:
    """The rows of each known polyp's fragments."""
    rows = np.flatnonzero(data.labelled)
    order = rows[np.argsort(data.polyps[rows], kind="stable")]
    first = np.unique(data.polyps[order], return_index=True)[1]
    return np.split(order, first[1:]) if len(order) else []


@dataclass(frozen=True)
class PolypViews(Ranged, BagSampler, prefix="bags"):
    """Batches of several polyps with several views each, for the supervised losses.

    As in the program of temporally-aware counting, a batch holds `optim.bags_per_batch` polyps,
    sampled in proportion to their unused fragments, and `views` unused fragments of each; the epoch
    ends when fewer polyps have `views` unused fragments. Polyps with fewer fragments are never
    used, unless `refill` is set: then every fragment of a known polyp is used at least once.
    Fragments of unknown polyps are left out.

    Attributes:
        kind: Discriminates the ways of drawing bags in a recipe's JSON.
        views: Fragments of each polyp in a batch.
        refill: Whether used fragments fill up bags and batches (not in the paper; for data with few
            polyps or short tracklets).
    """

    kind: Literal["polyp_views"] = "polyp_views"
    views: Annotated[int, Range(2)] = 14
    refill: bool = False

    def draw(
        self, data: FragmentSet, progress: float, size: int, rng: np.random.Generator
    ) -> EpochBags:
        """The bags of an epoch (see `BagSampler`).

        Raises:
            PolyplinkError: If fewer than two polyps are known, or too few have enough fragments.
        """
        fragments = fragments_of_polyps(data)
        if len(fragments) < 2:
            raise PolyplinkError(
                f"{many(len(fragments), 'known polyp')} with fragments to train on",
                "name a labelled --part, or a recipe that needs no labels, such as ntssl",
            )
        enough = sum(len(rows) >= self.views for rows in fragments)
        if not self.refill and enough < size:
            raise PolyplinkError(
                f"{many(enough, 'known polyp')} with {self.views} fragments, and a batch holds "
                f"{size} polyps",
                "give --set bags.refill=true, which uses fragments again, or a smaller "
                "--set optim.bags_per_batch=N or bags.views=N",
            )
        return self._draw_bags(data, size, rng)

    def draw_validation(
        self, data: FragmentSet, tau: float, size: int, rng: np.random.Generator
    ) -> EpochBags:
        """Bags sampled as in training; none if no polyp is known (see `BagSampler`)."""
        return self._draw_bags(data, size, rng)

    def _draw_bags(self, data: FragmentSet, size: int, rng: np.random.Generator) -> EpochBags:
        """Bags of known polyps, see the class."""
        if not self.refill:
            return EpochBags(
                data.rows, view_bags(data.polyps, data.labelled, self.views, size, rng)
            )
        fragments = fragments_of_polyps(data)
        bags = refilled_bags(fragments, self.views, size, rng)
        # Of few polyps, batches are smaller, so that no batch holds a polyp twice.
        return EpochBags(data.rows, bags, per_batch=min(size, max(len(fragments), 1)))
