from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from polyplink.core.artefacts import read_json
from polyplink.core.errors import PolyplinkError
from polyplink.data import read_data, write_data
from polyplink.jobs.reproducing import Choices, find_part, incomparable, reproduce
from polyplink.jobs.subjects import Workspace
from tests.conftest import Made
from tests.jobs.probed import write_labelled

QUICK = Choices(part="eval", grid="demo", seeds=1, only=["ntssl", "endovit"])


@pytest.fixture(autouse=True)
def _empty_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYPLINK_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_labelled(tmp_path_factory.mktemp("reproduced"), procedures=6)


def workspace(made: Made, data: Path, root: Path) -> Workspace:
    return Workspace(root, data, {"ntssl": made.run}, may_train=False, device="cpu", workers=1)


def test_ours_stands_beside_the_published_and_the_rest_says_why(
    made: Made, labelled: Path, tmp_path: Path
) -> None:
    place = workspace(made, labelled, tmp_path)
    result = reproduce("ntssl/1", place, tmp_path / "out", choices=QUICK)
    cells = {(c.row, c.column): c for c in result.cells}
    ours = cells["Ours", "mAP"]
    assert ours.published == 63.13
    assert ours.ours.value is not None
    assert 0.0 < ours.ours.value <= 100.0
    assert ours.ours.low is not None
    assert ours.ours.n == 6
    assert cells["Ours", "F1-Score"].units_of == "polyps"
    # Costs need no weights, and are comparable on any data.
    params, macs = cells["Ours", "Params"], cells["Ours", "FLOPs"]
    assert params.ours.value == pytest.approx(26.4, abs=0.05)
    assert macs.ours.value == pytest.approx(33.1, abs=0.05)
    assert macs.difference == pytest.approx(0.0, abs=0.05)
    assert cells["EndoViT", "Params"].ours.value == pytest.approx(86.6, abs=0.05)
    assert ours.difference is None
    assert cells["EndoViT", "mAP"].ours.value is None
    assert "weights" in cells["EndoViT", "mAP"].ours.why
    assert cells["SFE", "mAP"].ours.why == "left out by --only"
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert written == ["run.json", "table.csv", "table.html", "table.json", "table.tex"]
    assert read_json(tmp_path / "out" / "table.json")["name"] == "ntssl/1"


def test_no_difference_is_shown_of_what_is_not_comparable(
    made: Made, labelled: Path, tmp_path: Path
) -> None:
    place = workspace(made, labelled, tmp_path)
    silent = reproduce("ta/1", replace(place, given={}), choices=replace(QUICK, only=["none"]))
    assert silent.incomparable == "the part eval, not rc19"
    assert all(cell.difference is None for cell in silent.cells)
    fr = silent.cells[0]
    assert (fr.row, fr.ours.value) == ("No clustering", 2.0)  # two tracklets of each polyp
    anyway = reproduce("ta/1", place, choices=replace(QUICK, only=["none"], anyway=True))
    assert anyway.cells[0].difference == pytest.approx(2.0 - 20.74)
    assert "all the same" in anyway.banner


def test_simulated_data_are_named(labelled: Path, tmp_path: Path) -> None:
    data = read_data(labelled)
    made_up = data.procedures.with_columns(dataset=pl.lit("simulated smoke 0"))
    place = Workspace(tmp_path, labelled, stand_in=True)
    assert incomparable(replace(data, procedures=made_up), "rc19", place) == (
        "SIMULATED data, stand-in encoders"
    )
    assert incomparable(data, "rc19", replace(place, stand_in=False)) == ""
    assert find_part(data, None) == "eval"


def test_stand_ins_fill_a_table_of_crops(labelled: Path, tmp_path: Path) -> None:
    place = Workspace(tmp_path, labelled, stand_in=True, device="cpu", workers=1)
    result = reproduce("thesis/5.3", place, choices=Choices(part="eval", grid="demo"))
    assert result.computed == len(result.cells) == 12
    cut = [
        read_json(path)["settings"]["crop_factor"] for path in labelled.glob("prepared/*/run.json")
    ]
    assert {1.0, 2.0, 3.0, 5.0, 10.0, None} <= set(cut)  # every crop factor was looked at
    unknown = reproduce("thesis/5.11", place, choices=Choices(part="eval", grid="demo"))
    assert unknown.computed == 0
    assert list(unknown.reasons) == ["the parts that the paper measured on were not published"]


def test_bad_input_is_refused(made: Made, labelled: Path, tmp_path: Path) -> None:
    place = workspace(made, labelled, tmp_path)
    with pytest.raises(PolyplinkError, match="did you mean ntssl/1"):
        reproduce("ntssl/11", place)
    with pytest.raises(PolyplinkError, match="no row of 'sam'"):
        reproduce("ntssl/1", place, choices=Choices(only=["sam"]))
    with pytest.raises(PolyplinkError, match="no part 'night'"):
        reproduce("ntssl/1", place, choices=Choices(part="night"))
    with pytest.raises(PolyplinkError, match="no grid"):
        reproduce("ntssl/1", place, choices=Choices(grid="fine"))
    data = read_data(labelled)
    write_data(tmp_path / "d", replace(data, splits={}))
    with pytest.raises(PolyplinkError, match="no part 'eval'"):
        reproduce("ntssl/1", replace(place, data=tmp_path / "d"))
