"""Who takes part: procedures and polyps of a preset, from the released tables or drawn from them.

Published sums hold exactly: in a preset with published looks every procedure has the frames with
a box that were counted in the release, and the whole set its surplus of boxes (frames that show
two polyps).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from polyplink.data import lesion_info, normalise_location, positive_frames, video_info
from polyplink.simulate.specs import PairSpec, PolypSpec, Preset, ProcedureSpec
from polyplink.simulate.streams import stream

EMPTY_FRAMES = 300  # length of a drawn procedure without polyps
SIGMA = 0.73  # of the log of frames per polyp in the 17 procedures with a single lesion
FEWEST_FRAMES = 300  # with a box, of a polyp that shares its procedure with others
PAIR_LIMIT = 0.6  # of the frames of the less seen of two polyps, at most, show both

# From caecum to rectum, as the camera passes them on withdrawal.
SITES = (
    "cecum",
    "ascending",
    "hepatic_flexure",
    "transverse",
    "splenic_flexure",
    "descending",
    "sigma",
    "rectum",
)

Row = Mapping[str, Any]
Counts = NDArray[np.int64]


def procedure_specs(preset: Preset, seed: int) -> tuple[ProcedureSpec, ...]:
    """The procedures of a preset, in its order.

    Args:
        preset: What to make.
        seed: Of the data set. What is released does not depend on it.
    """
    cast = _released(preset) if preset.released else _drawn(preset, seed)
    visible = {
        row["procedure_id"]: _visible(preset, seed, row, len(lesions)) for row, lesions in cast
    }
    pairs = _pairs(preset, seed, visible)
    return tuple(
        _spec(preset, row, lesions, visible[name], pairs.get(name))
        for row, lesions in cast
        for name in [row["procedure_id"]]
    )


def _paired(preset: Preset, seed: int) -> list[str]:
    """Procedures in which two polyps are seen in one view."""
    several = [name for name, polyps in preset.polyps if polyps > 1]
    count = round(preset.pair_share * len(several))
    chosen = stream(seed, preset.name, "pairs").permutation(len(several))[:count]
    return [several[index] for index in sorted(chosen)]


def _lesions() -> pl.DataFrame:
    """The released lesions, columns named as in `PolypSpec`, in the order of their numbers."""
    released = lesion_info()
    number = pl.col("unique_object_id").str.split("_").list.last().cast(pl.Int32)
    return (
        released.with_columns(normalise_location(released["site"]))
        .sort("unique_video_name", number)
        .select(
            pl.col("unique_video_name").alias("procedure_id"),
            pl.col("size [mm]").cast(pl.Float64).alias("size_mm"),
            "site",
            pl.col("histology_extended").alias("histology"),
            "histology_class",
        )
    )


def _videos() -> pl.DataFrame:
    """The released procedures, columns as in `ProcedureSpec`; `boxed`: frames with a box."""
    return (
        video_info()
        .join(positive_frames(), left_on="unique_video_name", right_on="video_id")
        .select(
            pl.col("unique_video_name").alias("procedure_id"),
            pl.col("num_frames").alias("n_frames"),
            pl.col("n_polyp_frames").alias("boxed"),
            "fps",
            "width",
            "height",
            pl.col("endoscope_brand").alias("brand"),
            "age",
            "sex",
            "bbps",
        )
    )


def _released(preset: Preset) -> list[tuple[Row, list[Row]]]:
    videos = {row["procedure_id"]: row for row in _videos().iter_rows(named=True)}
    lesions: dict[str, list[Row]] = {name: [] for name in videos}
    for row in _lesions().iter_rows(named=True):
        lesions[row["procedure_id"]].append(row)
    return [(videos[name], lesions[name]) for name, _ in preset.polyps]


def _drawn(preset: Preset, seed: int) -> list[tuple[Row, list[Row]]]:
    """Patients and polyps drawn, with replacement, from the released rows."""
    videos, lesions = _videos().rows(named=True), _lesions().rows(named=True)
    cast: list[tuple[Row, list[Row]]] = []
    for name, polyps in preset.polyps:
        rng = stream(seed, name, "cast")
        own = {"procedure_id": name, "n_frames": 0, "fps": preset.fps}
        size = {"width": preset.width, "height": preset.height}
        found = [lesions[index] for index in rng.integers(0, len(lesions), polyps)]
        found.sort(key=lambda row: SITES.index(row["site"]))
        cast.append((videos[rng.integers(len(videos))] | own | size, found))
    return cast


def _visible(preset: Preset, seed: int, row: Row, polyps: int) -> Counts:
    """Frames in which each polyp of a procedure is seen, those of a pair not counted twice."""
    rng = stream(seed, row["procedure_id"], "frames")
    if preset.published_looks:
        return share_frames(rng, row["boxed"], polyps)
    return _ranged_frames(rng, preset, polyps)


def _pairs(preset: Preset, seed: int, visible: Mapping[str, Counts]) -> dict[str, PairSpec]:
    """The pair of every procedure that shows two polyps in one view.

    It is the two neighbours whose less seen polyp is seen most. With published looks the frames
    of all pairs sum up to the whole set's surplus; else they are one or two long looks.
    """
    names = _paired(preset, seed)
    least = {name: np.minimum(visible[name][:-1], visible[name][1:]) for name in names}
    draws = [stream(seed, name, "pairs") for name in names]
    if preset.published_looks:
        caps = np.array([int(PAIR_LIMIT * least[name].max()) for name in names])
        weights = np.array([rng.lognormal(0, 0.4) for rng in draws])
        total = round(preset.surplus * sum(int(v.sum()) for v in visible.values()))
        frames = fill(caps * weights, caps, total)
    else:
        looks = [int(rng.integers(1, 3 if preset.long_views[0] > 3 else 2)) for rng in draws]
        frames = np.array(
            [
                rng.integers(*preset.long_frames, count, endpoint=True).sum()
                for rng, count in zip(draws, looks, strict=True)
            ]
        )
    firsts = [int(least[name].argmax()) for name in names]
    return {
        name: PairSpec(first, first + 1, int(count))
        for name, first, count in zip(names, firsts, frames, strict=True)
    }


def fill(weights: NDArray[np.float64], caps: Counts, total: int) -> Counts:
    """Share a total by weights, none above its cap.

    Args:
        weights: (n,) above 0.
        caps: (n,) largest shares.
        total: What to share; where the caps sum up to less, each gets its cap.

    Returns:
        (n,) shares that sum up to the total.
    """
    low, high = 0.0, float((caps / weights).max(initial=0.0))
    for _ in range(60):
        scale = (low + high) / 2
        low, high = (
            (scale, high) if np.minimum(caps, scale * weights).sum() < total else (low, scale)
        )
    ends = np.round(np.cumsum(np.minimum(caps, high * weights)))
    return np.diff(ends, prepend=0.0).astype(np.int64)


def _spec(
    preset: Preset, row: Row, lesions: Sequence[Row], visible: Counts, pair: PairSpec | None
) -> ProcedureSpec:
    if pair is not None:
        visible = _with_pair(preset, visible, pair)
    boxed = int(visible.sum()) - (pair.frames if pair else 0)
    fields = {name: row[name] for name in ("fps", "width", "height", "brand", "age", "sex", "bbps")}
    return ProcedureSpec(
        procedure_id=row["procedure_id"],
        n_frames=_length(preset, row["n_frames"], boxed),
        polyps=tuple(
            PolypSpec(
                lesion["size_mm"],
                lesion["site"],
                lesion["histology"],
                lesion["histology_class"],
                int(frames),
            )
            for lesion, frames in zip(lesions, visible, strict=True)
        ),
        pairs=(pair,) if pair else (),
        **fields,
    )


def _length(preset: Preset, released: int, boxed: int) -> int:
    """Frames of a procedure that has so many with a box."""
    return max(
        round(released / preset.shorter),
        int(np.ceil(boxed / preset.fullest)),
        EMPTY_FRAMES if boxed == 0 else 0,
    )


def share_frames(rng: np.random.Generator, total: int, polyps: int) -> Counts:
    """Share a procedure's frames with a box among its polyps, log-normally.

    Args:
        rng: Where the shares come from.
        total: Frames to share.
        polyps: Number of polyps, n.

    Returns:
        (n,) frames, that sum up to the total; each `FEWEST_FRAMES` or more where the total is
        at least twice as many for every polyp.
    """
    weights = rng.lognormal(0, SIGMA, polyps)
    low = min(FEWEST_FRAMES, total // (2 * max(polyps, 1)))
    ends = np.round((total - low * polyps) * np.cumsum(weights) / weights.sum())
    frames: Counts = (low + np.diff(ends, prepend=0.0)).astype(np.int64)
    return frames


def _ranged_frames(rng: np.random.Generator, preset: Preset, polyps: int) -> Counts:
    """Frames of each polyp, as a sum of looks within the preset's ranges."""
    frames = np.zeros(polyps, np.int64)
    for index in range(polyps):
        for views, length in (
            (preset.long_views, preset.long_frames),
            (preset.short_views, preset.short_frames),
        ):
            count = rng.integers(*views, endpoint=True)
            frames[index] += rng.integers(*length, count, endpoint=True).sum()
    return frames


def _with_pair(preset: Preset, visible: Counts, pair: PairSpec) -> Counts:
    """Frames of each polyp when those of a pair count for both.

    With published looks the frames with a box are given, and half of the pair's are taken from
    either polyp; else a view of two comes on top of a polyp's own.
    """
    part = pair.frames // 2 if preset.published_looks else pair.frames
    more = visible.copy()
    more[pair.first] += part
    more[pair.second] += max(part, pair.frames - part)
    return more
