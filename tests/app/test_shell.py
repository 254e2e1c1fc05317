"""The command line: one line for a mistake, JSON alone where it is asked for."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from polyplink import __version__, jobs
from tests.app.calls import assert_refused, polyplink


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
        (("import", "vgg", "nowhere", "out"), "no format 'vgg'"),
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
