"""Output folders of counts, and the protection of existing counts."""

import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import polars as pl
import pytest

from polyplink.core.artefacts import write_json
from polyplink.core.errors import PolyplinkError
from polyplink.core.runs import RunRecord, sole_writer
from polyplink.counting.corrections import LOG, Correction, append_correction
from polyplink.counting.count_folder import (
    LIVE_SOURCE,
    check_recording,
    claim_for_count,
    output_folder,
)
from polyplink.data.tables import read_data
from polyplink.encoders.weights import read_record, weights_path
from polyplink.scale.index import Index
from polyplink.tracklets.prepare import prepare
from polyplink.tracklets.settings import PrepareSettings
from tests.cli.calls import assert_refused, polyplink, succeed
from tests.conftest import SampleRun
from tests.samples import write_procedures


def test_the_default_folder_of_a_count_is_named_after_its_source(tmp_path: Path) -> None:
    (tmp_path / "case 7.v2").mkdir()
    (tmp_path / "case7.mp4").touch()
    assert output_folder(None, "run", tmp_path / "case7.mp4") == Path("run/case7")
    assert output_folder(None, "count", tmp_path / "case 7.v2") == Path("count/case 7.v2")
    names = [
        output_folder(None, "live", source).name
        for source in ("-", "/dev/video0", "rtsp://t/1?a=b")
    ]
    assert names == ["all", "video0", "t-1-a-b"]
    assert output_folder(Path("x"), "run", "case7.mp4") == Path("x")


def test_only_a_count_of_the_same_source_is_overwritten(tmp_path: Path) -> None:
    out, video = tmp_path / "out", tmp_path / "a.mp4"
    record = RunRecord("run", settings={"source": str(video)})
    record.write(out)
    # A folder without a count is not protected.
    claim_for_count(record, out, tmp_path / "b.mp4", ["count"], replace=False)
    (out / "count").mkdir()
    (out / "notes.txt").touch()
    claim_for_count(record, out, video, ["count"], replace=False)
    for other in (tmp_path / "b.mp4", None):  # None: a camera, with another procedure each time
        with pytest.raises(PolyplinkError, match=r"holds the count of .*a\.mp4; .* --replace"):
            claim_for_count(record, out, other, ["count"], replace=False)
    # Another file of the same name.
    claim_for_count(record, out, video, ["count"], replace=False, size=5)
    record.write(out)
    claim_for_count(record, out, video, ["count"], replace=False, size=5)
    with pytest.raises(PolyplinkError, match=r"the count of a recording of another size that was"):
        claim_for_count(record, out, video, ["count"], replace=False, size=7)
    with pytest.raises(PolyplinkError, match=r"holds a run of `run`"):
        claim_for_count(RunRecord("live"), out, video, ["count"], replace=True)
    assert (out / "count").is_dir()
    claim_for_count(record, out, None, ["count"], replace=True)
    assert sorted(path.name for path in out.iterdir()) == ["notes.txt", "run.json"]
    # A folder of the user with a name that a count writes.
    (out / "run.json").unlink()
    (out / "data").mkdir()
    with pytest.raises(PolyplinkError, match="holds data of another kind; name another --out"):
        claim_for_count(record, out, video, ["data", "count"], replace=True)
    assert (out / "data").is_dir()
    # A live count that was killed while it wrote its report.
    write_json(out / LIVE_SOURCE, {})
    claim_for_count(record, out, video, ["data", "count"], replace=True)
    assert not (out / "data").exists()


def test_a_count_is_not_shown_beside_another_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    video = tmp_path / "a.mp4"
    video.write_bytes(b"12345")
    RunRecord("run", settings={"source": str(video), "source_size": 5}).write(tmp_path / "out")
    check_recording(tmp_path / "out" / "count")
    video.write_bytes(b"1234567")
    with pytest.raises(PolyplinkError, match=r"a\.mp4 is not the recording that was counted"):
        check_recording(tmp_path / "out" / "count")
    (tmp_path / "out" / "count").mkdir()
    monkeypatch.chdir(tmp_path / "out" / "count")
    with pytest.raises(PolyplinkError, match=r"a\.mp4 is not the recording that was counted"):
        check_recording(Path())
    video.unlink()
    check_recording(tmp_path / "out" / "count")


def _write_boxes(sample_run: SampleRun, folder: Path, names: tuple[str, ...]) -> None:
    """Write a folder of boxes in CSV for each of the named procedures."""
    boxes = read_data(sample_run.data).detections.select(
        "procedure_id", "frame", "x", "y", "w", "h"
    )
    for name in names:
        (folder / name).mkdir()
        boxes.filter(pl.col("procedure_id") == name).write_csv(folder / name / "detections.csv")
        size = f"procedure_id,width,height,n_frames,fps\n{name},48,40,252,25\n"
        (folder / name / "procedures.csv").write_text(size)


def test_a_second_recording_replaces_the_first_only_with_replace_and_keeps_answers(
    sample_run: SampleRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _write_boxes(sample_run, tmp_path, ("001-004", "001-005"))
    long_tracks = ("--min-seconds", "60")
    options = ("--boxes", "csv", "--weights", sample_run.weights, "--device", "cpu", *long_tracks)
    succeed("run", "001-004", *options)
    out, moved = tmp_path / "run" / "001-004", tmp_path / "moved"
    assert (out / "count" / "report.html").is_file()
    append_correction(out / "count", Correction("001-004", "done"))
    answers = (out / "count" / LOG).read_bytes()
    out.rename(moved)
    again = polyplink("run", "001-004", *options, "--out", moved)
    assert "reviewed here" in again.output
    assert (moved / "count" / LOG).read_bytes() == answers
    command = ("run", "001-005", *options, "--out", moved)
    assert_refused(polyplink(*command), "holds the count of")
    assert [path.stem for path in (moved / "data").glob("*.parquet")]
    replaced = succeed(*command, "--replace")
    assert "this count does not contain it" in " ".join(replaced.output.split())
    assert (moved / "count" / LOG).read_bytes() == answers
    data = moved / "data"
    assert read_data(data).procedures["procedure_id"].to_list() == ["001-005"]
    count_command = ("count", sample_run.weights, data, "--min-seconds", "60", "--device", "cpu")
    assert_refused(polyplink(*count_command, "--out", "001-004/../moved"), "holds a run of `run`")
    succeed(*count_command)
    assert_refused(
        polyplink(*count_command[:2], sample_run.data, "--out", "count/data"), "with --replace"
    )


def test_a_folder_in_use_by_another_command_is_refused(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    below_file = ("run", sample_run.data, "--weights", sample_run.weights, "--out")
    assert_refused(polyplink(*below_file, tmp_path / "file" / "out"), "name another output folder")
    out = tmp_path / "out"
    with sole_writer(out):
        for line in (
            ("train", "ntssl-demo", sample_run.data, "--out", out),
            ("run", sample_run.data, "--weights", sample_run.weights, "--out", out),
            ("detect", sample_run.data, out, "--detector", "sim:good"),
        ):
            assert_refused(polyplink(*line), f"another command writes into {out} at the moment")


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["export", "index build", "train", "prepare"])
def test_two_simultaneous_commands_succeed_or_one_is_refused(
    verb: str, sample_run: SampleRun, tmp_path: Path
) -> None:
    out, data = tmp_path / "out", write_procedures(tmp_path, procedures=2)
    arguments: dict[str, tuple[str | Path, ...]] = {
        "export": (sample_run.weights, out),
        "index build": (sample_run.weights, data, "--index", out, "--device", "cpu"),
        "train": ("ntssl-demo", data, "--out", out, "--device", "cpu", "--set", "optim.epochs=1"),
        "prepare": (data, "--set", "prepare.size=8", "--workers", "1"),
    }
    command = [sys.executable, "-m", "polyplink", *verb.split(), *map(str, arguments[verb])]
    processes = [subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True) for _ in range(2)]
    outcomes = [(run.communicate()[1], run.returncode) for run in processes]
    refused = [text for text, code in outcomes if code]
    assert [code for _, code in outcomes if code] == [2] * (verb != "prepare"), outcomes
    for text in refused:
        (message,) = [row for row in text.splitlines() if row.startswith("polyplink: ")]
        assert str(out) in message
        assert "Traceback" not in text
    if verb == "index build":
        assert len(Index(out)) > 0
    elif verb == "prepare":
        prepared = prepare(data, PrepareSettings(size=8))
        assert all(map(prepared.has_crops, prepared.procedures))
    else:
        assert read_record(weights_path(out)).recipe
    assert not [*tmp_path.rglob("*.part"), *tmp_path.rglob("*.lock")]
