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
from polyplink.data.tables import DataSet, read_data, write_data
from polyplink.detect import first_pass, folder
from polyplink.detect.folder import open_detector
from polyplink.detect.onnx import DetectorRecord, read_record
from polyplink.learn.detector.fit import FitState
from polyplink.learn.detector.yolox import YoloxNano
from polyplink.models.shipped import DETECTOR, ENCODER, shipped_model
from polyplink.tracklets.settings import TrackSettings
from tests.cli.calls import assert_refused, polyplink, printed_json, succeed
from tests.conftest import SampleRun
from tests.detect.models import write_model
from tests.samples import copy_frames


@pytest.fixture(scope="module")
def detector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ONNX detector with the box (10, 8, 16, 12) for every frame, of the frames' size."""
    path = tmp_path_factory.mktemp("detector") / "detector.onnx"
    (path.with_suffix(".json")).write_text(json.dumps({"trained_on": ["001-005"]}))
    output = {"output0": np.array([[[10.0, 8.0, 26.0, 20.0, 0.9, 0.0]]])}
    return write_model(path, output, [1, 3, 40, 48])


@pytest.fixture(scope="module")
def film(sample_run: SampleRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of 64 images, two views of one polyp, with the name of a procedure."""
    folder = tmp_path_factory.mktemp("recordings") / "001-005"
    return copy_frames(sample_run.frames, folder, [*range(32), *range(42, 74)])


@pytest.fixture
def detections(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders that boxes were detected for: one more for each detection that is not reused."""
    detect, folders = first_pass.detect, list[str]()

    def counted(recordings: Any, find: Any, out: Path, *args: Any, **options: Any) -> Any:
        folders.append(out.name)
        return detect(recordings, find, out, *args, **options)

    monkeypatch.setattr(folder, "detect", counted)
    return folders


def test_run_counts_a_recording_and_writes_a_report(
    sample_run: SampleRun, film: Path, tmp_path: Path, detector: Path, detections: list[str]
) -> None:
    out = tmp_path / "out"
    command = ("run", film, "--detector", detector, "--weights", sample_run.weights, "--out", out)
    result = succeed(*command, "--video", "--device", "cpu", "--json")
    summary = json.loads(result.stdout)
    assert summary["videos"] == [str(out / "video-with-boxes" / "001-005.mp4")]
    with av.open(summary["videos"][0]) as container:
        assert sum(1 for _ in container.decode(video=0)) == 64
    assert "boxes" not in summary  # boxes come from the detector, not from a file
    assert summary["polyps"] == summary["procedures"][0]["polyps"] == 1
    assert summary["lost_boxes"] == {"boxes": 64, "min_length": 0, "min_seconds": 0, "low": 0}
    assert "The detector was trained on 1 of these procedures (001-005" in result.stderr
    assert "The detector was trained on 1 of these" in (out / "count" / "report.html").read_text()
    assert result.stderr.count("The detector was trained on 1 of these") == 1
    lines = (out / "tracks" / "001-005.txt").read_text().splitlines()
    assert len(lines) == 64
    assert lines[0] == "1,1,10.0,8.0,16.0,12.0,0.9,-1,-1,-1"
    assert list((out / "data" / "kept").iterdir())  # crops stored during detection were used
    again = polyplink(*command, "--device", "cpu", "--language", "de")
    assert "video-with-boxes is of an earlier run" in again.stderr
    assert detections == ["data"]
    empty = printed_json(*command, "--device", "cpu", "--min-seconds", "9")
    assert empty["polyps"] == 0
    assert detections == ["data"] * 2
    files = [out / "tracks" / place / "001-005.txt" for place in (".", "interpolated")]
    assert [file.read_text() for file in files] == ["", ""]  # no line of the earlier counts


def test_crops_for_the_shipped_encoder_are_kept(
    film: Path, tmp_path: Path, detector: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording, data = tmp_path / film.name, tmp_path / "data"
    shutil.copytree(film, recording)
    (tmp_path / ENCODER).mkdir()  # another folder of the encoder's name
    monkeypatch.chdir(tmp_path)
    detect_polyps(recording, data, detector=str(detector))
    shutil.rmtree(recording)  # needed if a crop were missing
    counted = count(
        shipped_model(ENCODER).path, data, out=tmp_path / "count", device="cpu", alarms="keep"
    )
    assert counted.value.views.height == 1


def test_a_finished_detection_is_used_again_until_its_input_changes(
    sample_run: SampleRun, tmp_path: Path, detector: Path, detections: list[str]
) -> None:
    frames, out = tmp_path / "001-005", tmp_path / "out"
    copy_frames(sample_run.frames, frames, range(10))
    last, table = frames / "9.jpg", out / "detections.parquet"
    last.write_bytes(b"no image")
    for change, options, expected in (
        ("", (), 1),
        ("", (), 1),
        ("recording", (), 2),
        ("boxes", (), 3),
        ("damage", (), 4),
        ("", ("--fps", "20"), 5),
    ):
        if change == "recording":
            os.utime(last, (1, 1))
        elif change == "boxes":
            pl.read_parquet(table).head(-1).write_parquet(table)
        elif change == "damage":
            table.write_bytes(b"")
        result = succeed("detect", frames, out, "--detector", detector, *options)
        assert len(detections) == expected
        assert read_data(out).detections.height == 9
        assert "1 of 10 frames of 001-005 cannot be decoded" in result.stderr.replace("\n", " ")


def test_an_empty_count_has_a_reason(
    sample_run: SampleRun, film: Path, tmp_path: Path, detector: Path
) -> None:
    data = tmp_path / "data"
    succeed("detect", film, data, "--detector", detector)
    result = succeed("count", sample_run.weights, data, "-o", tmp_path / "c", "--min-seconds", "60")
    reason = "64 of 64 boxes in tracks shorter than 60 s or 3 frames"
    assert f"Counted 0 in 1 procedure (001-005): {reason}" in result.stderr.replace("\n", " ")
    assert reason in (tmp_path / "c" / "report.html").read_text()
    without_boxes = run(
        film,
        weights=sample_run.weights,
        out=tmp_path / "none",
        device="cpu",
        function=lambda image: np.array([]),  # of an empty list
    )
    assert without_boxes.value.summary["polyps"] == 0
    warnings = " ".join(without_boxes.warnings)
    assert "no box with an area inside the frame in 1 procedure" in warnings
    assert "there is no box" in warnings

    def failing(image: np.ndarray) -> np.ndarray:
        raise PolyplinkError("no light", "switch it on")

    with pytest.raises(PolyplinkError, match="no light"):
        run(film, weights=sample_run.weights, out=tmp_path / "f", device="cpu", function=failing)
    assert (tmp_path / "f" / "run.json").is_file()  # so that the next run may continue it


def test_a_stopped_detection_by_a_function_continues_only_under_its_name(
    sample_run: SampleRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_pass, "PIECE", 10)
    frames = copy_frames(sample_run.frames, tmp_path / "film", range(30))
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


def annotated_boxes(sample_run: SampleRun) -> pl.DataFrame:
    """The boxes of the film, as a table of a user."""
    boxes = read_data(sample_run.data).detections.filter(
        pl.col("procedure_id") == "001-005", pl.col("frame") < 74
    )
    return boxes.select("procedure_id", "frame", "x", "y", "w", "h", "image")


def write_boxes(folder: Path, boxes: pl.DataFrame) -> Path:
    """Write the table of boxes, and that of the recording without its frame rate."""
    boxes.write_csv(folder / "boxes.csv")
    size = "procedure_id,width,height,n_frames\n001-005,48,40,74\n"
    (folder / "procedures.csv").write_text(size)
    return folder / "boxes.csv"


def test_an_unknown_frame_rate_is_a_warning_of_the_count(
    sample_run: SampleRun, film: Path, tmp_path: Path, detector: Path
) -> None:
    frames = Path(shutil.copytree(film, tmp_path / "001-005"))
    boxes = write_boxes(tmp_path, annotated_boxes(sample_run))
    shared = ("--weights", sample_run.weights, "--device", "cpu")
    commands: list[tuple[str | Path, ...]] = [
        ("run", frames, "--detector", detector, "--min-seconds", "6"),
        ("run", boxes, "--boxes", "csv", "--min-seconds", "6", "--bridge", "3"),
    ]
    for k, options in enumerate(commands):
        out = tmp_path / f"o{k}"
        command = (*options, "-o", out)
        unknown = succeed(*command, *shared)
        report = (out / "count" / "report.html").read_text()
        record = (out / "count" / "count.json").read_text()
        for text in (unknown.stderr.replace("\n", " "), report, record):
            assert "frame rate of 1 procedure (001-005) is not known: 25 frames a second" in text
            assert "at 25 frames a second, which are assumed (--fps states the rate)" in text
        assert read_data(out / "data").procedures["fps"].to_list() == [None]
        stated = succeed(*command, *shared, "--fps", "10", "--json")
        assert json.loads(stated.stdout)["polyps"] > 0, stated.stderr
        assert "frame rate" not in stated.stderr
        assert read_data(out / "data").procedures["fps"].to_list() == [10]
    data = tmp_path / "o1" / "data"
    again = polyplink("run", data, "--fps", "10", *shared, "-o", tmp_path / "again")
    assert_refused(again, "give --fps where they are read")


def test_a_simulated_detector_is_applied_to_annotated_boxes(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    succeed("detect", sample_run.data, tmp_path / "d", "--detector", "sim:good", "--json")
    assert read_origin(tmp_path / "d") == BoxesOrigin("sim:good", "sim:good")
    assert read_origin(sample_run.data) is None
    data = read_data(tmp_path / "d")
    assert data.detections["polyp_id"].is_null().all()
    assert data.detections["score"].is_not_null().all()
    assert data.polyps.is_empty()
    # Views of different polyps are ten frames apart at one position: such gaps must not be bridged.
    options = ("--bridge", "0.2", "--device", "cpu")
    count_with_truth = succeed(
        *("count", sample_run.weights, tmp_path / "d", "-o", tmp_path / "c", "--json"),
        *("--truth", sample_run.data, *options),
    )
    against = json.loads(count_with_truth.stdout)["against_truth"]
    assert against["figures"]["polyps found"]["value"] == 1
    assert sum(row["polyps"] for row in against["procedures"]) == 10
    succeed("run", tmp_path / "d", "--weights", sample_run.weights, "-o", tmp_path / "o", *options)
    summary = json.loads((tmp_path / "o" / "count" / "count.json").read_text())
    assert summary["tracklets"]["tracks"]["bridge"] == 0.2
    assert summary["polyps"] >= 5


def test_options_without_effect_on_a_recording_are_refused(
    sample_run: SampleRun, film: Path, tmp_path: Path
) -> None:
    of_run = ("run", film, "--weights", sample_run.weights, "--out", tmp_path / "o")
    of_boxes = ("run", tmp_path / "a.csv", "--boxes", "csv", *of_run[2:])
    (tmp_path / "a.csv").touch()
    for command in (of_run, of_boxes, ("detect", film, tmp_path / "o")):
        assert_refused(polyplink(*command, "--seed", "5"), "--seed is for simulated detectors")
        refused = polyplink(*command, "--min-length", "1", "--min-iou", "0")
        assert_refused(refused, "--min-length and --min-iou: only for annotated boxes")
    assert not (tmp_path / "o").exists()


def test_boxes_of_a_format_are_counted_without_a_detector(
    sample_run: SampleRun, film: Path, tmp_path: Path
) -> None:
    shutil.copytree(film, tmp_path / "001-005")
    table = annotated_boxes(sample_run)
    detected = table.filter(pl.col("frame") % 4 != 1)  # without a quarter of the frames
    boxes_file = write_boxes(tmp_path, detected)
    with boxes_file.open("a") as file:
        file.write("001-005,73,40,30,5,5,\n")  # in one frame: no track
    command = ("run", boxes_file, "--boxes", "csv", "--weights", sample_run.weights)
    result = succeed(*command, "--fps", "25", "--out", tmp_path / "o", "--device", "cpu")
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


def write_answer(path: Path, record: DetectorRecord) -> None:
    """A detector of one box, with its record beside it."""
    answer = np.array([[[36.0], [28.0], [32.0], [24.0], [0.9]]])  # x, y, w, h, score
    write_model(path, {"output0": answer}, [1, 3, 64, 64])
    write_json(path.with_suffix(".json"), to_plain(record))


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exports a detector of one box in place of the network."""
    name = "polyplink.learn.detector.onnx_file.export_detector"
    monkeypatch.setattr(name, lambda network, path, record: write_answer(path, record))


@pytest.mark.usefixtures("exported")
def test_a_detector_is_trained_evaluated_and_used(
    sample_run: SampleRun, film: Path, tmp_path: Path
) -> None:
    """Training itself is tested in tests/learn; here the exported file has a fixed box."""
    out = tmp_path / "ours.onnx"
    empty = tmp_path / "empty"
    empty.mkdir()
    for k in range(4):
        Image.fromarray(np.full((60, 90, 3), 40 * k, np.uint8)).save(empty / f"r{k}_1.png")
    options = ("--frames", "1", "--side", "64", "--empty", empty)
    command = ("train-detector", sample_run.data, "-o", out, *options)
    refused = polyplink(*command, "--init", sample_run.weights)
    assert_refused(refused, "is not a detector that `polyplink train-detector` wrote")
    facts = printed_json(*command, "--epochs", "2", "--held", "0.2")
    assert (facts["procedures"], len(facts["held"]), len(facts["losses"])) == (4, 1, 2)
    assert facts["figures"]["polyps"] >= 1
    record = json.loads(out.with_suffix(".json").read_text())
    trained_on = {file_key(empty / f"r{k}_1.png") for k in range(4)} & set(record["trained_on"])
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
    measured = succeed("evaluate-detector", out, sample_run.data, "--frames", "1", "--json")
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
    succeed("import", "masks", masks, tmp_path / "stills")
    out.with_suffix(".json").write_text(json.dumps(record | {"high": None}))
    measured = polyplink("evaluate-detector", out, tmp_path / "stills", "--json")
    figures = json.loads(measured.stdout)
    assert figures["score"] == TrackSettings().high  # from which a track begins
    assert (figures["frames"], figures["empty"], figures["polyps"]) == (3, 2, 1)
    assert "the detector was trained on 1 of 2 images without a polyp" in measured.stderr
    simulated = record | {"datasets": ["simulated tiny 0"]}
    out.with_suffix(".json").write_text(json.dumps(simulated))
    detection = succeed("detect", film, tmp_path / "data", "--detector", out)
    assert "trained on simulated pictures: do not rely on what it finds" in detection.stderr
    assert "trained on 1 of these procedures" in detection.stderr


def keep_start(frames: object, start: YoloxNano, *_: object, **__: object) -> FitState:
    """Train nothing, in place of `fit_detector`."""
    return FitState(start, start, 1, [0.5])


@pytest.mark.usefixtures("exported")
def test_procedures_of_a_patient_and_images_of_a_recording_are_held_out_together(
    sample_run: SampleRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polyplink.learn.detector.fit.fit_detector", keep_start)
    data = read_data(sample_run.data)
    patients = data.procedures.with_columns(patient=pl.Series(list("abbab")))
    copied = tmp_path / "patients"
    shutil.copytree(sample_run.data, copied)
    write_data(copied, DataSet.of(data.detections, patients, data.polyps, data.splits))
    empty = tmp_path / "empty"
    empty.mkdir()
    for k in range(6):
        Image.fromarray(np.full((60, 90, 3), 40 * k, np.uint8)).save(empty / f"r{k // 3}_{k}.png")
    options = ("--frames", "1", "--side", "64", "--held", "0.2", "--empty", empty)
    train = ("train-detector", copied, "-o", tmp_path / "ours.onnx", *options)
    result = printed_json(*train)
    assert result["held"] == ["001-002", "001-003", "001-005"]
    trained_on = set(read_record(tmp_path / "ours.onnx").trained_on)
    first = {file_key(file) for file in empty.glob("r0_*")}
    assert trained_on == {"001-001", "001-004", *first}
    for file in empty.glob("r1_*"):
        file.unlink()
    data = read_data(copied)
    one_patient = data.procedures.with_columns(patient=pl.lit("a"))
    write_data(copied, DataSet.of(data.detections, one_patient, data.polyps, data.splits))
    of_one_patient = succeed(*train, "-o", tmp_path / "one.onnx")
    assert "the procedures are of one patient, so none is held out" in of_one_patient.stderr
    assert "are of one recording, so none is held out" in of_one_patient.stderr
    assert first < set(read_record(tmp_path / "one.onnx").trained_on)


@pytest.mark.usefixtures("exported")
def test_a_detector_trained_further_records_what_trained_the_first_one(
    sample_run: SampleRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polyplink.learn.detector.fit.fit_detector", keep_start)
    first, out = tmp_path / "first.onnx", tmp_path / "further.onnx"
    trained_on = ("elsewhere", "001-003")
    write_answer(first, DetectorRecord("yolov8", trained_on=trained_on, datasets=("elsewhere",)))
    train = ("train-detector", sample_run.data, "--frames", "1", "--side", "64", "--init")
    succeed(*train, DETECTOR, "-o", tmp_path / "s.onnx", "--held", "0")
    before, after = map(read_record, (shipped_model(DETECTOR).path, tmp_path / "s.onnx"))
    assert {*before.trained_on, "001-001"} <= set(after.trained_on)
    network = "polyplink.learn.detector.onnx_file.read_network"
    monkeypatch.setattr(network, lambda path: YoloxNano.random(0))
    further = succeed(*train, first, "-o", out, "--held", "0.2", "--json")
    assert json.loads(further.stdout)["held"] == ["001-003"]
    assert "was trained on 1 of the procedures and images held out" in further.stderr
    assert {"elsewhere", "001-001", "001-003"} < set(read_record(out).trained_on)
    assert set(read_record(out).datasets) == {"elsewhere", "sample"}
