"""Packing of bars into lanes, and of their labels above them, so that nothing overlaps."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LEVELS = 2  # rows of labels above a lane of bars
LABEL, DIGIT = 11.0, 7.5  # height of such a row; width of a character


@dataclass(frozen=True)
class Label:
    """A polyp's number or letter, with the line down to its bars where it stands raised."""

    x: float
    y: float
    text: str
    foot: float | None


def lanes(spans: Sequence[tuple[float, float]]) -> list[int]:
    """Put spans into as few lanes as possible so that none overlap within a lane.

    Args:
        spans: (start, end) of each, both inclusive, sorted by start.

    Returns:
        Lane of each span, from 0.
    """
    ends: list[float] = []
    placed = []
    for start, end in spans:
        free = next((i for i, last in enumerate(ends) if last < start), len(ends))
        if free == len(ends):
            ends.append(end)
        ends[free] = end
        placed.append(free)
    return placed


def place_labels(centres: Iterable[tuple[float, str]], top: float) -> list[Label]:
    """Place labels above a lane so that none touch; one that finds no room is left out.

    Args:
        centres: Centre and text of each, sorted by centre.
        top: Top of the lane, where the highest labels stand.

    Returns:
        The labels that fit, each on the lowest level with room.
    """
    taken = [float("-inf")] * LEVELS  # rightmost point in use, lowest level first
    floor = top + LEVELS * LABEL
    placed = []
    for centre, text in centres:
        half = DIGIT * len(text) / 2
        # A raised label's line runs down past those below it, which must have ended by then.
        fits = (
            level
            for level in range(LEVELS)
            if centre - half > taken[level] and all(end < centre - 1 for end in taken[:level])
        )
        level = next(fits, None)
        if level is None:
            continue
        taken[level] = centre + half
        for below in range(level):
            taken[below] = centre + 1
        y = floor - level * LABEL - 3
        placed.append(Label(centre, y, text, floor if level else None))
    return placed
