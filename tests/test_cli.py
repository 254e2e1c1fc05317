"""The command line: exit codes, one line for a mistake, JSON for scripts."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from polyplink import __version__, jobs
from polyplink.cli import app
from tests.conftest import Made
from tests.samples import write_procedures


def polyplink(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def assert_refused(result: Result, says: str) -> None:
    """One line on stderr that names the thing, exit code 2, nothing on stdout, no traceback."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("polyplink: ")]
    assert says in line
    assert "; " in line  # the way to mend it
    assert "Traceback" not in result.stderr


def test_version_and_help() -> None:
    assert polyplink("--version").stdout == f"polyplink {__version__}\n"
    text = polyplink("--help").stdout
    for verb in ("demo", "simulate", "import", "doctor", "prepare", "train", "embed", "count"):
        assert verb in text
    assert polyplink("no-such-verb").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("import", "real-colon", "nowhere", "out"), "nowhere"),
        (("import", "coco", "nowhere", "out"), "no format 'coco'"),
        (("doctor", "nowhere"), "no folder nowhere"),
        (("prepare", "nowhere"), "no folder nowhere"),
        (("prepare", "nowhere", "--recipe", "ntsll"), "did you mean ntssl"),
        (("train", "ntssl-demo", "nowhere"), "no folder nowhere"),
        (("train", "simclr", "nowhere"), "no recipe 'simclr'"),
        (("train", "ntssl", "nowhere", "--set", "los.form=x"), "did you mean loss.form"),
        (("train", "ntssl", "nowhere", "--device", "cuda:77"), "no device 'cuda:77'"),
        (("embed", "nowhere", "nowhere"), "no weights at nowhere"),
        (("count", "nowhere", "nowhere"), "no weights at nowhere"),
        (("evaluate", "nowhere", "nowhere", "--grid", "x"), "no grid 'x'"),
        (("simulate", "out", "--preset", "tinny"), "did you mean tiny?"),
        (("bench", "trackles"), "did you mean tracklets"),
    ],
)
def test_mistakes_are_one_line(
    arguments: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_refused(polyplink(*arguments), says)
    assert not list(tmp_path.iterdir())  # nothing half-written


def test_paper_recipe_asks_for_its_backbone(tmp_path: Path) -> None:
    data = write_procedures(tmp_path, procedures=2)
    result = polyplink("train", "ntssl", data, "--out", tmp_path / "run", "--device", "cpu")
    assert_refused(
        result, "no file resnet50.tv2_in1k.safetensors with weights of the frame encoder"
    )
    assert not (data / "prepared").exists()  # told before anything is cut


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


def test_the_doctor_ends_with_1_where_there_is_an_error(tmp_path: Path) -> None:
    data = write_procedures(tmp_path, procedures=2)
    assert polyplink("doctor", data).exit_code == 0
    next((tmp_path / "frames").rglob("*.jpg")).unlink()
    result = polyplink("doctor", data)
    assert result.exit_code == 1
    assert result.stdout.startswith("error")


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "x.npy"), 2, "the disk is full at x.npy"),
        (PermissionError(errno.EACCES, "Permission denied", "y"), 2, "Permission denied at y"),
    ],
)
def test_interrupts_and_full_disks(
    error: BaseException, code: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    replaced: Callable[..., None] = fail
    monkeypatch.setattr(jobs, "embed_data", replaced)
    result = polyplink("embed", "run", "data")
    assert result.exit_code == code
    assert says in result.stderr
    assert "Traceback" not in result.stderr
