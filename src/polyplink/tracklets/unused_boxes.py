"""How many boxes of a data set the default settings leave out of tracklets, and why."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import polars as pl

from polyplink.data.doctor import Finding
from polyplink.data.tables import DataSet
from polyplink.tracklets.box_runs import build_tracklets
from polyplink.tracklets.prepare import kept_tracklets
from polyplink.tracklets.settings import PrepareSettings


def diagnose_tracklets(data: DataSet) -> list[Finding]:
    """Report how many tracklets the default settings give, and which settings drop other boxes."""
    if data.detections.is_empty():
        return []
    settings = PrepareSettings()
    fps = dict(data.procedures.select("procedure_id", "fps").iter_rows())
    build = partial(build_tracklets, data.detections, tracks=settings.tracks, fps=fps)
    _, cut = build(max_gap=settings.max_gap, min_iou=settings.min_iou)
    _, uncut_tracklets = build(max_gap=int(data.procedures["n_frames"].sum()), min_iou=0.0)
    cut_tracklets = kept_tracklets(cut, settings, fps)
    has_polyp = pl.col("polyp_id").is_not_null()

    def boxes(tracklets: pl.DataFrame, rows: pl.Expr = has_polyp) -> int:
        return int(tracklets.filter(rows)["n"].sum())

    uncut = boxes(kept_tracklets(uncut_tracklets, settings, fps))
    total, unnamed = data.detections.height, data.detections["polyp_id"].null_count()
    lost = {
        f"where gaps or jumps cut a polyp's boxes (--max-gap {settings.max_gap}, --min-iou "
        f"{settings.min_iou:g})": uncut - boxes(cut_tracklets),
        f"of polyps with fewer than {settings.min_length} boxes at a time (--min-length)": total
        - unnamed
        - uncut,
        "without a polyp, in tracks shorter than "
        f"{settings.min_seconds:g} s (--min-seconds) or of too low a score (--low)": unnamed
        - boxes(cut_tracklets, ~has_polyp),
    }
    count = sum(lost.values())
    mostly_lost = 2 * count > total
    summary = f"the default settings give {cut_tracklets.height} tracklets"
    reasons = [f"{n} {reason}" for reason, n in lost.items() if n]
    return [
        Finding(
            "warning" if mostly_lost else "note",
            "tracklets",
            f"{summary}; of {total} boxes they leave out {', '.join(reasons)}"
            if reasons
            else summary,
            max(count, 1),
            _for_few_boxes(data, fps, settings)
            if mostly_lost
            else "give these options to change them"
            if reasons
            else "none needed",
        )
    ]


def _for_few_boxes(
    data: DataSet, fps: Mapping[str, float | None], settings: PrepareSettings
) -> str:
    """Options that make tracklets of single frames and short sequences, and how many they make."""
    keys = ["procedure_id", "polyp_id"]
    frames = data.detections.select(*keys, "frame").unique().sort(*keys, "frame")
    steps = frames.select(pl.col("frame").diff().over(keys))["frame"].drop_nulls()
    # A longer step is an absence: half of a polyp's steps, or of a procedure's, are no longer.
    gap = max(int(steps.median() or 1), 1)  # type: ignore[arg-type]
    loose = replace(settings, max_gap=gap, min_iou=0.0, min_length=1, min_seconds=0.0, stride=1)
    _, built = build_tracklets(
        data.detections, max_gap=gap, min_iou=0.0, tracks=loose.tracks, fps=fps
    )
    table = kept_tracklets(built, loose, fps)
    return (
        f"for single frames and short sequences: --max-gap {gap} --min-iou 0 --min-length 1 "
        f"--min-seconds 0 --stride 1 gives {table.height} tracklets of {table['n'].sum()} boxes; "
        "prepare, train, embed, count and evaluate take these options"
    )
