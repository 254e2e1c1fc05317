"""What `pip install polyplink` alone can do: tables, checks, reports, without torch and numba."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.core.extras import extras_installed
from tests.app.calls import polyplink
from tests.samples import write_procedures

ABSENT = """
import sys
from polyplink.core.extras import EXTRAS

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in {module for modules in EXTRAS.values() for module in modules} - {"pyarrow"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

polars = __import__("polars")  # it looks which of them are there
sys.meta_path.insert(0, Absent())
"""
REPORT = """
from tests.report.sample import report
from polyplink.report import render
print(len(render(report())))
"""
VERB = """
from polyplink.__main__ import main
sys.argv = {arguments!r}
main()
"""


def light(code: str) -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", ABSENT + code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )


def verb(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return light(VERB.format(arguments=["polyplink", *map(str, arguments)]))


def test_tables_are_read_checked_and_cut_into_tracklets_as_with_all_libraries(
    tmp_path: Path,
) -> None:
    data = write_procedures(tmp_path, procedures=1)
    again = tmp_path / "again"
    assert polyplink("convert", data, "csv", tmp_path / "csv").exit_code == 0
    read = verb("import", "csv", tmp_path / "csv", again)
    assert (read.returncode, read.stdout.split(":")[0]) == (0, str(again)), read.stderr
    plain = verb("doctor", data, "--no-images", "--json")  # it builds tracklets, in plain Python
    assert plain.stdout == polyplink("doctor", data, "--no-images", "--json").stdout != ""
    assert int(light(REPORT).stdout) > 10_000


@pytest.mark.parametrize(
    ("line", "needs"),
    [
        ("simulate made --preset smoke", "polyplink simulate needs torch"),
        ("train ntssl-demo DATA", "polyplink train needs torch"),
    ],
)
def test_a_verb_that_needs_more_says_what_to_install(line: str, needs: str, tmp_path: Path) -> None:
    data = write_procedures(tmp_path, procedures=1)
    words = [str(data) if word == "DATA" else word for word in line.split()]
    done = verb(*words, *(["--part", "all"] if "train" in line else []), "--workers", "1")
    assert done.returncode == 2
    (said,) = done.stderr.splitlines()
    assert said == (
        f'polyplink: {needs}, which is not installed; pip install "polyplink[encoders]"'
    )


def test_a_fault_of_an_import_is_not_taken_for_a_missing_extra() -> None:
    with pytest.raises(ModuleNotFoundError), extras_installed():
        raise ModuleNotFoundError(name="polyplink.nothing")
    with (
        pytest.raises(PolyplinkError, match=r'a detector needs onnxruntime.*"polyplink\[detect\]"'),
        extras_installed("a detector"),
    ):
        raise ModuleNotFoundError(name="onnxruntime.capi")
