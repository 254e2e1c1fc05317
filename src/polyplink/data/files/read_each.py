"""One reader over many files, in this process or in several."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from polyplink.core.workers import worker_pool

Source = TypeVar("Source")
Read = TypeVar("Read")


def read_each(
    read: Callable[[Source], Read],
    sources: Sequence[Source],
    *,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> list[Read]:
    """Read every source, in order.

    Args:
        read: Reads one; a function of a module (or a partial of one) where workers are many.
        sources: What to read.
        workers: Processes. More than one needs the main module to be importable.
        progress: Called after every source with how many are read and how many there are.

    Returns:
        What each gave, in the order of the sources.
    """
    if workers <= 1 or len(sources) <= 1:
        return _collect(map(read, sources), len(sources), progress)
    with worker_pool(min(workers, len(sources))) as pool:
        return _collect(pool.map(read, sources), len(sources), progress)


def _collect(
    results: Iterable[Read], total: int, progress: Callable[[int, int], None] | None
) -> list[Read]:
    collected = []
    for result in results:
        collected.append(result)
        if progress is not None:
            progress(len(collected), total)
    return collected
