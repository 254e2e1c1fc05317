"""The command line: built from annotations, one line per mistake, fast help."""

import errno
import importlib
import inspect
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from subprocess import PIPE
from typing import Annotated, Any, Literal, TypedDict, Unpack

import numpy as np
import pytest
import typer
from typer import Argument, Option
from typer.main import get_command
from typer.testing import CliRunner

from polyplink import PolyplinkError, __version__, count as polyplink_count
from polyplink.cli.command import GROUPS, VerbCommand, app, command, sections
from polyplink.cli.verb import terminal_bars, verb
from polyplink.core.parts import VERBS
from polyplink.core.results import Progress, Result, silent
from polyplink_lab.cli.study import study
from tests.cli.calls import assert_refused, invoke, polyplink, printed_json
from tests.cli.mistakes import MISTAKES, SLOW_MISTAKES, assert_all_refused
from tests.conftest import SampleRun


def test_version_and_unknown_verb_have_exit_codes_0_and_2() -> None:
    assert polyplink("--version").stdout == f"polyplink {__version__}\n"
    assert polyplink("no-such-verb").exit_code == 2


def test_help_lists_every_verb_in_its_section_with_a_complete_sentence() -> None:
    pages = {"": polyplink("--help").stdout} | {
        group: polyplink(group, "--help").stdout for group in GROUPS
    }
    for page in pages.values():
        assert "..." not in page.replace("[ARGS]...", "")
        assert max(map(len, page.splitlines())) <= 80
    for title, verbs in sections().items():
        _, _, section = pages[""].partition(f"\n{title}:\n")
        section = section.partition("\n\n")[0]
        listed = re.findall(r"^  (\S+)", section, re.M)
        assert listed == [*dict.fromkeys(name.partition(" ")[0] for name in verbs)]
        for name in verbs:
            group, _, last = name.rpartition(" ")
            sentence = str(inspect.getdoc(VERBS.find(name))).partition("\n")[0].partition(". ")[0]
            text = " ".join((pages[group] if group else section).split())
            assert f"{last} {sentence}" in text


def test_mistakes_that_need_heavy_libraries_are_refused_before_anything_is_written(
    sample_run: SampleRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLYPLINK_HOME", "store")
    monkeypatch.chdir(tmp_path)
    assert_all_refused(SLOW_MISTAKES, str(sample_run.run), str(sample_run.data))


def test_mistakes_are_refused_before_heavy_libraries_are_imported(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    lines = [line for line in MISTAKES if line not in SLOW_MISTAKES]
    arguments = lines, str(sample_run.run), str(sample_run.data)
    program = f"from tests.cli import mistakes; mistakes.assert_refused_early(*{arguments})"
    environment = {"POLYPLINK_HOME": "store", "PYTHONPATH": os.pathsep.join(sys.path)}
    environment = os.environ | environment
    command = [sys.executable, "-c", program]
    result = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert result.returncode == 0, result.stderr


def test_every_verb_has_a_mistake() -> None:
    verbs = {name.partition(" ")[0] for name in VERBS.names()}
    assert {line.split()[0] for line in MISTAKES} == verbs - {"plugins"}  # it takes no arguments


def test_ctrl_c_at_exit_prints_no_traceback() -> None:
    script = (
        "import atexit, sys, time; from polyplink.__main__ import main; "
        "atexit.register(lambda: (print('at exit', flush=True), time.sleep(60))); "
        "sys.argv[1:] = ['--version']; main()"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("polyplink ")
        assert process.stdout.readline() == "at exit\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30)[1] == ""
    assert process.returncode == 130


def test_the_first_ctrl_c_is_answered_before_the_command_has_ended() -> None:
    script = (
        "import sys, time; import polyplink.cli.index as verb\n"
        "def wait(*_, **__):\n"
        "    try:\n"
        "        print('begun', flush=True); time.sleep(60)\n"
        "    finally:\n"
        "        sys.stdin.readline()\n"
        "verb.check_inputs = wait\n"
        "from polyplink.__main__ import main\n"
        "sys.argv[1:] = ['index', 'build', 'run', 'data']; main()"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline() == "\n"
        assert process.stderr.readline() == "polyplink: stopping ...\n"
        assert process.poll() is None
        rest = process.communicate("\n", timeout=60)[1]
        assert rest == "polyplink: interrupted; finished results are kept\n"
    assert process.returncode == 130


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "x.npy"), 2, "the disk is full at x.npy"),
        (OSError(errno.ENOSPC, "No space", "run", None, "copy"), 2, "the disk is full at copy;"),
        (PermissionError(errno.EACCES, "Permission denied", "y"), 2, "Permission denied at y"),
        (IsADirectoryError(errno.EISDIR, "Is a directory", "v"), 2, "v is a folder; name a file"),
        (OSError("of a library"), 2, "polyplink: of a library; check the path"),
        (OSError(errno.ENAMETOOLONG, "File name too long\n", "z" * 3000), 2, "File name too long"),
        (MemoryError(), 2, "not enough memory"),
        (OSError(errno.ENOMEM, "Cannot allocate memory", "x.npy"), 2, "not enough memory"),
        (RuntimeError("can't start new thread"), 2, "not enough memory"),
        (ImportError("libx.so: failed to map segment from it"), 2, "not enough memory"),
        (ZeroDivisionError("of\x1b[2J\nlines" * 900), 3, "this is a fault of polyplink"),
    ],
)
def test_interrupts_and_system_errors_are_one_line(
    error: BaseException, code: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    check: Callable[..., None] = fail
    module = importlib.import_module("polyplink.cli.index")
    monkeypatch.setattr(module, "check_inputs", check)
    result = polyplink("index", "build", "run", "data")
    assert result.exit_code == code
    assert message in result.stderr
    (line,) = result.stderr.splitlines()
    assert len(line) < 1300
    assert "Traceback" not in result.stderr
    if code == 3:
        assert line.startswith("polyplink: `polyplink index build` failed on ")
        trace = Path(line.rpartition(" ")[2])
        assert "in fail" in trace.read_text()
        trace.unlink()
    assert "in fail" in polyplink("index", "build", "run", "data", "--debug").stderr


class Shared(TypedDict, total=False):
    """Options of several verbs."""

    many: Annotated[int | None, Option(min=1, max=9, help="A number.")]


def test_a_command_is_built_from_a_function(tmp_path: Path) -> None:
    def verb(
        word: Annotated["str | Fraction", Argument(help="A word.")],
        path: Annotated[str | Path, Argument(help="A path.")],
        *,
        several: Annotated[str | Sequence[str | Path], Option("--one", help="Some.")] = (),
        flag: Annotated[bool, Option(help="A flag.")] = False,
        hidden: int = 5,
        progress: Progress = silent,
        **shared: Unpack[Shared],
    ) -> Result[dict[str, Any]]:
        """Return the arguments.

        With details.
        """
        assert progress is not silent
        values = {"word": word, "path": path, "several": several, "flag": flag, "hidden": hidden}
        return Result(values | {**shared}, warnings=["beware"], code=1)

    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command("verb", cls=VerbCommand)(command(verb))
    application: Any = get_command(single)
    words = ["x", str(tmp_path), "--one", "a", "--one", "b", "--flag", "--many", "3", "--json"]
    result = invoke(application, *words)
    assert json.loads(result.stdout) == {
        "word": "x", "path": str(tmp_path), "several": ["a", "b"], "flag": True, "hidden": 5,
        "many": 3,
    }  # fmt: skip
    assert (result.stderr, result.exit_code) == ("warning: beware\n", 1)
    plain = json.loads(invoke(application, "x", "y", "--json").stdout)
    assert plain["several"] == []
    assert plain["many"] is None
    assert invoke(application, "x", "y", "--many", "0").exit_code == 2
    text = invoke(application, "--help").stdout
    assert "\nOptions of several verbs:\n  --many <int range>  A number." in text
    assert "hidden" not in text
    assert "--no-flag" not in text


class Undocumented(TypedDict, total=False):
    few: Annotated[int | None, Option(help="A number.")]


def test_options_of_a_dictionary_without_a_docstring_are_among_the_others() -> None:
    def verb(**options: Unpack[Undocumented]) -> Result[dict[str, Any]]:
        """Return the arguments."""
        return Result({**options})

    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command("verb", cls=VerbCommand)(command(verb))
    application: Any = get_command(single)
    text = invoke(application, "--help").stdout
    assert "\n\nOptions:\n  --few <int>  A number.\n  --json" in text


def test_a_function_has_plain_types_and_the_checks_of_its_command() -> None:
    def word(
        path: Annotated[str | Path, Argument(help="A path.")],
        *,
        several: Annotated[Sequence[str], Option("--one", help="Some.")] = (),
        kind: Annotated[Literal["gt", "det"], Option(help="Kind.")] = "gt",
        name: str | None = None,
        **shared: Unpack[Shared],
    ) -> dict[str, Any]:
        """Return the arguments.

        Args:
            several: What else.
        """
        return {"path": path, "several": several, "kind": kind, "name": name, **shared}

    function: Any = verb(word)
    assert inspect.getdoc(function) == (
        "Return the arguments.\n\nArgs:\n    path: A path.\n    several: What else.\n"
        "    kind: Kind.\n    many: A number."
    )
    assert str(inspect.signature(function)) == (
        "(path: str | pathlib.Path, *, several: collections.abc.Sequence[str] = (), "
        "kind: Literal['gt', 'det'] = 'gt', name: str | None = None, many: int | None = None) "
        "-> dict[str, typing.Any]"
    )
    expected = {"path": "x", "several": ("one",), "kind": "det", "name": "y", "many": 2}
    assert function("x", several="one", kind="det", name=Path("y"), many=2) == expected
    assert function("x", many=None)["many"] is None
    assert type(function("x", many=np.int64(2))["many"]) is int  # JSON takes no other
    for unknown, meant in (
        ("more", ""),
        ("mani", "; did you mean many?"),
        ("one", "; did you mean several?"),
    ):
        message = f"word() got an unexpected keyword argument '{unknown}'{meant}"
        with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
            function("x", **{unknown: 2})
    for path in (None, 5, np.zeros((20, 20)), ["x"]):
        with pytest.raises(TypeError, match=r"^path is .{1,80}; give a path$"):
            function(path)
    for texts in (5, {"a": 1}, [5], None):
        with pytest.raises(TypeError, match=r"^several is .*; give a list of texts$"):
            function("x", several=texts)
    assert function("x", several=np.array(["a"]))["several"] == ["a"]
    with pytest.raises(TypeError, match=r"^progress is 'bar'; give a function$"):
        study("x", "y", progress="bar")  # type: ignore[arg-type]
    for of_another_type in ({"many": "2"}, {"many": 2.5}, {"many": True}, {"name": (1, 2)}):
        with pytest.raises(TypeError, match=r"; give a (whole number|text)$"):
            function("x", **of_another_type)
    for wrong, message in (
        ({"kind": "dt"}, "no kind 'dt'; did you mean det?"),
        ({"kind": 5}, "no kind '5'; choose one of: gt, det"),
        ({"many": 0}, "many is 0; give 1 or more"),
        ({"many": 10}, "many is 10; give 9 or less"),
    ):
        with pytest.raises(PolyplinkError, match=re.escape(message)):
            function("x", **wrong)
    for offered in (polyplink_count, study):
        assert "typer" not in str(inspect.signature(offered))


WRONG_ARGUMENTS = {
    ("improt",): "no command 'improt'; did you mean import?",
    ("count", "film.mp4"): "DATA missing; a video is counted by `polyplink run film.mp4`; see",
    ("evaluate",): "WEIGHTS and DATA missing: type `polyplink evaluate WEIGHTS DATA`; see",
    ("evaluate", "my run"): "DATA missing: type `polyplink evaluate 'my run' DATA`; see",
    ("evaluate", "{data}"): "WEIGHTS missing: type `polyplink evaluate encoder-v1 {data}`; see",
    ("index", "build", "run"): "DATA missing: type `polyplink index build run DATA`; see",
    ("run", "patient", "one.mp4"): "with --out, or put a name that has spaces in quotes; see",
    ("run", "one.mp4", "two.mp4"): "in a playlist (.m3u), and name this; see `polyplink run",
    ("hand-off", "x", "--language", "fr"): "'--language': 'fr' is not one of 'en', 'de',",
    ("count", "x", "y", "--language", "fr"): "'--language': 'fr' is not one of 'en', 'de',",
    ("run", "x", "--language", "EN"): "'--language': 'EN' is not one of 'en', 'de',",
    ("live", "x", "--language", "fr"): "'--language': 'fr' is not one of 'en', 'de',",
    ("simulate", "x", "--workers", "0"): "--workers",
    ("index", "build", "--nothing"): "see `polyplink index build --help`",
}


def test_a_log_file_has_a_line_of_progress_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    with terminal_bars() as progress:
        for done in range(1, 101):
            now += 1
            progress("frames", done, 100)
        printed = capsys.readouterr().err
    assert [line.partition(",")[0] for line in printed.splitlines()] == [
        f"frames: {done} of 100" for done in (30, 60, 90)
    ]


def test_mistakes_in_arguments_are_one_line_and_exit_code_2(sample_run: SampleRun) -> None:
    data = str(sample_run.data)
    for words, message in WRONG_ARGUMENTS.items():
        result = polyplink(*(word.replace("{data}", data) for word in words))
        assert (result.exit_code, result.stdout) == (2, "")
        (line,) = result.stderr.splitlines()
        assert line.startswith("polyplink: ")
        assert message.replace("{data}", data) in line


def test_no_arguments_and_a_group_without_a_verb_print_the_help() -> None:
    code, stdout, _ = run_program()
    assert code == 0
    assert "Count a recording:" in stdout
    group = polyplink("recipes")
    assert group.exit_code == 2
    assert group.stderr.startswith("Usage: polyplink recipes")
    assert len(group.stderr.splitlines()) > 5


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("train ntssl-n", "ntssl-nearest"),
        ("evaluate run data --clusterer temporal", "temporal_ap"),
        ("evaluate run data --metric HOT", "HOTA"),
        ("run boxes --boxes cv", "cvat"),
        ("count run data --tracker d", "damped"),
    ],
)
def test_shell_completion_completes_names_of_recipes_and_parts(typed: str, completed: str) -> None:
    variables = {"COMP_WORDS": f"polyplink {typed}", "COMP_CWORD": str(len(typed.split()))}
    variables["_POLYPLINK_COMPLETE"] = "complete_bash"
    command: Any = app
    result = CliRunner(env=variables).invoke(command, [], prog_name="polyplink")
    assert result.stdout.split() == [completed]


def test_recipes_are_listed() -> None:
    rows = {row["recipe"]: row for row in printed_json("recipes", "list")}
    assert rows["ntssl"]["part"] == "rc27"
    assert [rows[name]["needs polyp ids"] for name in ("sfe", "tpc")] == ["no", "yes"]
    assert 'table 1, row "SFE"' in rows["sfe"]["what it is"]


def run_program(*words: str, streams: str = "", **variables: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the program, in a shell that redirects its streams."""
    command = f"exec {sys.executable} -m polyplink {shlex.join(words)} {streams}"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"} | variables
    result = subprocess.run(
        command, shell=True, capture_output=True, text=True, check=False, env=environment
    )
    return result.returncode, result.stdout, result.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_output_device_is_one_line() -> None:
    code, _, stderr = run_program("--version", streams="> /dev/full")
    (line,) = stderr.splitlines()
    assert code == 2
    assert line.startswith("polyplink: the disk is full")


def test_a_path_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"a\xffb")
    folder.mkdir()
    assert_refused(
        polyplink("import", "csv", folder, tmp_path / "out"), r"a\udcffb is not UTF-8; rename"
    )


def test_characters_outside_the_encoding_are_escaped(tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "α.safetensors").touch()
    variables = {"PYTHONIOENCODING": "cp1252", "POLYPLINK_HOME": str(tmp_path)}  # Windows' pipes
    code, stdout, stderr = run_program("weights", "list", **variables)
    assert (code, stderr) == (0, "")
    assert r"\u03b1.safetensors" in stdout


def test_only_messages_of_polyplink_are_printed() -> None:
    worker = [sys.executable, "-c", "import warnings; warnings.warn('of a worker')"]
    script = f"""
import logging, subprocess, warnings
from polyplink.__main__ import silence_libraries
silence_libraries()
warnings.warn("odd pixels")
logging.getLogger("PIL").error("odd tag")
logging.getLogger("polyplink").warning("warning: ours")
subprocess.run({worker!r})
"""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONWARNINGS"}

    def stderr(*options: str) -> str:
        command = [sys.executable, *options, "-c", script]
        return subprocess.run(command, env=environment, stderr=PIPE, text=True, check=True).stderr

    assert stderr() == "warning: ours\n"
    assert "odd pixels" in stderr("-Wdefault")


@pytest.mark.parametrize("streams", [">&-", "<&- >&- 2>&-"])
def test_closed_streams_are_accepted(streams: str) -> None:
    assert run_program("--version", streams=streams) == (0, "", "")


@pytest.mark.parametrize("words", [["weights", "list", "--json"], ["--version"]])
def test_a_closed_pipe_is_no_error(words: list[str]) -> None:
    command = [sys.executable, "-m", "polyplink", *words]
    process = subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait() == 0
