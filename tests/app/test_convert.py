"""The verb `convert`, as a user calls it."""

import json
from pathlib import Path

from polyplink.data import import_coco, read_data
from tests.app.calls import assert_refused, polyplink
from tests.samples import write_procedures


def test_a_data_folder_is_converted_once_and_imported_again(tmp_path: Path) -> None:
    folder = write_procedures(tmp_path, procedures=2, images=False)
    data = read_data(folder)
    result = polyplink("convert", folder, "coco", tmp_path / "coco", "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["procedures"], told["boxes"]) == (2, data.detections.height)
    assert import_coco(tmp_path / "coco").data.detections.equals(data.detections)
    record = json.loads((tmp_path / "coco" / "run.json").read_text())
    assert record["inputs"] == {str(folder): data.key}
    assert_refused(polyplink("convert", folder, "coco", tmp_path / "coco"), "exists already")
    assert_refused(polyplink("convert", folder, "cocoa", tmp_path / "x"), "did you mean coco")
    assert_refused(polyplink("convert", folder, "ldpolyp", tmp_path / "ld"), "TrainValid_<id>")
    assert not (tmp_path / "ld").exists()
