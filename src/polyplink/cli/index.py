"""The verbs `index build`, `index add` and `search`: earlier views that look like a given one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from polyplink.cli import options
from polyplink.cli.options import Request, TrackletRequest, option
from polyplink.cli.verb import Result, check_given, inform
from polyplink.core.artefacts import RunRecord, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.core.progress import Progress

if TYPE_CHECKING:
    import polars as pl

    from polyplink.encoders.load import NamedEncoder
    from polyplink.scale import Index
    from polyplink.tracklets.crops import Pixels

IndexFolder = Annotated[Path, Option("--index", help="Folder of the index.")]


@dataclass(frozen=True)
class IndexAddRequest(TrackletRequest):
    """Which data folders to add to an index, and with which weights."""

    weights: options.Weights
    data: Annotated[Sequence[Path], Argument(help="Data folders; vectors they lack are computed.")]
    index: IndexFolder = Path("index")
    device: options.Device = "auto"
    workers: options.Workers = 2


@dataclass(frozen=True)
class IndexBuildRequest(IndexAddRequest):
    """What to index, and with which weights."""

    approximate: bool = option("Also write an approximate form, by LanceDB.", False)


def build_index(request: IndexBuildRequest, progress: Progress = inform) -> "Result[Index]":
    """Build an index of all views of data folders, to search for similar ones.

    Raises:
        PolyplinkError: If the index exists, there is no view, or weights or data are at fault.
    """
    for folder in request.data:
        check_given(request.weights, folder, device=request.device)
    from polyplink.encoders.load import load_named
    from polyplink.scale import approximated, build_index as build

    PolyplinkError.unless(
        not request.index.exists(),
        f"{request.index} exists already",
        "add to it with `polyplink index add`, or name another with --index",
    )
    encoder = load_named(request.weights, request.device, tracklets=request.tracklet_options)
    blocks = _blocks(request, encoder, {}, progress)
    index = build(request.index, blocks, encoder.key)
    if request.approximate:
        index = approximated(index)
    return _described(index, len(index))


def add_to_index(request: IndexAddRequest, progress: Progress = inform) -> "Result[Index]":
    """Add the procedures of data folders that an index does not have yet.

    Raises:
        PolyplinkError: If the index holds vectors of other weights, or a procedure of the same
            name with other boxes.
    """
    for folder in request.data:
        check_given(request.weights, folder, device=request.device)
    from polyplink.encoders.load import load_named
    from polyplink.scale import Index, add_rows

    index = Index(request.index)
    encoder = load_named(request.weights, request.device, tracklets=request.tracklet_options)
    index.check(encoder.key)
    extended = add_rows(
        index, lambda indexed_keys: _blocks(request, encoder, indexed_keys, progress)
    )
    return _described(extended, len(extended) - len(index))


def _blocks(
    request: IndexAddRequest,
    encoder: "NamedEncoder",
    indexed_keys: dict[str, str],
    progress: Progress,
) -> Iterator[Any]:
    """Rows and vectors of each data folder, without those of procedures that are known.

    Args:
        request: The folders.
        encoder: Of the index.
        indexed_keys: Procedure to the key of its crops; those that are yielded are added.
        progress: Called for crops and tracklets.

    Raises:
        PolyplinkError: If a procedure is known with other boxes, or in two of the folders.
    """
    import polars as pl

    from polyplink.data import read_origin
    from polyplink.encoders.encode import encode
    from polyplink.scale import view_rows

    assert encoder.record is not None
    for folder in request.data:
        settings = request.on(encoder.record.prepare, read_origin(folder))
        of_folder = replace(encoder, prepare=settings)
        encoded = encode([of_folder], folder, workers=request.workers, progress=progress)
        table = view_rows(encoded.prepared, request.index)
        table_keys = dict(table.select("procedure_id", "key").unique().rows())
        changed = sorted(
            name for name, key in table_keys.items() if indexed_keys.get(name, key) != key
        )
        PolyplinkError.unless(
            not changed,
            f"procedure {changed[:1]} of {folder} is in the index with other boxes or settings",
            "build the index again; procedures of one name belong into different indices",
        )
        new = table.select(~pl.col("procedure_id").is_in(list(indexed_keys))).to_series()
        indexed_keys |= table_keys
        yield table.filter(new), encoded.embeddings[encoder.name].vectors[new.to_numpy()]


def _described(index: "Index", added: int) -> "Result[Index]":
    """What the terminal and --json say of an index."""
    approximate = index.record.get("approximate")
    facts = {"index": str(index.folder), "views": len(index), "added": added}
    facts |= {"weights": index.weights, "width": index.width, "approximate": approximate}
    shown = ["{index}: {views} views ({added} added) of weights {weights}".format(**facts)]
    if approximate is not None:
        shown.append(
            "approximate search: recall {recall} of the {recall_at} most similar, measured against "
            "the exact search on {recall_queries} views".format(**approximate)
        )
    return Result(index, facts, shown)


@dataclass(frozen=True)
class SearchRequest(Request):
    """What to search for, and among which views."""

    weights: options.Weights
    query: Annotated[str, Argument(help="Id of a tracklet, a picture of a polyp, or a video.")]
    index: IndexFolder = Path("index")
    out: options.Out = Path("search")
    k: int = option("Similar views to show.", 12, "-k", min=1)
    frame: int | None = option("Frame of the video, from 0.", min=0)
    box: str | None = option("LEFT,TOP,WIDTH,HEIGHT of the polyp in the picture or frame.")
    patient: str | None = option("Only views of this patient.")
    procedure: str | None = option("Only views of this procedure.")
    others: bool = option("Only views of other procedures than the tracklet's.", False)
    since: str | None = option("Only known dates from YYYY-MM-DD on.")
    until: str | None = option("Only known dates up to YYYY-MM-DD.")
    min_size: float | None = option("Smallest known size, mm.", min=0)
    max_size: float | None = option("Largest known size, mm.", min=0)
    histology: str | None = option("Known class: adenoma, hyperplastic ...")
    exact: bool = option("Exact search in an approximate index.", False)
    device: options.Device = "auto"


def search(request: SearchRequest, progress: Progress = inform) -> "Result[pl.DataFrame]":
    """Find the earlier views that look like a tracklet, a picture or a box in a video.

    Args:
        request: Weights of the index, the query, filters; and the output folder, which gets
            search.html, matches.csv and matches.json.
        progress: Not called.

    Raises:
        PolyplinkError: If the index is of other weights, the query cannot be read, or no view
            passes the filters.
    """
    import polars as pl

    check_given(request.weights)
    from polyplink.scale import Index, picture_of

    index, out, of_file = Index(request.index), request.out, Path(request.query).is_file()
    query_row, vector = (None, None) if of_file else index.find(request.query)
    frame_options = {"--box": request.box is not None, "--frame": request.frame is not None}
    unread = {"--others": request.others} if of_file else frame_options
    kind = "picture or a video" if of_file else "tracklet"
    PolyplinkError.unless(
        not any(unread.values()),
        f"{' and '.join(name for name in unread if unread[name])}: {request.query} is a {kind}",
        "leave it out",
    )
    from polyplink.encoders.load import load_named
    from polyplink.report.page import write_matches
    from polyplink.report.tables import matches_table, write_rows

    encoder = load_named(request.weights, request.device)
    index.check(encoder.key)
    record = RunRecord("search", settings=request, inputs={"weights": encoder.key})
    record.claim(out)
    filters = _filters(request)
    picture: Pixels | None
    if query_row is None or vector is None:
        picture = _pictured(request, encoder)
        vector = encoder.embedder(picture[None], [1])[0]
    else:
        picture = picture_of(index.folder, query_row)
        if request.others:
            filters["--others"] = pl.col("procedure_id") != query_row["procedure_id"]
    condition = pl.all_horizontal(*filters.values()) if filters else None
    matches = index.search(
        vector, request.k + (query_row is not None), condition, exact=request.exact
    )
    if query_row is not None:
        matches = matches.filter(pl.col("tracklet_id") != request.query)[: request.k]
    PolyplinkError.unless(
        not matches.is_empty(),
        f"no other view of {request.index} passes {', '.join(filters) or 'the search'}",
        "leave out a filter" if filters else "add more procedures with `polyplink index add`",
    )
    rows = matches.rows(named=True)
    title = f"Views like {Path(request.query).name}"
    pictures = [picture_of(index.folder, row) for row in rows]
    plain = matches.drop("key", "left", "top", "right", "bottom").rows(named=True)
    with record.results(out) as new:
        write_matches(new / "search.html", title, picture, rows, pictures)
        write_rows(new / "matches.csv", plain)
        write_json(new / "matches.json", plain)
    notes = []
    if not (filters or request.exact) and (approximation := index.record.get("approximate")):
        notes.append(f"approximate: recall {approximation['recall']} (--exact finds all)")
    return Result(matches, plain, [matches_table(title, rows), *notes, str(out / "search.html")])


def _filters(request: SearchRequest) -> "dict[str, pl.Expr]":
    """Conditions on the rows of an index, by the option that sets them."""
    import polars as pl

    from polyplink.data.tables import is_date

    for name in ("since", "until"):
        day = getattr(request, name)
        valid = day is None or pl.select(is_date(pl.lit(day))).item()
        PolyplinkError.unless(valid, f"--{name} {day} is no date", "write YYYY-MM-DD")
    conditions = {
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
        for name, condition in conditions.items()
        if (value := getattr(request, name)) is not None
    }


def _pictured(request: SearchRequest, encoder: "NamedEncoder") -> "Pixels":
    """The crop (size, size, 3) of a picture, or of a frame of a video, as the encoder takes it.

    Raises:
        PolyplinkError: If it does not decode, or a video has no --frame and --box.
    """
    import numpy as np

    from polyplink.data.files.video import is_video, open_video
    from polyplink.serve.pictures import parse_mask
    from polyplink.tracklets.crops import cut, read_image
    from polyplink.tracklets.prepare import enlarge

    path, settings = Path(request.query), encoder.prepare
    image: Pixels | str
    if is_video(path.name):
        PolyplinkError.unless(
            request.frame is not None and request.box is not None,
            f"{path} is a video, and no polyp in it is named",
            "give --frame N and --box LEFT,TOP,WIDTH,HEIGHT",
        )
        with open_video(path) as video:
            frame = video.frame(request.frame or 0)
            image = "there is no such frame" if frame is None else frame.rgb()
    else:
        image = read_image(path)
    if isinstance(image, str):
        raise PolyplinkError(f"{path} cannot be searched for ({image})", "give another")
    height, width = image.shape[:2]
    part = np.array([0, 0, width, height])
    if request.box is not None:
        box = np.array([parse_mask(request.box, "--box")], dtype=np.float64)
        part = enlarge(box, settings.crop_factor, width, height)[0]
    return cut(image, part, settings.size)
