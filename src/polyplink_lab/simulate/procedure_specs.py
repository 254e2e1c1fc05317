"""The procedures of a preset: patients and polyps, as released or sampled from the released tables.

Published sums hold exactly: in a preset with published looks, every procedure has as many frames
with a box as in the release, and the whole set has the release's surplus of boxes (frames that
show two polyps).
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from polyplink.data.protocols import lesion_info, positive_frames, video_info
from polyplink.data.vocabulary import normalise_location
from polyplink_lab.simulate.presets import Preset, released_id

EMPTY_FRAMES = 300  # length of a sampled procedure without polyps
SIGMA = 0.73  # of the log of frames per polyp in the 17 procedures with a single lesion
FEWEST_FRAMES = 300  # minimum frames with a box of a polyp, if its procedure has several
PAIR_LIMIT = 0.6  # maximum share of the less visible polyp's frames that show both polyps

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

# Columns of the released tables that are also fields of `ProcedureSpec` and `PolypSpec`.
FIELDS = ("procedure_id", "fps", "width", "height", "brand", "age", "sex", "bbps")
POLYP_FIELDS = ("size_mm", "site", "histology", "histology_class")

Row = dict[str, Any]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class PolypSpec:
    """One polyp as the tables describe it.

    Attributes:
        size_mm: Largest diameter.
        site: Segment of the colon, normalised.
        histology: Histology as the data set words it.
        histology_class: AD, HP, SSL, TSA, OTHER or NO POLYP.
        visible_frames: Number of frames with a box of the polyp.
    """

    size_mm: float
    site: str
    histology: str
    histology_class: str
    visible_frames: int


@dataclass(frozen=True)
class PairSpec:
    """Two adjacent polyps, by index, and the number of frames that show both."""

    first: int
    second: int
    frames: int


@dataclass(frozen=True)
class ProcedureSpec:
    """One procedure as the tables describe it; polyps in the order in which they are visited.

    Attributes:
        procedure_id: Name of the procedure.
        n_frames: Number of frames.
        fps: Frames per second.
        width: Frame width, pixels.
        height: Frame height, pixels.
        brand: Brand of the endoscope: "Olympus" or "Fujifilm".
        age: Age of the patient in years.
        sex: Sex of the patient: "female" or "male".
        bbps: Boston bowel preparation scale, 0 to 9.
        polyps: The polyps.
        pairs: Pairs of polyps that appear in one view.
    """

    procedure_id: str
    n_frames: int
    fps: float
    width: int
    height: int
    brand: str
    age: int
    sex: str
    bbps: float
    polyps: tuple[PolypSpec, ...]
    pairs: tuple[PairSpec, ...] = ()

    @property
    def boxed_frames(self) -> int:
        """Frames with at least one box."""
        boxes = sum(polyp.visible_frames for polyp in self.polyps)
        return boxes - sum(pair.frames for pair in self.pairs)


def stream(seed: int, procedure_id: str, concern: str) -> np.random.Generator:
    """The random generator of one concern of one procedure.

    Every concern has its own generator, so that a change in one does not change the draws of the
    others: a box never depends on a texture.

    Args:
        seed: Seed of the data set, from 0.
        procedure_id: Name of the procedure; its position in a list has no influence.
        concern: What is drawn, for example "course", "camera" or "polyp 0".

    Returns:
        A fresh generator; the same arguments give the same numbers.
    """
    name = f"{procedure_id}/{concern}".encode()
    return np.random.default_rng(np.random.SeedSequence([seed, *name]))


def procedure_specs(preset: Preset, seed: int) -> tuple[ProcedureSpec, ...]:
    """The procedures of a preset, in its order.

    Args:
        preset: Preset of the data set.
        seed: Seed of the data set. Released figures do not depend on it.

    Example:
        >>> from polyplink_lab.simulate.presets import smoke
        >>> [spec.procedure_id for spec in procedure_specs(smoke(), seed=0)]
        ['001-001', '001-002', '001-009', '001-010']
    """
    visible: dict[str, Counts] = {}
    rows = _rows(preset, seed)
    kinds = (preset.long_views, preset.long_frames), (preset.short_views, preset.short_frames)
    for video, lesions in rows:
        rng = stream(seed, video["procedure_id"], "frames")
        if preset.published_looks:
            frames = share_frames(rng, video["boxed"], len(lesions))
        else:  # total length of each polyp's looks, within the preset's ranges
            frames = np.zeros(len(lesions), np.int64)
            for polyp, (views, length) in itertools.product(range(len(lesions)), kinds):
                looks = rng.integers(*views, endpoint=True)
                frames[polyp] += rng.integers(*length, looks, endpoint=True).sum()
        visible[video["procedure_id"]] = frames
    pairs = _pairs(preset, seed, visible)
    specs = []
    for video, lesions in rows:
        frames, pair = visible[video["procedure_id"]], pairs.get(video["procedure_id"])
        if pair is not None:
            # With published looks the number of frames with a box is fixed, and each polyp
            # contributes half of the pair's frames; otherwise they are added to the polyp's own.
            part = pair.frames // 2 if preset.published_looks else pair.frames
            frames = frames.copy()
            frames[pair.first] += part
            frames[pair.second] += max(part, pair.frames - part)
        boxed = int(frames.sum()) - (pair.frames if pair else 0)
        released = round(video["n_frames"] / preset.shorter)
        room = int(np.ceil(boxed / preset.fullest)) if boxed else EMPTY_FRAMES
        polyps = [
            PolypSpec(
                visible_frames=int(n_visible), **{name: lesion[name] for name in POLYP_FIELDS}
            )
            for lesion, n_visible in zip(lesions, frames, strict=True)
        ]
        specs.append(
            ProcedureSpec(
                n_frames=max(released, room),
                polyps=tuple(polyps),
                pairs=(pair,) if pair else (),
                **{name: video[name] for name in FIELDS},
            )
        )
    return tuple(specs)


def _rows(preset: Preset, seed: int) -> list[tuple[Row, list[Row]]]:
    """Patient and polyps of every procedure: released rows, or rows sampled from the release."""
    # The released procedures (`boxed`: frames with a box), and their lesions by number.
    frames = positive_frames().rename({"video_id": "procedure_id", "n_polyp_frames": "boxed"})
    names = {"unique_video_name": "procedure_id", "num_frames": "n_frames"}
    videos = (
        video_info()
        .rename(names | {"endoscope_brand": "brand"})
        .join(frames, on="procedure_id")
        .rows(named=True)
    )
    number = pl.col("unique_object_id").str.split("_").list.last().cast(pl.Int32)
    lesions = (
        lesion_info()
        .with_columns(normalise_location(lesion_info()["site"]))
        .sort("unique_video_name", number)
        .rename({"unique_video_name": "procedure_id", "histology_extended": "histology"})
        .with_columns(pl.col("size [mm]").cast(pl.Float64).alias("size_mm"))
        .rows(named=True)
    )
    if preset.released:
        by_id = {video["procedure_id"]: (video, list[Row]()) for video in videos}
        for lesion in lesions:
            by_id[lesion["procedure_id"]][1].append(lesion)
        repeated = [(name, *by_id[released_id(name)]) for name, _ in preset.polyps]
        return [
            (video | {"procedure_id": name}, procedure_lesions)
            for name, video, procedure_lesions in repeated
        ]
    rows: list[tuple[Row, list[Row]]] = []
    for name, polyps in preset.polyps:
        rng = stream(seed, name, "cast")
        facts = {"procedure_id": name, "n_frames": 0, "fps": preset.fps}
        size = {"width": preset.width, "height": preset.height}
        drawn = [lesions[index] for index in rng.integers(0, len(lesions), polyps)]
        drawn.sort(key=lambda row: SITES.index(row["site"]))
        rows.append((videos[rng.integers(len(videos))] | facts | size, drawn))
    return rows


def share_frames(rng: np.random.Generator, total: int, polyps: int) -> Counts:
    """Divide a procedure's frames with a box among its polyps (n,), log-normally.

    Every polyp gets at least `FEWEST_FRAMES`, if there are at least twice as many per polyp.
    """
    weights = rng.lognormal(0, SIGMA, polyps)
    low = min(FEWEST_FRAMES, total // (2 * max(polyps, 1)))
    ends = np.round((total - low * polyps) * np.cumsum(weights) / weights.sum())
    return np.asarray(low + np.diff(ends, prepend=0.0), np.int64)


def _pairs(preset: Preset, seed: int, visible: Mapping[str, Counts]) -> dict[str, PairSpec]:
    """The pair of every procedure that shows two polyps in one view.

    A share of the procedures with several polyps is chosen. In each, the pair is the two
    neighbours whose less visible polyp is visible longest. With published looks, the frames of all
    pairs add up to the surplus of the whole set; otherwise each pair has one or two long looks.
    """
    several = [name for name, polyps in preset.polyps if polyps > 1]
    count = round(preset.pair_share * len(several))
    chosen = stream(seed, preset.name, "pairs").permutation(len(several))[:count]
    names = [several[index] for index in sorted(chosen)]
    possible = [np.minimum(visible[name][:-1], visible[name][1:]) for name in names]
    rngs = [stream(seed, name, "pairs") for name in names]
    if preset.published_looks:
        caps = np.array([int(PAIR_LIMIT * counts.max()) for counts in possible])
        weights = np.array([rng.lognormal(0, 0.4) for rng in rngs])
        total = round(preset.surplus * sum(int(v.sum()) for v in visible.values()))
        frames = fill(caps * weights, caps, total).tolist()
    else:
        end_looks = 3 if preset.long_views[0] > 3 else 2
        looks = [int(rng.integers(1, end_looks)) for rng in rngs]
        frames = [
            int(rng.integers(*preset.long_frames, number, endpoint=True).sum())
            for rng, number in zip(rngs, looks, strict=True)
        ]
    firsts = [int(counts.argmax()) for counts in possible]
    return {
        name: PairSpec(first, first + 1, n_frames)
        for name, first, n_frames in zip(names, firsts, frames, strict=True)
    }


def fill(weights: NDArray[np.float64], caps: Counts, total: int) -> Counts:
    """Divide a total in proportion to weights (n,), no part above its cap (n,).

    If the caps add up to less than the total, every part equals its cap.
    """
    low, high = 0.0, float((caps / weights).max(initial=0.0))
    for _ in range(60):
        scale = (low + high) / 2
        if np.minimum(caps, scale * weights).sum() < total:
            low = scale
        else:
            high = scale
    ends = np.round(np.cumsum(np.minimum(caps, high * weights)))
    return np.diff(ends, prepend=0.0).astype(np.int64)
