"""The verbs doctor, convert and prepare."""

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from polyplink.core.text import many
from polyplink.data.empty import write_empty
from polyplink.data.formats.coco import import_coco
from polyplink.data.origin import BoxesOrigin, write_origin
from polyplink.data.tables import DataSet, read_data, write_data
from polyplink.data.vocabulary import RECORDINGS
from polyplink.encoders.build import build_frame_encoder
from polyplink.encoders.config import REFERENCE_MEAN
from polyplink.encoders.load import load_named
from polyplink.encoders.weights import read_record, weights_path
from polyplink.tracklets.scenes import write_scenes
from tests.cli.calls import assert_refused, polyplink, printed_json, succeed
from tests.data.sample_sets import procedure_row
from tests.samples import write_procedures


def test_the_doctor_has_exit_code_1_for_errors(tmp_path: Path) -> None:
    data = write_procedures(tmp_path, procedures=2)
    succeed("doctor", data)
    next((tmp_path / "frames").rglob("*.jpg")).unlink()
    result = polyplink("doctor", data)
    assert result.exit_code == 1
    assert result.stdout.startswith("error")


def test_the_doctor_predicts_tracklets_and_the_boxes_left_out(tmp_path: Path) -> None:
    """Polyp a: 40 boxes in a row; b: 40, every other frame; c: 9; without a polyp: 9 in a row."""
    steps = {"a": (40, 1), "b": (40, 2), "c": (9, 1), None: (9, 1)}
    rows = [("v", step * k, 100 * i, 10.0, 50.0, 50.0, polyp)
            for i, (polyp, (n, step)) in enumerate(steps.items()) for k in range(n)]  # fmt: skip
    columns = ("procedure_id", "frame", "x", "y", "w", "h", "polyp_id")
    boxes = pl.DataFrame(rows, schema=columns, orient="row").with_columns(pl.col("x").cast(float))
    procedures = pl.DataFrame([procedure_row("v", 99, width=800, height=600)])
    polyps = pl.DataFrame({"polyp_id": ["a", "b", "c"], "procedure_id": "v"})
    write_data(tmp_path, DataSet.of(boxes, procedures, polyps))
    (line,) = [line for line in polyplink("doctor", tmp_path, "--no-images").stdout.splitlines()
               if "tracklets (" in line]  # fmt: skip
    assert line.startswith("warning tracklets (58): the default settings give 1 tracklet; of 98")
    for reason in ("40 where gaps", "9 of polyps with fewer than 30", "9 without a polyp"):
        assert reason in line
    # As for `count`, the detector's own settings, and no track goes from one scene to another.
    write_origin(tmp_path, BoxesOrigin("key", "YOLO", min_seconds=0.2))
    by_scenes = {"one": [[0, 0]], "two": [[0, 0], [4, 1]], "three": [[0, 0], [3, 1], [6, 2]]}
    for scenes, tracks in (("one", 2), ("two", 2), ("three", 1)):
        write_scenes(tmp_path, {"v": np.array(by_scenes[scenes])})
        printed = polyplink("doctor", tmp_path, "--no-images").stdout
        assert f"the settings of YOLO give {many(tracks, 'tracklet')}; of 98" in printed, scenes


def test_weak_boxes_that_a_detector_s_tracks_leave_out_are_no_reason_to_warn(
    tmp_path: Path,
) -> None:
    """A track of 40 strong boxes, and 200 far apart, each of which begins a track if strong."""
    columns = ("procedure_id", "frame", "x", "y", "w", "h", "score")
    procedures = pl.DataFrame([procedure_row("v", 6000, dataset=RECORDINGS, width=90, height=90)])
    polyps = pl.DataFrame(schema={"polyp_id": pl.String, "procedure_id": pl.String})
    for score, severity in ((0.3, "note"), (0.9, "warning")):
        rows = [("v", k, 10.0, 10.0, 50.0, 50.0, 0.9) for k in range(40)]
        rows += [("v", 1000 + 25 * k, 10.0, 10.0, 50.0, 50.0, score) for k in range(200)]
        boxes = pl.DataFrame(rows, schema=columns, orient="row")
        write_data(tmp_path / severity, DataSet.of(boxes, procedures, polyps))
        listed = printed_json("doctor", tmp_path / severity, "--no-images")
        severities = {finding["check"]: finding["severity"] for finding in listed}
        assert severities == {"tracklets": severity, "box without polyp": "note"}


@pytest.mark.usefixtures("empty_store")
def test_the_doctor_s_options_make_single_frames_usable(tmp_path: Path) -> None:
    """With frames ten apart, boxes without polyps, and the weights of a published backbone."""
    sample = read_data(write_procedures(tmp_path, procedures=2, views=1))
    boxes = sample.detections.gather_every(10).with_columns(
        pl.col("frame") // 10 * 10, polyp_id=pl.lit(None, pl.String)
    )
    data = tmp_path / "single"
    write_data(data, DataSet.of(boxes, sample.procedures, sample.polyps.clear()))
    weights = tmp_path / "timm.pth"
    torch.save(build_frame_encoder("timm:test_resnet")[0].state_dict(), weights)
    add = ("weights", "add", weights, "--timm", "test_resnet", "--size", "16", "--as", "imagenet")
    succeed(*add)
    embedding = polyplink("embed", "imagenet", data, "--device", "cpu")
    assert "0 vectors" in embedding.stdout
    assert "no tracklets: `polyplink doctor`" in embedding.stderr
    advice = polyplink("doctor", data, "--no-images").stdout
    options = re.search(r"short sequences: (.*) gives (\d+) tracklets of (\d+) boxes", advice)
    assert options is not None, advice
    assert options[2] == options[3] == str(boxes.height)
    advised = options[1].split()
    embedded = printed_json("embed", "imagenet", data, *advised)
    assert embedded["tracklets"] == boxes.height
    adapt = ("weights", "adapt", "imagenet", data, "--as", "own", "--device", "cpu")
    assert_refused(polyplink(*adapt), "`polyplink doctor` lists options")
    succeed(*adapt, *advised)
    assert_refused(polyplink("evaluate", "own", data, "--part", "all"), "was trained or validated")
    saved = tmp_path / "saved"
    succeed("weights", "save", "imagenet", saved)
    taken = "other weights are called own"
    for other in ((*adapt, *advised), (*add[:-1], "own"), ("weights", "add", saved, "--as", "own")):
        assert_refused(polyplink(*other), taken)
    succeed(*add[:5], "--size", "32", "--as", "imagenet")  # the same file
    record = json.loads(polyplink("weights", "show", "own").stdout)
    assert (record["origin"]["name"], record["origin"]["adapted_from"]) == ("own", "imagenet")
    assert load_named(Path("own")).name == "own"
    settings = ("encoder.frame_encoder=timm:test_resnet", "encoder.kind=sfe", "prepare.size=16",
             "optim.epochs=1", "optim.bags_per_batch=2", "validation.every=0")  # fmt: skip
    sets = [part for value in settings for part in ("--set", value)]
    train = ("train", "ntssl-demo", data, "--out", tmp_path / "run", "--init-from", "imagenet",
             "--part", "all", "--device", "cpu", *advised, *sets)  # fmt: skip
    assert_refused(polyplink(*train), "--set fragment_length=1")
    succeed(*train, "--set", "fragment_length=1")
    encoder = read_record(tmp_path / "run" / "weights.safetensors").encoder
    assert (
        encoder.mean == read_record(weights_path(Path("imagenet"))).encoder.mean != REFERENCE_MEAN
    )


def test_prepare_reports_or_refuses_frames_that_do_not_decode(tmp_path: Path) -> None:
    data = write_procedures(tmp_path, procedures=1, polyps=1, views=2)
    (tmp_path / "frames" / "001-001" / "4.jpg").write_bytes(b"half")
    command = ("prepare", data, "--set", "prepare.size=8")
    message = "image 001-001/4.jpg, frame 4, cannot be decoded"
    assert_refused(polyplink(*command, "--strict"), message)
    assert not list(data.rglob("*.npy"))
    result = succeed(*command, "--json")
    assert json.loads(result.stdout)["broken_frames"] == {"001-001": 1}
    assert "001-001: 1 frame cannot be decoded (first: 001-001/4.jpg" in result.stderr
    (crops,) = data.rglob("*.npy")
    assert_refused(polyplink(*command, "--strict"), f"restore it, remove {crops}, or")


def test_a_data_folder_is_converted_once_and_can_be_imported(tmp_path: Path) -> None:
    folder = write_procedures(tmp_path, procedures=2, images=False)
    data = read_data(folder)
    summary = printed_json("convert", folder, "coco", tmp_path / "coco")
    assert (summary["procedures"], summary["boxes"]) == (2, data.detections.height)
    assert import_coco(tmp_path / "coco").data.detections.equals(data.detections)
    record = json.loads((tmp_path / "coco" / "run.json").read_text())
    assert record["inputs"] == {str(folder): data.key}
    assert_refused(polyplink("convert", folder, "coco", tmp_path / "coco"), "exists already")
    procedures = data.procedures.with_columns(source=pl.lit("kept"))  # in the data folder
    write_data(folder, DataSet.of(data.detections, procedures, data.polyps))
    succeed("convert", folder, "csv", tmp_path / "csv")
    sources = pl.read_csv(tmp_path / "csv" / "procedures.csv")["source"].unique().to_list()
    assert sources == [str(folder.resolve() / "kept")]


def test_frames_without_a_polyp_that_are_not_converted_are_counted(tmp_path: Path) -> None:
    folder = write_procedures(tmp_path, procedures=1, images=False)
    name = read_data(folder).part("all")[0]
    write_empty(folder, pl.DataFrame({"procedure_id": [name], "frame": [7], "image": ["7.jpg"]}))
    result = succeed("convert", folder, "csv", tmp_path / "csv")
    assert "1 x frame annotated as free of polyps, not written" in result.stderr
