"""The verb `search`: earlier views that look like a tracklet, a picture or a box."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict, Unpack

from typer import Argument, Option

from polyplink.cli import options
from polyplink.cli.options import check_inputs
from polyplink.cli.verb import verb
from polyplink.core.artefacts import write_json
from polyplink.core.errors import PolyplinkError, find_named
from polyplink.core.results import Result
from polyplink.core.runs import RunRecord
from polyplink.core.text import many

if TYPE_CHECKING:
    import polars as pl

    from polyplink.data.files.images import Pixels
    from polyplink.encoders.load import NamedEncoder
    from polyplink.tracklets.settings import PrepareSettings

FRAME_SIDE = 300  # pixels of the shorter side from which a picture may be a whole frame


class ViewFilters(TypedDict, total=False):
    """Filters on the views of an index; a view with an unknown value does not pass."""

    patient: Annotated[str | None, Option(help="Only views of this patient.")]
    procedure: Annotated[str | None, Option(help="Only views of this procedure.")]
    since: Annotated[str | None, Option(help="Only known dates from YYYY-MM-DD on.")]
    until: Annotated[str | None, Option(help="Only known dates up to YYYY-MM-DD.")]
    min_size: Annotated[float | None, Option(min=0, help="Smallest known size, mm.")]
    max_size: Annotated[float | None, Option(min=0, help="Largest known size, mm.")]
    histology: Annotated[str | None, Option(help="Known class: adenoma, hyperplastic ...")]


@verb
def search(
    weights: options.Weights,
    query: Annotated[str, Argument(help="Id of a tracklet, a picture of a polyp, or a video.")],
    *,
    index: options.IndexFolder = Path("index"),
    out: options.Out = Path("search"),
    k: Annotated[int, Option("-k", min=1, help="Similar views to show.")] = 12,
    frame: Annotated[int | None, Option(min=0, help="Frame of the video, from 0.")] = None,
    box: Annotated[
        str | None, Option(help="LEFT,TOP,WIDTH,HEIGHT of the polyp in the picture or frame.")
    ] = None,
    others: Annotated[
        bool, Option(help="Only views of other procedures than the tracklet's.")
    ] = False,
    exact: Annotated[bool, Option(help="Exact search in an approximate index.")] = False,
    device: options.Device = "auto",
    **filters: Unpack[ViewFilters],
) -> "Result[pl.DataFrame]":
    """Find the earlier views that look like a tracklet, a picture or a box in a video.

    Args:
        out: The output folder, which gets search.html, matches.csv and matches.json.
        filters: Filters on the views.

    Returns:
        `similarity` (cosine) and the index's row of each view, the most similar first.

    Raises:
        PolyplinkError: If the index was built with other weights, the query cannot be read, or no
            view passes the filters.
    """
    import polars as pl

    weights, out = Path(weights), Path(out)
    check_inputs(weights)
    from polyplink.scale.index import Index, picture_of

    # The query: a view of the index, or a file.
    views = Index(Path(index))
    of_file = _is_file(query)
    query_row, vector = (None, None) if of_file else views.find(query)
    _refuse_unread(query, {"--others": others, "--box": box, "--frame": frame}, of_file=of_file)
    from polyplink.encoders.load import load_named
    from polyplink.report.page import write_matches
    from polyplink.report.printed_tables import matches_table, write_rows

    # Its vector and picture.
    encoder = load_named(weights, device)
    views.check(encoder.key)
    settings = {
        "weights": weights,
        "query": query,
        "index": index,
        "k": k,
        "frame": frame,
        "box": box,
        "others": others,
        "exact": exact,
        **filters,
    }
    record = RunRecord("search", settings=settings, inputs={"weights": encoder.key})
    record.claim(out)
    conditions = _conditions(filters)
    notices = _notices(encoder)
    picture: Pixels | None
    if query_row is None or vector is None:
        image = _image(Path(query), frame, box)
        notices += _whole_notice(image, box)
        picture = _cut_crop(image, encoder.prepare, box)
        vector = encoder.embedder(picture[None], [1])[0]
    else:
        picture = picture_of(views.folder, query_row)
        if others:
            conditions["--others"] = pl.col("procedure_id") != query_row["procedure_id"]

    # The views most like it.
    condition = pl.all_horizontal(*conditions.values()) if conditions else None
    matches = views.search(vector, k + (query_row is not None), condition, exact=exact)
    if query_row is not None:
        matches = matches.filter(pl.col("tracklet_id") != query)[:k]
    if matches.is_empty():
        raise PolyplinkError(
            f"no other view of {index} passes {', '.join(conditions) or 'the search'}",
            "leave out a filter"
            if conditions
            else "add more procedures with `polyplink index add`",
        )

    # Their pictures and tables.
    rows = matches.rows(named=True)
    stated = {"frame": frame, "box": box, **filters}
    limits = [
        f"{name.replace('_', '-')} {value}" for name, value in stated.items() if value is not None
    ]
    title = ", ".join([f"Views like {Path(query).name}", *limits, *["other procedures"] * others])
    lengths = pl.col("start_s", "end_s", "size_mm").cast(pl.Float64).round(3)
    match_rows = (
        matches.drop("key", "left", "top", "right", "bottom").with_columns(lengths).rows(named=True)
    )
    pictures = [picture_of(views.folder, row) for row in rows]
    notices += _missing_notice(pictures)
    with record.results(out) as new:
        write_matches(new / "search.html", title, picture, rows, pictures, notices=notices)
        write_rows(new / "matches.csv", match_rows)
        write_json(new / "matches.json", match_rows)
    notes = []
    if not (conditions or exact) and (approximation := views.record.approximate):
        notes.append(f"approximate: recall {approximation.recall} (--exact finds all)")
    return Result(
        matches,
        match_rows,
        [matches_table(title, rows), *notes, str(out / "search.html")],
        notices,
    )


def _refuse_unread(query: str, values: Mapping[str, object], *, of_file: bool) -> None:
    """Refuse options that have no effect on a query of this kind.

    Args:
        query: The query.
        values: Values of --others, --box and --frame; None or False if not given.
        of_file: Whether the query is a file, and no id of a tracklet.
    """
    from polyplink.data.files.folders import is_video

    kind = "tracklet"
    if of_file:
        kind = "video" if is_video(query) else "picture"
    allowed = {"tracklet": {"--others"}, "picture": {"--box"}, "video": {"--box", "--frame"}}[kind]
    stated = [name for name, value in values.items() if value is not None and value is not False]
    unread = [name for name in stated if name not in allowed]
    if unread:
        raise PolyplinkError(f"{' and '.join(unread)}: {query} is a {kind}", "leave it out")


def _is_file(query: str) -> bool:
    """Whether a query is a file, and no id of a tracklet.

    Raises:
        PolyplinkError: If it is the name of a picture or video that does not exist, or a folder.
    """
    from polyplink.data.files.folders import IMAGE_ENDINGS, check_is_file, is_video

    if Path(query).is_dir():
        raise PolyplinkError(
            f"{query} is a folder", "give the id of a tracklet, a picture or a video"
        )
    if Path(query).suffix.lower() in IMAGE_ENDINGS or is_video(query):
        check_is_file(Path(query))
    return Path(query).is_file()


def _notices(encoder: "NamedEncoder") -> list[str]:
    """The notice that matches by a shipped encoder, or one made with it, must carry."""
    from polyplink.encoders.weights import made_with

    shipped = made_with(encoder.record)
    if shipped is None:
        return []
    sets = ", ".join(shipped.trained_on)
    return [f"Research use only: {shipped.name} was trained on still images ({sets})."]


def _conditions(filters: ViewFilters) -> "dict[str, pl.Expr]":
    """Conditions on the rows of an index, by the option that sets them."""
    import polars as pl

    from polyplink.data.tables import is_date
    from polyplink.data.vocabulary import HISTOLOGY

    for name in ("since", "until"):
        day = filters.get(name)
        if day is not None and not pl.select(is_date(pl.lit(day))).item():
            raise PolyplinkError(f"--{name} {day} is not a date", "write YYYY-MM-DD")
    if (histology := filters.get("histology")) is not None:
        common = {term.lower(): kind for term, kind in HISTOLOGY.items() if kind is not None}
        filters = {**filters, "histology": find_named("histology", histology.lower(), common)}
    compare = {
        "patient": pl.col("patient").eq,
        "procedure": pl.col("procedure_id").eq,
        "since": pl.col("date").ge,
        "until": pl.col("date").le,
        "min_size": pl.col("size_mm").ge,
        "max_size": pl.col("size_mm").le,
        "histology": pl.col("histology").eq,
    }
    return {
        f"--{name.replace('_', '-')}": condition(value)
        for name, condition in compare.items()
        if (value := filters.get(name)) is not None
    }


def _image(path: Path, number: int | None, box: str | None) -> "Pixels":
    """The picture, or the frame of a video, that is searched for: (height, width, 3).

    Args:
        path: The picture or video.
        number: Number of the frame.
        box: LEFT,TOP,WIDTH,HEIGHT.

    Raises:
        PolyplinkError: If the picture does not decode, or --frame or --box is missing for a video.
    """
    from polyplink.data.files.folders import is_video
    from polyplink.data.files.images import read_image
    from polyplink.data.files.video import open_video

    if is_video(path.name):
        if number is None or box is None:
            raise PolyplinkError(
                f"{path} is a video, but no box in a frame is set",
                "give --frame N and --box LEFT,TOP,WIDTH,HEIGHT",
            )
        with open_video(path) as video:
            frame = video.frame(number)
            if frame is None:
                raise PolyplinkError(f"{path} has no frame {number}", "give an earlier --frame")
            return frame.rgb()
    image = read_image(path)
    if isinstance(image, str):
        raise PolyplinkError(f"{path} cannot be searched for ({image})", "give another")
    return image


def _whole_notice(image: "Pixels", box: str | None) -> list[str]:
    """The notice that a picture as large as a frame (height, width, 3) is searched for whole."""
    height, width = image.shape[:2]
    if box is not None or min(height, width) < FRAME_SIDE:
        return []
    return [
        f"The whole picture ({width} x {height}) was taken as the view of a polyp. If it is a "
        "frame, give --box LEFT,TOP,WIDTH,HEIGHT of the polyp in it."
    ]


def _missing_notice(pictures: Sequence["Pixels | None"]) -> list[str]:
    """The notice that views have no picture, because the files of their crops are missing."""
    n_missing = sum(picture is None for picture in pictures)
    if not n_missing:
        return []
    return [
        f"{n_missing} of {many(len(pictures), 'view')} have no picture: the index or the crops in "
        "the data folders were moved. Put them back, or build the index again "
        "(`polyplink index build`)."
    ]


def _cut_crop(image: "Pixels", settings: "PrepareSettings", box: str | None) -> "Pixels":
    """Cut the crop (size, size, 3) for the encoder from an image (height, width, 3).

    Args:
        image: The image.
        settings: Settings of the encoder's crops.
        box: LEFT,TOP,WIDTH,HEIGHT; None for the whole image.

    Raises:
        PolyplinkError: If the box is no rectangle, or is outside the image.
    """
    import numpy as np

    from polyplink.data.files.images import resize
    from polyplink.data.files.values import rectangle
    from polyplink.tracklets.crops import crop_around

    if box is None:  # a picture of the polyp
        return resize(image, settings.size, settings.size)
    stated = rectangle(box)
    if stated is None:
        raise PolyplinkError(
            f"--box {box!r} is not a rectangle", "give LEFT,TOP,WIDTH,HEIGHT in pixels"
        )
    sides = np.array(stated)
    height, width = image.shape[:2]
    if sides[0] + sides[2] > width or sides[1] + sides[3] > height or sides[2:].min() <= 0:
        raise PolyplinkError(
            f"--box {box} is not within a picture of {width} x {height} pixels",
            "give LEFT,TOP,WIDTH,HEIGHT of the polyp in it",
        )
    return crop_around(image, sides, settings.crop_factor, settings.size)
