"""Where counts are written, and that none is lost without a word."""

import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import polars as pl
import pytest

from polyplink.core.artefacts import RunRecord
from polyplink.core.errors import PolyplinkError
from polyplink.core.sharing import sole_writer
from polyplink.data.tables import read_data
from polyplink.encoders.weights import read_record, weights_path
from polyplink.pipeline.outputs import output_folder, protect_other_counts
from polyplink.scale.index import Index
from polyplink.tracklets.prepare import prepare
from polyplink.tracklets.settings import PrepareSettings
from tests.cli.calls import assert_refused, polyplink
from tests.conftest import SampleRun
from tests.samples import write_procedures


def test_a_count_is_named_after_what_is_counted(tmp_path: Path) -> None:
    (tmp_path / "case 7.v2").mkdir()
    (tmp_path / "case7.mp4").touch()
    assert output_folder(None, "run", tmp_path / "case7.mp4") == Path("run/case7")
    assert output_folder(None, "count", tmp_path / "case 7.v2") == Path("count/case 7.v2")
    names = [
        output_folder(None, "live", one).name for one in ("-", "/dev/video0", "rtsp://t/1?a=b")
    ]
    assert names == ["all", "video0", "t-1-a-b"]
    assert output_folder(Path("x"), "run", "case7.mp4") == Path("x")


def test_a_count_of_the_same_is_written_over_and_no_other(tmp_path: Path) -> None:
    out, film = tmp_path / "out", tmp_path / "a.mp4"
    RunRecord("run", settings={"source": str(film)}).write(out)
    protect_other_counts(out, tmp_path / "b.mp4", ["count"], replace=False)  # it holds no count
    (out / "count").mkdir()
    (out / "notes.txt").touch()
    protect_other_counts(out, film, ["count"], replace=False)
    for other in (tmp_path / "b.mp4", None):  # None: a camera shows another procedure each time
        with pytest.raises(PolyplinkError, match=r"holds the count of .*a\.mp4; .* --replace"):
            protect_other_counts(out, other, ["count"], replace=False)
    assert (out / "count").is_dir()
    protect_other_counts(out, None, ["count"], replace=True)
    assert sorted(path.name for path in out.iterdir()) == ["notes.txt", "run.json"]


def test_a_second_recording_does_not_replace_the_first_unasked(
    sample_run: SampleRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    boxes = read_data(sample_run.data).detections.select(
        "procedure_id", "frame", "x", "y", "w", "h"
    )
    for name in ("001-004", "001-005"):
        (tmp_path / name).mkdir()
        boxes.filter(pl.col("procedure_id") == name).write_csv(tmp_path / name / "detections.csv")
        size = f"procedure_id,width,height,n_frames,fps\n{name},48,40,252,25\n"
        (tmp_path / name / "procedures.csv").write_text(size)
    options = (
        "--boxes",
        "csv",
        "--weights",
        sample_run.run,
        "--device",
        "cpu",
        "--min-seconds",
        "60",
    )
    assert polyplink("run", "001-004", *options).exit_code == 0
    assert polyplink("run", "001-004", *options).exit_code == 0  # the same again
    folder = tmp_path / "run" / "001-004"
    assert (folder / "count" / "report.html").is_file()
    into = ("run", "001-005", *options, "--out", folder)
    assert_refused(polyplink(*into), "holds the count of")
    assert [path.stem for path in (folder / "data").glob("*.parquet")]
    again = polyplink(*into, "--replace")
    assert again.exit_code == 0, again.output
    assert read_data(folder / "data").procedures["procedure_id"].to_list() == ["001-005"]
    data = folder / "data"
    counted = ("count", sample_run.run, data, "--min-seconds", "60", "--device", "cpu")
    assert_refused(polyplink(*counted, "--out", "001-004/../run/001-004"), "holds a run of `run`")
    assert polyplink(*counted).exit_code == 0
    assert_refused(
        polyplink(*counted[:2], sample_run.data, "--out", "count/data"), "with --replace"
    )


def test_a_folder_that_another_command_writes_into_is_refused(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with sole_writer(out):
        for line in (
            ("train", "ntssl-demo", sample_run.data, "--out", out),
            ("run", sample_run.data, "--weights", sample_run.run, "--out", out),
            ("detect", sample_run.data, out, "--detector", "sim:good"),
        ):
            assert_refused(polyplink(*line), f"another command writes into {out} at the moment")


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["export", "index build", "train", "prepare"])
def test_of_two_commands_at_once_both_end_well_or_one_is_refused(
    verb: str, sample_run: SampleRun, tmp_path: Path
) -> None:
    out, data = tmp_path / "out", write_procedures(tmp_path, procedures=2)
    line: dict[str, tuple[str | Path, ...]] = {
        "export": (sample_run.run, out),
        "index build": (sample_run.run, data, "--index", out, "--device", "cpu"),
        "train": ("ntssl-demo", data, "--out", out, "--device", "cpu", "--set", "optim.epochs=1"),
        "prepare": (data, "--set", "prepare.size=8", "--workers", "1"),
    }
    command = [sys.executable, "-m", "polyplink", *verb.split(), *map(str, line[verb])]
    both = [subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True) for _ in range(2)]
    ends = [(run.communicate()[1], run.returncode) for run in both]
    refused = [text for text, code in ends if code]
    assert [code for _, code in ends if code] == [2] * (verb != "prepare"), ends
    for text in refused:
        (said,) = [one for one in text.splitlines() if one.startswith("polyplink: ")]
        assert str(out) in said
        assert "Traceback" not in text
    if verb == "index build":
        assert len(Index(out)) > 0
    elif verb == "prepare":
        prepared = prepare(data, PrepareSettings(size=8))
        assert all(map(prepared.has_crops, prepared.procedures))
    else:
        assert read_record(weights_path(out)).recipe
    assert not [*tmp_path.rglob("*.part"), *tmp_path.rglob("*.lock")]
