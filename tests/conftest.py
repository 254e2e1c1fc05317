"""One small training run that tests of the verbs share."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from polyplink.app.train import TrainRequest, train
from polyplink.learn import TrainConfig
from polyplink.recipes import ntssl_demo, override
from tests.samples import write_procedures

TINY = (
    "encoder.width=16",
    "encoder.heads=2",
    "encoder.feedforward=16",
    "prepare.size=32",
    "optim.epochs=2",
    "validation.every=3",
    "fragment_length=4",
)


def recipe() -> TrainConfig:
    """The demo's recipe at the smallest size."""
    return override(ntssl_demo(), TINY)


@dataclass(frozen=True)
class Made:
    """A data folder and a training run on it."""

    root: Path
    data: Path
    run: Path


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Five procedures: three trained on, one validated on, one left for evaluation."""
    root = tmp_path_factory.mktemp("made")
    data = write_procedures(root, procedures=5)
    train(TrainRequest(recipe(), data, root / "run", device="cpu", workers=1))
    return Made(root, data, root / "run")
