import json
from pathlib import Path

import pytest

from tests.app.calls import assert_refused, polyplink
from tests.conftest import Made
from tests.samples import write_procedures


def test_paper_recipe_asks_for_its_backbone(tmp_path: Path) -> None:
    data = write_procedures(tmp_path, procedures=2)
    result = polyplink("train", "ntssl", data, "--out", tmp_path / "run", "--device", "cpu")
    assert_refused(
        result, "no file resnet50.tv2_in1k.safetensors with weights of the frame encoder"
    )
    assert not (data / "prepared").exists()  # told before anything is cut


def test_an_exported_encoder_embeds_and_counts(made: Made, tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    file = tmp_path / "encoder.onnx"
    done = polyplink("export", made.run, file, "--int8", made.data, "--part", "train", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["bits"] == 8
    embedded = polyplink("embed", file, made.data, "--part", "eval", "--json")
    assert embedded.exit_code == 0, embedded.stderr
    assert json.loads(embedded.stdout)["tracklets"] > 0
    counted = polyplink("count", file, made.data, "--out", tmp_path / "count", "--json")
    assert counted.exit_code == 0, counted.stderr


def test_exports_that_cannot_be_are_refused(made: Made, tmp_path: Path) -> None:
    assert_refused(polyplink("export", made.run, tmp_path / "e.pt"), "e.pt is no .onnx file")
    assert_refused(polyplink("embed", tmp_path / "e.onnx", made.data), "no exported encoder")
    file = tmp_path / "e.onnx"
    file.write_bytes(b"")
    assert_refused(polyplink("evaluate", file, made.data), "serves `polyplink embed` and `count`")
