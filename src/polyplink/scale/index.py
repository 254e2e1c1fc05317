"""An index of views: their vectors in memory-mapped files, and a table that describes them.

A folder with index.json and segments, which are written atomically and never changed:

    index.json             format, weights, width, segments, and the recall of the approximate form
    00000/rows.parquet     a row per view, in small row groups: `ROWS`
    00000/vectors.f32      unit vectors (n, d), little-endian float32
    00000/codes.i8         the same in 8 bits (n, d), with scale.f32 and error.f32 (n,)
    lance/                 the approximate form, if there is one (see `approximate`)
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from filelock import FileLock
from pydantic import Field

from polyplink.associate.similarity import unit_rows
from polyplink.core.artefacts import ADDED_LATER, atomic_folder, read_json, read_plain, write_json
from polyplink.core.errors import PolyplinkError, first_line
from polyplink.core.text import many, relative_path
from polyplink.data.files.images import Pixels
from polyplink.data.tables import check_table, write_table
from polyplink.data.vocabulary import common_histology
from polyplink.scale.approximate import candidates, open_table, write_approximate
from polyplink.scale.exact import BLOCK, Codes, encode_rows, nearest
from polyplink.tracklets.box_runs import BOX, USUAL_FPS
from polyplink.tracklets.crops import enlarge, read_crops
from polyplink.tracklets.prepare import Prepared

RECORD = "index.json"
SEGMENT = 1_000_000  # most rows of a segment: limits the memory of writing
RECALL_AT, QUERIES = 10, 100  # neighbours, and about as many queries, that measure the recall
GROUP = 4_096  # rows of a row group, all of which are read to get one row
ROWS: Mapping[str, Any] = {
    "tracklet_id": pl.String,
    "procedure_id": pl.String,
    "key": pl.String,  # of the procedure's crops
    "dataset": pl.String,
    "patient": pl.String,
    "date": pl.String,  # of the procedure, YYYY-MM-DD
    "polyp_id": pl.String,
    "size_mm": pl.Float32,
    "histology": pl.String,
    "start_s": pl.Float32,
    "end_s": pl.Float32,
    "crops": pl.String,  # file of the procedure's crops, relative to the index
    "crop": pl.Int32,  # row of the crop that represents the view
    "left": pl.Int32,  # area of the frame from which that crop was cut, pixels
    "top": pl.Int32,
    "right": pl.Int32,
    "bottom": pl.Int32,
}
SIDES = ("left", "top", "right", "bottom")
Block = tuple[pl.DataFrame, npt.NDArray[np.float32]]
"""Rows with the columns of `ROWS`, and their vectors (n, d), of any norm above 0."""
_FILES = {"vectors.f32": "<f4", "codes.i8": "i1", "scale.f32": "<f4", "error.f32": "<f4"}


Positive = Annotated[int, Field(strict=True, gt=0, lt=1 << 40)]


@dataclass(frozen=True)
class Approximation:
    """The approximate form of an index.

    Attributes:
        rows: Number of rows that it covers, the first of the index.
        partitions: Number of its partitions.
        recall: Share of the `recall_at` most similar other views that it finds; None until it is
            measured, as are the next two.
        recall_at: Number of neighbours.
        recall_queries: Number of queries, views evenly spaced over the index.
    """

    rows: Positive
    partitions: Positive
    recall: float | None = None
    recall_at: int | None = None
    recall_queries: int | None = None


@dataclass(frozen=True)
class IndexRecord:
    """The content of index.json.

    Attributes:
        format: Version of the layout.
        weights: Id of the weights that computed the vectors.
        width: Length d of the vectors.
        segments: Number of rows of each segment.
        approximate: The approximate form, if there is one.
    """

    format: Literal["polyplink index 2"]
    weights: str
    width: Positive
    segments: Annotated[list[Positive], Field(min_length=1)]
    approximate: Approximation | None = field(default=None, metadata=ADDED_LATER)


class Segment(NamedTuple):
    """A part of the index: its table on disk, its unit vectors, and the same in 8 bits, mapped."""

    rows: pl.LazyFrame
    vectors: npt.NDArray[np.float32]
    codes: Codes


class Index:
    """An index of views, opened for searching.

    Args:
        folder: A folder that `build_index` wrote.

    Raises:
        PolyplinkError: If the folder holds no index, or a segment is broken.

    Example:
        >>> index = Index(Path("index"))  # doctest: +SKIP
        >>> index.search(vector, 5)["tracklet_id"]  # doctest: +SKIP
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = folder / RECORD
        if not path.is_file():
            raise PolyplinkError(
                f"{folder} is not an index", "make one with `polyplink index build`"
            )
        problem, hint = f"{path} has another format", "build the index again"
        self.record = read_plain(IndexRecord, read_json(path), problem, hint)
        self.weights, self.width = self.record.weights, self.record.width

    def __len__(self) -> int:
        return sum(self.record.segments)

    def __repr__(self) -> str:
        return f"Index({str(self.folder)!r}, {many(len(self), 'view')}, length {self.width})"

    def _collect(self, *rows: pl.LazyFrame) -> list[pl.DataFrame]:
        try:
            return pl.collect_all(rows)
        except pl.exceptions.PolarsError as error:
            raise PolyplinkError(
                f"{self.folder} cannot be read ({first_line(error)})", "build the index again"
            ) from None

    @cached_property
    def segments(self) -> list[Segment]:
        """The segments, memory-mapped."""
        counts = enumerate(self.record.segments)
        return [_open(self.folder / f"{number:05}", rows, self.width) for number, rows in counts]

    @cached_property
    def _table(self) -> Any:
        return open_table(self.folder / "lance")

    def procedures(self) -> list[tuple[str, str]]:
        """All procedures, each with the key of its crops."""
        pairs = [segment.rows.select("procedure_id", "key").unique() for segment in self.segments]
        return pl.concat(self._collect(*pairs)).rows()

    def check(self, weights: str) -> None:
        """Refuse vectors of other weights than those of the index.

        Raises:
            PolyplinkError: If the weights differ.
        """
        if weights != self.weights:
            raise PolyplinkError(
                f"{self.folder} holds vectors of weights {self.weights}, not of {weights}",
                "give those weights, or build an index with these",
            )

    def find(self, tracklet_id: str) -> tuple[dict[str, Any], npt.NDArray[np.float32]]:
        """The row of a tracklet and its vector (d,).

        Raises:
            PolyplinkError: If the tracklet is not in the index.
        """
        for rows, vectors, _ in self.segments:
            matching = rows.with_row_index("row").filter(pl.col("tracklet_id") == tracklet_id)
            (matches,) = self._collect(matching)
            if matches.height:
                row = matches.row(0, named=True)
                return row, vectors[row.pop("row")]
        (first,) = self._collect(self.segments[0][0].head(1))
        raise PolyplinkError(
            f"no tracklet {tracklet_id!r} in {self.folder}, which holds {len(self)}",
            f"give one of them, such as {first['tracklet_id'][0]}, or a picture or a video",
        )

    def search(
        self,
        vector: npt.ArrayLike,
        k: int = 12,
        where: pl.Expr | None = None,
        *,
        exact: bool = False,
    ) -> pl.DataFrame:
        """The k views that are most similar to a vector.

        Args:
            vector: (d,), of any norm above 0.
            k: Largest number of views.
            where: A condition on the columns of `ROWS`; the search is then exact.
            exact: Whether to search exactly even if there is an approximate form.

        Returns:
            `similarity` (cosine) and the columns of `ROWS`, the most similar first.

        Raises:
            PolyplinkError: If the vector is of another width, zero or not finite.
        """
        query = np.asarray(vector, dtype=np.float64)
        if query.shape != (self.width,):
            raise PolyplinkError(
                f"a vector of {query.size} numbers, where those of {self.folder} have {self.width}",
                "embed with the weights of the index",
            )
        (query,) = unit_rows(query[None])
        guesses, n_approximate = None, 0  # candidates, and number of rows in the approximate form
        form = self.record.approximate
        if form is not None and where is None and not exact:
            guesses = candidates(self._table, form.partitions, query, k)
            n_approximate = form.rows
        hits: list[tuple[float, int, int]] = []  # -cosine, segment, row in it
        first = 0  # number of the segment's first row in the whole index
        for number, (table, vectors, codes) in enumerate(self.segments):
            if guesses is not None and first < n_approximate:
                guessed = guesses[(guesses >= first) & (guesses < first + len(vectors))] - first
                rows, similarity = nearest(
                    query, vectors[guessed], Codes._make(c[guessed] for c in codes), k
                )
                rows = guessed[rows]
            else:
                keep = None
                if where is not None:
                    (mask,) = self._collect(table.select(where.fill_null(False)))
                    keep = mask.to_series().to_numpy()
                rows, similarity = nearest(query, vectors, codes, k, keep)
            hits += zip((-similarity).tolist(), [number] * k, rows.tolist(), strict=False)
            first += len(vectors)
        best = sorted(hits)[:k]
        tables = self._collect(*(self.segments[n].rows.slice(row, 1) for _, n, row in best))
        similar = pl.Series("similarity", [-hit[0] for hit in best], dtype=pl.Float64)
        return pl.concat([pl.DataFrame(schema=ROWS), *tables]).insert_column(0, similar)


def _open(folder: Path, count: int, width: int) -> Segment:
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(_FILES, (count,))
    shapes |= {"vectors.f32": (count, width), "codes.i8": (count, width)}
    try:
        arrays = [
            np.memmap(folder / name, dtype, "r", shape=shapes[name])
            for name, dtype in _FILES.items()
        ]
        path = folder / "rows.parquet"
        with path.open("rb") as file:
            check_table(file, path, "build the index again")
        rows = pl.scan_parquet(path, glob=False)
        height = rows.select(pl.len()).collect().item()
        fits = rows.collect_schema() == pl.Schema(ROWS)
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        raise PolyplinkError(
            f"{folder} cannot be read ({first_line(error)})", "build the index again"
        ) from None
    if height != count or not fits:
        raise PolyplinkError(f"{folder} lacks rows or columns", "build the index again")
    vectors, codes, scale, error_ = (np.asarray(array) for array in arrays)
    return Segment(rows, vectors, Codes(codes, scale, error_))


def build_index(folder: Path, blocks: Iterable[Block], weights: str) -> Index:
    """Write an index; if that fails, no folder remains.

    Args:
        folder: The folder of the index; it must not exist.
        blocks: Rows and their vectors, in the order in which they are numbered.
        weights: Id of the weights that computed the vectors.

    Raises:
        PolyplinkError: If `folder` exists, or there is no row.
    """
    with atomic_folder(folder) as new:
        if not _write_segments(new, IndexRecord("polyplink index 2", weights, 0, []), blocks):
            raise PolyplinkError(
                "there is no tracklet to index",
                "`polyplink doctor` lists options that give some, and --alarms keep includes those "
                "that the weights reject as false alarms",
            )
    return Index(folder)


def approximate_index(index: Index) -> Index:
    """Write the approximate form of an index, and measure its recall.

    Raises:
        PolyplinkError: If lancedb is not installed, or the index is too small.
    """
    place = index.folder / "lance"
    with FileLock(index.folder / ".lock"):  # or views that are added meanwhile would be lost
        index = Index(index.folder)
        if place.exists():  # of an earlier call: until the new form is complete, search is exact
            write_json(index.folder / RECORD, replace(index.record, approximate=None))
            shutil.rmtree(place)
        partitions = write_approximate(place, _unit_blocks(index), len(index), index.width)
        index.record = replace(index.record, approximate=Approximation(len(index), partitions))
        index.record = replace(index.record, approximate=recall(index))
        write_json(index.folder / RECORD, index.record)
    return Index(index.folder)


def add_rows(index: Index, blocks: Callable[[dict[str, str]], Iterable[Block]]) -> Index:
    """Add views to an index; existing files are not changed.

    An approximate form does not cover the added views: they are searched exactly.

    Args:
        index: The index; processes that add to it wait for each other.
        blocks: Returns the rows to add, and their vectors. It is called while no other process
            adds, with the procedures of the index and the keys of their crops.

    Returns:
        The index with the added views.
    """
    with FileLock(index.folder / ".lock"):
        before = Index(index.folder)
        for leftover in index.folder.glob("[0-9]*"):  # of an addition that was killed
            if int(leftover.name) >= len(before.record.segments):
                shutil.rmtree(leftover)
        _write_segments(index.folder, before.record, blocks(dict(before.procedures())))
    return Index(index.folder)


def _write_segments(folder: Path, record: IndexRecord, blocks: Iterable[Block]) -> list[int]:
    """Write rows as further segments, then the record that lists them; returns their rows."""
    segments, width = [*record.segments], record.width
    waiting = (block for block in blocks if block[0].height)
    block = next(waiting, None)
    while block is not None:
        with atomic_folder(folder / f"{len(segments):05}") as new, ExitStack() as opened:
            files = [opened.enter_context((new / name).open("wb")) for name in _FILES]
            tables: list[pl.DataFrame] = []
            rows = 0
            while block is not None and rows < SEGMENT:
                unit = unit_rows(block[1]).astype(np.float32)
                width = width or unit.shape[1]
                assert unit.shape == (block[0].height, width)
                arrays: tuple[npt.NDArray[Any], ...] = (unit, *encode_rows(unit))
                for file, values in zip(files, arrays, strict=True):
                    file.write(values.data)
                tables.append(block[0].select(pl.col(n).cast(kind) for n, kind in ROWS.items()))
                rows += block[0].height
                block = next(waiting, None)
            write_table(new / "rows.parquet", pl.concat(tables), row_group_size=GROUP)
        segments.append(rows)
    write_json(folder / RECORD, replace(record, width=width, segments=segments))
    return segments


def _unit_blocks(index: Index) -> Iterator[npt.NDArray[np.float32]]:
    """All unit vectors, in blocks."""
    for _, vectors, _ in index.segments:
        yield from (vectors[a : a + BLOCK] for a in range(0, len(vectors), BLOCK))


def recall(index: Index) -> Approximation:
    """The approximate form of an index with its recall."""
    assert index.record.approximate is not None
    hits = total = 0
    step = -(-len(index) // QUERIES)
    views = [view for segment in index.segments for view in segment.vectors[::step]]
    for view in views:
        approximate, exact_rows = (
            index.search(view, RECALL_AT + 1, exact=exact) for exact in (False, True)
        )
        ids = [frozenset(table["tracklet_id"][1:]) for table in (approximate, exact_rows)]
        hits, total = hits + len(ids[0] & ids[1]), total + len(ids[1])
    share = round(hits / max(total, 1), 4)
    return replace(
        index.record.approximate, recall=share, recall_at=RECALL_AT, recall_queries=len(views)
    )


def view_rows(prepared: Prepared, index: Path) -> pl.DataFrame:
    """The rows of an index for the tracklets of a part; the middle crop represents each.

    Args:
        prepared: The part, with or without its crops.
        index: Folder of the index, to which the paths of crops are relative.

    Returns:
        A table with the columns of `ROWS`, in the order of the part's tracklets.
    """
    settings, data = prepared.settings, prepared.data
    polyps = data.polyps.select(
        "procedure_id",
        "polyp_id",
        "size_mm",
        histology=common_histology(data.polyps["histology_class"]),
    )
    procedures = data.procedures.select(
        "procedure_id", "dataset", "patient", "date", "width", "height",
        fps=pl.col("fps").fill_null(USUAL_FPS),
    )  # fmt: skip
    middle = pl.col("n_crops") // 2
    table = (
        prepared.tracklets.join(procedures, on="procedure_id", how="left", maintain_order="left")
        .join(polyps, on=["procedure_id", "polyp_id"], how="left", maintain_order="left")
        .with_columns(
            key=pl.col("procedure_id").replace_strict(prepared.keys, return_dtype=pl.String),
            crop=pl.col("crop_first") + middle,
            box=pl.col("offset") + middle * settings.stride,
            start_s=pl.col("first_frame") / pl.col("fps"),
            end_s=(pl.col("last_frame") + 1) / pl.col("fps"),
        )
    )
    boxes = prepared.detections.select(BOX)[table["box"]].to_numpy()
    cut = np.zeros((table.height, 4), np.int64)
    for (width, height), group in table.with_row_index("at").group_by("width", "height"):
        at = group["at"].to_numpy()
        cut[at] = enlarge(boxes[at], settings.crop_factor, int(str(width)), int(str(height)))
    home = index.resolve()
    paths = {
        name: relative_path(prepared.crops_path(name).resolve(), home)
        for name in table["procedure_id"].unique()
    }
    sides = {side: cut[:, i] for i, side in enumerate(SIDES)}
    crops = pl.col("procedure_id").replace_strict(paths, return_dtype=pl.String)
    table = table.with_columns(crops=crops, **{k: pl.Series(v) for k, v in sides.items()})
    return table.select(pl.col(name).cast(kind) for name, kind in ROWS.items())


def picture_of(index: Path, row: dict[str, Any]) -> Pixels | None:
    """The crop (size, size, 3) that represents a view; None if its file was removed or moved.

    Args:
        index: Folder of the index.
        row: The row of the view.
    """
    try:
        return np.array(read_crops(index.resolve() / row["crops"], "")[row["crop"]])
    except (OSError, PolyplinkError, IndexError):
        return None
