from collections import Counter
from itertools import chain

import polars as pl

from polyplink.data import lesion_info, positive_frames, published_splits, video_info


def test_sixty_procedures_and_132_lesions() -> None:
    videos, lesions = video_info(), lesion_info()
    assert videos["unique_video_name"].n_unique() == videos.height == 60
    assert lesions["unique_object_id"].n_unique() == lesions.height == 132
    assert Counter(lesions["histology_class"]) == {
        "AD": 55,
        "HP": 54,
        "NO POLYP": 19,
        "SSL": 2,
        "OTHER": 1,
        "TSA": 1,
    }
    assert (lesions["size [mm]"] <= 5).sum() == 117


def test_003_012_claims_two_lesions_and_lists_three() -> None:
    listed = Counter(lesion_info()["unique_video_name"])
    claimed = dict(video_info().select("unique_video_name", "num_lesions").iter_rows())
    wrong = {name for name, count in claimed.items() if listed[name] != count}
    assert wrong == {"003-012"}
    assert (claimed["003-012"], listed["003-012"]) == (2, 3)


def test_third_party_counts_sum_to_the_published_totals() -> None:
    counts = positive_frames()
    assert counts["num_frames"].sum() == video_info()["num_frames"].sum() == 2_757_723
    assert counts["n_polyp_frames"].sum() == 342_109
    with_lesion = set(lesion_info()["unique_video_name"])
    assert set(counts.filter(pl.col("n_polyp_frames") > 0)["video_id"]) == with_lesion


def test_published_splits_cover_every_procedure_once() -> None:
    splits = published_splits()
    parts = [splits[name] for name in ("rc27", "rc19", "rc14neg")]
    assert [len(part) for part in parts] == [27, 19, 14]
    assert sorted(chain(*parts)) == sorted(video_info()["unique_video_name"])
    lesions = Counter(lesion_info()["unique_video_name"])
    assert [sum(lesions[name] for name in part) for part in parts] == [85, 47, 0]
    several = [name for name in splits["rc19"] if lesions[name] >= 2]
    assert splits["eval19_with_2_or_more"] == several
    assert len(several) == 10
