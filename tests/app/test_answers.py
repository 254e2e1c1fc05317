import json
from pathlib import Path

from tests.app.calls import assert_refused, polyplink
from tests.conftest import Made


def test_count_and_evaluate_print_json_alone(made: Made, tmp_path: Path) -> None:
    result = polyplink(
        "count", made.run, made.data, "--part", "eval", "-o", tmp_path / "c", "--json"
    )
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["procedures"][0]["procedure_id"] == "001-005"
    result = polyplink("embed", made.run, made.data, "-o", tmp_path / "v.parquet", "--json")
    assert json.loads(result.stdout)["tracklets"] == 30
    result = polyplink("doctor", made.data, "--json")
    assert isinstance(json.loads(result.stdout), list)
    assert_refused(
        polyplink("evaluate", made.run, made.data, "--part", "train"),
        "trained or validated on 4 of these procedures",
    )
