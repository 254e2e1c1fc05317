import numpy as np
import pytest

from polyplink.associate.clusterers import Threshold
from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.choosing import apply_choice, choose, summarise
from polyplink.evaluate.counting import count_procedure
from polyplink.evaluate.operating_curve import NAMES, curve_table, operating_curve

LABELS = [[0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 2, 3]]
COUNTS = [
    count_procedure(LABELS, polyps, name)
    for name, polyps in [("v", "aabb"), ("w", "abbb"), ("x", "aaaa")]
]
SETTLED = [np.array([True, True, False]), np.array([True, False, False]), np.array([True] * 3)]


def test_a_row_is_the_summary_under_its_setting() -> None:
    curve = operating_curve(COUNTS, SETTLED)
    for row in range(3):
        alone = [c.under(slice(row, row + 1)) for c in COUNTS]
        folds = [apply_choice(c, choose([c])) for c in alone]
        summary = summarise(folds)
        for name in NAMES:
            mean = getattr(summary, name).value
            value = getattr(curve, name)[row]
            assert np.isnan(value) if mean is None else value == pytest.approx(mean)
        assert curve.exact[row] == pytest.approx(summary.exact)
    assert curve.converged.tolist() == pytest.approx([1.0, 2 / 3, 1 / 3])
    chosen = choose(COUNTS)
    assert curve.fpr[chosen.row] == pytest.approx(chosen.fpr)


def test_the_table_has_a_row_per_setting_and_nulls_where_undefined() -> None:
    settings = (Threshold(0.1), Threshold(0.5), Threshold(0.9))
    table = curve_table(settings, vars(operating_curve(COUNTS, SETTLED)))
    assert table.columns == ["value", *NAMES, "converged", "exact"]
    assert table["value"].to_list() == [0.1, 0.5, 0.9]
    assert table["precision"][2] is None  # nothing was linked
    single = operating_curve(COUNTS[2:], SETTLED[2:])
    assert curve_table(settings, vars(single))["fpr"].null_count() == 3  # one polyp only


def test_no_procedure_is_refused() -> None:
    with pytest.raises(PolyplinkError, match="no procedure to average over"):
        operating_curve([], [])
