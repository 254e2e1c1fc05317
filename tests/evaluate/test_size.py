import polars as pl
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.size import SIZE_PROBE, size_labels
from tests.evaluate.labelled import data_of


def test_five_millimetres_are_not_large_and_unknown_ones_are_left_out() -> None:
    table = size_labels(data_of(sizes=[5.0, 5.01, None, 2.0]))
    assert dict(zip(table["polyp_id"], table["label"], strict=True)) == {
        "p0": False,
        "p1": True,
        "p3": False,
    }
    assert table.schema["label"] == pl.Boolean
    assert SIZE_PROBE.rate == 1e-4


def test_no_size_names_the_column() -> None:
    with pytest.raises(PolyplinkError, match="column size_mm is empty"):
        size_labels(data_of(sizes=[None, None]))
