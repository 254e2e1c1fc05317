"""Compare published figures with a simulated set (`polyplink simulate --check`).

Every simulated value is measured on the simulated tables, even if the simulator copies it from a
released table, so that an accidental change is noticed. Copied figures must agree exactly, and
figures that were published rounded within their rounding. Figures that are estimates or come from
other patients have a wider tolerance, each with its reason beside it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from polyplink.cli.verb import inform
from polyplink.core.arrays import Floats
from polyplink.core.results import Progress
from polyplink.data.tables import DataSet
from polyplink.tracklets.box_runs import build_tracklets
from polyplink_lab.simulate.data_set import simulate
from polyplink_lab.simulate.detector import DETECTORS, DetectorPreset, detect_simulated
from polyplink_lab.simulate.presets import Preset

Values = Sequence[float]
Fits = Callable[[Floats, Floats], NDArray[np.bool_]]  # (published, simulated) -> which agree

TABLES = "Biffi et al., Sci Data 2024, released tables"
COUNTED = "third-party count of frames with a box"
TA = "arXiv 2507.02493"
NTSSL = "arXiv 2605.12320"
TPC = "arXiv 2502.10054, program"
CVC = "CVC-ClinicDB, 612 frames, measured"
GENIUS = "Brand et al., on GI Genius"

LONG = 30  # frames from which evaluation keeps a tracklet
SEVEN = (0, 0.1, 0.25, 0.5, 0.75, 0.9, 1)  # quantiles
FIVE = (0.1, 0.25, 0.5, 0.75, 0.9)
AT_SEVEN, AT_FIVE = "0, 10, 25, 50, 75, 90, 100 %", "10, 25, 50, 75, 90 %"
CLASSES = ("AD", "HP", "NO POLYP", "SSL", "TSA", "OTHER")


class Tolerance(NamedTuple):
    """Tolerance of simulated values: in words, and as a function."""

    words: str
    fits: Fits


def within(share: float) -> Tolerance:
    """Tolerance of a share of the published value."""
    return Tolerance(f"{100 * share:g}%", lambda p, v: abs(v - p) <= share * abs(p))


EXACT = Tolerance("exact", lambda p, v: p == v)
AT_MOST = Tolerance("at most", lambda p, v: v <= p)
AT_LEAST = Tolerance("at least", lambda p, v: v >= p)
ABOVE = Tolerance("above", lambda p, v: v > p)
ROUNDED = Tolerance("+- 0.005", lambda p, v: abs(v - p) <= 0.005)


@dataclass(frozen=True)
class Row:
    """A published figure and the simulated one.

    Attributes:
        name: Name and unit of the figure.
        published: The published values; for a limit, the limit.
        simulated: The values of the simulated tables, in the same order.
        tolerance: The tolerance, in words.
        holds: Whether all values are within the tolerance.
        source: Source of the published values.
    """

    name: str
    published: tuple[float, ...]
    simulated: tuple[float, ...]
    tolerance: str
    holds: bool
    source: str


def compare(
    name: str, source: str, tolerance: Tolerance, published: Values, simulated: Values
) -> Row:
    """Compare simulated values with published ones; missing values and NaN never hold.

    Example:
        >>> compare("polyps", "somebody", within(0.05), (100, 10), [104, 9.7]).holds
        True
    """
    p, v = np.asarray(published, np.float64), np.asarray(simulated, np.float64)
    comparable = p.shape == v.shape and bool(np.isfinite(v).all())
    holds = comparable and bool(tolerance.fits(p, v).all())
    return Row(name, tuple(published), tuple(v.tolist()), tolerance.words, holds, source)


def rows_text(rows: Sequence[Row]) -> str:
    """The rows as a table of plain text, one line each, a newline at the end."""

    def text(value: float) -> str:
        if math.isfinite(value) and value == round(value):
            return f"{value:,.0f}"
        return f"{value:,.2f}" if abs(value) >= 1 else f"{value:.3f}"

    lines = [("", "published", "simulated", "tolerance", "holds")]
    for row in rows:
        published, simulated = (
            " ".join(map(text, values)) for values in (row.published, row.simulated)
        )
        lines.append((row.name, published, simulated, row.tolerance, "yes" if row.holds else "NO"))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = (map(str.ljust, line, widths) for line in lines)
    return "".join("  ".join(line).rstrip() + "\n" for line in padded)


def check_simulation(
    preset: Preset, seed: int, *, workers: int = 2, progress: Progress = inform
) -> list[Row]:
    """Simulate the tables of a preset and compare them with published figures of REAL-Colon.

    Args:
        preset: `real_colon_sim()`, or another preset that is meant to agree with the release.
        seed: Seed of the simulation.
        workers: Worker processes.
        progress: Callback, for procedures.

    Returns:
        One row for each figure; the simulation agrees if all hold.
    """
    tables = replace(preset, frames="none", annotations="none")
    stage = partial(progress, "procedures")
    with TemporaryDirectory() as folder:
        out = Path(folder) / "tables"
        data = simulate(out, tables, seed, workers=workers, progress=stage)
        genius = check_detector(data, DETECTORS["gi-genius"], seed, out)
        return [*check_tables(data), *genius]


def check_tables(data: DataSet) -> list[Row]:
    """Compare a data set with published figures of REAL-Colon.

    Args:
        data: Tables of a simulated set with the release's 60 procedures.

    Returns:
        One row for each figure.
    """
    ordered, tracklets = build_tracklets(data.detections)
    lesions = data.polyps.group_by("procedure_id").len(name="lesions")
    frames = data.detections.group_by("procedure_id").agg(boxed=pl.col("frame").n_unique())
    procedures = (  # with the number of polyps and of frames with a box
        data.procedures.join(lesions, on="procedure_id", how="left", maintain_order="left")
        .join(frames, on="procedure_id", how="left", maintain_order="left")
        .with_columns(pl.col("lesions", "boxed").fill_null(0).cast(pl.Int64))
    )
    return [
        *_check_procedures(data, procedures),
        *_check_polyps(data),
        *_check_frames(data, procedures),
        *_check_tracklets(data, procedures, tracklets),
        *_check_boxes(data, ordered, tracklets),
    ]


def check_detector(
    data: DataSet, preset: DetectorPreset, seed: int, folder: Path | None = None
) -> list[Row]:
    """Compare a simulated detector with published figures of GI Genius.

    Args:
        data: Annotated procedures.
        preset: The detector's rates.
        seed: Seed of the detector.
        folder: Folder of the data set, see `detect_simulated`.

    Returns:
        One row for each figure, over the procedures of the data set.
    """
    detected = detect_simulated(data, preset, seed, folder)
    hits = detected.drop_nulls("truth").select("procedure_id", "frame").n_unique()
    boxed = data.detections.select("procedure_id", "frame").n_unique()
    alarms = detected.drop_nulls("alarm").group_by("procedure_id", "alarm").len()
    of_procedures = data.procedures.join(
        alarms.group_by("procedure_id").len("alarms"), on="procedure_id", how="left"
    )["alarms"].fill_null(0)
    counts = of_procedures.cast(pl.Float64).to_numpy()
    short = 100 * float((alarms["len"] <= 6).to_numpy().mean()) if alarms.height else math.nan
    recall = 100 * hits / max(boxed, 1)
    return [
        # A frame with two polyps counts if one of them is detected.
        compare("GI Genius: polyp frames detected, %", GENIUS, within(0.05), (46.6,), (recall,)),
        # For 60 procedures two standard errors are 22 % of the mean and 33 % of the deviation.
        compare(
            "GI Genius: alarms per procedure: mean, sd",
            GENIUS,
            within(0.33),
            (101, 88),
            (float(counts.mean()), float(counts.std(ddof=1))),
        ),
        compare("GI Genius: alarms of at most 6 frames, %", GENIUS, within(0.03), (88,), (short,)),
    ]


def quantiles(values: Floats, at: Values) -> tuple[float, ...]:
    """Quantiles that are values themselves, the lower of two; an empty tuple without values.

    Published quantiles of REAL-Colon are taken in the same way: all seven agree to the frame.
    """
    return tuple(float(q) for q in np.quantile(values, at, method="lower")) if len(values) else ()


def _counts(values: pl.Series, classes: Sequence[object]) -> list[int]:
    """Number of each value of `classes`, and last, of all other values."""
    counts = [int((values == value).sum()) for value in classes]
    return [*counts, len(values) - sum(counts)]


def _check_procedures(data: DataSet, procedures: pl.DataFrame) -> list[Row]:
    """Figures that the simulator copies from the released tables, so exact."""
    parts = [data.splits.get(part, []) for part in ("train", "eval", "negative")]
    polyps_of_parts = [
        procedures.filter(pl.col("procedure_id").is_in(names))["lesions"] for names in parts
    ]
    sizes = procedures.group_by("width", "height").len()
    largest = sizes.filter(pl.col("width") == 1352, pl.col("height") == 1080)["len"].sum()
    lengths = procedures["n_frames"].cast(pl.Float64).to_numpy()
    fps = _counts(procedures["fps"].round(2).cast(pl.String), ("25.0", "29.97", "60.0"))
    brands = _counts(procedures["brand"], ("Olympus", "Fujifilm"))
    sexes = _counts(procedures["sex"], ("male", "female"))
    patients = (procedures.height, procedures["patient"].n_unique())
    polyps = _counts(procedures["lesions"], range(10))
    with_polyps = (14, 17, 5, 11, 5, 2, 3, 1, 1, 1, 0)
    length_quantiles = (20_915, 24_006, 29_108, 39_611, 52_719, 75_918, 123_610)

    def exact(name: str, published: Values, simulated: Values, source: str = TABLES) -> Row:
        return compare(name, source, EXACT, published, simulated)

    return [
        exact("procedures, patients", (60, 60), patients),
        exact("procedures: train, eval, without a polyp", (27, 19, 14), [*map(len, parts)], TPC),
        exact(
            "polyps: train, eval, without",
            (85, 47, 0),
            [int(n.sum()) for n in polyps_of_parts],
            TPC,
        ),
        exact("procedures with 0, 1 .. 9, more polyps", with_polyps, polyps),
        exact("procedures at 25, 29.97, 60, other fps", (23, 36, 1, 0), fps),
        exact("procedures: Olympus, Fujifilm, other", (53, 7, 0), brands),
        exact("patients: male, female, other", (33, 27, 0), sexes),
        exact(
            "frame sizes; procedures of 1352 x 1080",
            (11, 29),
            (sizes.height, int(largest)),
            COUNTED,
        ),
        exact("frames in total", (2_757_723,), (int(lengths.sum()),)),
        exact(f"frames of a procedure: {AT_SEVEN}", length_quantiles, quantiles(lengths, SEVEN)),
    ]


def _check_polyps(data: DataSet) -> list[Row]:
    """Sizes and histology classes of polyps: copied from the released tables, so exact."""
    polyps = data.polyps
    part_of_procedure = {name: key for key, names in data.splits.items() for name in names}
    part_of_polyp = polyps["procedure_id"].replace_strict(
        part_of_procedure, default="none", return_dtype=pl.String
    )
    polyps_by_part = [
        polyps,
        polyps.filter(part_of_polyp == "train"),
        polyps.filter(part_of_polyp == "eval"),
    ]
    small_polyps, small_in_train, small_in_eval = (
        int((polyps_of_set["size_mm"] <= 5).sum()) for polyps_of_set in polyps_by_part
    )
    sizes = _counts(polyps["size_mm"], (*range(1, 11), 17))
    published = (27, 34, 29, 16, 11, 7, 1, 3, 1, 2, 1, 0)
    share = small_polyps / max(polyps.height, 1)
    size_counts = (
        (small_in_train, polyps_by_part[1].height - small_in_train),
        (small_in_eval, polyps_by_part[2].height - small_in_eval),
    )
    all_classes, train_classes, eval_classes = (
        _counts(polyps_of_set["histology_class"], CLASSES) for polyps_of_set in polyps_by_part
    )
    classes = "AD HP NO-POLYP SSL TSA OTHER unknown"
    return [
        compare("polyps of 1 .. 10, 17, other mm", TABLES, EXACT, published, sizes),
        # 89 % is printed without decimals.
        compare("share of polyps of 5 mm or less", TABLES, ROUNDED, (0.89,), (share,)),
        compare("polyps up to 5 mm and larger, train", TABLES, EXACT, (77, 8), size_counts[0]),
        compare("polyps up to 5 mm and larger, eval", TABLES, EXACT, (40, 7), size_counts[1]),
        compare(classes, TABLES, EXACT, (55, 54, 19, 2, 1, 1, 0), all_classes),
        compare("the same, train", TABLES, EXACT, (38, 34, 13, 0, 0, 0, 0), train_classes),
        compare("the same, eval", TABLES, EXACT, (17, 20, 6, 2, 1, 1, 0), eval_classes),
    ]


def _check_frames(data: DataSet, procedures: pl.DataFrame) -> list[Row]:
    """Frames with a box. Tolerance 1 %, because a look can lose or gain frames at its ends."""

    def share(rows: pl.DataFrame) -> float:
        return 100 * int(rows["boxed"].sum()) / max(int(rows["n_frames"].sum()), 1)

    name, lesions = pl.col("procedure_id"), pl.col("lesions")
    with_polyps, boxes = procedures.filter(lesions > 0), data.detections.height
    studies = [share(procedures.filter(name.str.starts_with(f"00{k}-"))) for k in range(1, 5)]
    extra_boxes = boxes - int(procedures["boxed"].sum())
    boxed_without_polyps = int(procedures.filter(lesions == 0)["boxed"].sum())
    means = quantiles((with_polyps["boxed"] / with_polyps["lesions"]).to_numpy(), SEVEN)
    # The 17 procedures with a single polyp, whose frames are known exactly.
    single = procedures.filter(lesions == 1)["boxed"].cast(pl.Float64).to_numpy()
    logs = np.log(np.maximum(single, 1))
    median_and_sigma = (
        (float(np.exp(logs.mean())), float(logs.std(ddof=1))) if len(logs) > 1 else ()
    )
    of_polyps = data.detections.group_by("polyp_id").agg(frames=pl.col("frame").n_unique())
    longest = of_polyps["frames"].to_numpy().max(initial=0)

    def counted(name: str, share: float, published: Values, simulated: Values) -> Row:
        return compare(name, COUNTED, within(share), published, simulated)

    per_polyp_quantiles = (1106, 1355, 1823, 2661, 3401, 4499, 23_201)
    alone_quantiles = (1170, 1255, 2781, 3401, 4317, 7889, 23_201)
    return [
        counted("share of frames with a box, %", 0.01, (12.41,), (share(procedures),)),
        # Printed with one decimal, which is 1 % of the smallest value.
        counted("the same, studies 001 to 004, %", 0.015, (9.4, 16.4, 10.7, 15.3), studies),
        compare("boxes", TABLES, within(0.01), (351_264,), (boxes,)),
        # 10 %: a polyp at the edge of a view of two can be visible some frames less or more.
        compare(
            "boxes beyond one per frame with a box", TABLES, within(0.1), (9_155,), (extra_boxes,)
        ),
        compare(
            "frames with a box in procedures without a polyp",
            COUNTED,
            EXACT,
            (0,),
            (boxed_without_polyps,),
        ),
        counted(
            f"frames with a box per polyp, 46 procedures: {AT_SEVEN}",
            0.01,
            per_polyp_quantiles,
            means,
        ),
        counted(
            f"frames of an only polyp: {AT_SEVEN}", 0.01, alone_quantiles, quantiles(single, SEVEN)
        ),
        # Median and sigma of the fit were published with three and two digits.
        counted("the same, log-normal fit: median, sigma", 0.02, (3534, 0.73), median_and_sigma),
        counted("frames of a polyp, maximum", 0.01, (23_201,), (longest,)),
    ]


def _check_tracklets(data: DataSet, procedures: pl.DataFrame, tracklets: pl.DataFrame) -> list[Row]:
    """Fragmentation. Its fit is uncertain by 10 %, see `simulate.course.timeline`."""
    in_eval = pl.col("procedure_id").is_in(data.splits.get("eval", []))
    long_tracklets = tracklets.filter(in_eval, pl.col("n") >= LONG)
    n_long = long_tracklets.group_by("procedure_id").len(name="long")
    joined = procedures.filter(in_eval).join(n_long, on="procedure_id", how="left")
    rates = (joined["long"].fill_null(0) / joined["lesions"]).to_numpy()
    polyps = data.polyps.filter(in_eval).select("polyp_id")
    of_polyps = polyps.join(long_tracklets.group_by("polyp_id").len(), on="polyp_id", how="left")
    fewest = of_polyps["len"].fill_null(0).to_numpy()
    pooled = long_tracklets.height / max(polyps.height, 1)
    moments = (float(rates.mean()), float(rates.std())) if len(rates) else ()
    min_tracklets = int(fewest.min()) if len(fewest) else 0
    mean = float(long_tracklets["n"].to_numpy().mean()) if long_tracklets.height else math.nan
    n_tracklets = tracklets.filter(pl.col("procedure_id") == "003-013").height
    fr_name = "FR without clustering, eval: mean, sd"
    return [
        compare("long tracklets per polyp, eval, pooled", NTSSL, within(0.1), (15.7,), (pooled,)),
        compare(fr_name, TA, within(0.1), (20.74, 20.78), moments),
        compare(
            "long tracklets of an eval polyp, minimum", NTSSL, AT_LEAST, (2,), (min_tracklets,)
        ),
        compare("frames of a long tracklet, eval, mean", NTSSL, AT_MOST, (194,), (mean,)),
        compare("tracklets of 003-013, including short ones", TPC, ABOVE, (400,), (n_tracklets,)),
    ]


def _check_boxes(data: DataSet, ordered: pl.DataFrame, tracklets: pl.DataFrame) -> list[Row]:
    """Sizes of boxes, against 29 sequences of other patients and cameras.

    The tolerance is about one standard error of the published values. The log of sizes has a
    published standard deviation of 0.54, so that a quantile p of 29 sequences is uncertain by 12 %
    in the middle and by 17 % at 10 and 90 %: sqrt(p (1 - p) / 29) divided by the density. The
    spread within a tracklet is the standard deviation of the natural log of box areas. The log of
    that spread has a standard deviation of 0.42, estimated from the range of the 29 sequences, so
    that the median spread is uncertain by 10 % and the extremes by 20 %. The extremes are compared
    with the 5 and 95 % quantiles of thousands of tracklets.
    """
    frame_sizes = data.procedures.select("procedure_id", pl.col("width", "height").cast(pl.Float64))
    boxes = ordered.join(frame_sizes, on="procedure_id", how="left", maintain_order="left")
    # The standard deviation of the log of box areas within each long tracklet.
    log_area = (pl.col("w") * pl.col("h")).cast(pl.Float64).log()
    n = tracklets["n"].to_numpy()
    by_tracklet = ordered.group_by(pl.Series("tracklet", np.repeat(np.arange(len(n)), n)))
    of_tracklets = by_tracklet.agg(log_area.std(ddof=0).alias("spread"), pl.len().alias("n"))
    log_area_sd = of_tracklets.filter(pl.col("n") >= LONG)["spread"].to_numpy()

    def measured(name: str, share: float, published: Values, sample: Floats, at: Values) -> Row:
        return compare(name, CVC, within(share), published, quantiles(sample, at))

    relative_width = (boxes["w"] / boxes["width"]).to_numpy()
    relative_height = (boxes["h"] / boxes["height"]).to_numpy()
    return [
        measured(
            f"box width / W: {AT_FIVE}", 0.15, (0.15, 0.20, 0.28, 0.41, 0.59), relative_width, FIVE
        ),
        measured(
            f"box height / H: {AT_FIVE}",
            0.15,
            (0.17, 0.25, 0.35, 0.52, 0.67),
            relative_height,
            FIVE,
        ),
        measured("sd of log area in a tracklet, median", 0.1, (0.49,), log_area_sd, (0.5,)),
        measured("the same, range", 0.2, (0.19, 1.05), log_area_sd, (0.05, 0.95)),
    ]
