"""Track files in the layout of TrackEval, which reads and scores them the same."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from trackeval.datasets import MotChallenge2DBox
from trackeval.metrics import CLEAR, HOTA, Identity

from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.hota import tracking_figures
from polyplink.evaluate.metric import metrics_of
from polyplink.evaluate.samples import TrackletBoxes
from polyplink.evaluate.track_files import score_files, scored_boxes, write_trackeval
from polyplink.evaluate.tracking import TrackingTruth
from polyplink.tracklets.prepare import prepare
from polyplink.tracklets.settings import PrepareSettings
from tests.samples import write_procedures


def by_trackeval(root: Path, part: str) -> dict[str, float]:
    """Figures of TrackEval over all procedures, with its own reader."""
    data = MotChallenge2DBox(
        {
            "GT_FOLDER": str(root / "gt" / "mot_challenge"),
            "TRACKERS_FOLDER": str(root / "trackers" / "mot_challenge"),
            "BENCHMARK": "polyplink",
            "SPLIT_TO_EVAL": part,
            "PRINT_CONFIG": False,
        }
    )
    (tracker,) = data.tracker_list
    combined: dict[str, Any] = {}
    no_output = {"PRINT_CONFIG": False}
    for metric in (HOTA(), Identity(no_output), CLEAR(no_output)):
        counts_by_sequence = {}
        for name in data.seq_list:
            raw = data.get_raw_seq_data(tracker, name)
            counts_by_sequence[name] = metric.eval_sequence(
                data.get_preprocessed_seq_data(raw, "pedestrian")
            )
        combined |= metric.combine_sequences(counts_by_sequence)
    return {name: float(np.mean(combined[name])) for name in metrics_of("tracking")}


def test_trackeval_gives_the_same_figures_and_damaged_folders_are_refused(
    tmp_path: Path,
) -> None:
    data = write_procedures(tmp_path, procedures=2, images=False)
    prepared = prepare(data, PrepareSettings(), with_crops=False)
    labels = [0, 0, 1, 1, 1, 2] * 2  # some tracklets are wrong
    table = prepared.tracklets.select(
        pl.lit("ours").alias("method"),
        pl.lit("threshold").alias("clusterer"),
        "procedure_id",
        "tracklet_id",
        pl.Series("track", labels),
    )
    write_trackeval(tmp_path / "out", prepared, table, "eval")
    expected = by_trackeval(tmp_path / "out", "eval")
    truth = tmp_path / "out" / "gt" / "mot_challenge" / "polyplink-eval"
    tracker = tmp_path / "out/trackers/mot_challenge/polyplink-eval/ours, threshold/data"
    counts = score_files(truth, tracker)
    assert list(counts) == ["001-001", "001-002"]
    total = type(counts["001-001"]).total(list(counts.values()))
    for name, value in tracking_figures(total).items():
        assert float(value) == pytest.approx(expected[name], abs=1e-6), name
    assert 0 < expected["AssA"] < 1
    rows = scored_boxes(prepared).filter(pl.col("procedure_id") == "001-001")
    polyp = np.repeat([0, 1], 3)
    boxes = TrackletBoxes(
        polyp,
        np.arange(7) * 32,
        rows["frame"].to_numpy().astype(np.int64),
        rows.select("x", "y", "w", "h").to_numpy().astype(np.float64),
    )
    scored = TrackingTruth.of("001-001", boxes).score([[0, 0, 1, 1, 1, 2]]).counts.take(0)
    for name, value in tracking_figures(scored).items():
        assert float(value) == pytest.approx(float(tracking_figures(counts["001-001"])[name]))
    text = (tracker / "001-002.txt").read_text()
    (tracker / "001-002.txt").write_text("1,-1," + text.split(",", 2)[2])
    with pytest.raises(PolyplinkError, match="1 box of 001-002 without a track"):
        score_files(truth, tracker)
    # The name of a part cannot lead out of the folder.
    write_trackeval(tmp_path / "odd" / "out", prepared, table, "a/../../../../../escaped")
    assert [path.name for path in (tmp_path / "odd").iterdir()] == ["out"]
    assert not list(tmp_path.rglob("escaped"))
    (tracker / "001-002.txt").unlink()
    with pytest.raises(PolyplinkError, match=r"no .*001-002\.txt"):
        score_files(truth, tracker)


def test_boxes_outside_the_frame_and_files_without_a_box_are_scored_as_trackeval_does(
    tmp_path: Path,
) -> None:
    prepared = prepare(
        write_procedures(tmp_path, procedures=2, images=False), PrepareSettings(), with_crops=False
    )
    table = prepared.tracklets.select(
        pl.lit("ours").alias("method"),
        pl.lit("threshold").alias("clusterer"),
        "procedure_id",
        "tracklet_id",
        pl.Series("track", [0, 0, 0, 1, 1, 1] * 2),
    )
    out = tmp_path / "out"
    write_trackeval(out, prepared, table, "eval")
    tracker = out / "trackers/mot_challenge/polyplink-eval/ours, threshold/data"
    with (tracker / "001-001.txt").open("a") as file:
        file.write("1,9,-90,4,60,50,1,-1,-1,-1\n")  # left of the frame
    (tracker / "001-002.txt").write_text("")
    counts = score_files(out / "gt" / "mot_challenge" / "polyplink-eval", tracker)
    total = type(counts["001-001"]).total(list(counts.values()))
    expected = by_trackeval(out, "eval")
    for name, value in tracking_figures(total).items():
        assert float(value) == pytest.approx(expected[name], abs=1e-6), name
    assert expected["IDP"] < 1
    for start in ("1,2,left", "1.5,2,9", "nan,2,9"):
        (tracker / "001-002.txt").write_text(f"{start},4,60,50,1,-1,-1,-1\n")
        with pytest.raises(PolyplinkError, match="1 box of 001-002 without a frame and four sides"):
            score_files(out / "gt" / "mot_challenge" / "polyplink-eval", tracker)
    (tracker / "001-002.txt").write_text("1,2,9,4,60,50,1,-1,-1,-1\n" * 2)
    with pytest.raises(PolyplinkError, match="track '2' is in frame 1 twice"):
        score_files(out / "gt" / "mot_challenge" / "polyplink-eval", tracker)
