"""Every method of NTSSL's table 1 at one budget over three seeds. Run by `make study`: an hour.

It can be killed and run again: POLYPLINK_STUDY names a folder that keeps what is done. Its table is
POLYPLINK_STUDY/table.md; docs/results.md says where the published order holds.
"""

import os
from pathlib import Path

import polars as pl
import pytest

from polyplink.recipes import RECIPES
from polyplink.simulate import preset, simulate
from tests.studies.study import run_study

METHODS = ("ntssl", "sfe", "mve", "tpc", "supervised", "temporally-aware", "intra-inter")


def tell(stage: str, done: int, total: int) -> None:
    print(f"{stage}: {done}/{total}", flush=True)


@pytest.mark.study
def test_every_method_beats_an_untrained_encoder(tmp_path: Path) -> None:
    out = Path(os.environ.get("POLYPLINK_STUDY", str(tmp_path)))
    if not (out / "small" / "detections.parquet").is_file():
        simulate(out / "small", preset("small"), 0, workers=2)
    study = run_study(
        [RECIPES[f"{name}-small"]() for name in METHODS],
        out / "small",
        out,
        device="cpu",
        workers=2,
        progress=tell,
    )
    print((out / "table.md").read_text())
    print(study.frames)
    auroc = dict(
        study.table.filter(pl.col("figure") == "AUROC").select("method", "value").iter_rows()
    )
    untrained = auroc["untrained encoder"]
    for name in METHODS:
        assert auroc[f"{name}-small"] > untrained, name
