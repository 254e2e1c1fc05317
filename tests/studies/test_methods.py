"""The methods of NTSSL's table 1 at one budget over three seeds. Run by `make study`: an hour.

The study can be interrupted and run again: POLYPLINK_STUDY names a folder that keeps the trainings
and the tables of `polyplink study`. docs/results.md shows where the published order is reproduced.
"""

import os
from pathlib import Path
from statistics import mean

import pytest

from polyplink import evaluate_weights
from polyplink_lab.cli.study import study
from polyplink_lab.simulate.data_set import simulate
from polyplink_lab.simulate.presets import preset

METHODS = ("ntssl", "sfe", "mve", "tpc", "supervised", "temporally-aware", "intra-inter")


def simulate_small(folder: Path, seed: int) -> Path:
    """Simulate the preset `small` unless the folder has it."""
    if not (folder / "detections.parquet").is_file():
        simulate(folder, preset("small"), seed, workers=2)
    return folder


@pytest.mark.study
def test_every_method_beats_an_untrained_encoder(tmp_path: Path) -> None:
    out = Path(os.environ.get("POLYPLINK_STUDY", str(tmp_path)))
    data, names = simulate_small(out / "small", 0), [f"{name}-small" for name in METHODS]
    compared = study(names, data, out=out, grid="demo", device="cpu")
    assert not compared.value.failed
    compared.print_text()
    untrained = []
    for run in compared.value.runs[:3]:  # of the first method
        evaluation_folder = out / "untrained" / str(run.seed)
        measured = evaluate_weights(
            run.weights, data, out=evaluation_folder, grid="demo", device="cpu"
        )
        untrained_encoder = measured.value.evaluation.encoders["untrained encoder"]
        untrained.append(untrained_encoder.figures["AUROC"].value or 0.0)
    for method in compared.value.comparison.methods:
        assert (method.figures["AUROC"].value or 0.0) > mean(untrained), method.name
