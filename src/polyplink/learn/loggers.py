"""Loggers in addition to history.csv: TensorBoard and Weights & Biases, both optional extras.

No data leave the machine: wandb writes offline runs, which users may upload with `wandb sync`.
"""

import importlib
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from polyplink.core.artefacts import to_plain
from polyplink.core.errors import extras_installed, find_named
from polyplink.learn.train_config import TrainConfig

Log = Callable[[int, Mapping[str, float]], None]
"""Logs the figures of an epoch."""


def _imported(package: str) -> Any:
    with extras_installed(f"--log {package}"):
        return importlib.import_module(package)


@contextmanager
def _tensorboard(folder: Path, config: TrainConfig) -> Iterator[Log]:
    """Event files under `folder`/tensorboard: `tensorboard --logdir FOLDER`."""
    with _imported("torch.utils.tensorboard").SummaryWriter(str(folder / "tensorboard")) as writer:
        writer.add_text("recipe", str(to_plain(config)))

        def log(epoch: int, row: Mapping[str, float]) -> None:
            for name, value in row.items():
                writer.add_scalar(name, value, epoch)

        yield log


@contextmanager
def _wandb(folder: Path, config: TrainConfig) -> Iterator[Log]:
    """An offline run under `folder`/wandb."""
    os.environ.setdefault("WANDB_SILENT", "true")
    wandb = _imported("wandb")
    run = wandb.init(
        project="polyplink",
        name=config.name,
        dir=str(folder),
        config=to_plain(config),
        settings=wandb.Settings(mode="offline", console="off", x_disable_stats=True),
    )
    try:
        yield lambda epoch, row: run.log(row, step=epoch)
    finally:
        run.finish()


LOGGERS = {"tensorboard": _tensorboard, "wandb": _wandb}


def check_loggers(names: Sequence[str]) -> None:
    """Check that loggers can be opened.

    Raises:
        PolyplinkError: If a logger is unknown, or its package is not installed.
    """
    for name in names:
        find_named("logger", name, LOGGERS)
        _imported(name)


@contextmanager
def open_loggers(
    names: Sequence[str], folder: Path, config: TrainConfig
) -> Iterator[Callable[[Mapping[str, float]], None]]:
    """Yield a function that logs the finite figures of an epoch's row with some loggers.

    The loggers are closed even if the training fails.

    Args:
        names: Names of the loggers; may be empty.
        folder: The run's folder.
        config: The recipe.

    Raises:
        PolyplinkError: As `check_loggers`.
    """
    check_loggers(names)
    with ExitStack() as stack:
        logs = [stack.enter_context(LOGGERS[name](folder, config)) for name in names]

        def log_row(row: Mapping[str, float]) -> None:
            """Log the finite figures of an epoch with every logger."""
            finite = {name: value for name, value in row.items() if math.isfinite(value)}
            for log in logs:
                log(int(row["epoch"]), finite)

        yield log_row
