"""The operating point is chosen on held-out procedures, or says that it was not."""

import numpy as np
import polars as pl
import pytest

from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.jobs.clustering import Scene
from polyplink.jobs.operating import UNTUNED, find_operating, from_record


def scene(name: str, polyps: list[str | None]) -> Scene:
    """Tracklets whose similarity is high within a polyp."""
    n = len(polyps)
    same = np.array([[a == b for b in polyps] for a in polyps])
    V = np.where(same, 0.9, 0.2) + 0.02 * np.random.default_rng(n).random((n, n))
    V = (V + V.T) / 2
    np.fill_diagonal(V, 1.0)
    table = pl.DataFrame({"polyp_id": polyps}, schema={"polyp_id": pl.String})
    return Scene(name, table, V, np.linspace(0, 1, n))


def test_it_separates_what_is_separate() -> None:
    polyps: list[str | None] = ["a", "a", "a", "b", "b", "c", "c", "c"]
    found = find_operating([scene("v", polyps), scene("w", polyps[:5])])
    assert "chosen on the held-out procedures v, w" in found.origin
    assert found.calibration is not None
    P = found.calibration.probability(np.array([0.9, 0.2]), np.array([0.1, 0.1]))
    assert P[0] > P[1]
    assert from_record(to_plain(found.as_record())) == found


def test_without_labels_or_with_one_polyp_it_is_not_tuned() -> None:
    for held, says in (
        ([scene("v", [None, None])], "no held-out procedure has known polyps"),
        ([scene("v", ["a", "a", "a"])], "no held-out procedure (v) has two polyps"),
    ):
        found = find_operating(held)
        assert found.setting == UNTUNED
        assert found.calibration is None
        assert says in found.origin


def test_weights_without_one_and_broken_ones() -> None:
    assert from_record(None).setting == UNTUNED
    with pytest.raises(PolyplinkError, match="broken operating point"):
        from_record({"setting": 3})
