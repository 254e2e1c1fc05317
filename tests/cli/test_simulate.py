"""The verb simulate."""

import json
from pathlib import Path

import polars as pl
import pytest

from polyplink_lab.bench.cases import imported_modules
from polyplink_lab.simulate.tolerance_checks import Row
from tests.cli.calls import polyplink, printed_json


@pytest.mark.slow
def test_simulate_does_not_import_other_packages(tmp_path: Path) -> None:
    code = f"""
import contextlib, io
from polyplink.cli.command import app
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    app(["simulate", {str(tmp_path / "a")!r}, "--preset", "smoke", "--write", "tables",
         "--workers", "1"])
"""
    heavy = ("polyplink.learn", "polyplink.associate", "jinja2", "matplotlib", "sklearn")
    assert imported_modules(code, heavy) == []


def test_simulate_writes_tables(tmp_path: Path) -> None:
    options = ("--preset", "smoke", "--write", "tables", "--workers", "1")
    counts = printed_json("simulate", tmp_path, "--times", "2", *options)
    # Twice the four procedures and eight polyps of the preset.
    assert (counts["procedures"], counts["polyps"], counts["preview"]) == (8, 16, {})
    assert (tmp_path / "detections.parquet").is_file()
    names = ("001-002", "005-002")
    boxes = [pl.read_parquet(tmp_path / "simulation" / f"{name}.parquet") for name in names]
    assert not boxes[0].equals(boxes[1])


@pytest.mark.parametrize("holds", [True, False])
def test_the_check_has_exit_code_0_only_if_all_rows_hold(
    monkeypatch: pytest.MonkeyPatch, holds: bool
) -> None:
    rows = [
        Row("polyps", (132.0,), (132.0,), "exact", True, "a table"),
        Row("boxes", (10.0,), (9.0,), "1 %", holds, "a table"),
    ]
    monkeypatch.setattr(
        "polyplink_lab.simulate.tolerance_checks.check_simulation", lambda *_, **__: rows
    )
    result = polyplink("simulate", "--check")
    assert result.exit_code == (0 if holds else 1)
    assert "published" in result.stdout
    assert ("NO" in result.stdout.split()) == (not holds)
    listed = json.loads(polyplink("simulate", "--check", "--json").stdout)
    assert [row["holds"] for row in listed] == [True, holds]
