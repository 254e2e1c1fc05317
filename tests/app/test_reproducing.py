import json
from pathlib import Path

from tests.app.calls import assert_refused, polyplink
from tests.conftest import Made


def test_the_list_is_a_table_or_json() -> None:
    result = polyplink("reproduce", "list", "--json")
    assert result.exit_code == 0, result.stderr
    tables = json.loads(result.stdout)
    assert len(tables) == 48
    assert {"name", "cells", "data", "recipes", "weights", "missing", "runs"} <= set(tables[0])
    assert "thesis/A.20" in polyplink("reproduce", "list").stdout


def test_a_table_is_printed_and_written(made: Made, tmp_path: Path) -> None:
    usual = ("--workspace", tmp_path, "--part", "eval", "--grid", "demo", "--workers", "1")
    result = polyplink(
        *("reproduce", "ta/1", made.data, *usual, "--only", "none", "--device", "cpu")
    )
    assert result.exit_code == 0, result.stderr
    assert "not comparable with the paper" in result.stdout
    assert (tmp_path / "ta" / "1" / "table.html").is_file()
    result = polyplink("reproduce", "ta/1", made.data, *usual, "--only", "none", "--json")
    assert json.loads(result.stdout)["name"] == "ta/1"


def test_mistakes_are_one_line(made: Made, tmp_path: Path) -> None:
    assert_refused(polyplink("reproduce", "ntssl/1"), "no data folder")
    assert_refused(polyplink("reproduce", "ntssl/9", made.data), "no published table 'ntssl/9'")
    assert_refused(
        polyplink("reproduce", "ntssl/1", made.data, "--weights", "ntssl"), "names no file"
    )
