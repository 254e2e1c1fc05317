import pytest

from polyplink.bench import retrieval
from polyplink.bench.retrieval import run
from polyplink.core._torchvision import heal_torchvision

heal_torchvision()
pytest.importorskip("torchmetrics")


def test_figures_are_measured_and_equal() -> None:
    result = run(64)
    assert (result.name, result.size, result.equal) == ("retrieval", 64, True)
    assert result.peak_mb is not None
    assert result.ratio is not None


def test_a_difference_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrieval, "torchmetrics_figures", lambda *_: (0.5,) * 3)
    assert not run(64).equal
