"""Converting a data set to a format and importing the result gives the same data set."""

import contextlib
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings

from polyplink.core.errors import PolyplinkError
from polyplink.core.parts import FORMATS
from polyplink.data.conversion import convert
from polyplink.data.formats.csv import import_csv
from polyplink.data.tables import DataSet
from tests.data.sample_sets import BOX_IMPORTERS, box_sets, scored_set


def split_in_two(data: DataSet) -> DataSet:
    """The same data set with procedures in the parts train and val."""
    ids = data.procedures["procedure_id"].to_list()
    parts = {"train": ids[::2], "val": ids[1::2]}
    splits = {part: names for part, names in parts.items() if names}
    return DataSet.of(data.detections, data.procedures, data.polyps, splits)


@pytest.mark.parametrize("name", BOX_IMPORTERS)
@settings(max_examples=5)
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


@pytest.mark.parametrize("name", BOX_IMPORTERS)
def test_splits_are_written_where_supported_and_progress_is_reported(
    name: str, tmp_path: Path
) -> None:
    data = split_in_two(scored_set())
    warnings = convert(data, name, tmp_path)
    keeps_splits = "splits" not in FORMATS[name].loses
    assert warnings == ([] if keeps_splits else ["2 x part of the split that is not written"])
    steps: list[tuple[int, int]] = []
    imported = BOX_IMPORTERS[name](tmp_path, progress=lambda *step: steps.append(step)).data
    assert steps[-1][0] == steps[-1][1] > 0
    if name == "mot":  # all formats share the code of workers
        assert BOX_IMPORTERS[name](tmp_path, workers=2).data.key == imported.key
    assert imported.splits == (data.splits if keeps_splits else {})


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
    ]
    assert convert(data, "yolo", tmp_path / "yolo") == ["1 x box written without its image"]
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
        with contextlib.suppress(PolyplinkError):
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
