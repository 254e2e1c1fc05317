"""The approximate form of an index: LanceDB's inverted file with one bit per dimension (RaBitQ).

It gives candidates, and their similarities are computed exactly: it may miss a neighbour, but never
reports a wrong similarity. Its recall, measured against exact search, is stored with the index.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from polyplink.core.arrays import Floats, Ints
from polyplink.core.errors import PolyplinkError, extras_installed, first_line
from polyplink.core.text import many

CANDIDATES = 20  # compared exactly, per requested neighbour
PROBES = 0.05  # share of the partitions that a search reads
TRAINED = 64  # training vectors per partition
FEW = 256  # least rows of a partition
OCTET = 8  # vectors are padded with zeros, since their codes are whole bytes
TABLE = "vectors"


def open_table(folder: Path) -> Any:
    """Open the table that `write_approximate` wrote.

    Raises:
        PolyplinkError: If lancedb is not installed, or the folder is damaged.
    """
    lancedb = _lancedb()
    with _readable(folder):
        return lancedb.connect(str(folder)).open_table(TABLE)


def candidates(table: Any, partitions: int, query: Floats, k: int) -> Ints:
    """Ascending numbers of rows that probably include the k most similar to a unit vector (d,).

    Raises:
        PolyplinkError: If the files of the table are damaged.
    """
    probes = max(8, round(partitions * PROBES))
    vector = _pad(query[None].astype(np.float32))[0]
    search = table.search(vector).distance_type("l2").nprobes(probes)
    with _readable(Path(table.uri)):
        rows = search.limit(k * CANDIDATES).select(["row", "_distance"]).to_arrow()
    return np.sort(rows["row"].to_numpy())


def write_approximate(
    folder: Path, blocks: Iterable[npt.NDArray[np.float32]], rows: int, width: int
) -> int:
    """Write the approximate form of unit rows.

    Args:
        folder: LanceDB's folder; it must not exist.
        blocks: Blocks of unit rows (n, d), in order.
        rows: Total number of rows.
        width: Length d of the rows.

    Returns:
        The number of partitions.

    Raises:
        PolyplinkError: If lancedb is not installed, or there are too few rows.
    """
    if rows < FEW:
        raise PolyplinkError(
            f"{many(rows, 'row')}: too few for an approximate form",
            "search the index as it is: it was written, and its search is exact",
        )
    lancedb = _lancedb()
    partitions: int = max(1, min(round(rows**0.5), rows // FEW))
    table = lancedb.connect(str(folder)).create_table(
        TABLE, _batches(blocks), schema=_schema(width)
    )
    config = lancedb.index.IvfRq(
        distance_type="l2", num_partitions=partitions, sample_rate=TRAINED, max_iterations=20
    )
    table.create_index("vector", config=config)
    return partitions


def _batches(blocks: Iterable[npt.NDArray[np.float32]]) -> Any:
    """Arrow batches of `row` and `vector`; float16 would make indexing five times slower."""
    import pyarrow as pa  # noqa: PLC0415 - an extra

    first = 0
    for unit in blocks:
        n, d = unit.shape
        filled = pa.array(_pad(unit).ravel())
        columns = [
            pa.array(np.arange(first, first + n)),
            pa.FixedSizeListArray.from_arrays(filled, _padded_width(d)),
        ]
        yield pa.record_batch(columns, schema=_schema(d))
        first += n


def _schema(width: int) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - an extra

    return pa.schema(
        [("row", pa.int64()), ("vector", pa.list_(pa.float32(), _padded_width(width)))]
    )


def _padded_width(width: int) -> int:
    return -(-width // OCTET) * OCTET


def _pad(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Rows (n, d) padded with zeros to a multiple of 8, which changes no distance."""
    return np.pad(rows, ((0, 0), (0, -rows.shape[1] % OCTET)))


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:  # the errors that LanceDB raises
        reason = first_line(error).partition(", /")[0]  # without paths of LanceDB's source
        raise PolyplinkError(
            f"{folder} cannot be read ({reason})", "search with --exact, or build the index again"
        ) from None


def _lancedb() -> Any:
    os.environ.setdefault("LANCE_LOG", "error")
    with extras_installed("approximate search"):
        import lancedb  # noqa: PLC0415 - an extra
    return lancedb
