import json
from pathlib import Path

import polars as pl
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data import ADENOMA, lesion_info
from polyplink.data.adenoma_maps import NAMED, find_maps, label_polyps, map_of, read_adenoma_maps
from tests.data.made_sets import small_set


def test_named_maps_differ_in_the_traditional_serrated_adenoma_alone() -> None:
    assert find_maps("papers") == ADENOMA
    other = find_maps("tsa-adenoma")
    differ = [
        (name, word)
        for name, words in ADENOMA.items()
        for word in words
        if other[name][word] != words[word]
    ]
    assert differ == [("real-colon", "TSA"), ("sun", "TSA")]
    lesions = lesion_info().rename({"unique_video_name": "procedure_id"})
    procedures = lesions.select("procedure_id").unique().with_columns(dataset=pl.lit("real-colon"))
    counts = [label_polyps(procedures, lesions, maps).sum() for maps in NAMED.values()]
    assert counts == [55, 56]
    with pytest.raises(PolyplinkError, match="no histology map 'paper'; did you mean papers"):
        find_maps("paper")


def test_a_file_changes_words_of_the_default(tmp_path: Path) -> None:
    path = tmp_path / "map.json"
    path.write_text(json.dumps({"Real_Colon": {"HP": True}, "mine": {"adenoma": True}}))
    maps = find_maps(str(path))
    assert maps["sun"] == ADENOMA["sun"]
    assert maps["real-colon"] == {**ADENOMA["real-colon"], "HP": True}
    assert maps["mine"] == {"adenoma": True}
    for text, says in (
        ('{"real-colon": {"TSA": "yes"}}', "is no adenoma map"),
        ('{"real-colon": {"tsa": true}}', "no class 'tsa'; did you mean 'TSA'"),
        ("{", "is not JSON"),
    ):
        path.write_text(text)
        with pytest.raises(PolyplinkError, match=says):
            read_adenoma_maps(path)


def test_simulated_sets_have_the_words_of_real_colon() -> None:
    assert map_of("simulated tiny 0", ADENOMA) == ADENOMA["real-colon"]
    assert map_of("SUN", ADENOMA) == ADENOMA["sun"]
    assert map_of("mine", ADENOMA) is None
    data = small_set()
    mine = data.procedures.with_columns(dataset=pl.lit("mine"))
    with pytest.raises(PolyplinkError, match="no adenoma map for the data set 'mine'"):
        label_polyps(mine, data.polyps, ADENOMA)
