import polars as pl
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.histology import HISTOLOGY_PROBE, histology_labels
from tests.evaluate.labelled import data_of


def test_classes_become_labels_and_others_are_left_out() -> None:
    table = histology_labels(data_of(classes=["AD", "HP", "NO POLYP", None, "TSA"]))
    assert dict(zip(table["polyp_id"], table["label"], strict=True)) == {
        "p0": True,
        "p1": False,
        "p4": False,
    }
    assert table.schema["label"] == pl.Boolean
    assert HISTOLOGY_PROBE.rate == 1e-5


def test_no_class_names_the_column_and_a_strange_one_is_refused() -> None:
    with pytest.raises(PolyplinkError, match="column histology_class is empty"):
        histology_labels(data_of(classes=[None, "OTHER"]))
    with pytest.raises(PolyplinkError, match="histology class 'ADX'"):
        histology_labels(data_of(classes=["ADX", "AD"]))
