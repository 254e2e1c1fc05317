import json
from pathlib import Path

import pytest

from polyplink import simulate
from polyplink.app.simulate import PRESETS, WRITINGS
from polyplink.app.tolerance_checks import Row
from polyplink.bench.startup import imported
from polyplink.data import read_data
from tests.app.calls import assert_refused, polyplink
from tests.samples import write_procedures


def test_the_doctor_ends_with_1_where_there_is_an_error(tmp_path: Path) -> None:
    data = write_procedures(tmp_path, procedures=2)
    assert polyplink("doctor", data).exit_code == 0
    next((tmp_path / "frames").rglob("*.jpg")).unlink()
    result = polyplink("doctor", data)
    assert result.exit_code == 1
    assert result.stdout.startswith("error")


def test_import_of_boxes_with_their_options(tmp_path: Path) -> None:
    boxes = tmp_path / "boxes.csv"
    boxes.write_text("procedure_id,frame,x,y,w,h\na,1,1,1,5,5\n", encoding="utf-8")
    given = ("import", "csv", boxes, tmp_path / "out", "--first-frame", "1", "--json")
    result = polyplink(*given, "--size", "64x48")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["boxes"] == 1
    assert_refused(polyplink(*given, "--size", "64"), "--size 64 is no size")
    assert_refused(polyplink(*given, "--cases", boxes), "csv takes no --cases")
    assert_refused(polyplink(*given, "--datasets", "x"), "--datasets x is no pair")


def test_prepare_tells_of_frames_that_do_not_decode(tmp_path: Path) -> None:
    data = write_procedures(tmp_path, procedures=1, polyps=1, views=2)
    (tmp_path / "frames" / "001-001" / "4.jpg").write_bytes(b"half")
    result = polyplink("prepare", data, "--set", "prepare.size=8", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["broken_frames"] == {"001-001": 1}
    assert "001-001: 1 frames do not decode (first: 001-001/4.jpg" in result.stderr


def test_prepare_strict_stops_at_a_frame_that_does_not_decode(tmp_path: Path) -> None:
    data = write_procedures(tmp_path, procedures=1, polyps=1, views=2)
    (tmp_path / "frames" / "001-001" / "4.jpg").write_bytes(b"half")
    given = ("prepare", data, "--set", "prepare.size=8")
    says = "image 001-001/4.jpg, frame 4, cannot be decoded"
    assert_refused(polyplink(*given, "--strict"), says)
    assert not list(data.rglob("*.npy"))
    assert polyplink(*given).exit_code == 0
    (crops,) = data.rglob("*.npy")
    assert_refused(polyplink(*given, "--strict"), f"restore it, remove {crops}, or")


def test_a_map_of_adenoma_is_kept_with_the_tables(tmp_path: Path) -> None:
    boxes = tmp_path / "boxes.csv"
    boxes.write_text("procedure_id,frame,x,y,w,h\na,1,1,1,5,5\n", encoding="utf-8")
    given = ("import", "csv", boxes, tmp_path / "out", "--size", "64x48", "--histology-map")
    assert polyplink(*given, "tsa-adenoma").exit_code == 0
    assert read_data(tmp_path / "out").adenoma["real-colon"]["TSA"] is True
    assert_refused(polyplink(*given, tmp_path / "map.json"), "map.json is missing")


def test_a_mistake_is_one_line_with_no_blank_one_before_it(tmp_path: Path) -> None:
    result = polyplink("import", "csv", tmp_path / "none.csv", tmp_path / "out")
    assert_refused(result, "none.csv")
    assert result.stderr.count("\n") == 1


def test_simulate_asks_for_a_folder_and_check_for_none(tmp_path: Path) -> None:
    assert_refused(polyplink("simulate"), "no folder to write to; name one")
    assert_refused(polyplink("simulate", tmp_path / "a", "--check"), "--check writes nothing")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    "given",
    [("--preset", "smoke"), ("--difficulty", "0.2"), ("--write", "tables"), ("--preview",)],
)
def test_check_leaves_no_option_unread(given: tuple[str, ...]) -> None:
    says = f"does not read {given[0]}; leave {given[0]} out"
    assert_refused(polyplink("simulate", "--check", *given), says)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("--preset", "tinny"), "no preset 'tinny'; did you mean tiny"),
        (("--write", "table"), "no way to write 'table'; did you mean tables"),
        (("--difficulty", "2"), "difficulty is 2"),
        (("--seed", "-1"), "seed -1 is below 0"),
    ],
)
def test_simulate_refuses_before_it_starts_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], says: str
) -> None:
    started: list[object] = []
    monkeypatch.setattr("polyplink.core.workers.start_server", started.append)
    assert_refused(polyplink("simulate", tmp_path / "a", *given), says)
    assert (started, list(tmp_path.iterdir())) == ([], [])


def test_names_that_simulate_knows_are_those_there_are() -> None:
    assert set(PRESETS) == set(simulate.PRESETS)
    assert set(WRITINGS) == set(simulate.WRITINGS)


def test_simulate_imports_no_other_room_than_its_own(tmp_path: Path) -> None:
    code = f"""
import contextlib, io
from polyplink.app.command_line import app
with contextlib.redirect_stdout(io.StringIO()):
    app(["simulate", {str(tmp_path / "a")!r}, "--preset", "smoke", "--write", "tables",
         "--workers", "1"], standalone_mode=False)
"""
    heavy = ("polyplink.jobs", "polyplink.associate", "polyplink.report", "matplotlib", "sklearn")
    assert imported(code, heavy) == []


def test_simulate_writes_tables(tmp_path: Path) -> None:
    options = ("--preset", "smoke", "--write", "tables", "--workers", "1", "--json")
    counts = json.loads(polyplink("simulate", tmp_path / "a", *options).stdout)
    assert (counts["procedures"], counts["polyps"], counts["preview"]) == (4, 8, {})
    assert (tmp_path / "a" / "detections.parquet").is_file()


@pytest.mark.parametrize("holds", [True, False])
def test_the_check_ends_with_0_only_if_all_holds(
    monkeypatch: pytest.MonkeyPatch, holds: bool
) -> None:
    rows = [
        Row("polyps", (132.0,), (132.0,), "exact", True, "a table"),
        Row("boxes", (10.0,), (9.0,), "1 %", holds, "a table"),
    ]
    monkeypatch.setattr("polyplink.app.tolerance_checks.check_simulation", lambda *_, **__: rows)
    result = polyplink("simulate", "--check")
    assert result.exit_code == (0 if holds else 1)
    assert "published" in result.stdout
    told = json.loads(polyplink("simulate", "--check", "--json").stdout)
    assert [row["holds"] for row in told] == [True, holds]
