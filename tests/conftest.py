"""One small training run, shared by the tests.

Slow imports are inside the fixtures, because pytest reads this file before it starts its workers.
"""

import gc
import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from polyplink.learn.train_config import TrainConfig

TINY = (
    "encoder.width=16",
    "encoder.heads=2",
    "encoder.feedforward=16",
    "prepare.size=32",
    "optim.epochs=2",
    "validation.every=3",
    "fragment_length=4",
)


def pytest_configure(config: pytest.Config) -> None:
    """Configure hypothesis, the number of threads, and Ctrl-C.

    Few random examples suffice, because they differ between runs. No test fails because the
    machine is slow. Training runs on one thread, so that it gives the same result on any number of
    cores and workers do not wait for each other. Commands that tests start answer Ctrl-C, also if
    the tests run in the background of a shell, which ignores it.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.set_threshold(100_000)  # imports and tests make many objects and little garbage
    if config.getoption("-m") != "study":
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    slow = [HealthCheck.too_slow]
    settings.register_profile(
        "polyplink", max_examples=15, deadline=None, suppress_health_check=slow
    )
    settings.load_profile("polyplink")


def pytest_collection_finish() -> None:
    """Exclude imported objects from garbage collection, which would take a second each time."""
    gc.freeze()


@pytest.fixture
def intervals_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give intervals over two procedures or more, as small sets have."""
    monkeypatch.setattr("polyplink.evaluate.intervals.FEWEST", 2)


# Files without a quick test; `make test` does not even import them.
SLOW = ("cli/test_demo.py", "cli/test_kills.py", "serve/test_page.py", "studies/test_*.py")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip whole files of slow tests if the marker expression excludes them."""
    quick = "not slow" in config.getoption("-m")
    return True if quick and any(map(collection_path.match, SLOW)) else None


def recipe() -> "TrainConfig":
    """The demo's recipe at the smallest size."""
    from polyplink.recipes.by_name import override
    from polyplink.recipes.ntssl import ntssl_demo

    return override(ntssl_demo(), TINY)


@pytest.fixture
def empty_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a store of weights that one test fills; it does not exist before."""
    monkeypatch.setenv("POLYPLINK_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "weights"


@dataclass(frozen=True)
class SampleRun:
    """A data folder, a training run on it, and its weights alone, below `root`.

    Counts use `weights`: without a history, their reports have no charts of the training, which
    would take most of the time of a small count.
    """

    root: Path
    data: Path
    run: Path
    weights: Path

    @property
    def frames(self) -> Path:
        """The images of 001-005, the procedure for evaluation: six views of 32 frames."""
        return self.root / "frames" / "001-005"


@pytest.fixture(scope="session")
def sample_run(tmp_path_factory: pytest.TempPathFactory) -> SampleRun:
    """Five procedures: three for training, one for validation, one for evaluation."""
    from polyplink import train
    from tests.samples import write_procedures

    root = tmp_path_factory.mktemp("sample_run")
    data = write_procedures(root, procedures=5)
    train(recipe(), data, out=root / "run", device="cpu", workers=1)
    weights = root / "weights" / "weights.safetensors"
    weights.parent.mkdir()
    shutil.copyfile(root / "run" / weights.name, weights)
    return SampleRun(root, data, root / "run", weights)


@pytest.fixture
def unreviewed(run_folder: Path) -> Path:
    """The folder of `run`, without the corrections of other tests."""
    (run_folder / "count" / "corrections.jsonl").unlink(missing_ok=True)
    return run_folder


@pytest.fixture(scope="session")
def run_folder(sample_run: SampleRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as `run` writes it, with the count of all procedures; tests may add corrections."""
    from polyplink.cli.count import count

    out = tmp_path_factory.mktemp("run")
    count(sample_run.weights, sample_run.data, out=out / "count", device="cpu")
    return out
