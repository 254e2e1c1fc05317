"""Detection, counting of detected boxes, and training of a detector."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import av
import numpy as np
import polars as pl
import pytest
from PIL import Image

from polyplink import detect_polyps
from polyplink.cli.count import count
from polyplink.cli.run import run
from polyplink.core.artefacts import file_key, to_plain, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.data.origin import BoxesOrigin, read_origin
from polyplink.data.tables import read_data
from polyplink.detect import first_pass, folder
from polyplink.detect.folder import open_detector
from polyplink.detect.onnx import DetectorRecord, read_record
from polyplink.learn.detector.yolox import YoloxNano
from polyplink.models.shipped import DETECTOR, shipped_model
from polyplink.tracklets.settings import TrackSettings
from tests.cli.calls import assert_refused, polyplink
from tests.conftest import SampleRun
from tests.detect.test_onnx import write_model


@pytest.fixture(scope="module")
def detector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ONNX detector with the box (10, 8, 16, 12) for every frame, of the frames' size."""
    path = tmp_path_factory.mktemp("detector") / "detector.onnx"
    (path.with_suffix(".json")).write_text(json.dumps({"trained_on": ["001-005"]}))
    output = {"output0": np.array([[[10.0, 8.0, 26.0, 20.0, 0.9, 0.0]]])}
    return write_model(path, output, [1, 3, 40, 48])


def test_run_counts_a_recording_and_writes_a_report(
    sample_run: SampleRun, tmp_path: Path, detector: Path
) -> None:
    frames, out = sample_run.root / "frames" / "001-005", tmp_path / "out"
    command = ("run", frames, "--detector", detector, "--weights", sample_run.weights, "--out", out)
    result = polyplink(*command, "--video", "--device", "cpu", "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["videos"] == [str(out / "video-with-boxes" / "001-005.mp4")]
    with av.open(summary["videos"][0]) as container:
        assert sum(1 for _ in container.decode(video=0)) == len(list(frames.iterdir()))
    assert "boxes" not in summary  # boxes come from the detector, not from a file
    assert summary["polyps"] == summary["procedures"][0]["polyps"]
    assert summary["polyps"] in (1, 2)  # both polyps are at the same position and differ in colour
    assert summary["lost_boxes"] == {"boxes": 192, "min_length": 0, "min_seconds": 0, "low": 0}
    assert "The detector was trained on 1 of these procedures (001-005" in result.stderr
    assert "The detector was trained on 1 of these" in (out / "count" / "report.html").read_text()
    assert result.stderr.count("The detector was trained on 1 of these") == 1
    lines = (out / "tracks" / "001-005.txt").read_text().splitlines()
    assert len(lines) == 192
    assert lines[0] == "1,1,10.0,8.0,16.0,12.0,0.9,-1,-1,-1"
    assert list((out / "data" / "kept").iterdir())  # crops stored during detection were used
    again = polyplink(*command, "--device", "cpu")
    assert "video-with-boxes shows an earlier count" in again.stderr


def test_a_finished_detection_is_used_again_until_its_input_changes(
    sample_run: SampleRun, tmp_path: Path, detector: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames, out = tmp_path / "001-005", tmp_path / "out"
    frames.mkdir()
    for number in range(30):
        shutil.copy(sample_run.root / "frames" / "001-005" / f"{number}.jpg", frames)
    last = frames / "29.jpg"
    last.write_bytes(b"no image")
    table = out / "data" / "detections.parquet"
    calls = 0
    detect = first_pass.detect

    def counted(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        return detect(*args, **options)

    monkeypatch.setattr(folder, "detect", counted)
    weights = ("--weights", sample_run.weights, "--device", "cpu")
    shared = ("--detector", detector, *weights, "--out", out)
    polyps = []
    fps = ("--fps", "20")
    for change, options, expected in (
        ("", (), 1),
        ("", ("--language", "de"), 1),
        ("recording", (), 2),
        ("boxes", (), 3),
        ("damage", (), 4),
        ("", fps, 5),
        ("", (*fps, "--min-seconds", "9"), 6),
    ):
        if change == "recording":
            os.utime(last, (1, 1))
        elif change == "boxes":
            pl.read_parquet(table).head(-1).write_parquet(table)
        elif change == "damage":
            table.write_bytes(b"")
        result = polyplink("run", frames, *shared, *options, "--json")
        assert result.exit_code == 0, result.output
        assert calls == expected
        assert "1 of 30 frames of 001-005 cannot be decoded" in result.stderr.replace("\n", " ")
        polyps.append(json.loads(result.stdout)["polyps"])
    assert polyps[0] == polyps[1] > 0 == polyps[-1]
    files = [out / "tracks" / place / "001-005.txt" for place in (".", "interpolated")]
    assert [file.read_text() for file in files] == ["", ""]  # no line of the earlier counts


def test_an_empty_count_has_a_reason(sample_run: SampleRun, tmp_path: Path, detector: Path) -> None:
    frames = sample_run.root / "frames" / "001-005"
    data = tmp_path / "data"
    assert polyplink("detect", frames, data, "--detector", detector).exit_code == 0
    result = polyplink(
        "count", sample_run.weights, data, "-o", tmp_path / "c", "--min-seconds", "60"
    )
    assert result.exit_code == 0, result.output
    reason = "192 of 192 boxes in tracks shorter than 60 s (--min-seconds)"
    assert f"Counted 0 in 1 procedure (001-005): {reason}" in result.stderr.replace("\n", " ")
    assert reason in (tmp_path / "c" / "report.html").read_text()
    without_boxes = run(
        frames,
        weights=sample_run.weights,
        out=tmp_path / "none",
        device="cpu",
        function=lambda image: np.array([]),  # of an empty list
    )
    assert without_boxes.value.summary["polyps"] == 0
    assert any(
        "no box with an area inside the frame in 1 procedure" in line
        for line in without_boxes.warnings
    )
    assert any("there is no box" in line for line in without_boxes.warnings)

    def failing(image: np.ndarray) -> np.ndarray:
        raise PolyplinkError("no light", "switch it on")

    with pytest.raises(PolyplinkError, match="no light"):
        run(frames, weights=sample_run.weights, out=tmp_path / "f", device="cpu", function=failing)
    assert (tmp_path / "f" / "run.json").is_file()  # so that the next run may continue it


def test_a_stopped_detection_by_a_function_continues_only_under_its_name(
    sample_run: SampleRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_pass, "PIECE", 10)
    frames, images = tmp_path / "film", sample_run.root / "frames" / "001-005"
    frames.mkdir()
    for number in range(30):
        shutil.copy(images / f"{number}.jpg", frames)
    left, right = np.array([[0.0, 0.0, 9.0, 9.0, 0.9]]), np.array([[9.0, 0.0, 9.0, 9.0, 0.9]])

    def detect_left(image: np.ndarray) -> np.ndarray:
        calls.append(0)
        if len(calls) > 25:
            raise ValueError("out of memory")
        return left

    def detect_right(image: np.ndarray) -> np.ndarray:
        return right

    origins = []
    for detector, n_right in ((None, 30), ("ours 1.2", 10)):
        out = tmp_path / str(detector)
        calls: list[int] = []
        with pytest.raises(ValueError, match="out of memory"):
            detect_polyps(frames, out, detector=detector, function=detect_left)
        data = detect_polyps(frames, out, detector=detector, function=detect_right).value
        assert data.detections.filter(x=9).height == n_right
        origins.append(read_origin(out))
    unnamed, named = origins
    assert unnamed is not None
    assert named is not None
    assert unnamed.name.endswith("detect_right")
    assert named.name == "ours 1.2"
    assert unnamed.key != open_detector(None, detect_right).origin.key
    assert named.key == open_detector("ours 1.2", detect_right).origin.key


def test_an_unknown_frame_rate_is_a_warning_of_the_count(
    sample_run: SampleRun, tmp_path: Path, detector: Path
) -> None:
    frames = tmp_path / "001-005"
    shutil.copytree(sample_run.root / "frames" / "001-005", frames)
    boxes = tmp_path / "boxes.csv"
    annotated = read_data(sample_run.data).detections.filter(pl.col("procedure_id") == "001-005")
    annotated.select("procedure_id", "frame", "x", "y", "w", "h", "image").write_csv(boxes)
    size = "procedure_id,width,height,n_frames\n001-005,48,40,252\n"
    (tmp_path / "procedures.csv").write_text(size)
    shared = ("--weights", sample_run.weights, "--device", "cpu")
    commands: list[tuple[str | Path, ...]] = [
        ("run", frames, "--detector", detector, "--min-seconds", "6"),
        ("run", boxes, "--boxes", "csv", "--min-seconds", "11", "--bridge", "3"),
    ]
    for k, options in enumerate(commands):
        out = tmp_path / f"o{k}"
        command = (*options, "-o", out)
        unknown = polyplink(*command, *shared)
        assert unknown.exit_code == 0, unknown.output
        report = (out / "count" / "report.html").read_text()
        record = (out / "count" / "count.json").read_text()
        for text in (unknown.stderr.replace("\n", " "), report, record):
            assert "frame rate of 1 procedure (001-005) is not known: 25 frames a second" in text
            assert "at 25 frames a second, which are assumed (--fps states the rate)" in text
        assert read_data(out / "data").procedures["fps"].to_list() == [None]
        stated = polyplink(*command, *shared, "--fps", "10", "--json")
        assert stated.exit_code == 0, stated.output
        assert json.loads(stated.stdout)["polyps"] > 0, stated.stderr
        assert "frame rate" not in stated.stderr
        assert read_data(out / "data").procedures["fps"].to_list() == [10]
    data = tmp_path / "o1" / "data"
    again = polyplink("run", data, "--fps", "10", *shared, "-o", tmp_path / "again")
    assert_refused(again, "give --fps where they are read")


def test_a_simulated_detector_is_applied_to_annotated_boxes(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    result = polyplink(
        "detect", sample_run.data, tmp_path / "d", "--detector", "sim:good", "--json"
    )
    assert result.exit_code == 0, result.output
    assert read_origin(tmp_path / "d") == BoxesOrigin("sim:good", "sim:good")
    assert read_origin(sample_run.data) is None
    data = read_data(tmp_path / "d")
    assert data.detections["polyp_id"].is_null().all()
    assert data.detections["score"].is_not_null().all()
    assert data.polyps.is_empty()
    # Views of different polyps are ten frames apart at one position: such gaps must not be bridged.
    options = ("--bridge", "0.2", "--device", "cpu")
    count_with_truth = polyplink(
        *("count", sample_run.weights, tmp_path / "d", "-o", tmp_path / "c", "--json"),
        *("--truth", sample_run.data, *options),
    )
    assert count_with_truth.exit_code == 0, count_with_truth.output
    against = json.loads(count_with_truth.stdout)["against_truth"]
    assert against["figures"]["polyps found"]["value"] == 1
    assert sum(row["polyps"] for row in against["procedures"]) == 10
    run_of_boxes = polyplink(
        "run", tmp_path / "d", "--weights", sample_run.weights, "-o", tmp_path / "o", *options
    )
    assert run_of_boxes.exit_code == 0, run_of_boxes.output
    summary = json.loads((tmp_path / "o" / "count" / "count.json").read_text())
    assert summary["tracklets"]["tracks"]["bridge"] == 0.2
    assert summary["polyps"] >= 5


def test_boxes_of_a_format_are_counted_without_a_detector(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    boxes = read_data(sample_run.data).detections.filter(pl.col("procedure_id") == "001-005")
    table = boxes.select("procedure_id", "frame", "x", "y", "w", "h", "image")
    detected = table.filter(pl.col("frame") % 4 != 1)  # without a quarter of the frames
    boxes_file = sample_run.root / "frames" / "boxes.csv"
    detected.write_csv(boxes_file)
    with boxes_file.open("a") as file:
        file.write("001-005,90,40,30,5,5,\n")  # in one frame: no track
    command = ("run", boxes_file, "--boxes", "csv", "--weights", sample_run.weights)
    size = sample_run.root / "frames" / "procedures.csv"
    size.write_text("procedure_id,width,height,n_frames\n001-005,48,40,252\n")
    result = polyplink(*command, "--fps", "25", "--out", tmp_path / "o", "--device", "cpu")
    assert result.exit_code == 0, result.output
    tracks, interpolated = (
        np.loadtxt(tmp_path / "o" / "tracks" / place / "001-005.txt", delimiter=",")
        for place in (".", "interpolated")
    )
    assert (tracks[:, 6] == 1).all()  # boxes without a score
    assert tracks[:, 0].tolist() == (detected["frame"] + 1).to_list()
    assert (interpolated[:, 6] == 0).all()
    assert not np.isin(interpolated[:, 0] - 1, detected["frame"]).any()
    n_filled = np.isin(table["frame"], interpolated[:, 0] - 1).sum()
    # Missed frames are filled, except at the start or end of a view.
    assert n_filled > 0.8 * (table.height - detected.height)
    assert len(np.unique(interpolated[:, :2], axis=0)) == len(interpolated)
    # The boxes are returned unchanged, with the polyps of their tracks.
    returned = pl.read_csv(tmp_path / "o" / "boxes-with-tracks" / "boxes.csv")
    assert f"your boxes with tracks (csv): {tmp_path / 'o' / 'boxes-with-tracks'}" in result.stdout
    written = pl.read_csv(boxes_file)
    assert returned.drop("track_id", "polyp").equals(written)
    assert returned.row(-1)[-2:] == (None, None)
    assert returned["track_id"].null_count() == returned["polyp"].null_count() == 1
    assert returned["polyp"].to_list()[:-1] == tracks[:, 1].astype(int).tolist()
    views = pl.read_csv(tmp_path / "o" / "count" / "views.csv")
    expected = (
        returned.drop_nulls()
        .group_by("track_id")
        .agg(pl.col("frame").min(), pl.col("frame").max().alias("last"))
    )
    reported = views.select("track_id", "start_frame", "end_frame")
    assert sorted(expected.rows()) == sorted(reported.rows())
    # `count` returns them too: in a separate table, as the file has changed.
    with boxes_file.open("a") as file:
        file.write("\n")
    recount = count(sample_run.weights, tmp_path / "o" / "data", out=tmp_path / "c")
    (changed,) = [line for line in recount.warnings if "has changed since the import" in line]
    assert "boxes are in boxes.csv" in changed
    assert recount.json["boxes"] == str(tmp_path / "c" / "boxes-with-tracks")
    written_count = json.loads((tmp_path / "c" / "count.json").read_text())
    assert to_plain(recount.value.summary) == written_count  # without the folder of the boxes
    table = pl.read_csv(tmp_path / "c" / "boxes-with-tracks" / "boxes.csv")
    assert table.select(returned.columns).equals(returned)


def test_a_detector_is_trained_evaluated_and_used(
    sample_run: SampleRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training itself is tested in tests/learn; here the exported file has a fixed box."""

    def export(network: object, path: Path, record: DetectorRecord) -> None:
        answer = np.array([[[36.0], [28.0], [32.0], [24.0], [0.9]]])  # x, y, w, h, score
        write_model(path, {"output0": answer}, [1, 3, 64, 64])
        write_json(path.with_suffix(".json"), to_plain(record))

    monkeypatch.setattr("polyplink.learn.detector.onnx_file.export_detector", export)
    out = tmp_path / "ours.onnx"
    empty = tmp_path / "empty"
    empty.mkdir()
    for k in range(4):
        Image.fromarray(np.full((60, 90, 3), 40 * k, np.uint8)).save(empty / f"{k}.png")
    options = ("--frames", "4", "--side", "64", "--empty", empty)
    command = ("train-detector", sample_run.data, "-o", out, *options)
    refused = polyplink(*command, "--init", sample_run.weights)
    assert_refused(refused, "is not a detector that `polyplink train-detector` wrote")
    result = polyplink(*command, "--epochs", "2", "--held", "0.2", "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert (facts["procedures"], len(facts["held"]), len(facts["losses"])) == (4, 1, 2)
    assert facts["figures"]["polyps"] >= 1
    record = json.loads(out.with_suffix(".json").read_text())
    trained_on = {file_key(empty / f"{k}.png") for k in range(4)} & set(record["trained_on"])
    assert len(trained_on) == 3
    trained_on |= {f"001-00{k}" for k in range(1, 6)}
    assert set(record["trained_on"]) | set(facts["held"]) == trained_on
    folder = tmp_path / "ours-training"
    assert (folder / "epochs.csv").read_text().splitlines()[0] == "epoch,loss"
    assert (folder / "training.png").stat().st_size > 10_000
    repeated = polyplink(*command, "--epochs", "2", "--held", "0.2", "--json")  # finished already
    assert json.loads(repeated.stdout)["losses"] == facts["losses"]
    other_epochs = polyplink(*command, "--epochs", "3", "--held", "0.2")
    assert_refused(other_epochs, "ours-training holds a training with other data or options")
    measured = polyplink("evaluate-detector", out, sample_run.data, "--frames", "9", "--json")
    assert measured.exit_code == 0, measured.output
    assert 0 <= json.loads(measured.stdout)["ap50"]["value"] <= 1
    assert "trained on 4 of these procedures" in measured.stderr
    masks = tmp_path / "masks"
    for k in (3, 4, 5):  # image 3 trained the detector, as one without a polyp; image 5 has a polyp
        pixels = np.full((60, 90, 3), 40 * k, np.uint8)
        mask = np.zeros((60, 90), np.uint8)
        mask[:20] = 255 * (k == 5)
        for folder_name, image in (("images", pixels), ("masks", mask)):
            (masks / folder_name).mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(masks / folder_name / f"s{k}.png")
    assert polyplink("import", "masks", masks, tmp_path / "stills").exit_code == 0
    out.with_suffix(".json").write_text(json.dumps(record | {"high": None}))
    measured = polyplink("evaluate-detector", out, tmp_path / "stills", "--json")
    figures = json.loads(measured.stdout)
    assert figures["score"] == TrackSettings().high  # from which a track begins
    assert (figures["frames"], figures["empty"], figures["polyps"]) == (3, 2, 1)
    assert "the detector was trained on 1 of 2 images without a polyp" in measured.stderr
    simulated = record | {"datasets": ["simulated tiny 0"]}
    out.with_suffix(".json").write_text(json.dumps(simulated))
    frames = sample_run.root / "frames" / record["trained_on"][0]
    detection = polyplink("detect", frames, tmp_path / "data", "--detector", out)
    assert detection.exit_code == 0, detection.output
    assert "trained on simulated pictures: do not rely on what it finds" in detection.stderr
    assert "trained on 1 of these procedures" in detection.stderr
    monkeypatch.setattr(
        "polyplink.learn.detector.onnx_file.read_network", lambda path: YoloxNano.random(0)
    )
    known = record | {"trained_on": ["elsewhere", *facts["held"]], "datasets": ["elsewhere"]}
    out.with_suffix(".json").write_text(json.dumps(known))
    short = ("--epochs", "1", "--side", "64", "--frames", "4")
    further = ("-o", tmp_path / "further.onnx", "--init", out, "--held", "0.2", *short)
    trained_further = polyplink("train-detector", sample_run.data, *further)
    assert trained_further.exit_code == 0, trained_further.output
    assert "was trained on 1 of the procedures and images held out" in trained_further.stderr
    record_further = json.loads((tmp_path / "further.json").read_text())
    assert {"elsewhere", *facts["held"]} < set(record_further["trained_on"])
    assert "elsewhere" in record_further["datasets"]
    from_shipped = ("-o", tmp_path / "s.onnx", "--init", DETECTOR, "--held", "0", *short)
    trained_further = polyplink("train-detector", sample_run.data, *from_shipped)
    assert trained_further.exit_code == 0, trained_further.output
    shipped, ours = map(read_record, (shipped_model(DETECTOR).path, tmp_path / "s.onnx"))
    assert {*shipped.trained_on, "001-001"} <= set(ours.trained_on)
