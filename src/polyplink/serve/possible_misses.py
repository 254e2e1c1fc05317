"""Places of a recording at which its detector may have missed a polyp.

A box is not counted if its score is too low to begin a track, or if its track is too short. Such
boxes are linked without these thresholds, and the reviewer is shown the tracks with the largest
sums of scores.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import polars as pl

from polyplink.core.arrays import Ints
from polyplink.tracklets.box_runs import BOX, build_tracklets, fill_gaps
from polyplink.tracklets.settings import PrepareSettings, TrackSettings

MOST = 5  # places of a recording
NESTED = 0.5  # of the smaller of two boxes: with a larger intersection both show one polyp


@dataclass(frozen=True)
class Place:
    """A place at which a polyp may have been missed, by its box with the highest score.

    Attributes:
        frame: Frame of the box.
        box: Left, top, width and height of the box, pixels.
    """

    frame: int
    box: tuple[float, float, float, float]


def possible_misses(
    boxes: pl.DataFrame,
    tracks: TrackSettings,
    fps: Mapping[str, float],
    scenes: Mapping[str, Ints],
) -> list[Place]:
    """The places of a procedure at which a polyp may have been missed, in temporal order.

    Args:
        boxes: The boxes of the procedure, with a column `tracklet`: the number of the tracklet,
            counted or left out, that has the box; null for none. Boxes of known polyps and boxes
            without a score are not used.
        tracks: How the tracklets were made, apart from the thresholds.
        fps: Frames per second by procedure.
        scenes: Scenes by procedure, see `build_tracklets`.
    """
    # The boxes of no tracklet that do not lie on a box of one, nor where its gaps are filled.
    detected = boxes.filter(pl.col("polyp_id").is_null(), pl.col("score").is_not_null())
    unused_boxes = (
        detected.filter(pl.col("tracklet").is_null()).drop("tracklet").with_row_index("row")
    )
    tracked_boxes = fill_gaps(detected.drop_nulls("tracklet").sort("tracklet", "frame"))
    pairs = unused_boxes.join(tracked_boxes.select("frame", *BOX), on="frame")

    def shared(start: str, side: str) -> pl.Expr:
        """Length that both boxes of a pair share along an axis."""
        end, other_end = (pl.col(start + end) + pl.col(side + end) for end in ("", "_right"))
        length = pl.min_horizontal(end, other_end) - pl.max_horizontal(start, f"{start}_right")
        return length.clip(0)

    intersection = shared("x", "w") * shared("y", "h")
    smaller = pl.min_horizontal(pl.col("w") * pl.col("h"), pl.col("w_right") * pl.col("h_right"))
    nested = pairs.filter(intersection > NESTED * smaller)
    unused_boxes = unused_boxes.join(nested, on="row", how="anti").drop("row")

    # Their tracks, and of the likeliest ones the best box. A frame has one place at most, because a
    # polyp is added by its frame.
    settings = PrepareSettings(tracks=replace(tracks, high=0.0, low=0.0))
    sorted_boxes, table = build_tracklets(unused_boxes, settings, fps=fps, scenes=scenes)
    scores = sorted_boxes["score"].to_numpy()
    runs = [slice(first, first + n) for first, n in table.select("offset", "n").iter_rows()]
    runs.sort(key=lambda run: -float(scores[run].sum()))
    frames, best = sorted_boxes["frame"].to_list(), dict[int, int]()
    for run in runs:
        if len(best) == MOST:
            break
        free_rows = [row for row in range(run.start, run.stop) if frames[row] not in best]
        if free_rows:
            row = max(free_rows, key=scores.__getitem__)
            best[frames[row]] = row
    rows = sorted_boxes[[*best.values()]].select("frame", *BOX).sort("frame").iter_rows()
    return [Place(frame, (x, y, w, h)) for frame, x, y, w, h in rows]
