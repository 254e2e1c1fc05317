"""Vocabularies of the data sets: adenoma maps, sizes, common classes, locations."""

import json
from pathlib import Path

import polars as pl
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.protocols import lesion_info, published_splits
from polyplink.data.tables import DataSet, read_data, write_data
from polyplink.data.vocabulary import (
    ADENOMA,
    HISTOLOGY,
    common_histology,
    find_maps,
    label_polyps,
    normalise_location,
    read_adenoma_maps,
    size_label,
)
from tests.data.sample_sets import small_set


def labels_of(histologies: list[str | None], dataset: str) -> list[int | None]:
    """Adenoma labels of polyps with these histologies, by the papers' map of a data set."""
    procedures = pl.DataFrame({"procedure_id": ["p"], "dataset": [dataset]})
    polyps = pl.DataFrame({"histology_class": pl.Series(histologies, dtype=pl.String)})
    return label_polyps(
        procedures, polyps.with_columns(procedure_id=pl.lit("p")), ADENOMA
    ).to_list()


def test_labels_and_sizes_of_the_released_table_have_the_published_counts() -> None:
    lesions = lesion_info().rename({"unique_video_name": "procedure_id"})
    procedures = lesions.select("procedure_id").unique().with_columns(dataset=pl.lit("real-colon"))
    labels = label_polyps(procedures, lesions, ADENOMA)
    assert labels.dtype == pl.Int8
    assert ((labels == 1).sum(), (labels == 0).sum(), labels.null_count()) == (55, 57, 20)
    parts = published_splits()
    rc19, rc27 = (lesions["procedure_id"].is_in(parts[name]) for name in ("rc19", "rc27"))
    assert labels.filter(rc19).sum() == 17
    assert label_polyps(procedures, lesions, find_maps("tsa-adenoma")).sum() == 56
    large = size_label(lesions["size [mm]"])
    assert (large.sum(), large.filter(rc27).sum()) == (15, 8)
    assert size_label(pl.Series([4.9, 5.0, 5.01, None])).to_list() == [0, 0, 1, None]


@pytest.mark.parametrize("name", list(ADENOMA))
def test_labels_equal_the_map_for_every_class(name: str) -> None:
    words = ADENOMA[name]
    naive = [None if label is None else int(label) for label in words.values()]
    assert labels_of([*words, None], name.upper()) == [*naive, None]
    assert {0, 1} <= set(naive)


def test_maps_are_read_by_name_or_from_a_file(tmp_path: Path) -> None:
    assert find_maps("papers") == ADENOMA
    other = find_maps("tsa-adenoma")
    differ = [(n, w) for n, words in ADENOMA.items() for w in words if other[n][w] != words[w]]
    assert differ == [("real-colon", "TSA"), ("sun", "TSA")]
    path = tmp_path / "map.json"
    path.write_text(json.dumps({"Real_Colon": {"HP": True}, "mine": {"adenoma": True}}))
    maps = find_maps(str(path))
    assert maps["sun"] == ADENOMA["sun"]
    assert maps["real-colon"] == {**ADENOMA["real-colon"], "HP": True}
    assert maps["mine"] == {"adenoma": True}
    for text, message in (
        ('{"real-colon": {"TSA": "yes"}}', "is not an adenoma map"),
        ('{"real-colon": {"tsa": true}}', "no class 'tsa'; did you mean 'TSA'"),
        ("{", "is not valid JSON"),
    ):
        path.write_text(text)
        with pytest.raises(PolyplinkError, match=message):
            read_adenoma_maps(path)


def test_sets_without_a_map_and_classes_without_a_label_are_refused() -> None:
    assert labels_of(["AD", "HP"], "simulated tiny 0") == [1, 0]  # the words of REAL-Colon
    with pytest.raises(PolyplinkError, match="no adenoma map for the data set 'mine'"):
        labels_of(["AD"], "mine")
    assert labels_of([None], "mine") == [None]
    with pytest.raises(PolyplinkError, match=r"histology class 'XX' is not in .*: AD, HP, SSL"):
        labels_of(["AD", "XX"], "real-colon")


def test_a_data_set_stores_its_map(tmp_path: Path) -> None:
    data = small_set()
    assert data.adenoma_labels().to_list() == [1, 0, None]
    maps = {**ADENOMA, "real-colon": {**ADENOMA["real-colon"], "HP": True, "NO POLYP": False}}
    other = DataSet.of(data.detections, data.procedures, data.polyps, adenoma=maps)
    assert (other.key, other.adenoma_labels().to_list()) == (data.key, [1, 1, 0])
    write_data(tmp_path, other)
    assert read_data(tmp_path).adenoma_labels().to_list() == [1, 1, 0]
    write_data(tmp_path, data)
    assert read_data(tmp_path).adenoma_labels().to_list() == [1, 0, None]


def test_common_classes_cover_every_map_and_the_released_table() -> None:
    for words in ADENOMA.values():
        classes = common_histology(pl.Series(list(words)))
        for word, kind, adenoma in zip(words, classes, words.values(), strict=True):
            assert kind == HISTOLOGY[word]
            assert not adenoma or kind == "adenoma"
        assert common_histology(classes).equals(classes)  # users write these
    with pytest.raises(PolyplinkError, match="histology class 'x' has no common class"):
        common_histology(pl.Series(["AD", "x", None]))


def test_locations_are_normalised_to_one_spelling() -> None:
    sites = pl.Series(["trasnverse", "caecum", " Hepatic Flexure", "ileum", None])
    plain = ["transverse", "cecum", "hepatic_flexure", "ileum", None]
    assert normalise_location(sites).to_list() == plain
