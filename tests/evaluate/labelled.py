"""A data set of one procedure whose polyps have sizes and classes."""

from collections.abc import Sequence

import polars as pl

from polyplink.data import DataSet


def data_of(*, sizes: Sequence[float | None] = (), classes: Sequence[str | None] = ()) -> DataSet:
    n = max(len(sizes), len(classes))
    detections = pl.DataFrame(
        {
            "procedure_id": ["v"] * n,
            "frame": list(range(n)),
            "x": [0.0] * n,
            "y": [0.0] * n,
            "w": [4.0] * n,
            "h": [4.0] * n,
            "polyp_id": [f"p{i}" for i in range(n)],
        }
    )
    procedures = pl.DataFrame(
        {
            "procedure_id": ["v"],
            "dataset": ["real-colon"],
            "patient": ["v"],
            "n_frames": [n],
            "fps": [25.0],
            "width": [32],
            "height": [32],
            "source": ["."],
        }
    )
    polyps = pl.DataFrame(
        {
            "polyp_id": [f"p{i}" for i in range(n)],
            "procedure_id": ["v"] * n,
            "size_mm": pl.Series(list(sizes) or [None] * n, dtype=pl.Float64),
            "histology_class": pl.Series(list(classes) or [None] * n, dtype=pl.String),
        }
    )
    return DataSet.of(detections, procedures, polyps)
