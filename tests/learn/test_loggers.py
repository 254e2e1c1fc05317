"""Loggers that record the figures of history.csv elsewhere."""

import importlib
import sys
from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.learn.loggers import open_loggers
from polyplink.recipes.ntssl import ntssl_demo

ROWS = [{"epoch": float(e), "loss": 2.0 - e, "loss_labels": float("nan")} for e in range(3)]


def test_tensorboard_receives_every_finite_figure(tmp_path: Path) -> None:
    with open_loggers(["tensorboard"], tmp_path, ntssl_demo()) as log:
        for row in ROWS:
            log(row)
    reading = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    events = reading.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(0, 2.0), (1, 1.0), (2, 0.0)]
    assert "loss_labels" not in events.Tags()["scalars"]


class WandbStub:
    """Replaces wandb and records its calls."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def Settings(self, **keywords: object) -> dict[str, object]:
        return keywords

    def init(self, **keywords: object) -> "WandbStub":
        self.calls.append(keywords)
        return self

    def log(self, row: dict[str, float], step: int) -> None:
        self.calls.append((step, row))

    def finish(self) -> None:
        self.calls.append("finished")


def test_wandb_stays_offline_and_is_finished_when_training_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = WandbStub()
    monkeypatch.setitem(sys.modules, "wandb", stub)
    with pytest.raises(KeyError), open_loggers(["wandb"], tmp_path, ntssl_demo()) as log:
        log(ROWS[1])
        raise KeyError
    first, *rest = stub.calls
    assert isinstance(first, dict)
    assert first["settings"]["mode"] == "offline"
    assert first["dir"] == str(tmp_path)
    assert rest == [(1, {"epoch": 1.0, "loss": 1.0}), "finished"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tensorboard", r"--log tensorboard needs .* pip install .polyplink\[log\]"),
        ("wandb", r"--log wandb needs .* pip install .polyplink\[log\]"),
        ("tensorbord", "did you mean tensorboard"),
    ],
)
def test_a_missing_package_and_an_unknown_name_are_refused(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(PolyplinkError, match=message):
        open_loggers([name], tmp_path, ntssl_demo()).__enter__()
