"""Importing by the name of a format."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from polyplink.app.import_data import ImportRequest, import_data, importers
from polyplink.core.errors import PolyplinkError
from polyplink.data import read_data, write_real_colon
from tests.data.corrupted import write_every_format
from tests.samples import write_procedures


def test_tables_and_run_record_are_written(tmp_path: Path) -> None:
    data = read_data(write_procedures(tmp_path, procedures=2, images=False))
    write_real_colon(data, tmp_path / "raw")
    told: list[tuple[str, int, int]] = []
    imported = import_data(
        ImportRequest("real-colon", tmp_path / "raw", tmp_path / "out"),
        lambda *step: told.append(step),
    )
    assert read_data(tmp_path / "out").key == imported.data.key
    assert told[-1] == ("procedures", 2, 2)
    assert json.loads((tmp_path / "out" / "run.json").read_text())["command"] == "import"


def test_an_unknown_format_gets_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match="no format 'realcolon'; did you mean real-colon"):
        import_data(ImportRequest("realcolon", tmp_path, tmp_path))
    with pytest.raises(PolyplinkError, match="choose one of: real-colon"):
        import_data(ImportRequest("xyz", tmp_path, tmp_path))


def test_tables_do_not_go_into_the_data_set_itself(tmp_path: Path) -> None:
    data = read_data(write_procedures(tmp_path, procedures=2, images=False))
    write_real_colon(data, tmp_path / "raw")
    for out in (tmp_path / "raw", tmp_path / "raw" / "tables"):
        with pytest.raises(PolyplinkError, match="in which nothing is changed"):
            import_data(ImportRequest("real-colon", tmp_path / "raw", out))


def test_a_link_to_itself_is_no_data_set(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for name in importers():
        with pytest.raises(PolyplinkError, match="loop"):
            import_data(ImportRequest(name, loop, tmp_path / "out"))


def test_an_option_that_a_format_does_not_take_names_those_that_do(tmp_path: Path) -> None:
    with pytest.raises(
        PolyplinkError, match=r"real-colon takes no --cases; .* take it: sun, polyp-size"
    ):
        import_data(ImportRequest("real-colon", tmp_path, tmp_path / "out", cases=tmp_path))
    with pytest.raises(PolyplinkError, match=r"coco takes no --attribute; .* take it: cvat"):
        import_data(ImportRequest("coco", tmp_path, tmp_path / "out", attribute="x"))


def test_what_was_left_out_is_written_down(tmp_path: Path) -> None:
    (tmp_path / "boxes.csv").write_text(
        "procedure_id,frame,x,y,w,h\na,0,1,1,5,5\na,1,1,1,0,5\n", encoding="utf-8"
    )
    out = tmp_path / "out"
    imported = import_data(
        ImportRequest("csv", tmp_path / "boxes.csv", out, size="64x48", dataset="mine")
    )
    assert json.loads((out / "warnings.json").read_text()) == imported.warnings
    assert len(imported.warnings) >= 1
    assert imported.data.procedures.select("dataset", "width").rows() == [("mine", 64)]
    with pytest.raises(PolyplinkError, match="without --strict"):
        import_data(ImportRequest("csv", tmp_path / "boxes.csv", out, size="64x48", strict=True))


@contextmanager
def nobody() -> Iterator[None]:
    """Act as one who is not root, whom no permission stops."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that others may enter, which pytest's own is not."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def _needed(name: str, folder: Path) -> dict[str, Any]:
    """What an importer of `write_every_format` must be given."""
    own: dict[str, dict[str, Any]] = {
        "yolo": {"size": "64x48"},
        "sun": {"cases": folder / "cases.csv"},
    }
    return {"workers": 1} | own.get(name, {})


@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_may_not_be_read_is_named_in_one_line(open_folder: Path, what: str) -> None:
    readers = write_every_format(open_folder)
    for name in readers:
        folder = open_folder / name
        own = _needed(name, folder)
        # Once before anything is closed, so that all modules are imported.
        import_data(ImportRequest(name, folder, open_folder / f"{name} tables", **own))
        texts = {".xml", ".txt", ".json", ".csv", ".xlsx"}
        files = sorted(p for p in folder.rglob("*") if p.suffix in texts)
        closed = files[0] if what == "file" else folder
        closed.chmod(0)
        with nobody(), pytest.raises(PolyplinkError, match="Permission denied") as caught:
            import_data(ImportRequest(name, folder, open_folder / "out", **own))
        closed.chmod(0o755)
        assert str(closed) in str(caught.value)
        assert "\n" not in str(caught.value)
