"""The tables of REAL-Colon that travel with this package (no images, no boxes).

Source: Biffi et al., Scientific Data 2024, 11:539; terms in `released/real_colon/README.md`.
"""

import json
from importlib.resources import files

import polars as pl


def _text(name: str) -> str:
    path = files("polyplink.data") / "released" / "real_colon" / name
    return path.read_text(encoding="utf-8")


def video_info() -> pl.DataFrame:
    """One row for each of the 60 procedures, columns as released."""
    return pl.read_csv(_text("video_info.csv").encode())


def lesion_info() -> pl.DataFrame:
    """One row for each of the 132 lesions, columns as released (`size [mm]`, `trasnverse`)."""
    return pl.read_csv(_text("lesion_info.csv").encode())


def positive_frames() -> pl.DataFrame:
    """For each procedure its frames, frames with a box, and frame size in pixels.

    Columns: video_id, num_frames, n_polyp_frames, width, height. Counted by a third party; the
    sums are the published totals.
    """
    return pl.read_csv(_text("positive_frames_per_video.csv").encode())


def published_splits() -> dict[str, list[str]]:
    """The parts of REAL-Colon that the papers use.

    Returns:
        Procedure ids of `rc27` (training), `rc19` (evaluation, leave one out), `rc14neg` (no
        lesion) and `eval19_with_2_or_more` (those of `rc19` with two lesions or more).
    """
    splits: dict[str, list[str]] = json.loads(_text("splits.json"))
    return splits
