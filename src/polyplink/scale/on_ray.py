"""An archive's procedures divided into shards for any scheduler, or worked on by Ray Data.

Ray hands a procedure to an actor that is free, and hands it out again if the actor died. What was
made lies in files by procedure: they are the checkpoint, and other runs continue from them.
"""

import hashlib
import json
import logging
import os
import re
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from polyplink.core.errors import PolyplinkError, first_line

Work = Callable[[str], Any]
"""Works on a procedure, whose id is given; the answer can be written as JSON."""
OBJECTS = 200_000_000  # bytes of Ray's memory for objects, which are names and answers here
ANSWERS = 10.0  # seconds within which a cluster does


class _Actor:
    """What runs in each of Ray's workers."""

    def __init__(self, start: Callable[[], Work]) -> None:
        self.start = start
        self.work: Work | None = None

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, list[str]]:
        try:
            self.work = self.work or self.start()
            answers = [json.dumps(self.work(str(name))) for name in batch["item"]]
        except PolyplinkError as error:  # an answer, so that the other procedures are worked on
            return {"error": [error.what], "hint": [error.hint], "answer": [""]}
        return {"error": [""], "hint": [""], "answer": answers}


def on_ray(
    start: Callable[[], Work],
    procedures: Sequence[str],
    *,
    address: str | None = None,
    workers: int = 2,
    gpus: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> list[Any]:
    """Work on procedures in Ray's workers.

    Args:
        start: Called once in each worker; can be pickled, as can what it holds.
        procedures: Their ids.
        address: HOST:PORT of a cluster whose machines see the same folders; None to start Ray on
            this machine, reachable from this machine alone.
        workers: How many work at a time; each has one CPU, and one GPU where the cluster has any.
        gpus: Whether to use GPUs.
        progress: Callback with (procedures done, in all).

    Returns:
        The answers, in the order in which they came.

    Raises:
        PolyplinkError: If Ray is not installed, no cluster answers, or work on a procedure raised
            it; the other procedures are worked on first.
    """
    answers, errors = [], []
    with _cluster(address, workers) as ray:
        has_gpus = gpus and ray.cluster_resources().get("GPU", 0) >= 1
        options: dict[str, Any] = {"num_gpus": 1} if has_gpus else {"num_cpus": 1}
        rows = ray.data.from_items(list(procedures), override_num_blocks=max(len(procedures), 1))
        embedded = rows.map_batches(
            _Actor,
            fn_constructor_args=(start,),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=workers),
            **options,
        )
        for count, row in enumerate(embedded.iter_rows(), start=1):
            if row["error"]:
                errors.append(PolyplinkError(row["error"], row["hint"]))
            else:
                answers.append(json.loads(row["answer"]))
            if progress is not None:
                progress(count, len(procedures))
    if errors:
        failures = f" (and {len(errors) - 1} more procedures failed)" if len(errors) > 1 else ""
        raise PolyplinkError(errors[0].what + failures, errors[0].hint)
    return answers


@contextmanager
def _cluster(address: str | None, workers: int) -> Iterator[Any]:
    """Ray, connected to a cluster or started here; quiet, and without its usage reports."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    try:
        import ray  # noqa: PLC0415 - an extra
        import ray.data  # noqa: PLC0415
    except ImportError:
        raise PolyplinkError(
            "--engine ray needs Ray", "install it: pip install 'polyplink[scale]'"
        ) from None
    quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    with tempfile.TemporaryDirectory(prefix="polyplink-ray-", ignore_cleanup_errors=True) as folder:
        try:
            if address is None:
                ray.init(
                    num_cpus=workers,
                    object_store_memory=OBJECTS,
                    include_dashboard=False,
                    _node_ip_address="127.0.0.1",
                    _temp_dir=folder,
                    **quiet,
                )
            else:
                host, _, port = address.rpartition(":")
                socket.create_connection((host, int(port)), ANSWERS).close()
                ray.init(address=address, **quiet)
        except Exception as error:  # Ray raises errors of this class itself
            raise PolyplinkError(
                f"no Ray cluster at {address or 'this machine'} ({first_line(error)})",
                "give HOST:PORT of one that `ray start --head` started, or --engine local",
            ) from None
        try:
            logging.getLogger("ray.data").setLevel(logging.ERROR)
            ray.data.DataContext.get_current().enable_progress_bars = False
            yield ray
        finally:
            ray.shutdown()


def shard(procedures: Sequence[str], part: str) -> list[str]:
    """The procedures of one of n shards.

    A hash of its name decides where a procedure belongs, so that others that are added later move
    none. Shards of many procedures are about equally large; of few, some may be empty.

    Args:
        procedures: Ids of procedures.
        part: "I/N", the shard I of N, from 1.

    Raises:
        PolyplinkError: If it is not I/N, or I is not one of 1 to N.

    Example:
        >>> [shard(["001-001", "001-002", "001-003"], f"{i}/2") for i in (1, 2)]
        [['001-001'], ['001-002', '001-003']]
    """
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", part, re.ASCII)
    number, count = (int(match[1]), int(match[2])) if match else (0, 0)
    PolyplinkError.unless(
        1 <= number <= count,
        f"--shard {part}: no such shard",
        "give I/N, with I from 1 to N, as in 2/8",
    )
    hashes = (int(hashlib.sha256(name.encode()).hexdigest()[:16], 16) for name in procedures)
    return [
        name
        for name, digest in zip(procedures, hashes, strict=True)
        if digest % count == number - 1
    ]
