"""A fragment set without pixels, for tests of bags, pairs and losses."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from polyplink.learn.fragment_set import FragmentSet, Tracklets


@dataclass
class BareFragmentSet:
    """The columns of a `FragmentSet` without its pixels; three polyps per procedure."""

    tracklets: Tracklets
    rows: np.ndarray
    tracklet_of: np.ndarray
    stride: int
    procedures: np.ndarray = field(init=False)
    polyps: np.ndarray = field(init=False)
    labelled: np.ndarray = field(init=False)
    positions: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        owner = self.tracklet_of[self.rows[:, 0]]
        self.procedures = self.tracklets.procedures[owner]
        self.polyps = self.tracklets.polyps[owner]
        self.labelled = self.tracklets.labelled[owner]
        self.positions = np.linspace(0, 1, len(owner))

    def __len__(self) -> int:
        return len(self.rows)


def bare_set(
    lengths: Sequence[int],
    polyps: Sequence[int],
    *,
    fragment: int = 4,
    labelled: Sequence[bool] | None = None,
    stride: int = 1,
) -> FragmentSet:
    """Cut tracklets into fragments, from the number of crops and the polyp of each tracklet."""
    count = np.array(lengths, dtype=np.int64)
    first = np.cumsum(count) - count
    codes = np.array(polyps, dtype=np.int64)
    tracklets = Tracklets(
        names=[f"t{i}" for i in range(len(count))],
        procedures=codes // 3,
        polyps=codes,
        labelled=np.ones(len(count), bool) if labelled is None else np.array(labelled),
        first=first,
        count=count,
    )
    starts = np.concatenate(
        [f + fragment * np.arange(c // fragment) for f, c in zip(first, count, strict=True)]
    )
    rows = starts[:, None] + np.arange(fragment)
    return BareFragmentSet(tracklets, rows, np.repeat(np.arange(len(count)), count), stride)  # type: ignore[return-value]
