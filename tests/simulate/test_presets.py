import polars as pl
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data import lesion_info, positive_frames
from polyplink.simulate import PRESETS, preset, real_colon_sim, small, smoke, tiny


def test_tiny_has_four_studies_of_ten_procedures() -> None:
    counts = dict(tiny().polyps)
    assert list(counts) == [f"00{s}-{v:03d}" for s in range(1, 5) for v in range(1, 11)]
    values = list(counts.values())
    assert values.count(0) == 1
    assert values.count(1) == 1
    assert max(values) == 4
    assert sorted(values)[len(values) // 2] == 3


def test_smoke_has_both_parts() -> None:
    assert smoke().polyps == (("001-001", 2), ("001-002", 2), ("001-009", 2), ("001-010", 2))
    assert smoke().long_views == (3, 3)
    assert smoke().long_frames[0] >= 30


@pytest.mark.parametrize("make", [real_colon_sim, small])
def test_the_released_procedures_are_all_there(make: object) -> None:
    counts = dict(make().polyps)  # type: ignore[operator]
    assert sorted(counts) == sorted(positive_frames()["video_id"])
    assert sum(counts.values()) == lesion_info().height == 132
    assert counts["003-012"] == 3
    empty = positive_frames().filter(pl.col("n_polyp_frames") == 0)["video_id"]
    assert {name for name, polyps in counts.items() if polyps == 0} == set(empty)


@pytest.mark.parametrize("name", list(PRESETS))
def test_preset_by_name(name: str) -> None:
    assert preset(name) == PRESETS[name]()
    assert preset(name).name == name


def test_unknown_preset_names_the_nearest() -> None:
    with pytest.raises(PolyplinkError, match=r"no preset 'tinny'; did you mean tiny\?"):
        preset("tinny")
