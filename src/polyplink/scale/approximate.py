"""The approximate form of an index: LanceDB's inverted file with product quantisation.

It gives candidates, whose similarities are then computed exactly, so what it can lose is a
neighbour, never its figure. How many it loses is measured against the exact search and kept with
the index: its recall.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from polyplink.core.errors import PolyplinkError
from polyplink.core.extras import extras_installed

CANDIDATES = 50  # that are compared exactly for each neighbour that is wanted
PROBES = 0.02  # share of the partitions that a search reads
TRAINED = 64  # vectors a partition that the partitions are trained on
FEW = 256  # rows that product quantisation needs at least
TABLE = "vectors"


def open_table(folder: Path) -> Any:
    """What `write_approximate` wrote, for `candidates`.

    Raises:
        PolyplinkError: If lancedb is not installed.
    """
    return _lancedb().connect(str(folder)).open_table(TABLE)


def candidates(
    table: Any, partitions: int, query: npt.NDArray[np.float64], k: int
) -> npt.NDArray[np.int64]:
    """Rows among which the k most similar to a unit vector (d,) are likely to be, in order."""
    probes = max(8, round(partitions * PROBES))
    search = table.search(query.astype(np.float32)).distance_type("l2").nprobes(probes)
    found = search.limit(k * CANDIDATES).select(["row", "_distance"]).to_arrow()
    return np.sort(found["row"].to_numpy())


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
        What the index records: rows, partitions, and the bytes of a code.

    Raises:
        PolyplinkError: If lancedb is not installed, or there are too few rows.
    """
    PolyplinkError.unless(
        rows >= FEW, f"{rows} rows are too few to search approximately", "leave --approximate out"
    )
    lancedb, partitions = _lancedb(), max(1, min(round(rows**0.5), rows // FEW))
    table = lancedb.connect(str(folder)).create_table(
        TABLE, _batches(blocks), schema=_schema(width)
    )
    codes = next(n for n in (8, 4, 2, 1) if width % n == 0)  # numbers that share a byte
    config = lancedb.index.IvfPq(
        distance_type="l2",
        num_partitions=partitions,
        num_sub_vectors=width // codes,
        sample_rate=TRAINED,
        max_iterations=20,
    )
    table.create_index("vector", config=config)
    return {"rows": rows, "partitions": partitions, "code_bytes": width // codes}


def _batches(blocks: Iterable[npt.NDArray[np.float32]]) -> Any:
    """Arrow batches of `row` and `vector` in half precision: only candidates come from them."""
    import pyarrow as pa  # noqa: PLC0415 - an extra

    first = 0
    for unit in blocks:
        n, d = unit.shape
        flat = pa.array(unit.astype(np.float16).ravel())
        columns = [
            pa.array(np.arange(first, first + n)),
            pa.FixedSizeListArray.from_arrays(flat, d),
        ]
        yield pa.record_batch(columns, schema=_schema(d))
        first += n


def _schema(width: int) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - an extra

    return pa.schema([("row", pa.int64()), ("vector", pa.list_(pa.float16(), width))])


def _lancedb() -> Any:
    os.environ.setdefault("LANCE_LOG", "error")
    with extras_installed("approximate search"):
        import lancedb  # noqa: PLC0415 - an extra
    return lancedb
