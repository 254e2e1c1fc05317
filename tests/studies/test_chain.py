"""From detected boxes to a count: the cost of detection and of tracking. Run by `make study`.

Boxes are annotated or come from simulated detectors, on the preset `small` with three seeds. Each
seed is counted with the encoder of another seed. The operating point is calibrated with the same
kind of boxes on the part "train", and the part "eval" is counted. With "true tracks", the detected
boxes of a view (a polyp without an absence) are one tracklet if there are eight or more.

The study takes an hour. It can be interrupted and run again: POLYPLINK_STUDY names a folder that
keeps the data in small-SEED, the encoder trained on it in runs/SEED, the counts, and table.md.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import polyplink
from polyplink.core.artefacts import write_text
from polyplink.counting.labels import true_boxes_of
from polyplink.data.tables import DataSet, read_data, write_data, write_table
from polyplink.encoders.weights import WEIGHTS_FILE
from polyplink.evaluate.chain import ChainRow, resampled_chain, score_procedure
from polyplink.evaluate.intervals import Resampled, draw_weights, resampled_mean
from polyplink.learn.train_config import LAST
from polyplink.recipes.by_name import RECIPES
from polyplink.report.formats import figure_text
from polyplink_lab.simulate.detector import DETECTORS, detect_simulated
from tests.studies.test_methods import simulate_small
from tests.studies.test_trackers import with_views

SEEDS = (0, 1, 2)
DETECTOR_NAMES = ("good", "misses-15", "gi-genius", "shifted")
TRUE_TRACKS: Mapping[str, Any] = {"max_gap": 10_000, "min_iou": 0.0, "min_length": 8}
ANNOTATED, TRUE = "annotated boxes", ", true tracks"
Scored = tuple[ChainRow, bool, int]  # with: is the truth in the 90 % interval, its width


def detect_boxes(
    annotated: Path, out: Path, detector: str, seed: int, *, true_tracks: bool
) -> Path:
    """A data folder of detected boxes; with `true_tracks` one track per view, no false alarms."""
    if (out / "detections.parquet").is_file():
        return out
    if not true_tracks:
        polyplink.detect_polyps(annotated, out, detector=f"sim:{detector}", seed=seed)
        return out
    data, keys = read_data(annotated), ["procedure_id", "frame", "truth"]
    views = with_views(data).rename({"polyp_id": "truth"}).select(*keys, polyp_id="view")
    boxes = detect_simulated(data, DETECTORS[detector], seed).drop("polyp_id")
    boxes = boxes.join(views.cast({"polyp_id": pl.String}), keys).select(data.detections.columns)
    procedures = data.procedures.with_columns(source=pl.lit(str(annotated.resolve())))
    write_data(out, DataSet.of(boxes, procedures, data.polyps.clear(), data.splits))
    return out


def score(encoder: Path, boxes: Path, annotated: Path, out: Path, **options: Any) -> list[Scored]:
    """Calibrate on the part "train", count the part "eval", and compare with the truth."""
    truth = None if boxes == annotated else annotated
    if not (out / "weights" / WEIGHTS_FILE).is_file():
        weights = out / "weights"
        result = polyplink.calibrate(
            encoder, boxes, truth=truth, out=weights, part="train", **options
        )
        print(out.name, *result.printed, flush=True)
    if not (out / "boxes.parquet").is_file():
        counted = polyplink.count(out / "weights", boxes, out=out / "count", part="eval", **options)
        write_table(out / "boxes.parquet", counted.value.boxes)
    summary = json.loads((out / "count" / "count.json").read_text())["procedures"]
    ends = {
        procedure["procedure_id"]: (procedure["low"] or 0, procedure["high"] or 0)
        for procedure in summary
    }
    boxes_with_polyps, scored = pl.read_parquet(out / "boxes.parquet"), []
    for name, true_boxes in true_boxes_of(annotated, list(ends)).items():
        row = score_procedure(name, true_boxes, boxes_with_polyps.filter(procedure_id=name))
        low, high = ends[name]
        scored.append((row, low <= row.polyps <= high, high - low))
    return scored


def measures(scored: list[Scored]) -> Mapping[str, Resampled]:
    rows, unit_counts, resamples = (
        [scored_procedure[0] for scored_procedure in scored],
        [1] * len(scored),
        draw_weights(len(scored)),
    )
    sums: dict[str, list[int]] = {
        "polyps missed": [row.polyps - row.detected_polyps for row in rows],
        "bias": [row.counted - row.polyps for row in rows],
        "exact": [row.counted == row.polyps for row in rows],
        "in the 90 % interval": [scored_procedure[1] for scored_procedure in scored],
        "width of the interval": [scored_procedure[2] for scored_procedure in scored],
    }
    means = {name: resampled_mean(values, unit_counts, resamples) for name, values in sums.items()}
    return {**resampled_chain(rows), **means}


def table(figures_by_kind: Mapping[str, Mapping[str, Resampled]]) -> str:
    """A table of figures of every kind of boxes, and of meaningful paired differences."""
    pairs = [(name, ANNOTATED) for name in figures_by_kind if name != ANNOTATED]
    pairs += [(name, name + TRUE) for name in DETECTOR_NAMES]
    columns = [
        (name, {k: figure.figure() for k, figure in by_name.items()})
        for name, by_name in figures_by_kind.items()
    ]
    for name, base in pairs:
        by_name = {
            what: figure.minus(figures_by_kind[base][what])
            for what, figure in figures_by_kind[name].items()
        }
        columns.append((f"{name} - {base}", by_name))
    lines = [f"| | {' | '.join(name for name, _ in columns)} |"]
    lines.append("|---" * (len(columns) + 1) + "|")
    for what in figures_by_kind[ANNOTATED]:
        cells = [figure_text(by_name[what]) for _, by_name in columns]
        lines.append(f"| {what} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


@pytest.mark.study
def test_a_detector_adds_little_count_error(tmp_path: Path) -> None:
    out = Path(os.environ.get("POLYPLINK_STUDY", str(tmp_path)))
    data = {seed: simulate_small(out / f"small-{seed}", seed) for seed in SEEDS}
    for seed, run in ((seed, out / "runs" / str(seed)) for seed in SEEDS):
        if not (run / WEIGHTS_FILE).is_file():
            recipe, resume = RECIPES["ntssl-small"](), (run / LAST).is_file()
            polyplink.train(recipe, data[seed], out=run, resume=resume, device="cpu")
    counted: dict[str, list[Scored]] = {}
    for kind in (ANNOTATED, *DETECTOR_NAMES, *(name + TRUE for name in DETECTOR_NAMES)):
        counted[kind] = []
        for seed in SEEDS:
            boxes, options = data[seed], dict[str, Any]()
            stem = f"{kind.replace(', ', '-').replace(' ', '-')}-{seed}"
            if kind != ANNOTATED:
                detector, true = kind.removesuffix(TRUE), kind.endswith(TRUE)
                boxes = detect_boxes(boxes, out / "boxes" / stem, detector, seed, true_tracks=true)
                options |= TRUE_TRACKS if true else {}
            run, out_of_kind = out / "runs" / str((seed + 1) % len(SEEDS)), out / "counts" / stem
            counted[kind] += score(run, boxes, data[seed], out_of_kind, **options)
    figures = {name: measures(scored) for name, scored in counted.items()}
    write_text(out / "table.md", table(figures))
    print((out / "table.md").read_text())
    difference = figures["misses-15"]["count error"].minus(figures[ANNOTATED]["count error"])
    assert (difference.value or 0) <= 0.3
    assert (figures["gi-genius"]["false polyps"].value or 0) <= 0.5
