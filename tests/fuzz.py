"""Mutated files of every kind: read, or refused with one line; never another exception.

`make fuzz N=100000` runs cases for hours and prints what it found. A case is a number: it says
which target, which file and how it is spoilt, so that a case that failed can be run again alone
(`python -m tests.fuzz --case 123`).
"""

import argparse
import contextlib
import faulthandler
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import simplejpeg
import torch
from PIL import Image

from polyplink.associate import from_record
from polyplink.core.artefacts import read_json
from polyplink.core.errors import PolyplinkError
from polyplink.data import (
    check_splits,
    convert,
    diagnose,
    import_masks,
    read_data,
    write_data,
)
from polyplink.data.image_files import decode_size
from polyplink.data.vocabulary import find_maps
from polyplink.encoders import Seen, WeightsRecord, load_encoder, save_weights
from polyplink.encoders.weights import RECORD
from polyplink.recipes import find_recipe, override
from polyplink.tracklets import PrepareSettings, prepare
from tests.data.made_sets import seen_set, small_set
from tests.data.packed import files_of, pack
from tests.data.test_corrupted import SPOIL, write_every_format
from tests.encoders.small import SFE, TRANSFORMER, crops, made
from tests.samples import write_procedures

SLOW = 5.0  # seconds of the processor that no file of less than a megabyte may take
HANGS = 120.0  # seconds after which the whole run ends, for what no exception interrupts

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


def number(data: bytes, rng: random.Random) -> bytes:
    """One number becomes an odd one."""
    return _replace(data, rb"\d+(?:\.\d+)?", rng.choice(NUMBERS), rng)


def name(data: bytes, rng: random.Random) -> bytes:
    """One word becomes an odd one, or gets an odd part."""
    odd = rng.choice(NAMES)
    return _replace(data, rb"[A-Za-z][\w./-]*", odd, rng, keep=rng.random() < 0.3)


def header(data: bytes, rng: random.Random) -> bytes:
    """The first line gets a column twice, with blanks, or another encoding."""
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
    """A part is repeated, or taken out."""
    start, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return data[:start] + data[start:end] * rng.choice([0, 2, 3]) + data[end:]


def json_value(data: bytes, rng: random.Random) -> bytes:
    """A value anywhere in a JSON file becomes an odd one; or the file is nested deeply."""
    try:
        whole = json.loads(data)
    except (ValueError, RecursionError):
        return number(data, rng)
    if rng.random() < 0.02:
        return b"[" * 100_000 + b"]" * 100_000
    spots: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in inner:
            spots.append((value, key))
            if isinstance(each, dict | list):
                walk(each)

    if isinstance(whole, dict | list):
        walk(whole)
    if not spots or rng.random() < 0.03:
        return json.dumps(rng.choice(VALUES)).encode()
    holder, key = rng.choice(spots)
    how = rng.random()
    if how < 0.75:
        holder[key] = rng.choice(VALUES)
    elif how < 0.9:
        del holder[key]
    elif isinstance(holder, dict):
        holder[rng.choice(["x" * 500, "", "\x1b", "../x", key])] = holder.pop(key)
    else:
        holder.append(holder[key])
    return json.dumps(whole).encode()


def tar_header(data: bytes, rng: random.Random) -> bytes:
    """A field of a header of a plain tar becomes an odd one, with a right checksum."""
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
    """Several bytes become others; most often near the beginning."""
    spoilt = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5, 20]) if data else 0):
        near = rng.random() < 0.5
        spoilt[rng.randrange(min(len(spoilt), 256) if near else len(spoilt))] = rng.randrange(256)
    return bytes(spoilt)


def _replace(
    data: bytes, pattern: bytes, odd: bytes, rng: random.Random, keep: bool = False
) -> bytes:
    found = [match.span() for match in re.finditer(pattern, data[: 1 << 18])]
    if not found:
        return odd
    start, end = rng.choice(found)
    return data[:start] + (data[start:end] if keep else b"") + odd + data[end:]


HOW: Mapping[str, Callable[[bytes, random.Random], bytes]] = {
    **SPOIL,
    "number": number,
    "name": name,
    "header": header,
    "splice": splice,
    "many": flip_many,
}
_BINARY = ("cut", "flip", "many", "splice", "blot")


def spoil(path: Path, rng: random.Random) -> str:
    """Spoil one file, mostly as its kind can be; returns how."""
    data, ending = path.read_bytes(), path.suffix.lower()
    how = rng.choice(_BINARY if b"\0" in data[:4096] else [*HOW])
    if ending in (".json", ".safetensors") and rng.random() < 0.7:
        how = "json"
    elif ending == ".tar" and rng.random() < 0.7:
        how = "tar"
    odd = {"json": json_value, "tar": tar_header, **HOW}[how]
    with contextlib.suppress(ValueError, struct.error, KeyError, AttributeError, TypeError):
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
    """Give a file an odd name, or put a folder or nothing in its place; returns how."""
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


@dataclass(frozen=True)
class Target:
    """Something that reads files.

    Attributes:
        name: Its name.
        files: The folder of whole files.
        read: Called with a folder of spoilt ones.
        pack: Ending of an archive that the spoilt files are packed into, or "".
    """

    name: str
    files: Path
    read: Callable[[Path], object]
    pack: str = ""


def _import(read: Callable[[Path], Any], folder: Path) -> None:
    """Import, and go on as the next command would."""
    imported = read(folder)
    "\n".join(imported.warnings).encode()
    with tempfile.TemporaryDirectory() as out:
        write_data(Path(out), imported.data)
        data = read_data(Path(out))
        diagnose(data, images=True, folder=Path(out))
        for form in ("coco", "cvat"):
            with contextlib.suppress(PolyplinkError):
                convert(data, form, Path(out) / form)


def _data_folder(folder: Path) -> None:
    data = read_data(folder)
    diagnose(data, images=False, folder=folder)
    prepare(folder, PrepareSettings(size=8, min_length=2), workers=1, with_crops=False)


def _prepared(folder: Path) -> None:
    prepared = prepare(folder, PrepareSettings(size=8), workers=1)
    for procedure in prepared.procedures:
        np.asarray(prepared.crops(procedure)).sum()


def _weights(folder: Path) -> None:
    (path,) = folder.iterdir()
    loaded = load_encoder(path, torch.device("cpu"))
    record = loaded.record
    if record is not None:
        from_record(record.operating)
        replace(record.prepare, size=8)
    loaded.encoder(crops(2, 32), [2])


def _images(folder: Path) -> None:
    for path in folder.iterdir():
        decode_size(path.read_bytes())


def _recipes(folder: Path) -> None:
    (path,) = folder.iterdir()
    given = path.read_bytes().decode("utf-8", "replace")
    recipe, *assignments = given.split("\n")
    override(find_recipe(recipe), assignments)


def _json(folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        if path.stem == "map":
            find_maps(str(path))
        elif path.stem == "splits":
            check_splits(read_json(path), small_set().procedures, str(path))
        elif path.stem == "operating":
            from_record(read_json(path))


def targets(root: Path) -> list[Target]:
    """Write whole files of every kind below `root`."""
    found = []
    for form, read in write_every_format(root / "formats").items():
        files = root / "formats" / form
        found.append(Target(form, files, partial(_import, read)))
        if form not in ("mot", "yolo", "coco", "csv"):
            for ending in (".zip", ".tar", ".tar.gz"):
                found.append(Target(f"{form}{ending}", files, partial(_import, read), ending))
    masks = root / "masks"
    for k, folder in enumerate(("images", "masks")):
        (masks / folder).mkdir(parents=True)
        for frame in range(3):
            pixels = np.zeros((48, 64), np.uint8)
            pixels[8:20, 10:30] = 255 * k
            Image.fromarray(pixels).save(masks / folder / f"case_{frame}.png")
    found.append(Target("masks", masks, partial(_import, import_masks)))
    write_data(root / "tables", seen_set())
    found.append(Target("tables", root / "tables", _data_folder))
    data = write_procedures(root / "made", procedures=1, views=1, length=8)
    shutil.copytree(root / "made" / "frames", data / "frames")
    here = read_data(data)
    write_data(
        data, replace(here, procedures=here.procedures.with_columns(source=pl.lit("frames")))
    )
    found.append(Target("frames", data, _prepared))
    images = root / "images"
    images.mkdir()
    noise = np.random.default_rng(0).integers(0, 255, (24, 32, 3)).astype(np.uint8)
    (images / "a.jpg").write_bytes(simplejpeg.encode_jpeg(noise))
    for ending in ("png", "bmp", "tif", "gif", "webp"):
        Image.fromarray(noise).save(images / f"a.{ending}")
    found.append(Target("images", images, _images))
    for kind, config in (("sfe", SFE), ("transformer", TRANSFORMER)):
        (root / kind).mkdir()
        record = WeightsRecord(
            config,
            PrepareSettings(size=32),
            {"name": "x"},
            Seen("k", (("s", "p", "q"),)),
            {"epoch": 1},
        )
        save_weights(root / kind / "weights.safetensors", made(config), record)
        found.append(Target(f"weights {kind}", root / kind, _weights))
    (root / "recipe").mkdir()
    lines = ["ntssl", "optim.epochs=3", "loss.kind=ntxent", "bags.kind=pairs", "prepare.size=32"]
    (root / "recipe" / "recipe.txt").write_text("\n".join(lines))
    found.append(Target("recipe", root / "recipe", _recipes))
    (root / "json").mkdir()
    names = small_set().procedures["procedure_id"].to_list()
    words = {"sun": {"SSL": False}, "mine": {"x": True, "y": None}}
    (root / "json" / "map.json").write_text(json.dumps(words))
    (root / "json" / "splits.json").write_text(json.dumps({"train": names[:1], "test": names[1:]}))
    found.append(Target("json", root / "json", _json))
    return found


@dataclass(frozen=True)
class Failure:
    """A case that was not read and not refused: which, how it was made, and the trace."""

    case: int
    target: str
    file: str
    what: str
    trace: str


def run_case(case: int, every: list[Target], work: Path) -> Failure | None:
    """Run one case; None if its files were read, or refused with one line."""
    rng = random.Random(case)
    target = every[rng.randrange(len(every))]
    folder = work / "case"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(target.files, folder)
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    hows = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        path = rng.choice(paths)
        if path.is_file():
            moved = rng.random() < 0.12 and len(paths) > 1
            hows.append(f"{path.name} {misplace(folder, path, rng) if moved else spoil(path, rng)}")
    read_from = folder
    if target.pack:
        read_from = work / "packed"
        shutil.rmtree(read_from, ignore_errors=True)
        archive = _packed(read_from / f"a{target.pack}", folder)
        if rng.random() < 0.5:
            hows.append(f"archive {spoil(archive, rng)}")
    start = time.process_time()
    made_of = ", ".join(hows)
    faulthandler.dump_traceback_later(HANGS, exit=True)  # what no exception can interrupt
    signal.alarm(int(HANGS / 2))
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            target.read(read_from)
    except PolyplinkError as error:
        if len(str(error).splitlines()) != 1:
            return Failure(case, target.name, made_of, "message of several lines", str(error))
    except OSError as error:
        if error.errno is None:
            return Failure(case, target.name, made_of, repr(error)[:200], traceback.format_exc())
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)
        inner = next((f for f in reversed(last) if "/polyplink/" in f.filename), last[-1])
        place = f"{Path(inner.filename).name}:{inner.lineno}"
        what = f"{type(error).__name__} at {place}"
        return Failure(case, target.name, made_of, what, traceback.format_exc())
    finally:
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()
    if (seconds := time.process_time() - start) > SLOW:
        return Failure(case, target.name, made_of, f"took {seconds:.1f} s", "")
    return None


def _packed(path: Path, folder: Path) -> Path:
    files = {
        os.fsencode(name).decode("utf-8", "replace"): b for name, b in files_of(folder).items()
    }
    return pack(path, files)


def _give_up(*_: object) -> None:
    raise RuntimeError("hang")


def failures(first: int, count: int) -> Iterator[Failure | None]:
    """Run `count` cases from case `first` on; None for those that did not fail."""
    with tempfile.TemporaryDirectory(prefix="polyplink-fuzz-") as root:
        every = targets(Path(root) / "whole")
        signal.signal(signal.SIGALRM, _give_up)
        for case in range(first, first + count):
            yield run_case(case, every, Path(root))


def main() -> None:
    """Run cases and print every kind of failure once, with its number of cases."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--case", type=int)
    given = parser.parse_args()
    first, count = (given.first, given.count) if given.case is None else (given.case, 1)
    start, kinds = time.perf_counter(), Counter[str]()
    print(f"cases {first} to {first + count - 1}", flush=True)
    done = 0
    with contextlib.suppress(KeyboardInterrupt):
        for done, failure in enumerate(failures(first, count), 1):  # noqa: B007
            if failure is None:
                continue
            kinds[failure.what] += 1
            if kinds[failure.what] == 1:
                print(f"case {failure.case}, {failure.target} ({failure.file}): {failure.what}")
                print(failure.trace, flush=True)
    slow = sum(n for what, n in kinds.items() if what.startswith("took"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{done} inputs from case {first}: {sum(kinds.values()) - slow} tracebacks of "
        f"{len(kinds)} kinds, {slow} over {SLOW:g} s, peak memory {peak:.0f} MiB, "
        f"{time.perf_counter() - start:.0f} s"
    )
    for what, times in kinds.most_common():
        print(f"{times:6} x {what}")
    sys.exit(bool(kinds))


if __name__ == "__main__":
    main()
