"""The approximate form of an index: LanceDB's inverted file of one bit a number (RaBitQ).

It gives candidates, whose similarities are then computed exactly, so what it can lose is a
neighbour, never its figure. How many it loses is measured against the exact search and kept with
the index: its recall.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from polyplink.core.errors import PolyplinkError, first_line
from polyplink.core.extras import extras_installed

CANDIDATES = 20  # that are compared exactly for each neighbour that is wanted
PROBES = 0.05  # share of the partitions that a search reads
TRAINED = 64  # vectors a partition that the partitions are trained on
FEW = 256  # rows of a partition, at least
OCTET = 8  # the code of a vector is whole bytes: zeros fill the last
TABLE = "vectors"


def open_table(folder: Path) -> Any:
    """What `write_approximate` wrote, for `candidates`.

    Raises:
        PolyplinkError: If lancedb is not installed, or the folder is damaged.
    """
    lancedb = _lancedb()
    with _readable(folder):
        return lancedb.connect(str(folder)).open_table(TABLE)


def candidates(
    table: Any, partitions: int, query: npt.NDArray[np.float64], k: int
) -> npt.NDArray[np.int64]:
    """Rows among which the k most similar to a unit vector (d,) are likely to be, in order.

    Raises:
        PolyplinkError: If the files of the table are damaged.
    """
    probes = max(8, round(partitions * PROBES))
    vector = _filled(query[None].astype(np.float32))[0]
    search = table.search(vector).distance_type("l2").nprobes(probes)
    with _readable(Path(table.uri)):
        rows = search.limit(k * CANDIDATES).select(["row", "_distance"]).to_arrow()
    return np.sort(rows["row"].to_numpy())


def write_approximate(
    folder: Path, blocks: Iterable[npt.NDArray[np.float32]], rows: int, width: int
) -> dict[str, Any]:
    """Write the approximate form of unit rows.

    Args:
        folder: For LanceDB; it must not exist.
        blocks: Unit rows (n, d), in their order.
        rows: How many in all.
        width: d.

    Returns:
        What the index records: rows and partitions.

    Raises:
        PolyplinkError: If lancedb is not installed, or there are too few rows.
    """
    PolyplinkError.unless(
        rows >= FEW,
        f"{rows} rows are too few for an approximate form",
        "search the index as it is: it was written, and its search is exact",
    )
    lancedb, partitions = _lancedb(), max(1, min(round(rows**0.5), rows // FEW))
    table = lancedb.connect(str(folder)).create_table(
        TABLE, _batches(blocks), schema=_schema(width)
    )
    config = lancedb.index.IvfRq(
        distance_type="l2", num_partitions=partitions, sample_rate=TRAINED, max_iterations=20
    )
    table.create_index("vector", config=config)
    return {"rows": rows, "partitions": partitions}


def _batches(blocks: Iterable[npt.NDArray[np.float32]]) -> Any:
    """Arrow batches of `row` and `vector`; of half precision the index takes five times as long."""
    import pyarrow as pa  # noqa: PLC0415 - an extra

    first = 0
    for unit in blocks:
        n, d = unit.shape
        filled = pa.array(_filled(unit).ravel())
        columns = [
            pa.array(np.arange(first, first + n)),
            pa.FixedSizeListArray.from_arrays(filled, _padded(d)),
        ]
        yield pa.record_batch(columns, schema=_schema(d))
        first += n


def _schema(width: int) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - an extra

    return pa.schema([("row", pa.int64()), ("vector", pa.list_(pa.float32(), _padded(width)))])


def _padded(width: int) -> int:
    return -(-width // OCTET) * OCTET


def _filled(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Rows (n, d) with zeros up to whole octets, which change no distance."""
    return np.pad(rows, ((0, 0), (0, -rows.shape[1] % OCTET)))


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:  # LanceDB's
        reason = first_line(error).partition(", /")[0]  # without places in LanceDB's program
        raise PolyplinkError(
            f"{folder} cannot be read ({reason})", "search with --exact, or build the index again"
        ) from None


def _lancedb() -> Any:
    os.environ.setdefault("LANCE_LOG", "error")
    with extras_installed("approximate search"):
        import lancedb  # noqa: PLC0415 - an extra
    return lancedb
