import dataclasses
from pathlib import Path

import polars as pl
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data import frame_stem, frames_folder, write_table
from polyplink.simulate import smoke
from polyplink.simulate.cast import procedure_specs
from polyplink.simulate.origin import Origin
from polyplink.simulate.plan import plan_procedure
from polyplink.simulate.truth import boxes_path, polyp_id, read_truth, truth_of

PRESET = dataclasses.replace(
    smoke(), name="own", polyps=(("001-008", 1), ("001-009", 2), ("001-010", 0))
)
SPECS = procedure_specs(PRESET, 7)
BOXES = {"001-008": [[3, 0, 1, 2, 10, 12]], "001-009": [[0, 1, 5, 6, 7, 8]], "001-010": []}
COLUMNS = ("frame", "polyp", "x", "y", "w", "h")


def write_boxes(out: Path, preset_boxes: dict[str, list[list[int]]]) -> None:
    for name, rows in preset_boxes.items():
        table = pl.DataFrame(rows, schema=dict.fromkeys(COLUMNS, pl.Int32), orient="row")
        write_table(boxes_path(out, name), table)


def test_ids_count_from_one() -> None:
    assert polyp_id("001-009", 0) == "001-009_1"


def test_truth_becomes_the_three_tables(tmp_path: Path) -> None:
    write_boxes(tmp_path, BOXES)
    data = read_truth(tmp_path, Origin(PRESET, 7, "cpu"), SPECS)
    assert data.splits == {"train": ["001-008"], "eval": ["001-009"], "negative": ["001-010"]}
    assert data.polyps["polyp_id"].to_list() == ["001-008_1", "001-009_1", "001-009_2"]
    assert data.polyps["size_mm"].to_list() == [p.size_mm for s in SPECS for p in s.polyps]
    image = {
        f: f"{frames_folder(p)}/{frame_stem(p, f)}.jpg" for p, f in (("001-008", 3), ("001-009", 0))
    }
    assert data.detections.select("frame", "x", "y", "w", "h", "polyp_id", "image").rows() == [
        (3, 1, 2, 10, 12, "001-008_1", image[3]),
        (0, 5, 6, 7, 8, "001-009_2", image[0]),
    ]
    assert data.procedures["source"].unique().to_list() == [str(tmp_path.resolve())]
    assert data.procedures["n_frames"].to_list() == [spec.n_frames for spec in SPECS]
    assert set(data.procedures["dataset"]) == {"simulated own 7"}


def test_boxes_whose_frames_are_not_written_name_no_image(tmp_path: Path) -> None:
    write_boxes(tmp_path, BOXES)
    tables = dataclasses.replace(PRESET, frames="none", annotations="none")
    data = read_truth(tmp_path, Origin(tables, 7, None), SPECS)
    assert data.detections["image"].null_count() == 2
    assert data.procedures["source"].unique().to_list() == ["."]


def test_a_set_without_any_polyp_is_a_set(tmp_path: Path) -> None:
    write_boxes(tmp_path, {"001-010": []})
    data = read_truth(tmp_path, Origin(PRESET, 7, "cpu"), SPECS[2:])
    assert data.detections.is_empty()
    assert data.polyps.is_empty()
    assert data.splits == {"negative": ["001-010"]}


def test_a_missing_procedure_is_named(tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match=r"001-008\.parquet is missing; give the same"):
        read_truth(tmp_path, Origin(PRESET, 7, "cpu"), SPECS)


def test_the_truth_tells_what_each_polyp_is() -> None:
    truth = truth_of(plan_procedure(PRESET, 7, SPECS[1]))
    assert [t["size_mm"] for t in truth["traits"]] == [p.size_mm for p in SPECS[1].polyps]
    assert truth["procedure"]["procedure_id"] == "001-009"
    assert len(truth["timeline"]["removed"]) == 2
