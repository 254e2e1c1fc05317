"""Callbacks for the progress of a piece of work."""

from collections.abc import Callable
from functools import partial

Progress = Callable[[str, int, int], None]
"""Callback of a verb, called with (stage, done, total)."""


def silent(stage: str, done: int, total: int) -> None:
    """A progress callback that does nothing."""


def counter(progress: Progress, stage: str) -> Callable[[int, int], None]:
    """The callback (done, total) for one stage of a verb."""
    return partial(progress, stage)
