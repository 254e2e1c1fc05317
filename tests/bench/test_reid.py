import pytest

from polyplink.bench import reid
from polyplink.bench.reid import run
from polyplink.core._torchvision import heal_torchvision

heal_torchvision()
pytest.importorskip("torchmetrics")


def test_figures_are_measured_and_equal() -> None:
    result = run(80)
    assert (result.name, result.size, result.equal) == ("reid", 80, True)
    assert result.peak_mb is not None
    assert result.ratio is not None


def test_a_difference_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reid, "torchmetrics_areas", lambda *_: (0.5,) * 2)
    assert not run(80).equal
