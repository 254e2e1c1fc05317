"""Assemble the three tables from the boxes of a general format; the options of its importers."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TypeVar

import polars as pl

from polyplink.core.errors import ImportOptionError, PolyplinkError
from polyplink.core.messages import Message
from polyplink.core.text import relative_path
from polyplink.data.boxes import box_table, check_boxes, fit_boxes, without_repeated
from polyplink.data.faults import Faults, leave_out, warn_of_rate
from polyplink.data.files.folders import read_each
from polyplink.data.files.image_names import present
from polyplink.data.files.values import LARGEST
from polyplink.data.formats.format import Import, ImportOptions
from polyplink.data.formats.side_tables import KEYS, read_side_tables
from polyplink.data.formats.videos import find_videos
from polyplink.data.image_files import DecodedImage, open_each
from polyplink.data.tables import POLYPS, PROCEDURES, DataSet, Imported, Places
from polyplink.data.vocabulary import normalise_location

Source = TypeVar("Source")
Size = tuple[int, int]  # width, height in pixels

IDENTITIES = ("track", "none")  # meaning of a track number
_MISSING = ("", "-1", "nan", "none", "null", "<na>")  # what programs write for a missing value
_FRAME = pl.col("frame").cast(pl.Int64, strict=False)
_FACTS = [name for name in POLYPS if name not in KEYS]


class ReadOptions(ImportOptions, total=False):
    """Keyword arguments that the importers of all general formats take.

    Attributes:
        dataset: Name of the data set if the source does not state it; default: the source's name.
        size: Width and height of every frame, pixels; default: from the source.
        identity: "track" (the default): a track is a polyp, `<procedure>_<track>` unless the
            source names it; "none": identities are unknown.
        first_frame: Number of a video's first frame in the source; default: 0, and 1 in
            MOTChallenge files.
        video: The video of the boxes, or a folder of videos named as their procedures; default:
            searched for near the boxes (see `polyplink.data.formats.videos`).
    """

    dataset: str | None
    size: Size | None
    identity: str
    first_frame: int
    video: Path | None


@dataclass(frozen=True)
class BoxImport(Import):
    """An import of boxes in a general format.

    Attributes:
        source: The file or folder.
        dataset: See `ReadOptions`, also for the other options.
    """

    source: Path
    _: KW_ONLY
    dataset: str | None = None
    size: Size | None = None
    identity: str = "track"
    first_frame: int | None = None
    video: Path | None = None

    def __post_init__(self) -> None:
        if self.identity not in IDENTITIES:
            raise PolyplinkError(
                f"no identity {self.identity!r}", f"give --identity {' or '.join(IDENTITIES)}"
            )

    @property
    def name(self) -> str:
        """Name of the folder, or of the file without its ending."""
        return self.source.name if self.source.is_dir() else self.source.stem

    @property
    def first(self) -> int:
        """Number of the first frame."""
        return self.first_frame or 0


def number(column: str) -> pl.Expr:
    """A text column as Float64; null if empty or not a number."""
    return pl.col(column).str.strip_chars().cast(pl.Float64, strict=False)


def no_number(column: str) -> pl.Expr:
    """Whether a text column holds something that is not a number."""
    return (pl.col(column).str.strip_chars().str.len_bytes() > 0) & number(column).is_null()


def no_polyp(column: str) -> pl.Expr:
    """Whether a text column holds what programs write for an unknown polyp."""
    return pl.col(column).str.strip_chars().str.to_lowercase().is_in(_MISSING)


def read_tables(
    read: Callable[[Source], tuple[Faults, *tuple[pl.DataFrame, ...]]],
    sources: Sequence[Source],
    reading: BoxImport,
) -> list[pl.DataFrame]:
    """Read every source, in this process or in several, and concatenate the tables.

    Args:
        read: Returns the faults and the tables of one source, the same number for each source.
        sources: The sources.
        reading: The import, which gets the faults of all sources.
    """
    parts = read_each(read, sources, workers=reading.workers, progress=reading.progress)
    for part_faults, *_ in parts:
        reading.faults.add(part_faults)
    tables_of_sources = [tables for _, *tables in parts]
    return [pl.concat(tables) for tables in zip(*tables_of_sources, strict=True)]


def first_of_frame(frames: pl.DataFrame, kind: Message, hint: str, faults: Faults) -> pl.DataFrame:
    """Leave out all rows of a frame but the first; rows without a known frame stay.

    Args:
        frames: Columns at, procedure_id, frame.
        kind: Kind of the fault, a further row of a frame.
        hint: How to fix a further row.
        faults: Counts the rows left out.
    """
    is_placed = pl.col("procedure_id").is_not_null() & pl.col("frame").is_not_null()
    further = is_placed & ~pl.struct("procedure_id", "frame").is_first_distinct()
    return leave_out(frames, further, kind, hint, faults)


def divide_by_size(frames: pl.DataFrame, among: pl.Expr, faults: Faults) -> pl.DataFrame:
    """Divide procedures with frames of several sizes into `<procedure>-<width>x<height>`.

    They are of one patient: the procedure, if the patient is unknown. A frame of unknown size
    stays.

    Args:
        frames: Columns procedure_id, width, height, patient.
        among: Whether the procedure of a frame may be divided.
        faults: Extended by a warning with the procedures that are divided.
    """
    width, height = (pl.col(side).cast(pl.Int64, strict=False) for side in ("width", "height"))
    among &= width.is_not_null() & height.is_not_null()
    size = pl.when(among).then(pl.format("{}x{}", width, height))
    several = among & (size.drop_nulls().n_unique().over("procedure_id") > 1)
    mixed = frames.filter(several).unique("procedure_id", keep="first", maintain_order=True)
    faults.warn_rows(Message("import.divided"), mixed, "procedure_id")
    patient = pl.coalesce("patient", pl.when(several).then("procedure_id"))
    name = pl.format("{}-{}", "procedure_id", size)
    name = pl.when(several).then(name).otherwise("procedure_id")
    return frames.with_columns(patient=patient, procedure_id=name)


def sizes_of_procedures(frames: pl.DataFrame, faults: Faults) -> pl.DataFrame:
    """procedure_id, width and height, from each procedure's first frame with a known size.

    Args:
        frames: Columns procedure_id, width, height.
        faults: Extended by a warning if frames of a procedure differ in size.
    """
    sized = frames.drop_nulls(["procedure_id", "width", "height"])
    sizes = sized.group_by("procedure_id", maintain_order=True).agg(
        pl.col("width", "height").first(), n=pl.struct("width", "height").n_unique()
    )
    kind = Message("import.first_size")
    faults.warn_rows(kind, sizes.filter(pl.col("n") > 1), "procedure_id")
    return sizes.drop("n")


def frame_span(first: int) -> dict[str, pl.Expr]:
    """Aggregations of the column frame: `first` and `last` of a procedure, see `assemble`.

    Args:
        first: Number of a video's first frame in the source.
    """
    frame = pl.col("frame") - first
    return {"first": frame.min(), "last": frame.max() + 1}


def splits_of(frames: pl.DataFrame) -> dict[str, list[str]]:
    """Part -> ids of its procedures.

    Args:
        frames: Columns part and procedure_id; null if unknown.
    """
    parts = frames.drop_nulls(["part", "procedure_id"]).group_by("part", maintain_order=True)
    return dict(parts.agg(pl.col("procedure_id").unique(maintain_order=True)).iter_rows())


def source_folder(source: Path) -> Path:
    """The folder that a source's image paths and side tables are relative to."""
    return source if source.is_dir() else source.parent


def assemble(
    boxes: pl.DataFrame,
    folder: Path,
    reading: BoxImport,
    *,
    procedures: pl.DataFrame | None = None,
    polyps: pl.DataFrame | None = None,
    splits: Mapping[str, list[str]] | None = None,
    videos: pl.DataFrame | None = None,
    empty: pl.DataFrame | None = None,
    files: Sequence[Path] = (),
    format_options: Mapping[str, str] | None = None,
) -> Imported:
    """Check boxes, complete procedures and polyps, and join the tables.

    A box with a polyp_id keeps it, unless it is what a program writes for a missing value. A box
    with only a track gets the polyp of the track in `polyps.csv`, or else `<procedure>_<track>`
    with a warning, because a track need not be a polyp.
    A procedure without any of its images uses the frames of its video, if there is one. Size, frame
    rate and length that are not stated are taken from the video, or from the images.

    Args:
        boxes: Any columns of `BOXES`, see `box_table`.
        folder: Folder that image paths are relative to, with the side tables.
        reading: The import; a data set named neither by the source nor by an option is named as
            the file or folder of the source.
        procedures: Columns procedure_id and any of `PROCEDURES`; for each column, the first row of
            a procedure with a value counts. Optionally `video_folder` and `video_name` (see
            `find_videos`), and `first` and `last`, the lowest frame number and the highest + 1 in
            the source.
        polyps: Columns procedure_id, polyp_id, track and any of `POLYPS`.
        splits: Part -> procedure ids.
        videos: Result of `find_videos`, if it was already called.
        empty: procedure_id, frame and image of frames that the source lists without a box.
        files: The files to which the column `file` refers.
        format_options: See `Places`.

    Raises:
        PolyplinkError: If no box can be used, there is no procedure, several videos match a
            procedure, or the frame size of a procedure is unknown; if strict, at the first fault.
    """
    # The boxes, without those that cannot be used.
    faults = reading.faults
    side_procedures, side_polyps = read_side_tables(folder, faults)
    if "item" not in boxes.columns:  # only their order is known
        boxes = boxes.with_columns(file=pl.lit(0), item=pl.int_range(pl.len()))
    boxes = box_table(boxes).with_columns(pl.col("frame") - reading.first)
    all_boxes, numbered = boxes, boxes.select("procedure_id", "frame").drop_nulls()
    numbered = numbered.filter(pl.col("frame") <= LARGEST)
    checked = without_repeated(check_boxes(boxes, faults), faults)
    faults.check_some_usable(checked, all_boxes.height)

    # The polyp of each box.
    facts = [side_polyps.drop("track")]
    if reading.identity == "none":
        boxes = checked.with_columns(polyp_id=pl.lit(None, dtype=pl.String))
    else:
        faults.warn_rows(Message("import.no_polyp_id"), checked.filter(no_polyp("polyp_id")))
        if polyps is not None:
            # `checked` has the same faults.
            identified = _name_polyps(polyps, side_polyps, Faults())
            facts += [identified.drop("track").drop_nulls("polyp_id")]
        boxes = _name_polyps(checked, side_polyps, faults)
    boxes = boxes.drop("track")

    # The procedures, and the video of each if needed.
    name = reading.name
    defaults = {"dataset": reading.dataset or name, "source": str(folder.resolve())}
    numbered = numbered.group_by("procedure_id", maintain_order=True).agg(**frame_span(0))
    sources = [table for table in (side_procedures, procedures, numbered) if table is not None]
    rows = _procedure_rows(sources, defaults)
    if reading.dataset is not None:
        stated = rows.filter(pl.col("dataset") != reading.dataset)
        faults.warn_rows(Message("import.other_dataset"), stated, "procedure_id")
    place = files[0] if len(files) == 1 else folder
    left_out, hint = faults.first_left_out
    if rows.height == 0:
        raise PolyplinkError(f"{place} holds no procedure: {left_out}", hint)
    boxes = boxes.join(
        rows.select("procedure_id", "source"), on="procedure_id", how="left", maintain_order="left"
    )
    boxes = boxes.with_columns(exists=present(boxes["image"], boxes["source"]))
    if videos is None:
        single = name if rows.height == 1 else None
        filmed = rows if reading.video else _needing_video(rows, boxes, reading)
        videos = find_videos(filmed, folder, reading.video, faults, single=single)
    boxes = _set_video_images(boxes, videos, reading.video is not None)
    procedures = _procedures(rows, boxes, videos, reading)

    # The three tables, and the other results of the import.
    boxes = fit_boxes(boxes, procedures, faults)
    faults.check_some_usable(boxes, all_boxes.height)
    boxes = _drop_without_images(boxes, reading.images, faults)
    boxes, polyps = _polyps(boxes, pl.concat(facts, how="diagonal_relaxed"), faults)
    ids = [i for part in (splits or {}).values() for i in part]
    for repeated in sorted(i for i, number in Counter(ids).items() if number > 1):
        faults.warn(Message("import.several_parts"), repeated)
    boxes = boxes.sort("procedure_id", "frame", maintain_order=True)  # as a data set has them
    data = DataSet.of(boxes, procedures, polyps, splits)
    places = Places(files, boxes.select("file", "item"), format_options or {})
    without = None if empty is None else _empty_frames(empty, all_boxes, rows, reading)
    return Imported(data, faults.messages, places, without)


def _name_polyps(boxes: pl.DataFrame, side_polyps: pl.DataFrame, faults: Faults) -> pl.DataFrame:
    """Name the polyp of boxes without one: that of their track, or the track itself.

    Args:
        boxes: procedure_id, track and polyp_id.
        side_polyps: procedure_id, track and polyp_id of the side table.
        faults: Gets the tracks that are treated as polyps.
    """
    # A number may be written as 7 or 7.0; a negative one and a missing value mean no track.
    track = pl.col("track").str.strip_chars().str.replace(r"^(\d+)\.0*$", "${1}")
    is_none = no_polyp("track") | track.str.contains(r"^-\d")
    track = pl.when(~is_none).then(track).alias("track")
    boxes = boxes.with_columns(track, polyp_id=pl.when(~no_polyp("polyp_id")).then("polyp_id"))
    keys = ["procedure_id", "track"]
    side_polyps = side_polyps.with_columns(track).drop_nulls("track")
    of_tracks = side_polyps.select(*keys, of_track="polyp_id")
    of_tracks = of_tracks.unique(keys, keep="first", maintain_order=True)
    boxes = boxes.join(of_tracks, on=keys, how="left", maintain_order="left")
    track_name = pl.concat_str("procedure_id", "track", separator="_")
    unnamed = boxes.filter(pl.col("polyp_id").is_null() & pl.col("of_track").is_null())
    names = unnamed.select(name=track_name).drop_nulls().unique(maintain_order=True)
    faults.warn_rows(Message("import.track_as_polyp"), names, "name")
    polyp = pl.coalesce("polyp_id", "of_track", track_name)
    return boxes.with_columns(polyp_id=polyp).drop("of_track")


def _empty_frames(
    empty: pl.DataFrame, boxes: pl.DataFrame, rows: pl.DataFrame, reading: BoxImport
) -> pl.DataFrame | None:
    """Frames with an image and without an annotated box; None for a detector's boxes.

    Args:
        empty: See `assemble`.
        boxes: All boxes, including faulty ones: procedure_id, frame (from 0), score.
        rows: procedure_id and source.
        reading: The import.
    """
    if not reading.images or boxes["score"].count():
        return None
    keys = ["procedure_id", "frame"]
    frames = empty.select("procedure_id", _FRAME - reading.first, "image")
    boxed = boxes.select("procedure_id", _FRAME)
    frames = frames.drop_nulls().join(boxed, on=keys, how="anti", maintain_order="left")
    frames = frames.filter(pl.col("frame") >= 0).join(
        rows.select("procedure_id", "source"), on="procedure_id", maintain_order="left"
    )
    return frames.filter(present(frames["image"], frames["source"])).drop("source")


def _procedure_rows(sources: list[pl.DataFrame], defaults: Mapping[str, str]) -> pl.DataFrame:
    """One row for every procedure; the first row of `sources` with a value counts.

    Returns:
        Columns of `PROCEDURES` (null without a value in any source), video_folder, video_name,
        first and last.
    """
    columns = {name: column.dtype for name, column in PROCEDURES.items()}
    columns |= dict.fromkeys(("video_folder", "video_name"), pl.String())
    columns |= dict.fromkeys(("first", "last"), pl.Int64())
    tables = [pl.DataFrame(schema=columns)]  # so that every column exists
    for table in sources:
        present_columns = [name for name in columns if name in table.columns]
        tables.append(
            table.select(pl.col(name).cast(columns[name], strict=False) for name in present_columns)
        )
    rows = pl.concat(tables, how="diagonal").drop_nulls("procedure_id")
    # The video stated by a source is a name to search for, not a path. An empty text, and a rate or
    # side of 0, are none.
    rows = rows.with_columns(pl.col(pl.String).exclude("procedure_id").replace("", None))
    rows = rows.with_columns(
        pl.col("video_name").str.extract(r"([^/\\]*)$"),
        *(pl.when(pl.col(name) > 0).then(name).alias(name) for name in ("fps", "width", "height")),
    )
    grouped = rows.group_by("procedure_id", maintain_order=True)
    rows = grouped.agg(
        pl.exclude("first", "last").drop_nulls().first(),
        pl.col("first").min(),
        pl.col("last").max(),
    )
    return rows.with_columns(pl.col(name).fill_null(value) for name, value in defaults.items())


def _needing_video(rows: pl.DataFrame, boxes: pl.DataFrame, reading: BoxImport) -> pl.DataFrame:
    """Procedures that need their video: no image exists, or images are frames of a video.

    Images of a video only count if frame rate, length or size are not stated. If images are not
    wanted, procedures without images also count only if length or size are not stated.
    """
    with_image = boxes.filter("exists").unique("procedure_id", keep="first", maintain_order=True)
    video = pl.concat_str("source", pl.lit("/"), pl.col("image").str.extract(r"^(.*)#\d+$"))
    rows = rows.join(
        with_image.select("procedure_id", of_images=video, has_image=True),
        on="procedure_id",
        how="left",
        maintain_order="left",
    )
    sized = pl.col("width").is_not_null() | pl.lit(reading.size is not None)
    is_described = sized & pl.col("n_frames").is_not_null()
    new = pl.col("has_image").is_null() & ~(is_described & pl.lit(not reading.images))
    framed = pl.col("of_images").is_not_null() & ~(is_described & pl.col("fps").is_not_null())
    return rows.filter(new | framed).with_columns(video_name=pl.coalesce("of_images", "video_name"))


def _set_video_images(boxes: pl.DataFrame, videos: pl.DataFrame, replace: bool) -> pl.DataFrame:
    """Set the image of boxes without an existing image to a frame of their procedure's video.

    With `replace`, existing images are replaced too.
    """
    sources = boxes.select("procedure_id", "source").unique(maintain_order=True)
    filmed_procedures = sources.join(videos.select("procedure_id", "video"), on="procedure_id")
    paths = [
        relative_path(Path(video), Path(source))
        for _, source, video in filmed_procedures.iter_rows()
    ]
    filmed_procedures = filmed_procedures.select(
        "procedure_id", video=pl.Series(paths, dtype=pl.String)
    )
    boxes = boxes.join(filmed_procedures, on="procedure_id", how="left", maintain_order="left")
    filmed = pl.col("video").is_not_null() & (~pl.col("exists").fill_null(False) | replace)
    return boxes.with_columns(
        image=pl.when(filmed).then(pl.format("{}#{}", "video", "frame")).otherwise("image"),
        exists=filmed | pl.col("exists"),
    ).drop("video")


def _procedures(
    rows: pl.DataFrame, boxes: pl.DataFrame, videos: pl.DataFrame, reading: BoxImport
) -> pl.DataFrame:
    """Complete the rows of procedures from their videos and images.

    The length of a video overrides a stated one, since no other frame can be read; a stated size
    overrides the video's, since boxes are relative to it. Without any length a procedure ends at
    its last frame with a box; without a patient it is its own patient.
    """
    faults, facts = reading.faults, ("n_frames", "fps", "width", "height")
    of_video = videos.select("procedure_id", **{f"of_{name}": name for name in facts})
    rows = rows.join(of_video, on="procedure_id", how="left", maintain_order="left")

    # What its source and its video state.
    differs = {
        name: pl.col(name) != pl.col(f"of_{name}") for name in ("n_frames", "width", "height")
    }
    kind = Message("import.video_length")
    faults.warn_rows(kind, rows.filter(differs["n_frames"]), "procedure_id")
    kind = Message("import.video_size")
    faults.warn_rows(kind, rows.filter(differs["width"] | differs["height"]), "procedure_id")
    warn_of_rate(rows, pl.col("of_fps"), pl.col("fps"), faults)
    rows = rows.with_columns(
        n_frames=pl.coalesce("of_n_frames", "n_frames"),
        fps=pl.coalesce("fps", "of_fps"),
        width=pl.coalesce("width", "of_width"),
        height=pl.coalesce("height", "of_height"),
    )
    if reading.size is not None:
        width, height = (pl.lit(side, dtype=pl.Int32) for side in reading.size)
        rows = rows.with_columns(width=width, height=height)

    # A size that neither states is that of the first existing image.
    unsized = pl.any_horizontal(pl.col("width", "height").is_null())
    images = boxes.filter("exists").unique("procedure_id", keep="first", maintain_order=True)
    images = images.join(rows.filter(unsized), on="procedure_id", how="semi")
    keys = images.select("source", "image").rows()
    opened = dict(open_each(dict.fromkeys(keys), Path()))
    sizes = []
    for procedure_id, key in zip(images["procedure_id"], keys, strict=True):
        image = opened.get(key)
        if isinstance(image, DecodedImage):
            sizes.append((procedure_id, image.width, image.height))
    schema = {name: PROCEDURES[name].dtype for name in ("procedure_id", "width", "height")}
    rows = rows.update(pl.DataFrame(sizes, schema, orient="row"), on="procedure_id")
    unknown = rows.filter(unsized)
    if unknown.height:
        raise ImportOptionError(
            f"procedure {unknown['procedure_id'][0]}: width and height of its frames are unknown",
            "give its recording with --video FILE or the size with --size WxH, or write them into "
            "procedures.csv next to the source",
        )

    # Without any length a procedure ends at its last frame, and without a patient it is its own.
    no_length = rows.filter(pl.col("n_frames").is_null())
    empty = no_length.filter(pl.col("last").is_null())
    if empty.height:
        raise PolyplinkError(
            f"procedure {empty['procedure_id'][0]} has no box and no number of frames",
            "write its n_frames into procedures.csv next to the source",
        )
    kind = Message("import.no_length")
    faults.warn_rows(kind, no_length, "procedure_id")
    kind = Message("import.no_patient")
    if rows.height > 1:  # a split concerns several
        faults.warn_rows(kind, rows.filter(pl.col("patient").is_null()), "procedure_id")
    _warn_of_numbers(rows, reading)
    rows = rows.with_columns(
        n_frames=pl.coalesce("n_frames", pl.col("last").clip(upper_bound=LARGEST).cast(pl.Int32)),
        patient=pl.coalesce("patient", "procedure_id"),
    )
    return rows.select(*PROCEDURES)


def _warn_of_numbers(rows: pl.DataFrame, reading: BoxImport) -> None:
    """Warn if frames seem to be numbered from 1 but are read as from 0, or the other way round."""
    numbered = rows.drop_nulls("first")
    lowest = numbered["first"].min()
    if lowest == -1:
        first = reading.first - 1
        kind = Message("import.first_frame.before", {"number": first})
        reading.faults.warn_rows(kind, numbered.filter(pl.col("first") == -1), "procedure_id")
    if reading.first_frame is not None or lowest in (None, -1, 0):
        return
    kind, suspicious = Message("import.first_frame.lowest"), numbered.filter(pl.col("first") == 1)
    if suspicious.is_empty():
        kind = Message("import.first_frame.highest")
        suspicious = numbered.filter(pl.col("last") - 1 == pl.col("n_frames"))
    reading.faults.warn_rows(kind, suspicious, "procedure_id")


def _polyps(
    boxes: pl.DataFrame, facts: pl.DataFrame, faults: Faults
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The boxes, and a row of `POLYPS` for every polyp: first those of `facts`, then other ones.

    A polyp id that occurs in several procedures becomes `<procedure>_<id>` in each. If a polyp has
    several rows, the first non-null value counts; locations are normalised. A size of 0 or less, as
    programs write for a missing one, is null.

    Raises:
        PolyplinkError: If two polyps would get one name.
    """
    pairs = pl.concat([boxes.select(KEYS), facts.select(KEYS)]).drop_nulls().unique()
    shared = pairs.filter(pl.col("polyp_id").is_duplicated()).select("polyp_id").unique()
    shared = shared.sort("polyp_id")
    faults.warn_rows(Message("import.shared_polyp_id"), shared, "polyp_id")
    name = (
        pl.when(pl.col("polyp_id").is_in(shared["polyp_id"].implode()))
        .then(pl.concat_str("procedure_id", "polyp_id", separator="_"))
        .otherwise("polyp_id")
        .alias("polyp_id")
    )
    new_names = pairs.sort(KEYS).select(name)["polyp_id"]
    clash = new_names.filter(new_names.is_duplicated())
    if clash.len():
        raise PolyplinkError(
            f"polyp ids of several procedures are changed to <procedure>_<id>, and {clash[0]!r} "
            "would be two polyps",
            "give every polyp its own id",
        )
    boxes, facts = boxes.with_columns(name), facts.with_columns(name)
    of_boxes = boxes.select(KEYS).drop_nulls().unique(maintain_order=True)
    rows = pl.concat([facts, of_boxes], how="diagonal_relaxed")
    unsized = pl.col("size_mm") <= 0
    faults.warn_rows(Message("import.size_below"), rows.filter(unsized), "polyp_id")
    rows = rows.with_columns(size_mm=pl.when(~unsized).then("size_mm"))
    grouped = rows.group_by(KEYS, maintain_order=True)
    values = pl.col(_FACTS).drop_nulls()
    differ = grouped.agg(values.n_unique()).filter(pl.any_horizontal(pl.col(_FACTS) > 1))
    kind = Message("import.polyp_facts")
    faults.warn_rows(kind, differ, "polyp_id")
    polyps = grouped.agg(values.first()).select(list(POLYPS))
    location = normalise_location(polyps["location"].cast(pl.String))
    return boxes, polyps.with_columns(location)


def _drop_without_images(boxes: pl.DataFrame, images: bool, faults: Faults) -> pl.DataFrame:
    """Drop images of procedures without any; in other procedures, drop boxes without an image."""
    if not images:
        return boxes.with_columns(image=pl.lit(None, dtype=pl.String)).drop("exists", "source")
    has_images = pl.col("exists").fill_null(False).any().over("procedure_id")
    missing_images = boxes.filter(~has_images & pl.col("image").is_not_null())
    faults.warn_rows(
        Message("import.no_images"),
        missing_images.unique("procedure_id", keep="first", maintain_order=True),
        "image",
    )
    boxes = boxes.with_columns(image=pl.when(has_images).then("image"))
    missing = pl.col("image").is_not_null() & ~pl.col("exists")
    boxes = leave_out(
        boxes.with_columns(at=pl.when(missing).then("image").otherwise("at")),
        missing,
        Message("import.boxed_without_image"),
        "put the image there, or import without images",
        faults,
    )
    return boxes.drop("exists", "source")
