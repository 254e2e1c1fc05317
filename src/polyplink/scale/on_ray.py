"""Distribute the procedures of an archive: in shards for any scheduler, or with Ray Data.

Ray gives each procedure to a free actor, and to another one if that actor dies. Results are stored
in one file per procedure, so that a later run continues where an earlier one stopped.
"""

import hashlib
import json
import logging
import os
import re
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

from polyplink.core.errors import PolyplinkError, first_line
from polyplink.core.results import StageProgress, silent_stage
from polyplink.core.text import many

Work = Callable[[str], Any]
"""Processes the procedure with an id; returns values that can be written as JSON."""
OBJECTS = 200_000_000  # bytes of Ray's object store, which only holds ids and results
CONNECT_SECONDS = 10.0  # limit for connecting to a cluster


class _Actor:
    """Processes procedures in a Ray worker."""

    def __init__(self, start: Callable[[], Work]) -> None:
        self.start = start
        self.work: Work | None = None

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, list[str]]:
        try:
            self.work = self.work or self.start()
            answers = [json.dumps(self.work(str(name))) for name in batch["item"]]
        except PolyplinkError as error:  # returned, so that other procedures continue
            return {"error": [error.what], "hint": [error.hint], "answer": [""]}
        return {"error": [""], "hint": [""], "answer": answers}


def on_ray(
    start: Callable[[], Work],
    procedures: Sequence[str],
    *,
    address: str | None = None,
    workers: int = 2,
    gpus: bool = True,
    progress: StageProgress = silent_stage,
) -> list[Any]:
    """Process procedures in Ray's workers.

    Args:
        start: Called once in each worker, returns the function that processes a procedure. It must
            be picklable.
        procedures: Ids of the procedures.
        address: HOST:PORT of a cluster in which all machines see the same folders; None to start
            Ray on this machine, reachable only from this machine.
        workers: Number of workers; each has one CPU, or one GPU if the cluster has GPUs.
        gpus: Whether to use GPUs.
        progress: Callback (procedures done, procedures in all).

    Returns:
        The results, in order of completion.

    Raises:
        PolyplinkError: If Ray is not installed, the cluster does not answer, or a procedure failed
            with this error; all other procedures are processed first.
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
            progress(count, len(procedures))
    if errors:
        others = many(len(errors) - 1, "more procedure")
        failures = f" (and {others} failed)" if len(errors) > 1 else ""
        raise PolyplinkError(errors[0].what + failures, errors[0].hint)
    return answers


@contextmanager
def _cluster(address: str | None, workers: int) -> Iterator[Any]:
    """Ray, connected to a cluster or started on this machine; without output or usage reports."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    # `ray start` protects a cluster with a token if it has one; one without ignores it.
    token = Path(os.environ.get("RAY_AUTH_TOKEN_PATH", "~/.ray/auth_token")).expanduser()
    if address is not None and (token.is_file() or "RAY_AUTH_TOKEN" in os.environ):
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    try:
        import ray  # noqa: PLC0415 - an extra
        import ray.data  # noqa: PLC0415
    except ImportError:
        raise PolyplinkError(
            "--engine ray needs Ray", "install it: pip install 'polyplink[scale]'"
        ) from None
    quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    with (
        tempfile.TemporaryDirectory(prefix="polyplink-ray-", ignore_cleanup_errors=True) as folder,
        redirect_stdout(sys.stderr),  # Ray prints there that a worker died
    ):
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
                socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
                ray.init(address=address, **quiet)
        except Exception as error:  # some of Ray's errors have no other class
            raise PolyplinkError(
                f"no Ray cluster at {address or 'this machine'} ({first_line(error)})",
                "give HOST:PORT of one that `ray start --head` started, with its token in "
                "~/.ray/auth_token if it has one; or --engine local",
            ) from None
        try:
            logging.getLogger("ray.data").setLevel(logging.ERROR)
            ray.data.DataContext.get_current().enable_progress_bars = False
            yield ray
        finally:
            ray.shutdown()


def shard(procedures: Sequence[str], part: str) -> list[str]:
    """The procedures of one of N shards.

    A hash of its id assigns a procedure to a shard, so that procedures added later move no other.
    With many procedures shards are about equally large; with few, some may be empty.

    Args:
        procedures: Ids of procedures.
        part: "I/N" for shard I of N, counted from 1.

    Raises:
        PolyplinkError: If `part` is not I/N, or I is not between 1 and N.

    Example:
        >>> [shard(["001-001", "001-002", "001-003"], f"{i}/2") for i in (1, 2)]
        [['001-001'], ['001-002', '001-003']]
    """
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", part, re.ASCII)
    number, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not (1 <= number <= count):
        raise PolyplinkError(
            f"--shard {part}: no such shard", "give I/N, with I from 1 to N, as in 2/8"
        )
    hashes = (int(hashlib.sha256(name.encode()).hexdigest()[:16], 16) for name in procedures)
    return [
        name
        for name, digest in zip(procedures, hashes, strict=True)
        if digest % count == number - 1
    ]
