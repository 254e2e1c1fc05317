from pathlib import Path

from tests.cli.calls import assert_refused, polyplink
from tests.samples import write_procedures


def test_paper_recipe_asks_for_its_backbone(tmp_path: Path) -> None:
    data = write_procedures(tmp_path, procedures=2)
    result = polyplink("train", "ntssl", data, "--out", tmp_path / "run", "--device", "cpu")
    assert_refused(
        result, "no file resnet50.tv2_in1k.safetensors with weights of the frame encoder"
    )
    assert not (data / "prepared").exists()  # told before anything is cut
