"""Every method of NTSSL's table 1 at one budget over three seeds. Run by `make study`: an hour.

It can be killed and run again: POLYPLINK_STUDY names a folder that keeps the trainings, and the
tables that `polyplink study` writes; docs/logbook.md says where the published order holds.
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
    """The preset `small`, unless it is there."""
    if not (folder / "detections.parquet").is_file():
        simulate(folder, preset("small"), seed, workers=2)
    return folder


@pytest.mark.study
def test_every_method_beats_an_untrained_encoder(tmp_path: Path) -> None:
    out = Path(os.environ.get("POLYPLINK_STUDY", str(tmp_path)))
    data, names = simulate_small(out / "small", 0), [f"{name}-small" for name in METHODS]
    done = study(names, data, out=out, grid="demo", device="cpu")
    assert not done.value.failed
    done.print_text()
    untrained = []
    for run in done.value.runs[:3]:  # the first method's
        beside = out / "untrained" / str(run.seed)
        measured = evaluate_weights(run.weights, data, out=beside, grid="demo", device="cpu")
        found = measured.value.evaluation.encoders["untrained encoder"]
        untrained.append(found.figures["AUROC"].value or 0.0)
    for method in done.value.comparison.methods:
        assert (method.figures["AUROC"].value or 0.0) > mean(untrained), method.name
