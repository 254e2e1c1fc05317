"""Worker processes that leave Ctrl-C to their parent and end with it."""

import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TypeVar

from polyplink.core.errors import PolyplinkError

Item = TypeVar("Item")
Result = TypeVar("Result")

SERVER = "forkserver"  # how processes are started that share their imports
HEAVY = ("torch", "numba")  # seconds to import, and no threads in them


def start_server(preload: Sequence[str]) -> None:
    """Begin to import what workers will need, in a process that they are forked from.

    Called before a program's own imports, it saves their seconds; without it `worker_pool` calls
    it. Where there is no such server (Windows), nothing is done.

    Args:
        preload: Modules that start no thread when imported, as torch is and polars is not.
    """
    if SERVER not in multiprocessing.get_all_start_methods():
        return
    from multiprocessing import forkserver  # noqa: PLC0415 - not everywhere

    with _interrupts_ignored():
        forkserver.set_forkserver_preload(list(preload))
        forkserver.ensure_running()


@contextmanager
def worker_pool(workers: int, preload: Sequence[str] = ()) -> Iterator[ProcessPoolExecutor]:
    """A pool of fresh processes; what is not begun when the block ends is dropped.

    Not forked from this one, because a fork of a process that has threads (polars has) may hang.
    Ctrl-C reaches the parent alone: a worker's first seconds go into imports, and it would print a
    traceback.

    Args:
        workers: How many, at least 1.
        preload: Modules imported once for all workers, see `start_server`.

    Raises:
        PolyplinkError: If a worker was killed, for want of memory perhaps.
    """
    served = bool(preload) and SERVER in multiprocessing.get_all_start_methods()
    if served:
        start_server(preload)
    pool = ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context(SERVER if served else "spawn"),
        initializer=_end_with_parent,
    )
    try:
        with _interrupts_ignored():  # children inherit it; all of them are started here
            for _ in range(workers):
                pool.submit(os.getpid)
        yield pool
    except BrokenProcessPool:
        raise PolyplinkError(
            "a worker process was killed (memory?)", "give the same command with --workers 1"
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def as_done(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    workers: int,
    preload: Sequence[str] = (),
) -> Generator[Result, None, None]:
    """Results of a function over items as they are done, in whatever order; close it when left.

    Args:
        function: Of a module; it and the items travel to other processes.
        items: What to do, those that take longest first.
        workers: Processes; 1 works in this one.
        preload: As `worker_pool`.

    Raises:
        PolyplinkError: As `worker_pool`.
    """
    if workers == 1 or len(items) < 2:
        yield from map(function, items)
        return
    waiting = iter(items)
    with worker_pool(min(workers, len(items)), preload) as pool:
        # No more items than workers are handed out, so that none begins after an interruption.
        running = {pool.submit(function, item) for item in itertools.islice(waiting, workers)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            running |= {pool.submit(function, i) for i in itertools.islice(waiting, len(done))}
            yield from [future.result() for future in done]


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say what a signal does
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end_with_parent() -> None:
    """End this worker when the process that started it has gone, however it went."""

    def watch() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
