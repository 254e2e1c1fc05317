import json
from pathlib import Path

from tests.app.calls import assert_refused, polyplink
from tests.conftest import Made
from tests.jobs.probed import write_labelled


def test_probe_prints_a_table_or_json(made: Made, tmp_path: Path) -> None:
    data = write_labelled(tmp_path, procedures=6)
    usual = ("--length", "4", "--seeds", "1", "--workers", "1", "--device", "cpu")
    result = polyplink("probe", "size", made.run, data, "-o", tmp_path / "p", *usual)
    assert result.exit_code == 0, result.stderr
    assert "Probe: size" in result.stdout
    assert "(negative, positive)" in result.stdout
    result = polyplink("probe", "histology", made.run, data, "-o", tmp_path / "h", *usual, "--json")
    assert json.loads(result.stdout)["task"] == "histology"
    result = polyplink("probe", "colour", made.run, data, "-o", tmp_path / "c")
    assert_refused(result, "no probe 'colour'")
