"""A counted folder of 60 procedures and 736 tracklets, to measure the response times of a review.

`python -m tests.serve.loads FOLDER` prints them in seconds.
"""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from polyplink.associate.links import Views
from polyplink.core.artefacts import to_plain, write_json
from polyplink.counting.link import ProcedureTracklets
from polyplink.counting.operating_point import find_operating_point
from polyplink.data.tables import DataSet, write_data
from polyplink.encoders.encode import Embeddings, write_embeddings
from polyplink.serve.desk import Desk
from polyplink.tracklets.prepare import prepare
from polyplink.tracklets.settings import PrepareSettings

TRACKLETS = [13] * 16 + [12] * 44  # of each procedure: 736 in total
LENGTH, SPACING = 32, 200  # frames of a tracklet, and from the start of one tracklet to the next
VIEWS = 3  # tracklets of a polyp


def write_counted(root: Path, tracklets: Sequence[int] = TRACKLETS) -> Path:
    """Write tables and vectors, as `count` does, of polyps with three similar views each."""
    names = [f"001-{p + 1:03}" for p in range(len(tracklets))]
    rows = [
        (name, k * SPACING + step, f"{name}_{k // VIEWS + 1}")
        for name, n in zip(names, tracklets, strict=True)
        for k in range(n)
        for step in range(LENGTH)
    ]
    boxes = pl.DataFrame(rows, ["procedure_id", "frame", "polyp_id"], orient="row").with_columns(
        x=pl.lit(20.0), y=pl.lit(20.0), w=pl.lit(30.0), h=pl.lit(30.0)
    )
    procedures = pl.DataFrame({"procedure_id": names, "patient": names}).with_columns(
        dataset=pl.lit("made"),
        n_frames=13 * SPACING,
        fps=25.0,
        width=200,
        height=200,
        source=pl.lit("."),
    )
    polyps = boxes.select("polyp_id", "procedure_id").unique(maintain_order=True)
    write_data(root / "data", DataSet.of(boxes, procedures, polyps))
    settings = PrepareSettings()
    prepared = prepare(root / "data", settings, with_crops=False)
    table, rng = prepared.tracklets, np.random.default_rng(0)
    centres = {name: rng.normal(size=64) for name in polyps["polyp_id"]}
    vectors = np.stack([centres[polyp] + rng.normal(size=64) for polyp in table["polyp_id"]])
    labelled = []
    for name in names[:12]:
        in_procedure = table["procedure_id"] == name
        tracklets_of = table.filter(in_procedure)
        first, last = (
            tracklets_of[column].to_numpy() / 25 for column in ("first_frame", "last_frame")
        )
        views = Views(vectors[in_procedure.to_numpy()], first, last)
        labelled.append(ProcedureTracklets(name, tracklets_of, views))
    summary: dict[str, Any] = {
        "data": "../data",
        "weights": "made",
        "crops": prepared.key,
        "operating_point": to_plain(find_operating_point(labelled).for_purpose("count")),
        "tracklets": to_plain(settings),
        "procedures": [{"procedure_id": name, "alarms": [], "groups": []} for name in names],
    }
    embeddings = Embeddings(table["tracklet_id"].to_list(), vectors.astype(np.float32), "made", "")
    write_embeddings(root / "count" / "vectors.parquet", embeddings)
    write_json(root / "count" / "count.json", summary)
    return root / "count"


def measure(folder: Path) -> dict[str, float]:
    """Measure wall time and CPU time, in seconds, to open the folder and per answer."""

    def clocks() -> tuple[float, float]:
        return time.perf_counter(), time.process_time()

    start = clocks()
    desk = Desk(folder)
    overview = desk.overview()
    json.dumps(overview)
    opened = clocks()
    answers = []
    for index in range(0, len(overview["procedures"]), 3):
        for kind in ("different", "same"):
            before = clocks()
            json.dumps(desk.correct(index, {"kind": kind, "a": 0, "b": 4}))
            answers.append(np.subtract(clocks(), before))
    wall, cpu = np.median(answers, axis=0).tolist()
    slowest = np.max(answers, axis=0).tolist()
    return {
        "tracklets": sum(procedure["tracklets"] for procedure in overview["procedures"]),
        "open_wall": opened[0] - start[0],
        "open_cpu": opened[1] - start[1],
        "answer_wall": wall,
        "answer_cpu": cpu,
        "slowest_wall": slowest[0],
        "slowest_cpu": slowest[1],
    }


if __name__ == "__main__":
    print(json.dumps(measure(write_counted(Path(sys.argv[1])))))
