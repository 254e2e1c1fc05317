from pathlib import Path

from tests.cli.calls import polyplink
from tests.samples import write_procedures


def test_the_doctor_ends_with_1_where_there_is_an_error(tmp_path: Path) -> None:
    data = write_procedures(tmp_path, procedures=2)
    assert polyplink("doctor", data).exit_code == 0
    next((tmp_path / "frames").rglob("*.jpg")).unlink()
    result = polyplink("doctor", data)
    assert result.exit_code == 1
    assert result.stdout.startswith("error")
