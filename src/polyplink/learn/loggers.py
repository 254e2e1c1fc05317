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

Logger = tuple[Callable[[int, Mapping[str, float]], None], Callable[[], None]]
"""Two functions: one logs the figures of an epoch, the other closes the log."""


def _imported(package: str) -> Any:
    with extras_installed(f"--log {package}"):
        return importlib.import_module(package)


def _tensorboard(folder: Path, config: TrainConfig) -> Logger:
    """Event files under `folder`/tensorboard: `tensorboard --logdir FOLDER`."""
    _imported("tensorboard")
    writer = _imported("torch.utils.tensorboard").SummaryWriter(str(folder / "tensorboard"))
    writer.add_text("recipe", str(to_plain(config)))

    def log(epoch: int, row: Mapping[str, float]) -> None:
        for name, value in row.items():
            writer.add_scalar(name, value, epoch)

    return log, writer.close


def _wandb(folder: Path, config: TrainConfig) -> Logger:
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
    return lambda epoch, row: run.log(row, step=epoch), run.finish


LOGGERS = {"tensorboard": _tensorboard, "wandb": _wandb}


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
        PolyplinkError: If the logger is unknown, or its package is not installed.
    """
    chosen = [find_named("logger", name, LOGGERS) for name in names]
    logs = []
    with ExitStack() as stack:
        for start in chosen:
            log, close = start(folder, config)
            stack.callback(close)
            logs.append(log)

        def log_row(row: Mapping[str, float]) -> None:
            """Log the finite figures of an epoch with every logger."""
            finite = {name: value for name, value in row.items() if math.isfinite(value)}
            for log in logs:
                log(int(row["epoch"]), finite)

        yield log_row
