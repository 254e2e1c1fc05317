"""A small data folder with images, and random tables of boxes."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import simplejpeg
from hypothesis import strategies as st

from polyplink.data.tables import DETECTIONS, DataSet, check, write_data

WIDTH, HEIGHT = 64, 48


def detections(rows: list[dict[str, Any]]) -> pl.DataFrame:
    schema = {name: column.dtype for name, column in DETECTIONS.items()}
    return check(pl.DataFrame(rows, schema=schema), DETECTIONS, "detections")


def random_rows(labelled: bool) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Boxes on a coarse grid, so that overlaps, gaps and equal IoUs are frequent."""
    polyps = st.sampled_from(["a", "b"]) if labelled else st.sampled_from([None, None, "a"])
    row = st.fixed_dictionaries(
        {
            "procedure_id": st.sampled_from(["p", "q"]),
            "frame": st.integers(0, 9),
            "x": st.integers(0, 6).map(float),
            "y": st.integers(0, 2).map(float),
            "w": st.integers(1, 6).map(float),
            "h": st.integers(1, 6).map(float),
            "polyp_id": polyps,
        }
    )
    return st.lists(row, max_size=40)


def frame_pixels(procedure: int, frame: int) -> np.ndarray:
    """A smooth frame (HEIGHT, WIDTH, 3) that differs from all other frames."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    planes = (3 * x + frame, 4 * y + 5 * frame, x + y + 40 * procedure)
    return np.stack(planes, axis=2).astype(np.uint8)


def write_sample(folder: Path, *, images: bool = True) -> DataSet:
    """Write three procedures: with a polyp and unlabelled boxes, with a polyp, and with none."""
    rows: list[dict[str, Any]] = []
    for procedure, polyps in enumerate((("p0_a", None), ("p1_a",))):
        for frame in range(34):
            name = f"p{procedure}/{frame}.jpg"
            if images:
                path = folder / "images" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(simplejpeg.encode_jpeg(frame_pixels(procedure, frame)))
            for k, polyp in enumerate(polyps):
                box = {"x": 5.0 + frame / 2 + 20 * k, "y": 10.0, "w": 8.0, "h": 6.0}
                place = {"procedure_id": f"p{procedure}", "frame": frame, "polyp_id": polyp}
                rows.append({**place, **box, "image": name if images else None})
    procedures = pl.DataFrame(
        {
            "procedure_id": ["p0", "p1", "none"],
            "dataset": ["sample"] * 3,
            "patient": ["0", "1", "2"],
            "n_frames": [40] * 3,
            "width": [WIDTH] * 3,
            "height": [HEIGHT] * 3,
            "source": ["images"] * 3,
        }
    )
    polyps_table = pl.DataFrame({"polyp_id": ["p0_a", "p1_a"], "procedure_id": ["p0", "p1"]})
    splits = {"train": ["p0", "none"], "eval": ["p1"]}
    data = DataSet.of(detections(rows), procedures, polyps_table, splits)
    write_data(folder, data)
    return data
