"""Large lists of JSON records as columns, tolerant of values of mixed types.

Values keep their type until a column is asked for, so that a malformed value is null in its row
instead of an error for the file (a typed decoder such as that of msgspec would refuse the file).
"""

import gc
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from polyplink.core.errors import PolyplinkError, first_line


def load_json(path: Path) -> Any:
    """Read a large JSON file.

    Args:
        path: The file; a byte order mark is skipped.

    Raises:
        PolyplinkError: If it is missing, unreadable, truncated, not UTF-8 or not JSON.
    """
    collecting = gc.isenabled()
    gc.disable()  # millions of small objects are made and none is dropped: half the time
    try:
        return json.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise PolyplinkError(f"{path} is missing", "check the path") from None
    except OSError as error:
        raise PolyplinkError(f"{path}: {error.strerror or error}", "check the file") from None
    except UnicodeDecodeError:
        raise PolyplinkError(f"{path} is not UTF-8 text", "save it as UTF-8") from None
    except (json.JSONDecodeError, RecursionError) as error:
        raise PolyplinkError(
            f"{path} is not whole JSON ({first_line(error)})", "export or download it again"
        ) from None
    finally:
        if collecting:
            gc.enable()


class Records:
    """A list of JSON records, read a column at a time.

    Args:
        value: What stands in the file; None stands for no records.
        what: Its name, for the message.

    Raises:
        PolyplinkError: If it is no list of records.
    """

    def __init__(self, value: Any, what: str) -> None:
        rows = [] if value is None else value
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise PolyplinkError(f"{what} is no list of records", "export it as COCO again")
        self._rows: list[dict[str, Any]] = rows
        self.keys = frozenset[str]().union(*set(map(tuple, rows)))

    def values(self, *keys: str) -> list[Any]:
        """Values under the first of several keys that a record has; None where it has none."""
        used = [key for key in keys if key in self.keys]
        if not used:
            return [None] * len(self._rows)
        if len(used) == 1:
            return [row.get(used[0]) for row in self._rows]
        return [
            next((v for k in used if (v := row.get(k)) is not None), None) for row in self._rows
        ]

    def texts(self, *keys: str) -> pl.Series:
        """Names and ids as text: 7, 7.0 and "7" are equal."""
        values = self.values(*keys)
        first = next((value for value in values if value is not None), "")
        try:  # values of one type, as most columns have: twice as fast
            dtype = pl.Int64 if type(first) is int else pl.String
            column = pl.Series(values, dtype=dtype, strict=True).cast(pl.String)
        except (TypeError, OverflowError, pl.exceptions.PolarsError):
            column = pl.Series(values, dtype=pl.String, strict=False)
        return column.str.replace(r"^(-?\d+)\.0$", "${1}")

    def numbers(self, *keys: str) -> pl.Series:
        """Numbers as Float64, numbers written as text included; null for anything else."""
        return pl.Series(self.values(*keys), dtype=pl.Float64, strict=False)

    def boxes(self, key: str) -> pl.DataFrame:
        """N rows of x, y, w, h (Float64); null where the value is not a list of four numbers."""
        column = self.values(key)
        try:
            table = np.array(column, dtype=np.float64).reshape(len(column), 4)  # n x 4
            return pl.DataFrame({side: table[:, i] for i, side in enumerate("xywh")})
        except (TypeError, ValueError, OverflowError):  # a value is malformed
            rows = [v if isinstance(v, list) and len(v) == 4 else [None] * 4 for v in column]
            sides = list(zip(*rows, strict=True))
            return pl.DataFrame(
                {
                    side: pl.Series(sides[i], dtype=pl.Float64, strict=False)
                    for i, side in enumerate("xywh")
                }
            )
