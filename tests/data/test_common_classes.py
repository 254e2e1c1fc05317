from pathlib import Path

import polars as pl
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data import ADENOMA, DataSet, lesion_info, read_data, write_data
from polyplink.data.common_classes import (
    HISTOLOGY,
    adenoma_labels,
    common_histology,
    common_location,
)
from tests.data.made_sets import small_set


def test_every_word_of_every_map_has_a_class() -> None:
    for words in ADENOMA.values():
        classes = common_histology(pl.Series(list(words)))
        for word, kind, adenoma in zip(words, classes, words.values(), strict=True):
            if adenoma:
                assert kind == "adenoma"
            assert (kind is None) == (word not in HISTOLOGY)


def test_the_released_table_has_ten_segments_at_most() -> None:
    lesions = lesion_info()
    sites = common_location(lesions["site"])
    assert sites.null_count() == lesions["site"].null_count()
    assert set(sites.drop_nulls()) == {
        "ascending", "transverse", "descending", "sigmoid", "rectum", "cecum",
        "hepatic flexure", "splenic flexure",
    }  # fmt: skip
    counts = common_histology(lesions["histology_class"]).value_counts()
    assert dict(counts.iter_rows())["adenoma"] == 55


def test_words_without_a_class_are_named() -> None:
    with pytest.raises(PolyplinkError, match="histology class 'x' has no common class"):
        common_histology(pl.Series(["AD", "x", None]))
    with pytest.raises(PolyplinkError, match="location 'elbow' has no common class"):
        common_location(pl.Series(["Sigma", "elbow"]))


def test_labels_by_the_data_set_s_own_map_unless_another_is_given(tmp_path: Path) -> None:
    data = small_set()
    assert adenoma_labels(data).to_list() == [1, 0, None]
    maps = {**ADENOMA, "real-colon": {**ADENOMA["real-colon"], "HP": True, "NO POLYP": False}}
    assert adenoma_labels(data, maps).to_list() == [1, 1, 0]
    other = DataSet.of(data.detections, data.procedures, data.polyps, adenoma=maps)
    assert adenoma_labels(other).to_list() == [1, 1, 0]
    assert other.key == data.key
    write_data(tmp_path, other)
    assert adenoma_labels(read_data(tmp_path)).to_list() == [1, 1, 0]
    write_data(tmp_path, data)
    assert adenoma_labels(read_data(tmp_path)).to_list() == [1, 0, None]
