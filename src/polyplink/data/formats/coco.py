"""Read COCO annotations: images, videos, and the extras of the papers."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.data.boxes import box_table
from polyplink.data.faults import Faults, leave_out
from polyplink.data.files.folders import read_each
from polyplink.data.formats.assemble import Found, Options, assemble
from polyplink.data.formats.coco_files import coco_files
from polyplink.data.formats.coco_read import CocoRead, read_coco
from polyplink.data.formats.procedure_rows import Size
from polyplink.data.imported import Imported

_FACTS = ("size_mm", "histology", "histology_class", "location", "morphology")


def import_coco(
    source: Path,
    *,
    images: bool = True,
    strict: bool = False,
    progress: Callable[[int, int], None] | None = None,
    workers: int = 1,
    dataset: str | None = None,
    datasets: Mapping[str, str] | None = None,
    size: Size | None = None,
    identity: str = "track",
    first_frame: int = 0,
    boxes: Path | None = None,
) -> Imported:
    """Read COCO annotations of instances.

    The procedure of an image is its video's name, else its `sequence_id`, else its boxes'
    `identity_id` (without the last `_k` where `<digits>-<digits>` stands before it), else what its
    file name tells (see `frame_names`); the frame is `frame_index` or `frame_id`, else
    the number in the file name. The polyp is `identity_id` or `polyp_id`, else `track_id` or
    `instance_id`, of which a number is `<procedure>_<number>`. Splits are from
    `instances_<part>.json`.

    Args:
        source: A file, or a folder with `annotations/instances_<part>.json` and `images`.
        images: Name each box's image, where it is there.
        strict: Raise at the first thing that cannot be used, instead of leaving it out.
        progress: Called after every file with how many are read and how many there are.
        workers: Processes that read files.
        dataset: Name of the data set, where images have no `dataset_id`; None: the source's name.
        datasets: `dataset_id` to the data set it stands for; its number means nothing by itself.
        size: Width and height of every frame, where the file has none.
        identity: "track", or "none": identities are not used.
        first_frame: The number the file gives to a video's first frame.
        boxes: A detector's results (a list of image_id, category_id, bbox, score) for the images
            of one file, which take the place of its own boxes.

    Returns:
        The data set and its warnings.

    Raises:
        PolyplinkError: If a file is missing, truncated or no COCO; if strict, at the first fault.
    """
    # Numbers are brought to 0 here: images tell of frames as boxes do.
    options = Options(images, dataset, size, identity)
    files = coco_files(source)
    PolyplinkError.unless(
        boxes is None or len(files) == 1,
        f"{source} has {len(files)} annotation files, results are of the images of one",
        "name the file",
    )
    reader = partial(read_coco, strict=strict, results=boxes)
    read = read_each(reader, files, workers=workers, progress=progress)
    faults = Faults(strict)
    for each in read:
        faults.add(each.faults)
    _tell_of_categories(read, faults)
    frames = _frames(read, first_frame, faults)
    placed = _placed(read, frames)
    found = Found(
        box_table(placed),
        _procedures(read, frames, datasets or {}, faults),
        _polyps(placed),
        _splits(frames),
    )
    return assemble(found, files[0].root, source.stem, options, faults)


def _tell_of_categories(read: Sequence[CocoRead], faults: Faults) -> None:
    names = sorted({name for each in read for name in each.categories})
    if len(names) > 1:
        faults.warn("category of boxes, all taken as polyps", ", ".join(names), len(names))


def _frames(read: Sequence[CocoRead], first_frame: int, faults: Faults) -> pl.DataFrame:
    """The images of all files, a frame once."""
    frames = pl.concat(
        each.images.with_columns(
            pl.col("frame") - first_frame,
            file=pl.lit(i, dtype=pl.Int32),
            part=pl.lit(each.part, dtype=pl.String),
        )
        for i, each in enumerate(read)
    )
    placed = pl.col("procedure_id").is_not_null() & pl.col("frame").is_not_null()
    return leave_out(
        frames,
        placed & ~pl.struct("procedure_id", "frame").is_first_distinct(),
        "further image of the same frame",
        "keep one image (and one file) for each frame",
        faults,
    )


def _placed(read: Sequence[CocoRead], frames: pl.DataFrame) -> pl.DataFrame:
    """The boxes of all files with the procedure, frame and image of their image."""
    boxes = pl.concat(
        each.boxes.with_columns(file=pl.lit(i, dtype=pl.Int32)) for i, each in enumerate(read)
    )
    places = frames.select("file", "procedure_id", "frame", "image", image_id="id")
    return boxes.join(places, on=["file", "image_id"], how="inner", maintain_order="left")


def _procedures(
    read: Sequence[CocoRead], frames: pl.DataFrame, datasets: Mapping[str, str], faults: Faults
) -> pl.DataFrame:
    """What videos, and then images, tell of procedures."""
    videos = pl.concat(each.videos for each in read).unique(
        "procedure_id", keep="first", maintain_order=True
    )
    joined = videos.join(
        _told_by_images(frames, faults),
        on="procedure_id",
        how="full",
        coalesce=True,
        maintain_order="left",
    )
    joined = joined.with_columns(
        pl.coalesce(pl.col(name), pl.col(f"{name}_right")).alias(name)
        for name in ("width", "height", "dataset")
    )
    bare = joined.filter(pl.col("n_frames").is_null())
    if bare.height:
        faults.warn(
            "procedure without a number of frames, taken as its last image's frame + 1",
            bare["procedure_id"][0],
            bare.height,
        )
    empty = joined.filter(pl.col("n_frames").is_null() & pl.col("last").is_null())
    if empty.height:
        faults.warn("video without an image, not counted", empty["procedure_id"][0], empty.height)
    n_frames = pl.coalesce(pl.col("n_frames"), pl.col("last") + 1)
    return (
        joined.with_columns(n_frames, pl.col("dataset").replace(dict(datasets)))
        .drop_nulls("n_frames")
        .select(videos.columns)
    )


def _told_by_images(frames: pl.DataFrame, faults: Faults) -> pl.DataFrame:
    """Size, data set and last frame of each procedure that has an image."""
    sized = pl.col("width").is_not_null() & pl.col("height").is_not_null()
    seen = frames.drop_nulls(["procedure_id", "frame"])
    told = seen.group_by("procedure_id", maintain_order=True).agg(
        pl.col("width", "height").filter(sized).first(),
        pl.col("dataset").drop_nulls().first(),
        sizes=pl.struct("width", "height").filter(sized).n_unique(),
        datasets=pl.col("dataset").n_unique(),
        last=pl.col("frame").max(),
    )
    odd = told.filter(pl.col("sizes") > 1)
    if odd.height:
        faults.warn(
            "procedure with frames of several sizes, the first taken",
            odd["procedure_id"][0],
            odd.height,
        )
    mixed = told.filter(pl.col("datasets") > 1)
    if mixed.height:
        raise PolyplinkError(
            f"procedure {mixed['procedure_id'][0]} is of two data sets (dataset_id)",
            "give procedures of different data sets different names",
        )
    return told.drop("sizes", "datasets")


def _polyps(boxes: pl.DataFrame) -> pl.DataFrame:
    """What boxes tell of the polyp that they name."""
    facts = ["procedure_id", "polyp_id", *_FACTS]
    return boxes.select(facts).drop_nulls(["procedure_id", "polyp_id"]).unique(maintain_order=True)


def _splits(frames: pl.DataFrame) -> dict[str, list[str]]:
    parts = frames.drop_nulls(["part", "procedure_id"]).select("part", "procedure_id")
    grouped = parts.unique(maintain_order=True).group_by("part", maintain_order=True)
    return dict(grouped.agg("procedure_id").iter_rows())
