"""How a job tells what it is doing."""

from collections.abc import Callable
from functools import partial

Progress = Callable[[str, int, int], None]
"""Called with (stage, done, total)."""


def silent(stage: str, done: int, total: int) -> None:
    """Say nothing."""


def counter(progress: Progress, stage: str) -> Callable[[int, int], None]:
    """The progress of one stage, as the rooms call it: (done, total)."""
    return partial(progress, stage)
