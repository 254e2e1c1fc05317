"""The verbs doctor and prepare."""

import json
from pathlib import Path

from tests.app.calls import assert_refused, polyplink
from tests.samples import write_procedures


def test_the_doctor_ends_with_1_where_there_is_an_error(tmp_path: Path) -> None:
    data = write_procedures(tmp_path, procedures=2)
    assert polyplink("doctor", data).exit_code == 0
    next((tmp_path / "frames").rglob("*.jpg")).unlink()
    result = polyplink("doctor", data)
    assert result.exit_code == 1
    assert result.stdout.startswith("error")


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
