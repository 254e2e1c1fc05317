import sys
from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data import read_data
from polyplink.simulate import preset, read_origin
from polyplink.simulate.asked import WRITINGS, simulate_data


def test_tables_are_a_data_folder(tmp_path: Path) -> None:
    made = simulate_data("smoke", tmp_path / "a", write="tables", workers=1)
    assert read_data(tmp_path / "a").key == made.data.key
    assert made.as_dict()["procedures"] == 4
    assert made.as_dict()["preview"] == {}
    assert not list((tmp_path / "a").glob("*_frames"))


def test_a_way_to_write_changes_nothing_but_what_is_written() -> None:
    for change in WRITINGS.values():
        for name in ("smoke", "small", "real-colon-sim"):
            own = change(preset(name))
            assert (own.name, own.polyps, own.difficulty) == (
                name,
                preset(name).polyps,
                preset(name).difficulty,
            )
    assert WRITINGS["frames"](preset("small")).frames == "boxed"
    assert WRITINGS["frames"](preset("smoke")).frames == "all"
    assert WRITINGS["archives"](preset("smoke")).frames == "none"


def test_difficulty_is_part_of_the_name_and_of_the_key(tmp_path: Path) -> None:
    made = simulate_data("smoke", tmp_path / "a", write="tables", difficulty=0.75, workers=1)
    assert set(made.data.procedures["dataset"]) == {"simulated smoke@0.75 0"}
    assert read_origin(tmp_path / "a").preset.difficulty == 0.75
    with pytest.raises(PolyplinkError, match=r"holds preset smoke@0\.75"):
        simulate_data("smoke", tmp_path / "a", write="tables", workers=1)


def test_unknown_names_and_values_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match="no way to write 'table'; did you mean tables"):
        simulate_data("smoke", tmp_path / "a", write="table")
    with pytest.raises(PolyplinkError, match="difficulty is 2"):
        simulate_data("smoke", tmp_path / "a", difficulty=2.0)
    assert not (tmp_path / "a").exists()


def test_a_preview_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(PolyplinkError, match="PyAV, which is not installed; pip install av"):
        simulate_data("smoke", tmp_path / "a", write="tables", with_preview=True)
    assert not (tmp_path / "a").exists()
