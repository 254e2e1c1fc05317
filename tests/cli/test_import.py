"""The verbs import and merge: public sets, boxes in any format, several sets in one folder."""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import polars as pl
import pytest

from polyplink import import_data, merge_data
from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message
from polyplink.core.parts import FORMATS
from polyplink.data.files.limits import LIFTED
from polyplink.data.origin import (
    BoxesOrigin,
    read_origin,
    read_warnings,
    write_origin,
    write_warnings,
)
from polyplink.data.sets.real_colon import write_real_colon
from polyplink.data.tables import TABLES, DataSet, read_data, write_data
from polyplink.tracklets.scenes import read_scenes, write_scenes
from tests.cli.calls import assert_refused, polyplink, printed_json, succeed
from tests.data.complete_sets import write_complete_sets
from tests.data.every_format import READERS, write_format
from tests.data.sample_sets import data_set, small_set, unlabelled_row
from tests.samples import write_procedures


def write_boxes(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(["procedure_id,frame,x,y,w,h", *rows, ""]))
    return path


def test_tables_and_run_record_are_written_outside_the_data_set(tmp_path: Path) -> None:
    data = read_data(write_procedures(tmp_path, procedures=2, views=1, length=8, images=False))
    write_real_colon(data, tmp_path / "raw")
    steps: list[tuple[str, int, int]] = []
    imported = import_data(
        "real-colon",
        tmp_path / "raw",
        str(tmp_path / "out"),
        workers=1,
        progress=lambda *step: steps.append(step),
    )
    assert read_data(tmp_path / "out").key == imported.value.key
    assert steps[-1] == ("procedures", 2, 2)
    assert json.loads((tmp_path / "out" / "run.json").read_text())["command"] == "import"
    for out in (tmp_path / "raw", tmp_path / "raw" / "tables"):
        with pytest.raises(PolyplinkError, match="which must not be changed"):
            import_data("real-colon", tmp_path / "raw", out)


def test_boxes_that_doctor_objects_to_are_named_on_import(tmp_path: Path) -> None:
    rows, out = ["a,0,1,1,9,9", "a,1,60,1,9,9"], tmp_path / "out"
    boxes = write_boxes(tmp_path / "boxes.csv", *rows, *rows)
    imported = succeed("import", "csv", boxes, out, "--size", "64x48")
    assert f"{out}: 1 procedure, no polyp id, 2 boxes" in imported.stdout  # not "0 polyps"
    text = imported.stderr.replace("\n", " ")
    assert "2 x box that repeats another of its frame, left out (first: boxes.csv, line 4" in text
    assert "1 x box that reaches beyond the image (boxes.csv, line 3)" in text
    checked = polyplink("doctor", out, "--no-images").stdout
    assert "box twice" not in checked
    assert "box over the edge (1)" in checked


def test_every_format_has_a_row_in_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/import.md").read_text(encoding="utf-8")
    table = page.partition("| FORMAT | source |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(.+?)` \|", table, re.MULTILINE) == list(FORMATS)


def test_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for name in FORMATS:
        with pytest.raises(PolyplinkError, match="loop"):
            import_data(name, loop, tmp_path / "out")


def test_warnings_of_an_import_are_written(tmp_path: Path) -> None:
    boxes = write_boxes(tmp_path / "boxes.csv", "a,0,1,1,5,5", "a,1,1,1,0,5")
    out = tmp_path / "out"
    imported = import_data("csv", boxes, out, size="64x48", dataset="mine")
    lines = [f"While reading the boxes: {warning}." for warning in imported.warnings]
    assert [warning["text"] for warning in json.loads((out / "warnings.json").read_text())] == lines
    assert list(map(str, read_warnings(out))) == lines != []
    (out / "warnings.json").write_text(json.dumps(imported.warnings))  # of an earlier version
    assert list(map(str, read_warnings(out))) == lines
    of_kind = '[{{"kind": "{}", "values": {{}}}}]'.format
    for broken in ("3", "[7]", '[{"kind": 1}]', of_kind("boxes_read"), of_kind("unheard_of")):
        (out / "warnings.json").write_text(broken)
        with pytest.raises(PolyplinkError, match="holds no warnings"):
            read_warnings(out)
    assert imported.value.procedures.select("dataset", "width").rows() == [("mine", 64)]
    with pytest.raises(PolyplinkError, match="without --strict"):
        import_data("csv", boxes, out, size="64x48", strict=True)


@contextmanager
def without_root() -> Iterator[None]:
    """Act as a user other than root, who would ignore permissions."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def _required_options(name: str, folder: Path) -> dict[str, Any]:
    """Required options of an importer for the files of `write_format`."""
    options_of_format: dict[str, dict[str, Any]] = {
        "yolo": {"size": "64x48"},
        "sun": {"cases": folder / "cases.csv"},
    }
    return {"workers": 1} | options_of_format.get(name, {})


@pytest.fixture(scope="module")
def every_format() -> Iterator[Path]:
    """A small set in every format and its tables, which other users can read, unlike pytest's.

    The imports also load all modules, which another user cannot read.
    """
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    for name in READERS:
        write_format(name, folder / name)
        options = _required_options(name, folder / name)
        import_data(name, folder / name, folder / "tables" / name, **options)
    yield folder
    shutil.rmtree(folder)


def test_a_source_may_be_the_working_folder(
    every_format: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tables in (every_format / "tables").iterdir():
        source = every_format / tables.name
        monkeypatch.chdir(source)
        needed = _required_options(tables.name, source)
        import_data(tables.name, ".", tmp_path / "out", replace=True, **needed)
        for table in TABLES:
            absolute, relative = (
                pl.read_parquet(folder / f"{table}.parquet")
                for folder in (tables, tmp_path / "out")
            )
            assert relative.equals(absolute)


def test_the_data_of_another_source_are_replaced_only_on_request(tmp_path: Path) -> None:
    for name in "ab":
        write_boxes(tmp_path / f"{name}.csv", f"{name},0,1,1,5,5")
    out, size = tmp_path / "out", ("--size", "64x48")
    command = ("import", "csv", tmp_path / "a.csv", out, *size)
    succeed(*command)
    (out / "splits.json").write_text('{"train": ["a"]}')
    assert "the parts train of splits.json are gone" in polyplink(*command).stderr
    for broken in ("[1, 2]", "{"):
        (out / "splits.json").write_text(broken)
        assert_refused(polyplink("doctor", out), "; import again")
        assert polyplink(*command).exit_code == 0
    other = ("import", "csv", tmp_path / "b.csv", out, *size)
    assert_refused(polyplink(*other), "a.csv; name another folder, or replace them with --replace")
    assert read_data(out).part("all") == ["a"]
    succeed(*other, "--replace")
    assert read_data(out).part("all") == ["b"]


def test_unreadable_files_and_folders_are_refused(every_format: Path) -> None:
    texts = {".xml", ".txt", ".json", ".csv", ".xlsx"}
    for name in (tables.name for tables in (every_format / "tables").iterdir()):
        folder = every_format / name
        files = sorted(p for p in folder.rglob("*") if p.suffix in texts)
        for unreadable in (files[0], folder):
            unreadable.chmod(0)
            with without_root(), pytest.raises(PolyplinkError, match="Permission denied") as caught:
                import_data(name, folder, every_format / "out", **_required_options(name, folder))
            unreadable.chmod(0o755)
            assert str(unreadable) in str(caught.value)
            assert "\n" not in str(caught.value)


def test_options_of_import_are_checked_and_applied(tmp_path: Path) -> None:
    boxes = write_boxes(tmp_path / "boxes.csv", "a,1,1,1,5,5")
    command = ("import", "csv", boxes, tmp_path / "out", "--first-frame", "1", "--size", "64x48")
    assert printed_json(*command)["boxes"] == 1
    mapped = (*command, "--histology-map")
    succeed(*mapped, "tsa-adenoma")
    # The map is stored with the tables.
    assert read_data(tmp_path / "out").adenoma["real-colon"]["TSA"] is True
    refused = polyplink(*mapped, tmp_path / "map.json")
    assert_refused(refused, "map.json is missing")
    assert refused.stderr.count("\n") == 1  # no blank line before it


def test_a_second_import_replaces_the_detector_with_the_tables_and_restores_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boxes, out = write_boxes(tmp_path / "boxes.csv", "a,1,1,1,5,5"), tmp_path / "out"
    key = import_data("csv", boxes, out, size="64x48", detector="first").value.key
    write_boxes(boxes, "a,1,1,1,7,7")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("polyplink.data.importing.write_origin", Mock(side_effect=KeyboardInterrupt))
        import_data("csv", boxes, out, size="64x48", detector="second")
    assert (read_data(out).key, read_origin(out)) == (key, BoxesOrigin("first", "first"))
    monkeypatch.delenv(LIFTED, raising=False)
    import_data("csv", boxes, out, size="64x48", limits=False)
    assert read_data(out).key != key
    assert read_origin(out) is None
    assert not os.environ.get(LIFTED)


SETTINGS = ("--set", "prepare.size=8", "--set", "prepare.min_length=1")
FAST_OPTIONS = (*SETTINGS, "--workers", "1")


@pytest.mark.slow
def test_all_public_sets_are_imported_merged_checked_and_cut_for_a_probe(tmp_path: Path) -> None:
    folders, merged = [], tmp_path / "all"
    for name, (source, *options) in write_complete_sets(tmp_path / "raw").items():
        folders.append(tmp_path / f"{name} tables")
        succeed("import", name, source, folders[-1], "--workers", "1", *options)
    summary = printed_json("merge", merged, *folders)
    assert (summary["procedures"], summary["polyps"]) == (46 + 160 + 100 + 39 + 42, 132 + 341)
    data = read_data(merged)
    assert set(data.procedures["dataset"]) == {
        "real-colon", "ldpolyp", "sun", "polypsset", "polyp-size",
    }  # fmt: skip

    # There is no error: images exist, and no patient is in two parts.
    findings = printed_json("doctor", merged)
    assert [finding["check"] for finding in findings].count("licence") == 5

    # The crops of both sides of a probe are cut from the images of each set.
    summary = printed_json("prepare", merged, "--part", "ta384", "--no-crops", *FAST_OPTIONS)
    assert summary["procedures"] == 27 + 160 + 100 + 39
    for side in ("train", "test"):
        summary = printed_json("prepare", merged, "--part", f"rspp-{side}", *FAST_OPTIONS)
        assert summary["procedures"] == len(data.part(f"rspp-{side}"))
        assert summary["crops"] >= summary["procedures"]  # at least one per procedure
        assert summary["broken_frames"] == {}


def other_set(**changes: str) -> DataSet:
    names = {"procedure": "a", "polyp": "a_1", "dataset": "colon-bench"} | changes
    row = unlabelled_row(names["procedure"], 3, names["dataset"], source=".", patient="001-001")
    polyp = (names["polyp"], names["procedure"], 2.0, None, None, None)
    splits = {"train": [names["procedure"]]}
    return data_set([(names["procedure"], 0, 1, 1, 9, 9, names["polyp"])], [polyp], [row], splits)


@pytest.fixture
def set_folders(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Folders of two sets, and the folder for the merged set."""
    a, b, out = tmp_path / "a", tmp_path / "b", tmp_path / "out"
    write_data(a, small_set())
    write_data(b, other_set())
    return a, b, out


def test_merging_keeps_names_and_sources(set_folders: tuple[Path, Path, Path]) -> None:
    a, b, out = set_folders
    of_import = Message("boxes_read", {"line": Message("import.no_area")})
    write_warnings(b, [of_import])
    outcome = merge_data(out, [a, b])
    data = read_data(out)
    assert data.key == outcome.value.key
    assert data.procedures["source"].to_list() == ["/nowhere"] * 3 + [str(b)]
    assert data.splits["train"] == ["001-001", "a"]
    assert data.detections.height == small_set().detections.height + 1
    assert read_warnings(out)[0] == of_import
    *of_counts, patients = outcome.warnings
    assert of_counts == list(map(str, read_warnings(out)[1:]))
    assert "first: 001-001 in real-colon and colon-bench), treated as different" in patients
    assert "Colon-Bench is made of REAL-Colon's videos" in outcome.warnings[0]
    result = succeed("merge", out, a, b)  # a second merge replaces the tables
    assert "warning: real-colon and colon-bench overlap" in result.stderr
    # A set that is merged with a merged one adds no warning again.
    more, all_three = a.with_name("more"), a.with_name("all three")
    write_data(more, other_set(procedure="other", polyp="other"))
    merge_data(all_three, [out, more])
    assert read_warnings(all_three) == read_warnings(out)


def test_equal_names_are_refused_with_both_folders(set_folders: tuple[Path, Path, Path]) -> None:
    a, b, out = set_folders
    for changes, message in (
        ({"procedure": "001-009"}, f"procedure_id '001-009' is in {a} and in {b}; leave one"),
        ({"polyp": "001-009_1"}, f"polyp_id '001-009_1' is in {a} and in {b}; leave one"),
    ):
        write_data(b, other_set(**changes))
        assert_refused(polyplink("merge", out, a, b), message)
    assert_refused(polyplink("merge", out, a, a / ".." / "a"), "is named twice")
    assert_refused(polyplink("merge", b, a, b), "is one of the folders to merge")
    assert not out.exists()


def test_the_adenoma_map_is_stored_with_the_tables(
    set_folders: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    a, b, out = set_folders
    map_file = tmp_path / "map.json"
    map_file.write_text('{"real-colon": {"HP": true}}')
    for name, labels in (("tsa-adenoma", [1, 0, None, None]), (str(map_file), [1, 1, None, None])):
        merge_data(out, [a, b], histology_map=name)
        assert read_data(out).adenoma_labels().to_list() == labels
    write_data(b, replace(other_set(), adenoma={"colon-bench": {}}))
    with pytest.raises(PolyplinkError, match=r"disagree on which histology terms.*--histology-map"):
        merge_data(out, [a, b])


def test_the_detector_of_merged_boxes_stays_if_it_is_the_same(
    set_folders: tuple[Path, Path, Path],
) -> None:
    a, b, out = set_folders
    for folder, key, same_detector in ((a, "9f", False), (b, "9f", True), (b, "other", False)):
        write_origin(folder, BoxesOrigin(key, "YOLO", high=0.6))
        warnings = " ".join(merge_data(out, [a, b]).warnings)
        assert read_origin(out) == (BoxesOrigin("9f", "YOLO", high=0.6) if same_detector else None)
        assert ("different detectors" in warnings) != same_detector


def test_scenes_are_merged(set_folders: tuple[Path, Path, Path]) -> None:
    a, b, out = set_folders
    scenes_of = {"001-001": np.array([[0, 0], [40, 1]]), "a": np.array([[0, 0], [7, 1]])}
    for folder, name in ((a, "001-001"), (b, "a")):
        write_scenes(folder, {name: scenes_of[name]})
    succeed("merge", out, a, b)
    assert {name: rows.tolist() for name, rows in read_scenes(out).items()} == {
        name: rows.tolist() for name, rows in scenes_of.items()
    }


def test_paths_are_not_patterns(tmp_path: Path) -> None:
    for name, x in (("set1", 1), ("set[1]", 2), ("set*", 3)):
        (tmp_path / name).mkdir()
        write_boxes(tmp_path / name / "boxes.csv", f"a,0,{x},1,5,5")
    for name, x in (("set[1]", 2), ("set*", 3)):
        out = tmp_path / f"out{x}"
        import_data("csv", tmp_path / name / "boxes.csv", out, size="64x48")
        assert read_data(out).detections["x"].to_list() == [x]
    two_columns = tmp_path / "both.csv"
    two_columns.write_text("procedure_id,video_id,frame,x,y,w,h\na,a,0,1,1,5,5\n")
    refused = polyplink("import", "csv", two_columns, tmp_path / "o", "--size", "64x48")
    assert_refused(refused, "has the columns procedure_id and video_id")
