"""The command line: built from annotations, one line per mistake, fast help."""

import errno
import importlib
import inspect
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from subprocess import PIPE
from typing import Annotated, Any, TypedDict, Unpack

import pytest
import typer
from typer import Argument, Option
from typer.main import get_command

from polyplink import __version__
from polyplink.cli.command import GROUPS, command, sections
from polyplink.cli.verb import Result
from polyplink.core.parts import VERBS
from polyplink.core.results import Progress, silent
from polyplink_lab.bench.cases import imported
from tests.cli.calls import assert_refused, invoke, polyplink
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


MISTAKES = {
    # RUN and DATA are a trained run and its data folder; broken.pth is a file without weights.
    "import real-colon nowhere out": "nowhere",
    "import vgg nowhere out": "no format 'vgg'",
    "import video nowhere out": "boxes in a recording are detected, not imported: `polyplink run",
    "import coco DATA out": "is already a data folder, which needs no import",
    "import csv film.mp4 out": "is a video and holds no boxes; count the polyps of a video with",
    "count RUN film.mp4": "is a file, but a folder is expected; count the polyps of a video with",
    "prepare boxes.json": "with `polyplink import coco boxes.json DATA`",
    "train ntssl DATA --init-from RUN": "build theirs with --set encoder.frame_encoder=timm:",
    "convert DATA cocoa out": "did you mean coco",
    "count RUN DATA --out RUN": "holds a run of `train`",
    "calibrate RUN DATA --out RUN": "holds a run of `train`",
    "train ntssl-demo DATA --out RUN": "holds a training run already",
    "live nowhere --weights RUN": "nowhere",
    "convert DATA ldpolyp out": "TrainValid_<id>",
    "doctor nowhere": "no folder nowhere",
    "prepare nowhere": "no folder nowhere",
    "prepare DATA --recipe ntsll": "did you mean ntssl",
    "prepare DATA --part ta": "no part 'ta'",
    "simulate": "no output folder; name one",
    "simulate out --check": "--check writes nothing",
    "simulate --check --preset smoke": "does not read --preset; leave --preset out",
    "simulate --check --difficulty 0.2": "does not read --difficulty; leave --difficulty out",
    "simulate --check --write tables": "does not read --write; leave --write out",
    "simulate --check --preview": "does not read --preview; leave --preview out",
    "simulate out --preset tinny": "no preset 'tinny'; did you mean tiny",
    "simulate out --write table": "no way to write 'table'; did you mean tables",
    "simulate out --difficulty 2": "difficulty is 2",
    "train ntssl-demo nowhere": "no folder nowhere",
    "train ntssl-demo DATA --out none --resume": "no checkpoint none",
    "train simclr nowhere": "no recipe 'simclr'",
    "train ntssl nowhere --set los.form=x": "did you mean loss.form",
    "train ntssl-demo DATA --device cuda:77": "no device 'cuda:77'",
    "train ntssl-demo DATA --device gpu": "no device 'gpu' here; use --device auto",
    "train ntssl-demo DATA --part night": "no part 'night'",
    "train ntssl-demo DATA --init-from gone": "no weights at gone",
    "merge out nowhere": "no folder nowhere",
    "split nowhere --shares train=1": "no folder nowhere",
    "detect nowhere out --detector d.onnx": "no recording nowhere",
    "detect DATA out --detector sim": "no detector file sim; check the path, or give detector-v1",
    "detect film.mp4 out --detector sim:good": "changes annotated boxes, and film.mp4 is a file",
    "detect DATA out --detector sim:goood": "no detector 'goood'; did you mean good",
    "run nowhere --weights gone": "no weights at gone",
    "run boxes.json": "count them with `polyplink run boxes.json --boxes coco`",
    "run boxes.json --boxes csv": "in the format csv; `polyplink run boxes.json --boxes coco`",
    "run DATA --boxes csv": "counts it, without --boxes",
    "run film.mp4 --boxes coco": "`polyplink run BOXES --boxes coco --recording film.mp4`",
    "run film.mp4 --boxes boxes.json": "`polyplink run boxes.json --boxes FORMAT` counts it",
    "run film.mp4 --first-frame 1": "are for boxes; add --boxes FORMAT",
    "run film.mp4 --out boxes.json": "--out boxes.json is a file; name a folder",
    "calibrate gone DATA": "no weights at gone",
    "calibrate RUN DATA --truth nowhere": "no folder nowhere",
    "train-detector nowhere": "no folder nowhere",
    "train-detector DATA --out x": "give --out NAME.onnx",
    "train-detector DATA --init gone.onnx": "no file gone.onnx",
    "evaluate-detector d.onnx nowhere": "no folder nowhere",
    "models detector-v0": "did you mean detector-v1?",
    "evaluate-detector d.onnx DATA": "no detector file d.onnx",
    "review nowhere": "no folder nowhere; give a folder that `polyplink run`",
    "review film.mp4": "count the polyps of a video with `polyplink run film.mp4`",
    "hand-off nowhere": "no folder nowhere",
    "learn-from gone nowhere": "no weights at gone",
    "learn-from RUN nowhere": "no folder nowhere",
    "recipes show ntsll": "did you mean ntssl",
    "reproduce ntssl/9 DATA": "no published table 'ntssl/9'",
    "reproduce ntssl/1 nowhere": "no folder nowhere",
    "demo broken.pth": "broken.pth holds something else",
    "embed nowhere nowhere": "no weights at nowhere",
    "embed encoder.onnx DATA": "no exported encoder",
    "embed RUN DATA --out v.csv": "has another ending; give --out v.parquet",
    "embed broken.onnx DATA": "the folder of an exported encoder needs",
    "embed RUN nowhere": "no folder nowhere",
    "embed RUN DATA --precision int8": "has no 8-bit weights",
    "export RUN DATA": "exists already; name a new folder",
    "export RUN encoder.onnx --part train": "--part train needs data; add --in",
    "export RUN encoder.onnx --precision int8": "needs crops for calibration; add --data DATA",
    "export RUN encoder.onnx --int8 x --data y": "give one of them",
    "export gone encoder.onnx": "no weights at gone",
    "index build gone DATA": "no weights at gone",
    "index add RUN nowhere": "no folder nowhere",
    "search gone 001-001:00000": "no weights at gone",
    "live nowhere --weights gone": "no weights at gone",
    "study ntsll DATA": "no recipe 'ntsll'; did you mean ntssl",
    "count nowhere nowhere": "no weights at nowhere",
    "count RUN nowhere": "no folder nowhere",
    "evaluate DATA RUN": "give the weights before it, for example `encoder-v1 ",
    "evaluate RUN DATA --grid x": "no grid 'x'",
    "evaluate RUN DATA --grid papr": "no grid 'papr'; did you mean paper",
    "evaluate RUN DATA --part train": "trained or validated on 4 of these procedures",
    "evaluate RUN DATA --part night": "no part 'night' in splits.json",
    "evaluate RUN DATA --choose-on eval": "is in 'eval' and in 'eval'",
    "evaluate RUN DATA --task reidd": "no task 'reidd'; did you mean reid",
    "evaluate RUN DATA --task size": "column size_mm is empty, but the size task",
    "evaluate RUN DATA --task reid --curve-csv": "--curve-csv is for counting",
    "evaluate RUN DATA --clusterer kmeans": "no clusterer 'kmeans'; choose one of: temporal_ap",
    "probe sizes RUN DATA": "did you mean size",
    "probe size RUN DATA": "column size_mm is empty",
    "probe size gone DATA": "no weights at gone",
    "figures gone DATA": "no weights at gone",
    "figures RUN DATA --only maps": "no figure 'maps'; did you mean map",
    "figures RUN DATA --only map --part night": "no part",
    "figures RUN DATA --beside x": "names no file",
    "weights add broken.pth": "neither safetensors nor",
    "weights add gone": "no file gone",
    "weights adapt gone DATA --as x": "no weights at gone",
    "weights show endofm": "not on this machine",
    "weights cost endofn": "did you mean endofm",
    "weights cost endovit --size 256": "endovit only takes images of 224 pixels",
    "bench trackles": "did you mean tracklets",
    "bench bags --profile p": "is for the path step",
    "bench bags --device cuda": "no GPU is used for bags",
}


BROKEN_FILES = ("broken.onnx", "broken.pth", "film.mp4", "boxes.json")  # with other contents
SLOW_MISTAKES = (  # detected by heavy libraries
    "embed RUN DATA --precision int8",
    "train ntssl-demo DATA --device cuda:77",
    "weights add broken.pth",
    "bench bags --device cuda",
)
PROGRAM = """
import json, sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name in ("torch", "numba", "sklearn", "timm", "matplotlib") and path is None:
            caller = sys._getframe(1)
            while "importlib" in caller.f_code.co_filename:
                caller = caller.f_back
            if "polyplink" in caller.f_globals["__name__"]:  # polars only checks that it exists
                raise AssertionError(f"{{name}} is imported")

sys.meta_path.insert(0, Refused())
import typer.testing
from polyplink.cli.command import app
typer.testing._get_command = lambda group: group
run = typer.testing.CliRunner().invoke
print(json.dumps([run(app, call).stderr for call in {calls}]))
"""


@pytest.mark.parametrize("line", MISTAKES)
def test_mistakes_are_refused_before_anything_is_written_or_started(
    line: str, sample_run: SampleRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []
    monkeypatch.setattr("polyplink.core.workers.start_server", started.append)
    monkeypatch.setenv("POLYPLINK_HOME", "store")
    monkeypatch.chdir(tmp_path)
    for name in BROKEN_FILES:
        Path(name).write_bytes(b"no weights")
    paths = {"RUN": str(sample_run.run), "DATA": str(sample_run.data)}
    assert_refused(polyplink(*(paths.get(word, word) for word in line.split())), MISTAKES[line])
    assert (started, [path.name for path in tmp_path.iterdir()]) == ([], [*BROKEN_FILES])


def test_mistakes_of_every_verb_are_refused_before_torch_is_imported(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    lines = [line for line in MISTAKES if line not in SLOW_MISTAKES]
    assert {word for line in lines for word in line.split()[:1]} == {
        name.partition(" ")[0] for name in VERBS.names()
    } - {"plugins"}  # which takes no arguments
    paths = {"RUN": str(sample_run.run), "DATA": str(sample_run.data)}
    calls = [[paths.get(word, word) for word in line.split()] for line in lines]
    for name in BROKEN_FILES:
        (tmp_path / name).write_bytes(b"no weights")
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(calls=json.dumps(calls))],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "POLYPLINK_HOME": "store"},
    )
    errors = dict(zip(lines, json.loads(result.stdout), strict=True))
    assert {line: text for line, text in errors.items() if MISTAKES[line] not in text} == {}


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


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "x.npy"), 2, "the disk is full at x.npy"),
        (PermissionError(errno.EACCES, "Permission denied", "y"), 2, "Permission denied at y"),
        (OSError(errno.ENAMETOOLONG, "File name too long\n", "z" * 3000), 2, "File name too long"),
        (MemoryError(), 2, "not enough memory"),
        (
            ZeroDivisionError("of\x1b[2J\nlines" * 900),
            3,
            "this is a fault of polyplink",
        ),
    ],
)
def test_interrupts_and_system_errors_are_one_line(
    error: BaseException, code: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    check: Callable[..., None] = fail
    monkeypatch.setattr(importlib.import_module("polyplink.cli.embed"), "check_given", check)
    result = polyplink("embed", "run", "data")
    assert result.exit_code == code
    assert message in result.stderr
    (line,) = result.stderr.splitlines()
    assert len(line) < 1300
    assert "Traceback" not in result.stderr
    if code == 3:
        trace = Path(line.rpartition(" ")[2])
        assert "in fail" in trace.read_text()
        trace.unlink()
    assert "in fail" in polyplink("embed", "run", "data", "--debug").stderr


class Shared(TypedDict, total=False):
    """Options of several verbs."""

    many: Annotated[int | None, Option(min=1, help="A number.")]


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
    single.command("verb")(command(verb))
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
    assert "A number." in text
    assert "hidden" not in text
    assert "--no-flag" not in text


def test_help_imports_no_heavy_library() -> None:
    code = """
import contextlib, io
from polyplink.cli.command import app
from polyplink.core.parts import VERBS
with contextlib.redirect_stdout(io.StringIO()):
    for name in VERBS.names():
        app([*name.split(), "--help"], standalone_mode=False)
"""
    heavy = ("torch", "numpy", "polars", "polyplink.data", "polyplink.encoders", "matplotlib")
    assert imported(code, heavy) == []


RUN_ALL = """
import contextlib, io, json, sys
from polyplink.__main__ import main
results = []
for words in {calls}:
    out, err, sys.argv = io.StringIO(), io.StringIO(), ["polyplink", *words]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code
    results.append([code or 0, out.getvalue(), err.getvalue()])
print(json.dumps(results))
"""


def run_program(calls: Sequence[Sequence[str]]) -> list[tuple[int, str, str]]:
    """Exit code, stdout and stderr of each of some calls of the program, in one new process."""
    command = [sys.executable, "-c", RUN_ALL.format(calls=[*map(list, calls)])]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return [(code, out, err) for code, out, err in json.loads(result.stdout)]


WRONG_ARGUMENTS = {
    ("improt",): "No such command 'improt'. Did you mean 'import'? See `polyplink --help`",
    ("count", "film.mp4"): "DATA missing; a video is counted by `polyplink run film.mp4`; see",
    ("evaluate",): "WEIGHTS and DATA missing: type `polyplink evaluate WEIGHTS DATA`; see",
    ("evaluate", "my run"): "DATA missing: type `polyplink evaluate 'my run' DATA`; see",
    ("evaluate", "{data}"): "WEIGHTS missing: type `polyplink evaluate WEIGHTS {data}`; see",
    ("index", "build", "run"): "DATA missing: type `polyplink index build run DATA`; see",
    ("run", "patient", "one.mp4"): "put a name that has spaces in quotes; see `polyplink run",
    ("hand-off", "x", "--language", "fr"): "'--language': 'fr' is not one of 'en', 'de',",
    ("simulate", "x", "--workers", "0"): "--workers",
    ("index", "build", "--nothing"): "see `polyplink index build --help`",
}


def test_mistakes_in_arguments_are_one_line_and_exit_code_2(sample_run: SampleRun) -> None:
    data = str(sample_run.data)
    calls = [[word.replace("{data}", data) for word in words] for words in WRONG_ARGUMENTS]
    results = run_program(calls)
    for message, (code, out, err) in zip(WRONG_ARGUMENTS.values(), results, strict=True):
        assert (code, out) == (2, "")
        (line,) = err.splitlines()
        assert line.startswith("polyplink: ")
        assert message.replace("{data}", data) in line


def test_no_arguments_and_a_group_without_a_verb_print_the_help() -> None:
    whole, group = run_program([(), ("recipes",)])
    assert whole[0] == 0
    assert "Count a recording:" in whole[1]
    assert group[0] == 2
    assert group[2].startswith("Usage: polyplink recipes")
    assert len(group[2].splitlines()) > 5


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("train ntssl-n", "ntssl-nearest"),
        ("evaluate run data --clusterer temporal", "temporal_ap"),
        ("run boxes --boxes cv", "cvat"),
        ("count run data --tracker d", "damped"),
    ],
)
def test_shell_completion_completes_names_of_recipes_and_parts(typed: str, completed: str) -> None:
    words = {"COMP_WORDS": f"polyplink {typed}", "COMP_CWORD": str(len(typed.split()))}
    result = subprocess.run(
        [sys.executable, "-m", "polyplink"],
        env={**os.environ, **words, "_POLYPLINK_COMPLETE": "complete_bash"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout.split() == [completed]


def test_recipes_are_listed() -> None:
    rows = {row["recipe"]: row for row in json.loads(polyplink("recipes", "list", "--json").stdout)}
    assert rows["ntssl"]["part"] == "rc27"
    assert [rows[name]["needs polyp ids"] for name in ("sfe", "tpc")] == ["no", "yes"]
    assert 'table 1, row "SFE"' in rows["sfe"]["what it is"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_output_device_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "polyplink", "--help"]
        result = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("polyplink: No space left")


def test_a_path_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"a\xffb")
    folder.mkdir()
    assert_refused(
        polyplink("import", "csv", folder, tmp_path / "out"), r"a\udcffb is not UTF-8; rename"
    )


def test_characters_outside_the_encoding_are_escaped(tmp_path: Path) -> None:
    boxes = tmp_path / "boxes.csv"
    boxes.write_text("procedure_id,frame,x,y,w,h\nα,0,1,2,30,40\n", encoding="utf-8")
    polyplink("import", "csv", boxes, tmp_path / "data", "--size", "640x480")
    command = [sys.executable, "-m", "polyplink", "doctor", str(tmp_path / "data"), "--no-images"]
    environment = os.environ | {"PYTHONIOENCODING": "cp1252"}  # as of a pipe on Windows
    result = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert (result.returncode, result.stderr) == (0, b"")
    assert rb"procedure \u03b1" in result.stdout


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
    command = f"{sys.executable} -m polyplink weights list --json {streams}"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_closed_pipe_gives_no_traceback() -> None:
    command = [sys.executable, "-m", "polyplink", "weights", "list", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait() == 0
