"""Converting a data set to a format and importing the result gives the same data set."""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings

from polyplink.core.errors import PolyplinkError
from polyplink.core.parts import FORMATS
from polyplink.data.conversion import convert
from polyplink.data.files import folders
from polyplink.data.formats.csv import import_csv
from polyplink.data.tables import TABLES, DataSet, Imported
from tests.data.every_format import READERS, write_format
from tests.data.sample_sets import BOX_IMPORTERS, HEIGHT, WIDTH, box_sets, procedure_row, scored_set
from tests.data.videos import write_video


def split_in_two(data: DataSet) -> DataSet:
    """The same data set with procedures in the parts train and val."""
    ids = data.procedures["procedure_id"].to_list()
    parts = {"train": ids[::2], "val": ids[1::2]}
    splits = {part: names for part, names in parts.items() if names}
    return DataSet.of(data.detections, data.procedures, data.polyps, splits)


@pytest.mark.parametrize("name", BOX_IMPORTERS)
@settings(max_examples=2)
@given(box_sets())
def test_import_of_a_conversion_gives_the_data_set(name: str, data: DataSet) -> None:
    if name == "yolo" and data.detections.is_empty():
        return
    with TemporaryDirectory() as folder:
        warnings = convert(data, name, Path(folder))
        imported = BOX_IMPORTERS[name](Path(folder)).data
    drop = "source" if name == "coco" else ()
    assert imported.procedures.drop(drop).equals(data.procedures.drop(drop))
    if name == "coco":  # polyps exist only through their boxes
        named = data.polyps.join(data.detections, on="polyp_id", how="semi")
        empty = data.polyps.height - named.height
        assert warnings == ([f"{empty} x polyp without a box, not written"] if empty else [])
        assert imported.polyps.sort("polyp_id").equals(named.sort("polyp_id"))
    else:
        assert imported.polyps.equals(data.polyps)
        assert warnings == []
    if name == "yolo":  # coordinates relative to the image size are rounded
        sides = [d.detections.select("x", "y", "w", "h").to_numpy() for d in (data, imported)]
        assert np.abs(sides[0] - sides[1]).max() < 1e-3
        other_columns = [d.detections.drop("x", "y", "w", "h") for d in (data, imported)]
        assert other_columns[0].equals(other_columns[1])
    elif name == "cvat":  # boxes of a frame are in the order of their tracks
        columns = data.detections.columns
        assert imported.detections.sort(columns).equals(data.detections.sort(columns))
    else:
        assert imported.key == data.key or name == "coco"
        assert imported.detections.equals(data.detections)


class PicklingPool:
    """A pool of workers in this process: what it runs and returns is pickled."""

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        function, items = pickle.loads(pickle.dumps((function, list(items))))
        return (pickle.loads(pickle.dumps(function(item))) for item in items)


@pytest.mark.parametrize("name", BOX_IMPORTERS)
def test_splits_are_written_where_supported_and_progress_is_reported(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = split_in_two(scored_set())
    warnings = convert(data, name, tmp_path)
    keeps_splits = "splits" not in FORMATS[name].loses
    assert warnings == ([] if keeps_splits else ["2 x part of the split that is not written"])
    steps: list[tuple[int, int]] = []
    imported = BOX_IMPORTERS[name](tmp_path, progress=lambda *step: steps.append(step)).data
    assert steps[-1][0] == steps[-1][1] > 0
    monkeypatch.setattr(folders, "worker_pool", lambda _: nullcontext(PicklingPool()))
    assert BOX_IMPORTERS[name](tmp_path, workers=2).data.key == imported.key
    assert imported.splits == (data.splits if keeps_splits else {})


@pytest.mark.parametrize("name", READERS)
def test_byte_order_marks_and_windows_lines_do_not_matter(name: str, tmp_path: Path) -> None:
    before = READERS[name](write_format(name, tmp_path))
    for path in tmp_path.rglob("*"):
        if path.suffix in (".csv", ".ini", ".json", ".txt", ".xml"):
            end = " \r\n\r\n" if path.suffix == ".txt" else "\r\n"
            path.write_bytes(f"\ufeff{path.read_text()}".replace("\n", end).encode())
    after = READERS[name](tmp_path)
    assert (after.data.key, after.lines) == (before.data.key, before.lines)


def test_values_that_a_format_cannot_hold_are_counted(tmp_path: Path) -> None:
    data = split_in_two(scored_set("real-colon"))
    with_image = pl.Series(["a.jpg", None, None, None])
    data = DataSet.of(
        data.detections.with_columns(image=with_image), data.procedures, data.polyps, data.splits
    )
    assert convert(data, "real-colon", tmp_path / "real-colon") == [
        "1 x box written without its image",
        "3 x box written without its score",
        "2 x part of the split that is not written",
        "2 x box that is read in whole pixels, up to the last pixel of the frame",
    ]
    for name in ("ldpolyp", "sun", "polypsset", "polyp-size"):
        with pytest.raises(PolyplinkError, match=r"not of whole pixels|is no|is in no part"):
            convert(data, name, tmp_path / name)


@pytest.mark.parametrize("name", [name for name, form in FORMATS.items() if form.write])
def test_no_name_of_a_procedure_or_part_escapes_the_folder(name: str, tmp_path: Path) -> None:
    scored = scored_set()
    for k, escaping in enumerate(("../../escaped", "Test_..", "val_../x", "/escaped", "..")):
        rows = scored.procedures.head(1).with_columns(procedure_id=pl.lit(escaping))
        boxes, polyps = scored.detections.clear(), scored.polyps.clear()
        folder = tmp_path / f"{k}"
        root = folder / "deep" / "down" / "root"
        with suppress(PolyplinkError):
            convert(DataSet.of(boxes, rows, polyps, {escaping: [escaping]}), name, root)
        outside = [path for path in folder.rglob("*") if not path.is_relative_to(root)]
        assert {path.name for path in outside} <= {"deep", "down"}, escaping
        if escaping == "Test_..":
            assert not [path for path in root.rglob("*.txt") if path.parent.name == "Annotations"]
    assert {path.name for path in tmp_path.iterdir()} <= {*"01234"}


def test_formulas_are_escaped_in_csv_and_unescaped_on_import(tmp_path: Path) -> None:
    scored, names = scored_set(), ["=1+1", "'-2", "@a", "-b", "+1"]
    count = scored.polyps.height
    polyps = scored.polyps.with_columns(histology=pl.Series((names * count)[:count]))
    data = DataSet.of(scored.detections, scored.procedures, polyps)
    convert(data, "csv", tmp_path)
    assert "'=1+1" in (tmp_path / "polyps.csv").read_text()
    assert import_csv(tmp_path).data.polyps.equals(polyps)


# Format -> names of two procedures that its layout allows, and a term of histology.
LAYOUT_NAMES = {
    "real-colon": ("001-001", "001-002", "AD"),
    "ldpolyp": ("Test_1", "Test_2", "AD"),
    "sun": ("case1", "case2", "SSL"),
    "polypsset": ("val_1", "val_2", "adenomatous"),
    "polyp-size": ("01", "02", "Tubular Adenoma"),
}
# Column -> the warning if its values are lost.
WARNINGS: Mapping[str, str] = {
    "score": "box written without its score",
    "polyp_id": "box of no known polyp, which may be read as a polyp",
    "splits": "part of the split that is not written",
    "other splits": "part of the split that is not train, val or test, not written",
    "patient": "procedure written without its patient",
    "fps": "procedure written without its frame rate",
    "date": "procedure written without its date",
    "n_frames": "procedure written without the frames after its last box",
    "procedures": "procedure without a box, not written",
    "bbps": "procedure written without its bowel preparation",
    **dict.fromkeys(("width", "height"), "procedure written without the size of its frames"),
    **dict.fromkeys(("age", "sex", "brand"), "procedure written without its age, sex or brand"),
    "size_mm": "polyp written without its size",
    **dict.fromkeys(("histology", "histology_class"), "polyp written without its histology"),
    "location": "polyp written without its location",
    "morphology": "polyp written without its Paris class",
}


def full_set(name: str) -> DataSet:
    """A data set that fits a layout: every column has values, a procedure has no box."""
    first, second, word = LAYOUT_NAMES.get(name, ("case7", "case8", "AD"))
    boxes = pl.DataFrame(
        {"procedure_id": first, "frame": [0, 1, 3], "polyp_id": [first, first, None]}
    )
    boxes = boxes.with_columns(
        x=pl.lit(1.0), y=pl.lit(1.0), w=pl.lit(9.0), h=pl.lit(9.0), score=pl.lit(0.5)
    )
    facts = {"dataset": name, "date": "2026-01-02", "width": 70, "height": 50, "fps": 20.0}
    procedures = [procedure_row(p, 6, patient="other", **facts) for p in (first, second)]
    polyp = {"polyp_id": first, "procedure_id": first, "size_mm": 3.0, "location": "cecum"}
    polyp |= {"histology": word, "histology_class": word, "morphology": "Is"}
    parts = {"mine": [first], "yours": [second]}
    return DataSet.of(boxes, pl.DataFrame(procedures), pl.DataFrame([polyp]), parts)


def read_converted(name: str, folder: Path) -> DataSet:
    """Import a converted data set with the files and options that its format needs."""
    options: dict[str, Any] = {}
    if name == "sun":
        options = {"size": (WIDTH, HEIGHT), "cases": folder / "cases.csv"}
    elif name == "polyp-size":
        options = {"boxes": folder / "boxes.csv"}
        for k in (1, 2):
            write_video(folder / f"Video0{k}.mp4", 6)
    imported: Imported = FORMATS[name].read(folder, **options)
    return imported.data


@pytest.mark.parametrize("name", [name for name, form in FORMATS.items() if form.write])
def test_what_a_format_loses_has_a_warning_and_nothing_else_has(name: str, tmp_path: Path) -> None:
    data = full_set(name)
    warnings = convert(data, name, tmp_path)
    again = read_converted(name, tmp_path)
    lost = set()
    for table in TABLES:
        keys = ["procedure_id", "frame"] if table == "detections" else ["procedure_id"]
        before = getattr(data, table).join(again.procedures, on="procedure_id", how="semi")
        after = before.select(keys).join(getattr(again, table), on=keys, how="left")
        lost |= {c for c in before.columns if not after[c].eq_missing(before[c]).all()}
    lost |= {"procedures"} if again.procedures.height < data.procedures.height else set()
    if again.splits != data.splits:
        lost.add("other splits" if name == "yolo" else "splits")
    expected = {WARNINGS[column] for column in lost - {"source", "image"}}
    assert {line.partition(" x ")[2] for line in warnings} == expected
