"""`calibrate`: the false-alarm filter, links, and probes of size and histology."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from polyplink.associate.probes import mean_units
from polyplink.encoders.weights import read_record
from tests.cli.calls import assert_refused, polyplink, printed_json, succeed
from tests.conftest import SampleRun


@pytest.fixture(scope="module")
def detected(sample_run: SampleRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Boxes of a detector with persistent false alarms."""
    folder = tmp_path_factory.mktemp("detected")
    succeed("detect", sample_run.data, folder, "--detector", "sim:shifted", "--seed", "1")
    return folder


@pytest.fixture(scope="module")
def calibrated(
    sample_run: SampleRun, detected: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    out = tmp_path_factory.mktemp("calibrated")
    options = ("--truth", sample_run.data, "--out", out, "--device", "cpu", "--keep", "0.5")
    result = succeed("calibrate", sample_run.weights, detected, *options)
    assert "polyps" in result.stdout
    assert "trained or validated on 4 of these procedures" in result.stderr
    return out


def test_false_alarms_are_left_out_and_shown_separately(
    sample_run: SampleRun, detected: Path, calibrated: Path, tmp_path: Path
) -> None:
    options = ("--device", "cpu", "--truth", sample_run.data)
    uncalibrated = polyplink(
        "count", sample_run.weights, detected, "-o", tmp_path / "raw", *options
    )
    assert "`polyplink calibrate` adds that" in uncalibrated.stderr
    result = succeed("count", calibrated, detected, "-o", tmp_path / "c", *options)
    before = json.loads((tmp_path / "raw" / "count.json").read_text())
    after = json.loads((tmp_path / "c" / "count.json").read_text())
    n_alarms = after["false_alarms"]
    assert n_alarms > 5
    assert f"{n_alarms} views left out as false alarms (--alarms keep counts them)" in result.stdout
    pairs = zip(before["procedures"], after["procedures"], strict=True)
    assert all(b["tracklets"] == a["tracklets"] + len(a["alarms"]) for b, a in pairs)
    assert "vector" not in after["operating_point"]["alarms"]  # as many numbers as a vector has
    threshold = after["operating_point"]["alarms"]["threshold"]
    views = pl.read_csv(tmp_path / "c" / "views.csv")
    left_out, linked = views.filter(pl.col("polyp").is_null()), views.drop_nulls("polyp")
    assert left_out.height == n_alarms
    assert (left_out["shows_polyp"] <= threshold + 1e-4).all()
    of_polyps = linked.group_by("procedure", "polyp").agg(pl.col("shows_polyp").max())
    assert (of_polyps["shows_polyp"] >= threshold - 1e-4).all()
    false_before, false_after = (
        sum(row["false_tracklets"] for row in counts["against_truth"]["procedures"])
        for counts in (before, after)
    )
    assert false_after < false_before / 3
    assert after["against_truth"]["figures"]["polyps found"]["value"] >= 0.4
    page = (tmp_path / "c" / "report.html").read_text()
    assert "Left out as false alarms" in page
    settings = json.loads((tmp_path / "c" / "run.json").read_text())["settings"]
    assert settings["alarms"] == "drop"
    assert settings["tracklets"]["tracks"]["bridge"] == 0.7
    command = ("count", calibrated, detected, "-o", tmp_path / "k", *options)
    summary = printed_json(*command, "--alarms", "keep", "--part", "eval")
    assert summary["false_alarms"] == 0
    assert summary["polyps"] == before["procedures"][-1]["polyps"]


def test_calibration_procedures_are_recorded_and_unlabelled_data_are_refused(
    sample_run: SampleRun, detected: Path, calibrated: Path, tmp_path: Path
) -> None:
    seen, before = (
        read_record(run / "weights.safetensors").seen for run in (calibrated, sample_run.run)
    )
    assert (seen.data, seen.trained) == (before.data, before.trained)
    assert {name for _, name, _ in seen.validated} == {f"001-00{i}" for i in range(1, 6)}
    for truth in (("--truth", detected), ()):
        command = ("calibrate", sample_run.weights, detected, *truth, "-o", tmp_path / "o")
        refused = polyplink(*command, "--device", "cpu")
        assert_refused(refused, f"no box of {detected} has a known polyp; give annotated")
    command = ("calibrate", sample_run.weights, sample_run.data, "-o", tmp_path / "o")
    refused = polyplink(*command, "--min-length", "99999", "--device", "cpu")
    assert_refused(refused, "no tracklet is long enough to calibrate on; give other procedures")


def test_links_are_fitted_again_on_annotated_boxes(sample_run: SampleRun, tmp_path: Path) -> None:
    command = ("calibrate", sample_run.weights, sample_run.data, "-o", tmp_path)
    result = printed_json(*command, "--device", "cpu")
    assert "of 5 procedures; cross-fitted there" in result["links"]
    before, after = (read_record(run / "weights.safetensors") for run in (sample_run.run, tmp_path))
    assert before.operating is not None
    assert after.operating is not None
    assert after.operating["links"]["pairs"] > before.operating["links"]["pairs"]
    annotated: dict[str, Any] = {"boxes": "annotated", "detector": None}
    annotated |= {"material": "recordings", "fps": 25.0}
    annotated |= {"tracklets": {"min_length": 30, "max_gap": 1, "min_iou": 0.1}}
    assert before.operating["calibration"] == annotated | {"procedures": 4, "views": 6}
    assert after.operating["calibration"] == annotated | {"procedures": 5, "views": 6}
    onto_itself = ("calibrate", tmp_path, sample_run.data, "-o", tmp_path, "--device", "cpu")
    assert_refused(polyplink(*onto_itself), "holds the weights themselves")
    assert after.operating["alarms"] is None


def test_links_are_fitted_without_false_alarms(sample_run: SampleRun, tmp_path: Path) -> None:
    boxes, out = tmp_path / "boxes", tmp_path / "out"
    polyplink("detect", sample_run.data, boxes, "--detector", "sim:misses-15")
    command = ("calibrate", sample_run.weights, boxes, "--truth", sample_run.data, "-o", out)
    result = succeed(*command, "--device", "cpu")
    assert "false alarms are not filtered: " in result.stderr
    assert "tracklets show a polyp" in result.stderr
    operating = read_record(out / "weights.safetensors").operating
    assert operating is not None
    assert operating["links"] is not None
    assert operating["alarms"] is None


def test_size_and_histology_are_in_the_hand_off(
    sample_run: SampleRun, run_folder: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    shutil.copytree(sample_run.data, data, ignore=shutil.ignore_patterns("prepared"))
    vectors = pl.read_parquet(run_folder / "count" / "vectors.parquet")
    counted_views = pl.read_csv(run_folder / "count" / "views.csv")
    tracklets = counted_views.join(
        vectors, left_on="tracklet", right_on="tracklet_id"
    ).with_columns(
        # Each polyp of the sample has three consecutive views.
        polyp_id=pl.format("{}_{}", "procedure", pl.int_range(pl.len()).over("procedure") // 3 + 1)
    )
    names = tracklets["polyp_id"].unique(maintain_order=True).to_list()
    units = mean_units(
        tracklets["vector"].to_numpy(), np.array([names.index(n) for n in tracklets["polyp_id"]])
    )
    # Sizes and histology depend on the projection on the first principal component.
    projection = np.linalg.svd(units - units.mean(axis=0))[0][:, 0]
    ordered = np.sort(projection)
    gap = np.diff(ordered)[2:-2].argmax() + 2  # at least three polyps of each class
    threshold = ordered[gap : gap + 2].mean()
    labels = pl.DataFrame(
        {
            "polyp_id": names,
            "size_mm": np.exp(1.5 + projection),
            "histology_class": np.where(projection > threshold, "AD", "HP"),
        }
    )
    polyps = pl.read_parquet(data / "polyps.parquet").drop("size_mm", "histology_class")
    polyps.join(labels, "polyp_id", maintain_order="left").write_parquet(data / "polyps.parquet")
    procedures = pl.read_parquet(data / "procedures.parquet")
    procedures.with_columns(dataset=pl.lit("simulated x")).write_parquet(
        data / "procedures.parquet"
    )
    weights, out = tmp_path / "calibrated", tmp_path / "count"
    calibration = succeed("calibrate", sample_run.weights, data, "-o", weights, "--device", "cpu")
    assert "size fitted on 10 polyps of 5 patients" in calibration.stdout, calibration.output
    assert "histology fitted on 10 polyps" in calibration.stdout, calibration.output
    count = succeed("count", weights, data, "-o", out, "--device", "cpu", "--part", "train")
    assert "models fitted on simulated polyps" in count.stderr
    views = pl.read_csv(out / "views.csv")
    assert views["size_mm"].null_count() == views["adenoma"].null_count() == 0
    group = json.loads((out / "count.json").read_text())["procedures"][0]["groups"][0]
    assert group["size_low_mm"] < group["size_mm"] < group["size_high_mm"]
    assert f"about {group['size_mm']:.1f} mm" in (out / "report.html").read_text()
    succeed("hand-off", out, "--language", "de")
    table = pl.read_csv(out / "reviewed" / "polyps.csv")
    assert table["Größe, mm"][0] == group["size_mm"]
    assert table["Wahrscheinlichkeit eines Adenoms"][0] == group["adenoma"]
    page = (out / "reviewed" / "report.html").read_text()
    assert f"etwa {group['size_mm']:.1f} mm".replace(".", ",") in page
    assert "an simulierten Polypen angepasst" in page
    review = json.loads((out / "reviewed" / "review.json").read_text())
    polyp = review["procedures"][0]["reviewed_polyps"][0]
    assert polyp["size_high_mm"] == group["size_high_mm"]
    # Weights calibrated on procedures of unknown sizes keep their probes.
    succeed("calibrate", weights, sample_run.data, "-o", tmp_path / "again", "--device", "cpu")
    point = read_record(tmp_path / "again" / "weights.safetensors").operating
    assert point is not None
    assert point["size"]["vector"]
