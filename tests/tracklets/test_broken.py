from pathlib import Path

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from polyplink.tracklets.broken import (
    Broken,
    broken_path,
    cut_tracklets,
    read_broken,
    write_broken,
)

STRIDE = 4


def table(lengths: list[int]) -> tuple[pl.DataFrame, pl.Series]:
    """Tracklets of these lengths, one after the other in one procedure, and all frame numbers."""
    rows, offset, crop = [], 0, 0
    for k, n in enumerate(lengths):
        crops = -(-n // STRIDE)
        rows.append(("p", f"p:{k:05}", offset, offset + n - 1, n, offset, crop, crops))
        offset, crop = offset + n, crop + crops
    columns = ("procedure_id", "tracklet_id", "first_frame", "last_frame", "n", "offset")
    schema = [*columns, "crop_first", "n_crops"]
    return pl.DataFrame(rows, schema=schema, orient="row"), pl.Series(range(offset))


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=4),
    st.sets(st.integers(0, 120), max_size=8),
    st.integers(1, 12),
)
def test_parts_against_a_loop_over_the_crops(
    lengths: list[int], bad: set[int], min_length: int
) -> None:
    tracklets, frames = table(lengths)
    tracklets = tracklets.filter(pl.col("n") >= min_length)
    broken = {"p": [Broken(frame, "x", "why") for frame in sorted(bad)]}
    got = cut_tracklets(tracklets, frames, broken, stride=STRIDE, min_length=min_length)
    expected = []
    for row in tracklets.iter_rows(named=True):
        part: list[int] = []  # crops
        shown = [row["offset"] + STRIDE * k for k in range(row["n_crops"])]
        for k, frame in enumerate([*shown, None]):
            if frame is not None and frame not in bad:
                part.append(k)
                continue
            if part:
                end = row["offset"] + row["n"] if frame is None else frame
                first = shown[part[0]]
                if end - first >= min_length:
                    expected.append((first, end - 1, row["crop_first"] + part[0], len(part)))
            part = []
    assert got.select("first_frame", "last_frame", "crop_first", "n_crops").rows() == expected
    assert got["tracklet_id"].is_unique().all()
    assert (got["last_frame"] - got["first_frame"] + 1 == got["n"]).all()
    crops = [
        frames[row["offset"] + STRIDE * k]
        for row in got.iter_rows(named=True)
        for k in range(row["n_crops"])
    ]
    assert not set(crops) & bad


def test_names_of_parts_and_procedures_without_broken_frames() -> None:
    tracklets, frames = table([40, 10])
    broken = {"p": [Broken(8, "x", "why"), Broken(20, "x", "why")]}
    got = cut_tracklets(tracklets, frames, broken, stride=STRIDE, min_length=1)
    assert got["tracklet_id"].to_list() == ["p:00000", "p:00000.1", "p:00000.2", "p:00001"]
    other = {"q": broken["p"]}
    assert cut_tracklets(tracklets, frames, other, stride=4, min_length=1).equals(tracklets)
    assert cut_tracklets(tracklets, frames, {}, stride=4, min_length=1) is tracklets


def test_frames_are_read_again_only_beside_their_crops(tmp_path: Path) -> None:
    crops = tmp_path / "p.npy"
    broken = [Broken(3, "a/3.jpg", "cut short")]
    write_broken(crops, broken)
    assert read_broken(crops) == []  # a killed run: the crops are still to come
    np.save(crops, np.zeros(1))
    assert read_broken(crops) == broken
    write_broken(crops, [])
    assert read_broken(crops) == []
    assert not broken_path(crops).exists()
