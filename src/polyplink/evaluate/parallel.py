"""Blocks of work on all cores: threads of our own, each with one thread of BLAS.

BLAS splits every product among its threads and waits for the last of them; where anything else
runs on the machine, small products then take many times longer. Threads that fetch blocks one by
one never wait for each other. Work must release the GIL, as numpy's products and compiled loops do.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

Job = TypeVar("Job")
Result = TypeVar("Result")


@cache
def _libraries() -> Any:
    """The loaded libraries that start threads; to find them takes milliseconds."""
    return ThreadpoolController()


def _drawn(waiting: "SimpleQueue[Job]") -> Iterator[Job]:
    while True:
        try:
            yield waiting.get_nowait()
        except Empty:
            return


def parallel(
    work: Callable[[Iterator[Job]], Result], jobs: Iterable[Job], threads: int | None = None
) -> list[Result]:
    """Call `work` once in every thread; which jobs a call draws is chance.

    Args:
        work: Goes through the jobs it is given and returns what it made of them; results must
            add up to the same whoever did which job, as counts do.
        jobs: What to do, those that take longest first.
        threads: How many at most; None for one a core.

    Returns:
        One result a thread, at least one.
    """
    waiting: SimpleQueue[Job] = SimpleQueue()
    for job in jobs:
        waiting.put(job)
    count = max(1, min(threads or os.cpu_count() or 1, waiting.qsize()))
    with _libraries().limit(limits=1, user_api="blas"):
        if count == 1:
            return [work(_drawn(waiting))]
        with ThreadPoolExecutor(count, thread_name_prefix="blocks") as pool:
            return list(pool.map(work, [_drawn(waiting) for _ in range(count)]))
