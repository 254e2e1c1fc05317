import numpy as np
import pytest

from polyplink.bench import bootstrap
from polyplink.bench.bootstrap import RECOMPUTED, run


def test_resamples_are_measured_and_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "TRACKLETS", 240)
    result = run(16)
    assert (result.name, result.size, result.equal) == ("bootstrap", 16, True)
    assert "4 resamples scaled" in result.rival


def test_a_difference_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "TRACKLETS", 240)
    monkeypatch.setattr(bootstrap, "recomputed", lambda *_: (np.zeros(RECOMPUTED),) * 3)
    assert not run(16).equal
