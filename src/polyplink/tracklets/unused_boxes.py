"""How many boxes of a data set are left out of tracklets, and why."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from polyplink.core.arrays import Ints
from polyplink.core.text import many
from polyplink.data.doctor import Finding, Severity
from polyplink.data.origin import read_origin
from polyplink.data.tables import DataSet
from polyplink.tracklets.box_runs import box_rows, build_tracklets, frame_rates
from polyplink.tracklets.sampling import kept_tracklets
from polyplink.tracklets.scenes import read_scenes
from polyplink.tracklets.settings import PrepareSettings, with_options


def diagnose_tracklets(data: DataSet, folder: Path) -> list[Finding]:
    """Report how many tracklets the settings give, and which settings drop other boxes.

    Args:
        data: The data set.
        folder: Its data folder. Thresholds in the record of the detector override the default
            settings, and tracks stay within the scenes of a recording.
    """
    if data.detections.is_empty():
        return []
    defaults, fps = PrepareSettings(), frame_rates(data.procedures)
    origin, scenes = read_origin(folder), read_scenes(folder)
    settings = with_options(defaults, {}, origin)
    uncut = replace(settings, max_gap=max(int(data.procedures["n_frames"].sum()), 1), min_iou=0.0)
    boxes, built = build_tracklets(data.detections, settings, fps=fps, scenes=scenes)
    _, built_uncut = build_tracklets(data.detections, uncut, fps=fps, scenes=scenes)
    used = kept_tracklets(built, settings, fps)
    used_uncut = kept_tracklets(built_uncut, uncut, fps)
    has_polyp = pl.col("polyp_id").is_not_null()
    of_polyps, of_polyps_uncut = (
        int(tracklets.filter(has_polyp)["n"].sum()) for tracklets in (used, used_uncut)
    )
    n_no_polyp = data.detections["polyp_id"].null_count()
    total = data.detections.height
    cut_short = of_polyps_uncut - of_polyps
    too_few = total - n_no_polyp - of_polyps_uncut
    n_dropped = n_no_polyp - int(used.filter(~has_polyp)["n"].sum())
    n_by_reason = {
        f"where gaps or jumps cut a polyp's boxes (--max-gap {settings.max_gap}, --min-iou "
        f"{settings.min_iou:g})": cut_short,
        f"of polyps with fewer than {settings.min_length} boxes at a time (--min-length)": too_few,
        f"without a polyp, in tracks shorter than {settings.min_seconds:g} s or "
        f"{settings.fewest_frames} frames (--min-seconds) or of too low a score (--low)": n_dropped,
    }
    count = sum(n_by_reason.values())
    reasons = [f"{n} {reason}" for reason, n in n_by_reason.items() if n]
    severity: Severity = "note"
    name = f"settings of {origin.name}" if origin and settings != defaults else "default settings"
    text, hint = f"the {name} give {many(used.height, 'tracklet')}", "none needed"
    if reasons:
        text += f"; of {total} boxes they leave out {', '.join(reasons)}"
        hint = "give these options to change them"
    # Boxes too weak to begin a track are meant to be left out, so they are no reason to warn.
    too_weak = ~has_polyp & (pl.col("score") < settings.tracks.high).fill_null(False)
    strong = boxes.select(~too_weak).to_series().to_numpy()
    left_out = np.ones(total, np.bool_)
    left_out[box_rows(used)[0]] = False
    if 2 * (strong & left_out).sum() > strong.sum():
        severity, hint = "warning", _for_few_boxes(data, settings, fps, scenes)
    return [Finding(severity, "tracklets", text, max(count, 1), hint)]


def _for_few_boxes(
    data: DataSet, settings: PrepareSettings, fps: Mapping[str, float], scenes: Mapping[str, Ints]
) -> str:
    """Options that make tracklets of single frames and short sequences, and how many they make."""
    keys = ["procedure_id", "polyp_id"]
    frames = data.detections.select(*keys, "frame").unique().sort(*keys, "frame")
    steps = frames.select(pl.col("frame").diff().over(keys))["frame"].drop_nulls()
    # A longer step is an absence: half of a polyp's steps, or of a procedure's, are no longer.
    gap = max(int(steps.median() or 1), 1)  # type: ignore[arg-type]
    loose = replace(settings, max_gap=gap, min_iou=0.0, min_length=1, min_seconds=0.0, stride=1)
    _, built = build_tracklets(data.detections, loose, fps=fps, scenes=scenes)
    table = kept_tracklets(built, loose, fps)
    return (
        f"for single frames and short sequences: --max-gap {gap} --min-iou 0 --min-length 1 "
        f"--min-seconds 0 --stride 1 gives {many(table.height, 'tracklet')} of "
        f"{many(int(table['n'].sum()), 'box')}; "
        "prepare, train, embed, count and evaluate take these options"
    )
