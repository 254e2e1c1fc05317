"""Read YOLO text labels, annotated or written by a detector or tracker.

Source: docs.ultralytics.com (detection data sets; `save_txt`, `save_conf` and tracking). A line is
`class cx cy w h [score] [track]`; cx, cy, w, h are shares of the image's width and height.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.data.boxes import box_table
from polyplink.data.faults import Faults, leave_out
from polyplink.data.files.folders import read_each, video_beside
from polyplink.data.formats.assemble import Found, Options, assemble
from polyplink.data.formats.frame_names import name_frames
from polyplink.data.formats.procedure_rows import Size
from polyplink.data.formats.side_tables import read_side_tables
from polyplink.data.formats.yolo_files import LabelFile, label_files, yaml_size
from polyplink.data.formats.yolo_read import YoloRead, read_labels
from polyplink.data.imported import Imported

CHUNK = 2000  # files that a worker reads at a time
SIXTH = ("score", "track")


def import_yolo(
    source: Path,
    *,
    images: bool = True,
    strict: bool = False,
    progress: Callable[[int, int], None] | None = None,
    workers: int = 1,
    dataset: str | None = None,
    size: Size | None = None,
    identity: str = "track",
    first_frame: int = 0,
    sixth: str | None = None,
) -> Imported:
    """Read YOLO labels; procedure and frame are told by a file's name.

    Names are `<procedure>_<frame>.txt` or `<procedure>/<frame>.txt`, below a part or not
    (`polyplink.data.formats.frame_names`). The size of a frame is that of `size`, else of
    `procedures.csv`, else of the keys width and height in `data.yaml`, else of the frame's image.

    Args:
        source: A folder with `labels/` and, where there are any, `images/` (or `<part>/labels/`).
        images: Name each box's image, or the frame of a video `<procedure>.mp4` in the folder.
        strict: Raise at the first line that cannot be used, instead of leaving it out.
        progress: Called with how many thousands of files are read and how many there are.
        workers: Processes that read.
        dataset: Name of the data set; None: the source's name.
        size: Width and height of every frame.
        identity: "track": a track is a polyp, `<procedure>_<track>`; "none": it is not.
        first_frame: The number of a video's first frame; a tracker that names its files
            `<video>_<frame>` counts from 1.
        sixth: What the sixth of six values is, "score" or "track"; None: a score where lines of
            seven values are, or where it is no whole number; a track where it is beyond 1.

    Returns:
        The data set and its warnings.

    Raises:
        PolyplinkError: If there are no labels, the size of a frame is not known, or nothing says
            what the sixth value is; if strict, at the first fault.
    """
    PolyplinkError.unless(
        sixth is None or sixth in SIXTH, f"no sixth {sixth!r}", f"choose one of: {', '.join(SIXTH)}"
    )
    options = Options(images, dataset, size, identity, first_frame)
    faults = Faults(strict)
    files = label_files(source)
    side = read_side_tables(source, Faults()).procedures
    known = size or yaml_size(source)
    read = partial(
        read_labels, root=source, open_images=known is None and side.is_empty(), strict=strict
    )
    jobs = [(i, files[i : i + CHUNK]) for i in range(0, len(files), CHUNK)]
    parts = read_each(read, jobs, workers=workers, progress=progress)
    for part in parts:
        faults.add(part.faults)
    frames = _frames(files, source, first_frame, faults)
    boxes = pl.concat([part.boxes for part in parts]).join(
        frames, on="file", how="inner", maintain_order="left"
    )
    procedures = _procedures(parts, frames, known, faults)
    boxes = _in_pixels(boxes, parts, pl.concat([side, procedures], how="diagonal_relaxed"), known)
    _tell_of_classes(boxes, faults)
    boxes = _score_and_track(boxes, sixth)
    found = Found(box_table(boxes), procedures, splits=_splits(frames))
    return assemble(found, source, source.stem, options, faults)


def _frames(
    files: Sequence[LabelFile], source: Path, first_frame: int, faults: Faults
) -> pl.DataFrame:
    """File number, procedure, frame, part and image of every label file."""
    names = pl.Series("at", [file.name for file in files], dtype=pl.String)
    images = pl.Series("image", [file.image for file in files], dtype=pl.String)
    frames = name_frames(names).with_columns(names, images)
    frames = frames.with_columns(file=pl.int_range(pl.len(), dtype=pl.Int64))
    frames = leave_out(
        frames,
        pl.col("frame").is_null() | pl.col("procedure_id").is_null(),
        "file whose name tells no procedure and frame",
        "name it <procedure>_<frame>.txt or <procedure>/<frame>.txt",
        faults,
    )
    frames = leave_out(
        frames,
        ~pl.struct("procedure_id", "frame").is_first_distinct(),
        "further file of the same frame",
        "remove one of them",
        faults,
    ).drop("at")
    if images.null_count() < images.len():
        return frames
    ids = frames["procedure_id"].unique()
    videos = {i: video_beside(source, i) for i in ids}
    video = pl.col("procedure_id").replace_strict(videos, return_dtype=pl.String)
    return frames.with_columns(image=pl.format("{}#{}", video, pl.col("frame") - first_frame))


def _procedures(
    parts: Sequence[YoloRead], frames: pl.DataFrame, known: Size | None, faults: Faults
) -> pl.DataFrame:
    """The size of every procedure's frames, where it is known."""
    ids = frames.select("procedure_id").unique(maintain_order=True)
    if known is not None:
        return ids.with_columns(width=pl.lit(known[0]), height=pl.lit(known[1]))
    sizes = pl.concat([part.sizes for part in parts]).join(frames, on="file", maintain_order="left")
    grouped = sizes.group_by("procedure_id", maintain_order=True).agg(
        pl.col("width", "height").first(), n=pl.struct("width", "height").n_unique()
    )
    odd = grouped.filter(pl.col("n") > 1)
    if odd.height:
        faults.warn(
            "procedure with frames of several sizes, the first taken",
            odd["procedure_id"][0],
            odd.height,
        )
    return ids.join(grouped.drop("n"), on="procedure_id", how="left", maintain_order="left")


def _in_pixels(
    boxes: pl.DataFrame, parts: Sequence[YoloRead], procedures: pl.DataFrame, known: Size | None
) -> pl.DataFrame:
    """Shares to pixels, by the size of the frame's own image where it was opened."""
    sizes = pl.concat([part.sizes for part in parts]).rename({"width": "W", "height": "H"})
    told = procedures.drop_nulls(["width", "height"]).unique("procedure_id", keep="first")
    boxes = boxes.join(sizes, on="file", how="left", maintain_order="left").join(
        told.select("procedure_id", "width", "height"),
        on="procedure_id",
        how="left",
        maintain_order="left",
    )
    width = pl.coalesce("W", "width") if known is None else pl.lit(known[0])
    height = pl.coalesce("H", "height") if known is None else pl.lit(known[1])
    unknown = boxes.filter(width.is_null()) if known is None else boxes.clear()
    if unknown.height:
        raise PolyplinkError(
            f"{unknown['at'][0]}: the size of its frame is not known",
            "say the size of the frames with --size WxH, or put the images beside the labels",
        )
    return boxes.with_columns(
        x=(pl.col("cx") - pl.col("w") / 2) * width,
        y=(pl.col("cy") - pl.col("h") / 2) * height,
        w=pl.col("w") * width,
        h=pl.col("h") * height,
    )


def _tell_of_classes(boxes: pl.DataFrame, faults: Faults) -> None:
    classes = boxes["class"].unique().sort()
    if classes.len() > 1:
        names = ", ".join(f"{value:g}" for value in classes)
        faults.warn("class of boxes, all taken as polyps", names, classes.len())


def _score_and_track(boxes: pl.DataFrame, sixth: str | None) -> pl.DataFrame:
    """Say what the sixth value of six is, and name both; -1 stands for none."""
    value = boxes["sixth"].drop_nulls()
    if sixth is None and value.len() and boxes["seventh"].null_count() == boxes.height:
        whole = value == value.floor()
        if not whole.all():
            sixth = "score"
        elif (value > 1).any():
            sixth = "track"
        else:
            raise PolyplinkError(
                f"{boxes['at'][0]}: the sixth value may be a score or a track, all are 0 or 1",
                'say which: sixth="score" or sixth="track"',
            )
    alone = pl.col("seventh").is_null() & pl.lit(sixth == "track")
    track = pl.when(alone).then("sixth").otherwise("seventh")
    score = pl.when(~alone & (pl.col("sixth") != -1)).then("sixth")
    named = pl.when(track >= 0).then(track.cast(pl.Int64, strict=False).cast(pl.String))
    return boxes.with_columns(score=score, track=named)


def _splits(frames: pl.DataFrame) -> dict[str, list[str]]:
    parts = frames.drop_nulls("part").select("part", "procedure_id").unique(maintain_order=True)
    grouped = parts.group_by("part", maintain_order=True).agg("procedure_id")
    return dict(grouped.iter_rows())
