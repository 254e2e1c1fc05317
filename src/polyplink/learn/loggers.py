"""Where figures go besides history.csv: TensorBoard and Weights & Biases, both extras.

Nothing leaves the machine: wandb writes offline runs, which its own `wandb sync` uploads when the
user says so.
"""

import importlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Protocol

from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError, find_named
from polyplink.learn.config import TrainConfig


class Logger(Protocol):
    """Takes the row of an epoch."""

    def log(self, epoch: int, row: Mapping[str, float]) -> None:
        """Write the figures of an epoch down."""
        ...

    def close(self) -> None:
        """Write whatever is left."""
        ...


def _imported(module: str, package: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise PolyplinkError(
            f"--log {package} needs the package {package}", "install it: pip install polyplink[log]"
        ) from None


def _finite(row: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in row.items() if math.isfinite(value)}


class TensorboardLogger:
    """Event files under `folder`/tensorboard: `tensorboard --logdir FOLDER`."""

    def __init__(self, folder: Path, config: TrainConfig) -> None:
        _imported("tensorboard", "tensorboard")
        writer: Any = importlib.import_module("torch.utils.tensorboard").SummaryWriter
        self._writer = writer(str(folder / "tensorboard"))
        self._writer.add_text("recipe", str(to_plain(config)))

    def log(self, epoch: int, row: Mapping[str, float]) -> None:
        """Write the figures of an epoch down."""
        for name, value in _finite(row).items():
            self._writer.add_scalar(name, value, epoch)

    def close(self) -> None:
        """Write whatever is left."""
        self._writer.close()


class WandbLogger:
    """An offline run under `folder`/wandb."""

    def __init__(self, folder: Path, config: TrainConfig) -> None:
        os.environ.setdefault("WANDB_SILENT", "true")
        wandb = _imported("wandb", "wandb")
        self._run = wandb.init(
            project="polyplink",
            name=config.name,
            dir=str(folder),
            config=to_plain(config),
            settings=wandb.Settings(mode="offline", console="off", x_disable_stats=True),
        )

    def log(self, epoch: int, row: Mapping[str, float]) -> None:
        """Write the figures of an epoch down."""
        self._run.log(_finite(row), step=epoch)

    def close(self) -> None:
        """Write whatever is left."""
        self._run.finish()


LOGGERS: Mapping[str, Callable[[Path, TrainConfig], Logger]] = {
    "tensorboard": TensorboardLogger,
    "wandb": WandbLogger,
}


class Loggers(AbstractContextManager["Loggers"]):
    """Several loggers as one; closed also when the training fails.

    Args:
        names: Which ones; none is fine.
        folder: The run's folder.
        config: The recipe.

    Raises:
        PolyplinkError: If there is no such logger, or its package is not installed.
    """

    def __init__(self, names: Sequence[str], folder: Path, config: TrainConfig) -> None:
        self._open: list[Logger] = []
        made = [find_named("logger", name, LOGGERS) for name in names]
        with ExitStack() as stack:
            for make in made:
                self._open.append(make(folder, config))
                stack.callback(self._open[-1].close)
            stack.pop_all()

    def log(self, row: Mapping[str, float]) -> None:
        """Give every logger the row of an epoch."""
        for logger in self._open:
            logger.log(int(row["epoch"]), row)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close them all."""
        for logger in self._open:
            logger.close()
