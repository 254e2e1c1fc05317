"""The core without extras: tables, checks and reports without torch and numba."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError, extras_installed
from tests.cli.calls import polyplink, succeed
from tests.samples import write_procedures

ABSENT = """
import sys
from polyplink.core.errors import EXTRAS

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in {module for modules in EXTRAS.values() for module in modules} - {"pyarrow"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

polars = __import__("polars")  # it checks which of them exist
sys.meta_path.insert(0, Absent())
"""
CALLS = """
import contextlib, io, json
from polyplink.__main__ import main
from polyplink.report.contents import Report
from polyplink.report.page import render
from tests.report.sample import procedure

one_procedure = Report("A report", "data", "2025-01-02", "a machine", procedures=(procedure(),))

def call(*words):
    out, err, code = io.StringIO(), io.StringIO(), 0
    sys.argv = ["polyplink", *words]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    return code, out.getvalue(), err.getvalue()

print(json.dumps([*(call(*words) for words in {calls!r}), len(render(one_procedure))]))
"""


def test_tables_work_without_extras_and_other_verbs_name_the_extra(tmp_path: Path) -> None:
    """In one process without the libraries, results are equal or a verb is refused."""
    data = write_procedures(tmp_path, procedures=1, images=False)
    succeed("convert", data, "csv", tmp_path / "csv")
    doctor = ("doctor", str(data), "--no-images", "--json")  # it builds tracklets
    imported, simulated = str(tmp_path / "again"), str(tmp_path / "made")
    calls = (
        ("import", "csv", str(tmp_path / "csv"), imported),
        doctor,
        ("simulate", simulated, "--preset", "smoke", "--workers", "1"),
        ("train", "ntssl-demo", str(data), "--part", "all", "--workers", "1"),
    )
    root = str(Path(__file__).parents[2])
    result = subprocess.run(
        [sys.executable, "-c", ABSENT + CALLS.format(calls=calls)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([root, *sys.path])},
    )
    assert result.stdout, result.stderr
    import_call, doctor_call, simulate, train, size = json.loads(result.stdout)
    assert (import_call[0], import_call[1].split(":")[0]) == (0, imported), import_call
    assert doctor_call[1] == polyplink(*doctor).stdout != ""
    assert size > 10_000
    for name, (code, _, error) in (("simulate", simulate), ("train", train)):
        assert code == 2
        assert error == (
            f"polyplink: polyplink {name} needs torch, which is not installed; "
            'pip install "polyplink[encoders]"\n'
        )


def test_an_import_error_of_polyplink_is_not_reported_as_a_missing_extra() -> None:
    with pytest.raises(ModuleNotFoundError), extras_installed():
        raise ModuleNotFoundError(name="polyplink.nothing")
    with (
        pytest.raises(PolyplinkError, match=r'a detector needs onnxruntime.*"polyplink\[detect\]"'),
        extras_installed("a detector"),
    ):
        raise ModuleNotFoundError(name="onnxruntime.capi")
