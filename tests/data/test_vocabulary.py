import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.data import (
    ADENOMA,
    adenoma_label,
    lesion_info,
    normalise_location,
    published_splits,
    size_label,
)


def test_adenoma_labels_of_the_released_table() -> None:
    lesions = lesion_info()
    labels = adenoma_label(lesions["histology_class"], ADENOMA["real-colon"])
    assert labels.dtype == pl.Int8
    assert ((labels == 1).sum(), (labels == 0).sum(), labels.null_count()) == (55, 57, 20)
    rc19 = lesions["unique_video_name"].is_in(published_splits()["rc19"])
    assert labels.filter(rc19).sum() == 17


@pytest.mark.parametrize("name", list(ADENOMA))
def test_labels_are_the_map_word_by_word(name: str) -> None:
    words = ADENOMA[name]
    labels = adenoma_label(pl.Series([*words, None], dtype=pl.String), words)
    naive = [None if words[w] is None else int(bool(words[w])) for w in words]
    assert labels.to_list() == [*naive, None]
    assert {0, 1} <= set(labels)


def test_a_word_that_no_map_has() -> None:
    with pytest.raises(PolyplinkError, match=r"histology class 'XX' is in no row .*: AD, HP, SSL"):
        adenoma_label(pl.Series(["AD", "XX"]), ADENOMA["real-colon"])


@settings(deadline=None)
@given(st.lists(st.none() | st.floats(0, 50, width=32) | st.just(5.0)))
def test_size_label_is_above_five(sizes: list[float | None]) -> None:
    labels = size_label(pl.Series(sizes, dtype=pl.Float32))
    assert labels.to_list() == [None if s is None else int(s > 5.0) for s in sizes]


def test_released_sizes() -> None:
    lesions = lesion_info()
    rc27 = lesions["unique_video_name"].is_in(published_splits()["rc27"])
    labels = size_label(lesions["size [mm]"])
    assert (labels.sum(), labels.filter(rc27).sum()) == (15, 8)


def test_locations_are_brought_to_one_spelling() -> None:
    sites = pl.Series(["trasnverse", "caecum", "cecum", " Hepatic Flexure", "sigma", "ileum", None])
    assert normalise_location(sites).to_list() == [
        "transverse",
        "cecum",
        "cecum",
        "hepatic_flexure",
        "sigma",
        "ileum",
        None,
    ]
