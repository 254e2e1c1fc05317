"""JSON records that are written alike, read a column at a time: the fast path of COCO files.

A file may hold millions of boxes with the same keys in the same order, written without line breaks.
Those whose values are numbers, plain text and null are cut out of it before it is parsed: the
records are split at their keys, and every column is checked by one regular expression. A mark takes
the place of each run of them. The parser, to which all else is left, says where the runs stand.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from secrets import token_hex
from typing import Any

import numpy as np
import polars as pl

_BLOCK = 1 << 24  # bytes that are looked at together
_SHAPES = 8  # different lists of keys that are looked for in a block
_ID = r"(?:0|-?[1-9]\d{0,14})"
_EXACT = r"(?:0|-?[1-9]\d{0,14})(?:\.\d{1,25})?|-0\.0{0,20}[1-9]\d{0,24}"  # not -0, which may be 0
_NUMBER = rf"(?:(?:{_EXACT})(?:[eE][-+]?\d{{1,2}})?)"
_TEXT = r'"[ !#-\[\]-~]*"'  # ASCII without escapes
_SCALAR = rf"(?:{_NUMBER}|{_TEXT}|null|true|false)"
_LIST = rf"\[(?:{_SCALAR}(?:, ?{_SCALAR})*)?\]"
_OTHER = rf"{_SCALAR}|{_LIST}|\[{_LIST}(?:, ?{_LIST})*\]"
_SIDES = rf"\[{_NUMBER}(?:, ?{_NUMBER}){{3}}\]|null"


class PlainRecords:
    """The plain records of one list of a file, as `read_records` reads them, and where they stand.

    Attributes:
        mark: The only key of a record that stands for a run, which no file can know; its value is
            the number of records in the run.
        count: Number of records cut out.
        seen: Keys that any of them has.
    """

    def __init__(self, columns: Mapping[str, Sequence[str]], numbers: Collection[str]) -> None:
        """Prepare for columns, each with the keys that may hold it; `bbox` holds four numbers."""
        self.mark = f"run-{token_hex(8)}"
        self._columns, self._numbers = columns, numbers
        self._column_of = {key: name for name, keys in columns.items() for key in keys}
        self.clear()

    def clear(self) -> None:
        """Forget all records."""
        self.count, self.seen = 0, set[str]()
        self._tables: list[pl.DataFrame] = []

    def cut_out(self, data: bytes, name: str, must: str) -> bytes:
        """The file without its plain records.

        Args:
            data: The file.
            name: The list's key, or "" for a file that is one list.
            must: A key that every record has.
        """
        before = rb'"%s": ?\[' % name.encode() if name else rb"^\["
        found = re.search(before + rb'(\{"\w+":( ?))', data)
        if found is None or (end := data.find(b"}]", found.end())) < 0:
            return data
        return b"".join(self._cut(data, found, end, must))

    def _cut(self, data: bytes, found: re.Match[bytes], end: int, must: str) -> Iterator[bytes]:
        """As `cut_out`, of records from the first, `found`, to the closing brace at `end`."""
        start, opening, space = found.start(1), found[1], found[2]
        yield data[:start]
        joint, mark = b"}," + space + opening, self.mark.encode()
        while start < end:
            stop = end
            if end - start > _BLOCK:
                stop = data.rfind(joint, start, start + _BLOCK)
                stop = data.find(joint, start, end) if stop < 0 else stop
                stop = end if stop < 0 else stop
            records = data[start + len(opening) : stop].split(joint)
            start = stop if stop == end else stop + 2 + len(space)
            plain = self._read(records, opening, space, must)
            pieces, run = list[bytes](), 0
            for record, is_plain in zip(records, [*plain], strict=True):
                run += is_plain
                if run and not is_plain:
                    pieces.append(b'{"%s":%d}' % (mark, run))
                    run = 0
                if not is_plain:
                    pieces.append(opening + record + b"}")
            if run:
                pieces.append(b'{"%s":%d}' % (mark, run))
            yield b",".join(pieces) + (b"," if stop < end else b"")
        yield data[end + 1 :]

    def _read(
        self, records: Sequence[bytes], opening: bytes, space: bytes, must: str
    ) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        """Add the plain ones of n records, without their opening, to the tables; which they are."""
        plain = np.zeros(len(records), dtype=np.bool_)
        one_line = [record.isascii() and b"\n" not in record for record in records]
        left = np.flatnonzero(one_line)
        tables = []
        for _ in range(_SHAPES):
            if not len(left):
                break
            try:
                keys = list(json.loads(opening + records[int(left[0])] + b"}"))
            except (ValueError, RecursionError):
                keys = []
            if must not in keys or not all(re.fullmatch(r"\w+", k, re.A) for k in keys):
                left = left[1:]
                continue
            text = b"\n".join([records[i] for i in left.tolist()]).decode("ascii")
            lines = pl.Series("line", text.split("\n"))
            found = self._columns_of(lines, keys, space.decode())
            fits = found["fits"].to_numpy()
            table = found.filter("fits").drop("fits").with_columns(order=pl.Series(left[fits]))
            tables.append(table)
            self.seen.update(keys if table.height else ())
            plain[left[fits]] = True
            left = left[~fits][int(not fits[0]) :]
        if tables:
            self._tables.append(pl.concat(tables, how="diagonal").sort("order").drop("order"))
            self.count += int(plain.sum())
        return plain

    def _columns_of(self, lines: pl.Series, keys: Sequence[str], space: str) -> pl.DataFrame:
        """`read_records` of lines, `1, "image_id": 7 ...`, and whether each fits the keys."""
        parts = lines.str.splitn(f',{space}"', len(keys)).struct.rename_fields(keys)
        fits, values = [], {}
        for place, key in enumerate(keys):
            name = self._column_of.get(key)
            value = _OTHER if name is None else rf"{_ID}|{_TEXT}|null"
            value = _SIDES if name == "bbox" else value
            value = rf"{_NUMBER}|null" if name in self._numbers else value
            before = f'{key}":{space}' if place else ""
            fits.append(pl.col(key).str.contains(rf"^{before}(?:{value})$").fill_null(False))
            values[key] = pl.col(key).str.slice(len(before))
            if name == "bbox":
                values[key] = pl.col(key).str.slice(len(before) + 1).str.strip_suffix("]")
            elif name is not None and name not in self._numbers:  # "7.0" is the id 7
                fits.append(~pl.col(key).str.ends_with('.0"').fill_null(True))
        columns: dict[str, pl.Expr] = {}
        for name, several in self._columns.items():
            given = [values[key] for key in several if key in keys]
            given = [pl.when(each != "null").then(each) for each in given]
            column = pl.coalesce(given) if given else pl.lit(None, dtype=pl.String)
            if name == "bbox":
                columns[name] = column.str.splitn(",", 4)
            elif name in self._numbers:
                columns[name] = column.cast(pl.Float64, strict=False)
            else:
                columns[name] = column.str.strip_chars('"')
        table = parts.struct.unnest().select(fits=pl.all_horizontal(fits), **columns)
        if "bbox" not in columns:
            return table
        sides = (pl.col("bbox").struct.field(f"field_{i}").str.strip_chars() for i in range(4))
        numbers = (side.cast(pl.Float64, strict=False) for side in sides)
        return table.with_columns(**dict(zip("xywh", numbers, strict=True))).drop("bbox")

    def are_in(self, rows: Any) -> bool:
        """Whether a list has all the runs: their mark may stand elsewhere, and be lost there."""
        if not self.count:
            return True
        mark = self.mark
        return isinstance(rows, list) and self.count == sum(
            row[mark] for row in rows if isinstance(row, dict) and mark in row
        )

    def with_others(self, rows: Sequence[Mapping[str, Any]], others: pl.DataFrame) -> pl.DataFrame:
        """The table of all records, in the order of the file.

        Args:
            rows: The list as parsed, with marks.
            others: The table of its rows without marks.
        """
        if not self.count:
            return others
        lengths = np.array([row.get(self.mark, 0) for row in rows], dtype=np.int64)
        odd = lengths == 0
        ends = np.cumsum(np.where(odd, 1, lengths))
        inside = np.repeat(ends - np.cumsum(lengths), lengths) + np.arange(self.count)
        plain = pl.concat(self._tables).with_columns(order=pl.Series(inside))
        others = others.with_columns(order=pl.Series(ends[odd] - 1))
        return pl.concat([others, plain], how="diagonal").sort("order").drop("order")
