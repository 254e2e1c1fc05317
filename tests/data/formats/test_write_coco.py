import json
from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data import DataSet
from polyplink.data.formats.write_coco import write_coco
from tests.data.box_sets import seen_set


def test_the_papers_keys(tmp_path: Path) -> None:
    write_coco(seen_set(), tmp_path)
    content = json.loads((tmp_path / "annotations" / "instances.json").read_text())
    assert [image["file_name"] for image in content["images"]] == [
        "001-001_0.jpg",
        "001-001_1.jpg",
        "001-009_2.jpg",
    ]
    assert content["images"][2]["sequence_id"] == "001-009"
    assert content["images"][2]["frame_id"] == 2
    first, *_, last = content["annotations"]
    assert first["bbox"] == [10.5, 8.0, 20.0, 16.0]
    assert (first["identity_id"], first["size"], first["score"]) == ("001-001_1", 3.0, 0.5)
    assert "identity_id" not in last
    assert len({a["id"] for a in content["annotations"]}) == 4
    assert "source" not in content["videos"][0]


def test_a_part_is_a_file_and_a_procedure_is_in_one(tmp_path: Path) -> None:
    seen = seen_set()
    tables = (seen.detections, seen.procedures, seen.polyps)
    write_coco(DataSet.of(*tables, {"test": ["001-009"], "none": []}), tmp_path)
    names = sorted(path.name for path in (tmp_path / "annotations").iterdir())
    assert names == ["instances.json", "instances_test.json"]
    with pytest.raises(PolyplinkError, match="procedure '001-009' is in two parts"):
        write_coco(DataSet.of(*tables, {"a": ["001-009"], "b": ["001-009"]}), tmp_path)
