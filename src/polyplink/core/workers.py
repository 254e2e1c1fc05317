"""Workers: processes that leave Ctrl-C to their parent and end when it ends, and threads."""

import itertools
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TypeVar

from polyplink.core.errors import PolyplinkError

Item = TypeVar("Item")
Result = TypeVar("Result")

SERVER = "forkserver"  # start method of processes that share their imports
MOST = 61 if os.name == "nt" else sys.maxsize  # processes that the system can wait for
HEAVY = ("torch", "numba")  # take seconds to import, and start no threads then
AHEAD = 32  # results in flight per thread: limits memory, and the delay of Ctrl-C
VIDEO_AHEAD = 4  # the same for frames of videos, which take megabytes


def start_server(preload: Sequence[str]) -> None:
    """Start a server process that imports modules for the workers forked from it.

    Call it before the program's own imports, so that both run in parallel; otherwise `worker_pool`
    calls it. Without a fork server (Windows) it does nothing.

    Args:
        preload: Modules that start no threads when imported (torch, but not polars).
    """
    if SERVER not in multiprocessing.get_all_start_methods():
        return
    from multiprocessing import forkserver  # noqa: PLC0415 - not on Windows

    with _interrupts_held():
        forkserver.set_forkserver_preload(list(preload))
        forkserver.ensure_running()


@contextmanager
def worker_pool(workers: int, preload: Sequence[str] = ()) -> Iterator[ProcessPoolExecutor]:
    """A pool of new processes; pending tasks are cancelled when the block ends.

    They are not forked from this process, because a fork of a process with threads (polars has
    some) may hang. Only the parent handles Ctrl-C: a worker would print a traceback during its
    imports.

    Args:
        workers: Number of processes, at least 1.
        preload: Modules imported once for all workers, see `start_server`.

    Raises:
        PolyplinkError: If a worker was killed, for example because it ran out of memory, or cannot
            start, or if this process is itself a worker that imports a script which starts workers.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise PolyplinkError(
            "every worker process imports the script, which starts workers again",
            "put the script's statements under `if __name__ == '__main__':`, or pass workers=1",
        )
    served = bool(preload) and SERVER in multiprocessing.get_all_start_methods()
    if served:
        start_server(preload)
    workers = min(workers, MOST)
    pool = ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context(SERVER if served else "spawn"),
        initializer=_end_with_parent,
    )
    try:
        with _interrupts_held():  # all workers are started here
            first = [pool.submit(os.getpid) for _ in range(workers)]
        yield pool
    except BrokenProcessPool:
        if any(task.exception() is None for task in first if task.done()):
            raise PolyplinkError(
                "a worker process was killed (out of memory?)",
                "repeat the command with --workers 1",
            ) from None
        raise PolyplinkError(
            "no worker process could start",
            "use 1 worker; or, in a script, save it as a file with its statements under "
            "`if __name__ == '__main__':`",
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def as_done(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    workers: int,
    preload: Sequence[str] = (),
) -> Generator[Result, None, None]:
    """Yield results of a function over items in order of completion; close the generator to stop.

    Args:
        function: A function of a module; the function and the items are pickled.
        items: Inputs, the slowest first.
        workers: Number of processes; 1 runs in the current process.
        preload: See `worker_pool`.
    """
    if workers == 1 or len(items) < 2:
        yield from map(function, items)
        return
    waiting = iter(items)
    with worker_pool(min(workers, len(items)), preload) as pool:
        # At most one item per worker is submitted, so that none starts after an interruption.
        running = {pool.submit(function, item) for item in itertools.islice(waiting, workers)}
        while running:
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            running |= {pool.submit(function, i) for i in itertools.islice(waiting, len(finished))}
            yield from [future.result() for future in finished]


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back until the block ends; processes started in the block never receive it.

    They inherit a signal mask that blocks the signal. The parent's other threads may still receive
    it, so the parent records it and raises it again after the block.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set signal handlers
        return
    interrupts: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: interrupts.append(number))
    has_mask = hasattr(signal, "pthread_sigmask")  # not on Windows
    if has_mask:
        from multiprocessing import resource_tracker  # noqa: PLC0415 - not on Windows

        resource_tracker.ensure_running()  # would clear the mask if it were started in the block
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        if has_mask:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, before)
    if interrupts:
        signal.raise_signal(signal.SIGINT)


def _end_with_parent() -> None:
    """End this worker when its parent process has ended for any reason; leave Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # not inherited on Windows

    def watch() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def prefetch(
    function: Callable[[Item], Result], items: Iterable[Item], workers: int, ahead: int = AHEAD
) -> Iterator[Result]:
    """Apply a function to items in threads; an item is taken when there is room for its result.

    On an error, or when the generator is closed, waiting items are dropped.

    Args:
        function: Called in the threads.
        items: The items, which may be large and generated lazily.
        workers: Number of threads.
        ahead: Items in flight per thread.

    Yields:
        The results, in the order of the items.
    """
    pool = ThreadPoolExecutor(workers, thread_name_prefix="prefetch")
    try:
        running: deque[Future[Result]] = deque()
        for item in items:
            running.append(pool.submit(function, item))
            if len(running) >= ahead * workers:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
