"""Mutations of files for fuzzing readers: unusual numbers, names, values, headers and bytes."""

import contextlib
import json
import os
import random
import re
import struct
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.data.tables import read_table, write_table
from polyplink.encoders.weights import RECORD

NUMBERS = (
    *(b"nan", b"-nan", b"inf", b"-inf", b"1e400", b"1e30", b"-1e30", b"1e-320", b"-0", b"-1"),
    *(b"2147483647", b"2147483648", b"9223372036854775808", b"9" * 19, b"9" * 20, b"9" * 5000),
    *(b"1" + b"0" * 400, b"0x1F", b"1_000", b"", b" ", b"\xd9\xa3", b"0.5", b"true", b"null"),
)
NAMES = (
    *(b"\x00", b"\x1b[2J", b"\x07", b"\xed\xa0\x80", b"\xff\xfe", b"\xe2\x80\xae", b"../../x"),
    *(b"/etc/passwd", b"..", b".", b"", b" ", b"x" * 300, b"x" * 3000, b"=1+1", b"\r\n", b"\t"),
    *(b"&amp;", b"&x;", b"<a>", b"]]>", b'"', b"'", b",", b";", b"#12", b"!/", b"%00", b"\\"),
    *("é".encode(), "\N{ZERO WIDTH SPACE}".encode(), b"_", b"-1", b"9" * 20, b"9" * 5000),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, 10**400, -(10**30), 0.5, 1e30, 1e308),
    *(
        float("nan"),
        float("inf"),
        float("-inf"),
        "",
        " ",
        "nan",
        "1",
        "x" * 3000,
        "\x00",
        "\x1b[2J",
    ),
    *("\ud800", "../../x", "/etc/passwd", [], {}, [[]], [None], [0], {"a": 1}, [1, 2, 3, 4], [[1]]),
)


def invalid_number(data: bytes, rng: random.Random) -> bytes:
    """Replace one number of a text by one that is invalid for boxes and frames."""
    numbers = list(re.finditer(rb"\d+(?:\.\d+)?", data))
    if not numbers:
        return data
    number = rng.choice(numbers)
    invalid = rng.choice(
        [b"nan", b"-7", b"1e400", b"99999999999999999999", b"inf", b"", b"0x1F", b"x"]
    )
    return data[: number.start()] + invalid + data[number.end() :]


def flip(data: bytes, rng: random.Random) -> bytes:
    flipped = bytearray(data)
    for _ in range(rng.randrange(1, 4) if data else 0):
        flipped[rng.randrange(len(flipped))] = rng.randrange(256)
    return bytes(flipped)


def repeat_line(data: bytes, rng: random.Random, times: int) -> bytes:
    lines = data.splitlines(keepends=True)
    row = rng.randrange(len(lines)) if lines else 0
    return b"".join(lines[:row] + times * lines[row : row + 1] + lines[row + 1 :])


CORRUPTIONS: Mapping[str, Callable[[bytes, random.Random], bytes]] = {
    "cut": lambda data, rng: data[: rng.randrange(len(data) + 1)],
    "flip": flip,
    "number": invalid_number,
    "double": partial(repeat_line, times=2),
    "drop": partial(repeat_line, times=0),
    "encode": lambda data, rng: data.decode("latin-1").encode(rng.choice(["utf-16", "utf-32-be"])),
    "blot": lambda _, rng: rng.choice(
        [b"", b"\0" * 64, b"\xff\xfe\xfd", b"[]", b"{}", b"<a/>", b"\n\n"]
    ),
}


def number(data: bytes, rng: random.Random) -> bytes:
    """Replace one number by an unusual one."""
    return _replace(data, rb"\d+(?:\.\d+)?", rng.choice(NUMBERS), rng)


def name(data: bytes, rng: random.Random) -> bytes:
    """Replace one word by an unusual one, or append the unusual one to it."""
    odd = rng.choice(NAMES)
    return _replace(data, rb"[A-Za-z][\w./-]*", odd, rng, keep=rng.random() < 0.3)


def header(data: bytes, rng: random.Random) -> bytes:
    """Repeat a column of the first line, perhaps with blanks, or declare another encoding."""
    first, newline, rest = data.partition(b"\n")
    if first.startswith(b"<?xml"):
        encodings = (
            b"utf-7",
            b"cp1252",
            b"koi8-r",
            b"ucs-4",
            b"x",
            b"",
            b"utf-16",
            b"ascii",
            b"big5",
        )
        coded = b'<?xml version="1.0" encoding="' + rng.choice(encodings) + b'"?>'
        return coded + newline + rest
    words = first.split(b",")
    odd = rng.choice(words) + rng.choice([b"", b" ", b"  ", b"\t"])
    return b",".join([*words, odd]) + newline + rest


def splice(data: bytes, rng: random.Random) -> bytes:
    """Repeat a part, or remove it."""
    start, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return data[:start] + data[start:end] * rng.choice([0, 2, 3]) + data[end:]


def json_value(data: bytes, rng: random.Random) -> bytes:
    """Replace a value anywhere in a JSON file by an unusual one, or nest the file deeply."""
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError):
        return number(data, rng)
    if rng.random() < 0.02:
        return b"[" * 100_000 + b"]" * 100_000
    places_in_file: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner_value in inner:
            places_in_file.append((value, key))
            if isinstance(inner_value, dict | list):
                walk(inner_value)

    if isinstance(parsed, dict | list):
        walk(parsed)
    if not places_in_file or rng.random() < 0.03:
        return json.dumps(rng.choice(VALUES)).encode()
    holder, key = rng.choice(places_in_file)
    how = rng.random()
    if how < 0.75:
        holder[key] = rng.choice(VALUES)
    elif how < 0.9:
        del holder[key]
    elif isinstance(holder, dict):
        holder[rng.choice(["x" * 500, "", "\x1b", "../x", key])] = holder.pop(key)
    else:
        holder.append(holder[key])
    return json.dumps(parsed).encode()


def tar_header(data: bytes, rng: random.Random) -> bytes:
    """Replace a header field of an uncompressed tar by an unusual one, with a valid checksum."""
    blocks = [i for i in range(0, len(data) - 511, 512) if data[i + 257 : i + 262] == b"ustar"]
    if not blocks:
        return flip_many(data, rng)
    at = rng.choice(blocks)
    block = bytearray(data[at : at + 512])
    field = rng.choice(["size", "size", "name", "kind"])
    if field == "size":
        sizes = [b"77777777777\0", b"\x80" + b"\xff" * 11, b"\x80" + bytes(6) + b"\x0f" + bytes(4)]
        block[124:136] = rng.choice([*sizes, b"00000000000\0", b"-0000000001\0", b"           \0"])
    elif field == "name":
        block[:100] = rng.choice(NAMES)[:100].ljust(100, b"\0")
    else:
        block[156:157] = rng.choice([b"L", b"K", b"x", b"g", b"5", b"1", b"S", b"\xff"])
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return data[:at] + bytes(block) + data[at + 512 :]


def flip_many(data: bytes, rng: random.Random) -> bytes:
    """Overwrite several bytes, half of the time near the beginning."""
    damaged = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5, 20]) if data else 0):
        near = rng.random() < 0.5
        damaged[rng.randrange(min(len(damaged), 256) if near else len(damaged))] = rng.randrange(
            256
        )
    return bytes(damaged)


def table(path: Path, rng: random.Random) -> None:
    """Change values, columns or rows of a table, and write it with a valid checksum."""
    rows_and_columns = read_table(path, "")
    column = rng.choice(rows_and_columns.columns)
    odd = rng.choice(VALUES)
    how = rng.choice(["value", "value", "column", "drop", "rename", "again", "type", "none"])
    if how in ("value", "column") and rows_and_columns.height:
        row = rng.randrange(rows_and_columns.height)
        values = [
            odd if how == "column" or k == row else v
            for k, v in enumerate(rows_and_columns[column])
        ]
        new = pl.Series(column, values, strict=False)
        kind = rows_and_columns.schema[column] if rng.random() < 0.7 else new.dtype
        rows_and_columns = rows_and_columns.with_columns(new.cast(kind, strict=False))
    elif how == "drop":
        rows_and_columns = rows_and_columns.drop(column)
    elif how == "rename":
        rows_and_columns = rows_and_columns.rename(
            {column: str(odd)[:50].encode("utf-8", "replace").decode()}
        )
    elif how == "again":
        rows_and_columns = pl.concat(
            [rows_and_columns, rows_and_columns[: rng.randrange(rows_and_columns.height + 1)]]
        )
    elif how == "type":
        kinds = (pl.String, pl.Float32, pl.Int8, pl.Boolean, pl.Categorical, pl.Date, pl.Binary)
        rows_and_columns = rows_and_columns.with_columns(
            pl.col(column).cast(rng.choice(kinds), strict=False)
        )
    else:
        rows_and_columns = rows_and_columns.clear()
    metadata = {k: v for k, v in pl.read_parquet_metadata(path).items() if k != "ARROW:schema"}
    write_table(path, rows_and_columns, metadata)


def _replace(
    data: bytes, pattern: bytes, odd: bytes, rng: random.Random, keep: bool = False
) -> bytes:
    spans = [match.span() for match in re.finditer(pattern, data[: 1 << 18])]
    if not spans:
        return odd
    start, end = rng.choice(spans)
    return data[:start] + (data[start:end] if keep else b"") + odd + data[end:]


HOW: Mapping[str, Callable[[bytes, random.Random], bytes]] = {
    **CORRUPTIONS,
    "number": number,
    "name": name,
    "header": header,
    "splice": splice,
    "many": flip_many,
}
TABLE_FILES = ("detections.parquet", "procedures.parquet", "polyps.parquet", "vectors.parquet")
POLARS = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
_BINARY = ("cut", "flip", "many", "splice", "blot")


def spoil(path: Path, rng: random.Random) -> str:
    """Mutate one file, usually in a way specific to its type, and return the mutation's name."""
    data, ending = path.read_bytes(), path.suffix.lower()
    how = rng.choice(_BINARY if b"\0" in data[:4096] else [*HOW])
    if ending in (".json", ".safetensors") and rng.random() < 0.7:
        how = "json"
    elif ending == ".tar" and rng.random() < 0.7:
        how = "tar"
    # Only tables that users may write, too: polyplink trusts its own files if the checksum holds.
    is_user_table = path.name in TABLE_FILES and "prepared" not in path.parts
    if is_user_table and rng.random() < 0.6:
        with contextlib.suppress(PolyplinkError, *POLARS, AttributeError, TypeError, ValueError):
            table(path, rng)
            return "table"
    odd = {"json": json_value, "tar": tar_header, **HOW}[how]
    # Errors of a file that an earlier mutation has broken.
    broken = (ValueError, struct.error, KeyError, AttributeError, TypeError, RecursionError)
    with contextlib.suppress(*broken):
        if ending == ".safetensors" and how == "json":  # a record in JSON in a header in JSON
            size = struct.unpack("<Q", data[:8])[0]
            head = json.loads(data[8 : 8 + size])
            record = odd(head["__metadata__"][RECORD].encode(), rng)
            head["__metadata__"][RECORD] = record.decode("utf-8", "replace")
            new = json.dumps(head).encode()
            path.write_bytes(struct.pack("<Q", len(new)) + new + data[8 + size :])
            return how
    path.write_bytes(odd(data, rng))
    return how


def misplace(folder: Path, path: Path, rng: random.Random) -> str:
    """Rename or delete a file, or replace it by a folder, and return the mutation's name."""
    how = rng.choice(["delete", "folder", "rename", "rename", "rename"])
    if how == "rename":
        stem = re.sub(rb"\d+", lambda _: rng.choice(NUMBERS), os.fsencode(path.stem), count=1)
        new = rng.choice([stem, rng.choice(NAMES)]).replace(b"/", b"").replace(b"\0", b"")[:200]
        with contextlib.suppress(OSError):
            path.rename(os.fsdecode(os.fsencode(path.parent) + b"/" + new + path.suffix.encode()))
        return how
    path.unlink()
    if how == "folder":
        path.mkdir()
    return how
