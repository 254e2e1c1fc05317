"""Work in threads a little ahead of who takes the results, in order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD = 32  # results in flight per thread: bounds memory, and what Ctrl-C waits for


class Threads:
    """A pool of threads whose results come in order, a bounded number of them in flight."""

    def __init__(self, pool: ThreadPoolExecutor, workers: int) -> None:
        self._pool = pool
        self._workers = workers

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item], ahead: int = AHEAD
    ) -> Iterator[Result]:
        """Apply a function to items; items are taken as results are.

        Args:
            function: Called in the threads.
            items: May be made one by one, and be large.
            ahead: Items in flight for each thread.

        Yields:
            The results, in the order of the items.
        """
        flying: deque[Future[Result]] = deque()
        for item in items:
            flying.append(self._pool.submit(function, item))
            if len(flying) >= ahead * self._workers:
                yield flying.popleft().result()
        while flying:
            yield flying.popleft().result()


@contextmanager
def threads(workers: int) -> Iterator[Threads]:
    """Open `Threads`; on an error or Ctrl-C what waits is not begun."""
    pool = ThreadPoolExecutor(workers, thread_name_prefix="crops")
    try:
        yield Threads(pool, workers)
    finally:
        pool.shutdown(cancel_futures=True)
