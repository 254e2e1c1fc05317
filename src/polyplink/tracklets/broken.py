"""Frames that do not decode: written down, and tracklets cut there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import polars as pl

from polyplink.core.artefacts import read_json, write_json


@dataclass(frozen=True)
class Broken:
    """A frame that does not decode: its number, its image, and why."""

    frame: int
    image: str
    why: str


def broken_path(crops: Path) -> Path:
    """The file beside a procedure's crops that names its frames that do not decode."""
    return crops.with_suffix(".broken.json")


def write_broken(crops: Path, broken: Sequence[Broken]) -> None:
    """Write the frames down; where there are none there is no file."""
    if broken:
        write_json(broken_path(crops), broken)
    else:
        broken_path(crops).unlink(missing_ok=True)


def read_broken(crops: Path) -> list[Broken]:
    """The frames that did not decode when these crops were made; none where there are no crops."""
    path = broken_path(crops)
    if not (crops.is_file() and path.is_file()):
        return []
    return [Broken(**row) for row in read_json(path)]


def cut_tracklets(
    tracklets: pl.DataFrame,
    frames: pl.Series,
    broken: Mapping[str, Sequence[Broken]],
    *,
    stride: int,
    min_length: int,
) -> pl.DataFrame:
    """Cut tracklets at frames that do not decode.

    A part begins at a crop and ends before the broken one, so that the other crops stay where
    they are; boxes between a broken crop and the next are lost with it. Only frames that were to
    be cropped can be known to be broken.

    Args:
        tracklets: As `prepare.sampled` gives them.
        frames: Frame number of each detection, in the order that `offset` counts in.
        broken: Procedure -> its frames that do not decode.
        stride: Every how many boxes one is cropped.
        min_length: Boxes that a part must have to be kept.

    Returns:
        The same table; the parts after the first are named `ID.1`, `ID.2`, ...
    """
    bad = {procedure: {row.frame for row in rows} for procedure, rows in broken.items() if rows}
    if not bad:
        return tracklets
    rows: list[dict[str, object]] = []
    for row in tracklets.iter_rows(named=True):
        offset, n = row["offset"], row["n"]
        mine = bad.get(row["procedure_id"], set())
        shown = frames[offset : offset + n : stride].to_list() if mine else []
        cuts = [k for k, frame in enumerate(shown) if frame in mine]
        if not cuts:
            rows.append(row)
            continue
        edges = [-1, *cuts, row["n_crops"]]
        for number, (before, after) in enumerate(pairwise(edges)):
            start, stop = (before + 1) * stride, min(after * stride, n)
            if stop - start < max(min_length, 1):
                continue
            rows.append(
                row
                | {
                    "tracklet_id": row["tracklet_id"] + (f".{number}" if number else ""),
                    "first_frame": frames[offset + start],
                    "last_frame": frames[offset + stop - 1],
                    "n": stop - start,
                    "offset": offset + start,
                    "crop_first": row["crop_first"] + before + 1,
                    "n_crops": after - before - 1,
                }
            )
    return pl.DataFrame(rows, schema=tracklets.schema)
