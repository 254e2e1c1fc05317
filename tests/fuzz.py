"""Mutated files of every kind: read, or refused with one line; never another exception.

`make fuzz N=100000` runs cases for hours and prints what it found. A case is a target and a number,
which says which file is spoilt and how, so that one that failed can be run again alone
(`python -m tests.fuzz --case coco:123`). The whole files are made once; cases run in processes of
some thousands each, so that a crash costs one case and is reported, and so is memory.
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
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from PIL import Image

from polyplink.app.probing import read_split
from polyplink.associate import from_record
from polyplink.core.artefacts import read_json, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.data import (
    DataSet,
    check_splits,
    convert,
    diagnose,
    import_masks,
    read_data,
    write_data,
)
from polyplink.data.image_files import decode_size
from polyplink.data.vocabulary import find_maps
from polyplink.detect.live import boxes_from
from polyplink.detect.onnx import OnnxDetector, read_record
from polyplink.encoders import (
    Embeddings,
    Encoder,
    Seen,
    WeightsRecord,
    load_encoder,
    read_embeddings,
    save_weights,
    write_embeddings,
)
from polyplink.encoders.published import read_published
from polyplink.encoders.weights import RECORD
from polyplink.learn.checkpoint import load_checkpoint, save_checkpoint
from polyplink.recipes import find_recipe, override
from polyplink.scale import Index, build_index
from polyplink.scale.index import ROWS
from polyplink.serve import Desk
from polyplink.tracklets import PrepareSettings, prepare
from tests.app.test_live import lines
from tests.data.made_sets import seen_set, small_set
from tests.data.packed import files_of, pack
from tests.data.test_corrupted import SPOIL, readers, write_every_format
from tests.detect.test_onnx import outputs_of, write_model
from tests.encoders.small import SFE, TRANSFORMER, crops, made
from tests.samples import write_procedures
from tests.serve.loads import write_counted

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
        read: Called with a folder of spoilt ones, and what other cases have left in `Done`.
        pack: Ending of an archive that the spoilt files are packed into, or "".
    """

    name: str
    files: Path
    read: Callable[[Path, "Done"], object]
    pack: str = ""


Done = set[object]  # what the stages behind a reader have had already


def _import(read: Callable[[Path], Any], folder: Path, done: Done) -> None:
    """Import, and go on as the next command would, unless with the data of an earlier case."""
    imported = read(folder)
    "\n".join(imported.warnings).encode()
    data = imported.data
    sources = data.procedures["source"].str.replace(str(folder), "", literal=True)
    known = (data.key, repr(data.splits), *sources, *data.detections["image"].unique().sort())
    if known in done:
        return
    done.add(known)
    out = folder.parent / "imported"
    shutil.rmtree(out, ignore_errors=True)
    write_data(out, data)
    data = read_data(out)
    diagnose(data, images=True, folder=out)
    for form in ("coco", "cvat"):
        with contextlib.suppress(PolyplinkError):
            convert(data, form, out / form)


def _data_folder(folder: Path, _: Done) -> None:
    data = read_data(folder)
    diagnose(data, images=False, folder=folder)
    prepare(folder, PrepareSettings(size=8, min_length=2), workers=1, with_crops=False)


def _prepared(folder: Path, _: Done) -> None:
    prepared = prepare(folder, PrepareSettings(size=8), workers=1)
    for procedure in prepared.procedures:
        np.asarray(prepared.crops(procedure)).sum()


def _weights(folder: Path, _: Done) -> None:
    loaded = load_encoder(_only(folder), torch.device("cpu"))
    record = loaded.record
    if record is not None:
        from_record(record.operating)
        replace(record.prepare, size=8)
    loaded.encoder(crops(2, 32), [2])


def _only(folder: Path) -> Path:
    return min(path for path in folder.rglob("*") if path.is_file())


def _published(folder: Path, _: Done) -> None:
    read_published(_only(folder))


@cache
def _set_and_encoder() -> tuple[DataSet, Encoder]:
    return small_set(), made(SFE)


def _checkpoint(folder: Path, _: Done) -> None:
    load_checkpoint(_only(folder), {"encoder": _set_and_encoder()[1]})


def _detector(folder: Path, _: Done) -> None:
    OnnxDetector(next(folder.glob("*.onnx"), folder / "none"), threads=1)


def _images(folder: Path, _: Done) -> None:
    for path in folder.iterdir():
        decode_size(path.read_bytes())


def _recipe(folder: Path, _: Done) -> None:
    recipe, *assignments = _only(folder).read_bytes().decode("utf-8", "replace").split("\n")
    override(find_recipe(recipe), assignments)


def _json(read: Callable[[Path], object], folder: Path, _: Done) -> None:
    read(_only(folder))


def _vectors(folder: Path, _: Done) -> None:
    found = read_embeddings(_only(folder))
    np.asarray(found.vectors).sum()


def _index(folder: Path, _: Done) -> None:
    opened = Index(folder)
    row, vector = opened.find("t3")
    opened.search(vector, 5)
    opened.procedures()
    str(row)


def _desk(folder: Path, _: Done) -> None:
    desk = Desk(folder / "count", folder / "data")
    desk.overview()
    for procedure in range(len(desk.names)):
        desk.procedure(procedure)
    desk.correct(0, {"kind": "same", "a": 0, "b": 1})


def _live(folder: Path, _: Done) -> None:
    with _only(folder).open(encoding="utf-8", errors="replace") as lines:
        for frame in boxes_from(lines, "boxes").frames:
            np.asarray(frame.boxes).sum()


def _splits(path: Path) -> None:
    check_splits(read_json(path), _set_and_encoder()[0].procedures, str(path))


def _divided(path: Path) -> None:
    data = _set_and_encoder()[0]
    labels = data.polyps.select("polyp_id", label=pl.lit(1))
    read_split(path, data, labels)


def write_all(root: Path) -> None:
    """Write whole files of every kind below `root`, each target's in a folder of its name."""
    write_every_format(root)
    for k, folder in enumerate(("images", "masks")):
        (root / "masks" / folder).mkdir(parents=True)
        for frame in range(3):
            pixels = np.zeros((48, 64), np.uint8)
            pixels[8:20, 10:30] = 255 * k
            Image.fromarray(pixels).save(root / "masks" / folder / f"case_{frame}.png")
    write_data(root / "tables", seen_set())
    data = write_procedures(root / "made", procedures=1, views=1, length=8)
    shutil.copytree(root / "made" / "frames", data / "frames")
    here = read_data(data)
    here = replace(here, procedures=here.procedures.with_columns(source=pl.lit("frames")))
    write_data(data, here)
    shutil.move(data, root / "frames")
    shutil.copytree(root / "frames", root / "prepared")
    prepare(root / "prepared", PrepareSettings(size=8), workers=1)
    noise = np.random.default_rng(0).integers(0, 255, (24, 32, 3)).astype(np.uint8)
    for ending in ("jpg", "png", "bmp", "tif", "gif", "webp"):
        (root / f"image {ending}").mkdir()
        Image.fromarray(noise).save(root / f"image {ending}" / f"a.{ending}")
    for kind, config in (("sfe", SFE), ("transformer", TRANSFORMER)):
        (root / f"weights {kind}").mkdir()
        name: dict[str, Any] = {"name": "x"}
        seen = Seen("k", (("s", "p", "q"),))
        record = WeightsRecord(config, PrepareSettings(size=32), name, seen, {"epoch": 1})
        save_weights(root / f"weights {kind}" / "weights.safetensors", made(config), record)
    state = {f"layer{k}.weight": torch.ones(2, 2) for k in range(3)}
    for kind, zipped in (("zip", True), ("legacy", False)):
        (root / f"torch {kind}").mkdir()
        path = root / f"torch {kind}" / "a.pth"
        torch.save({"state_dict": state}, path, _use_new_zipfile_serialization=zipped)
    encoder = made(SFE)
    optimizer = torch.optim.AdamW(encoder.parameters())
    save_checkpoint(root / "checkpoint" / "a.safetensors", {"encoder": encoder}, optimizer, {})
    (root / "detector").mkdir()
    write_model(root / "detector" / "a.onnx", outputs_of("yolov8"), [1, 3, 64, 64])
    ids = [f"t{k}" for k in range(12)]
    vectors = np.random.default_rng(0).normal(size=(12, 8)).astype(np.float32)
    write_embeddings(root / "vectors" / "a.parquet", Embeddings(ids, vectors, "w", "c"))
    rows = pl.DataFrame({"tracklet_id": ids, "procedure_id": ["v"] * 12, "key": ["k"] * 12})
    absent = (pl.lit(None, kind).alias(n) for n, kind in ROWS.items() if n not in rows.columns)
    build_index(root / "index", [(rows.with_columns(*absent), vectors)], "w")
    write_counted(root / "counted", (4, 3))
    desk = Desk(root / "counted" / "count", root / "counted" / "data")
    for kind in ("same", "different", "unsure", "same"):
        desk.correct(0, {"kind": kind, "a": 0, "b": 2})
    desk.overview()
    (root / "live").mkdir()
    (root / "live" / "a.jsonl").write_text("\n".join(lines("ab")[:6]))
    (root / "recipe").mkdir()
    settings = ["ntssl", "optim.epochs=3", "loss.kind=nt_xent", "bags.kind=frame_pairs"]
    (root / "recipe" / "recipe.txt").write_text("\n".join([*settings, "prepare.size=32"]))
    polyps, names = (small_set().polyps["polyp_id"], small_set().procedures["procedure_id"])
    texts = {
        "map": {"sun": {"SSL": False}, "mine": {"x": True, "y": None}},
        "splits": {"train": names.to_list()[:1], "test": names.to_list()[1:]},
        "divided": {"train": polyps.to_list()[:1], "test": polyps.to_list()[1:]},
        "operating": read_json(root / "counted" / "count" / "count.json")["operating_point"],
        "detector record": {"size": [64, 64], "classes": [0], "layout": "yolov8"},
    }
    for kind, value in texts.items():
        write_json(root / kind / "a.json", value)


READ_JSON: Mapping[str, Callable[[Path], object]] = {
    "map": lambda path: find_maps(str(path)),
    "splits": _splits,
    "divided": _divided,
    "operating": lambda path: from_record(read_json(path)),
    "detector record": lambda path: read_record(path.with_suffix(".onnx")),
}


def targets(root: Path) -> list[Target]:
    """Everything that reads files; the whole files are written below `root` if they are not."""
    if not root.exists():
        write_all(root)
    found = []
    for form, read in readers().items():
        found.append(Target(form, root / form, partial(_import, read)))
        if form in ("ldpolyp", "sun", "polypsset"):
            for ending in (".zip", ".tar", ".tar.gz"):
                found.append(Target(f"{form}{ending}", root / form, partial(_import, read), ending))
    others: Mapping[str, Callable[[Path, Done], object]] = {
        "masks": partial(_import, import_masks),
        "tables": _data_folder,
        "frames": _prepared,
        "prepared": _prepared,
        **{f"image {kind}": _images for kind in ("jpg", "png", "bmp", "tif", "gif", "webp")},
        "weights sfe": _weights,
        "weights transformer": _weights,
        "torch zip": _published,
        "torch legacy": _published,
        "checkpoint": _checkpoint,
        "detector": _detector,
        "vectors": _vectors,
        "index": _index,
        "counted": _desk,
        "live": _live,
        "recipe": _recipe,
        **{kind: partial(_json, read) for kind, read in READ_JSON.items()},
    }
    return found + [Target(name, root / name, read) for name, read in others.items()]


@dataclass(frozen=True)
class Failure:
    """A case that was not read and not refused: which, how it was made, and the trace."""

    case: str
    file: str
    what: str
    trace: str


def run_case(target: Target, number: int, work: Path, done: Done | None = None) -> Failure | None:
    """Run one case; None if its files were read, or refused with one line."""
    rng = random.Random(f"{target.name}:{number}")
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
    failed = partial(Failure, f"{target.name}:{number}", ", ".join(hows))
    start = time.process_time()
    faulthandler.dump_traceback_later(HANGS, exit=True)  # what no exception can interrupt
    signal.alarm(int(HANGS / 2))
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            target.read(read_from, set() if done is None else done)
    except PolyplinkError as error:
        if len(str(error).splitlines()) != 1:
            return failed("message of several lines", str(error))
    except OSError as error:
        if error.errno is None:
            return failed(repr(error)[:200], traceback.format_exc())
    except BaseException as error:  # panics of polars too
        if isinstance(error, KeyboardInterrupt):
            raise
        last = traceback.extract_tb(error.__traceback__)
        inner = next((f for f in reversed(last) if "/polyplink/" in f.filename), last[-1])
        what = f"{type(error).__name__} at {Path(inner.filename).name}:{inner.lineno}"
        return failed(what, traceback.format_exc())
    finally:
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()
    if (seconds := time.process_time() - start) > SLOW:
        return failed(f"took {seconds:.1f} s", "")
    return None


def check_whole(target: Target, work: Path) -> None:
    """The files as they are must be read: spoilt ones of what is refused anyway test nothing."""
    read_from = work / "case"
    shutil.rmtree(read_from, ignore_errors=True)
    shutil.copytree(target.files, read_from)
    if target.pack:
        shutil.rmtree(work / "packed", ignore_errors=True)
        read_from = _packed(work / "packed" / f"a{target.pack}", read_from).parent
    target.read(read_from, set())


def _packed(path: Path, folder: Path) -> Path:
    files = {
        os.fsencode(name).decode("utf-8", "replace"): b for name, b in files_of(folder).items()
    }
    return pack(path, files)


def _give_up(*_: object) -> None:
    raise RuntimeError("hang")


def _chunk(root: Path, first: int, count: int, only: str) -> None:
    """Run cases, each a line of JSON on standard output before it and, if it failed, after it."""
    every = targets(root / "whole")
    signal.signal(signal.SIGALRM, _give_up)
    done: Done = set()
    for k in range(first, first + count):
        target, number = every[k % len(every)], k // len(every)
        if only:
            target, number = next(one for one in every if one.name == only), k
        print(json.dumps({"case": f"{target.name}:{number}"}), flush=True)
        failure = run_case(target, number, root / str(os.getpid()), done)
        if failure is not None:
            print(json.dumps(asdict(failure)), flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"peak": peak}), flush=True)


CHUNK = 10_000  # cases of a process


class Sums:
    """What all chunks said."""

    def __init__(self) -> None:
        self.cases, self.kinds = Counter[str](), Counter[str]()
        self.peak = 0.0

    def fail(self, failure: Failure) -> None:
        """Count a failure, and print the first of its kind."""
        self.kinds[failure.what] += 1
        if self.kinds[failure.what] == 1:
            print(f"{failure.case} ({failure.file}): {failure.what}\n{failure.trace}", flush=True)

    def line(self, first: int, seconds: float) -> str:
        """What was run, in one line."""
        slow = sum(n for what, n in self.kinds.items() if what.startswith("took"))
        return (
            f"{self.cases.total()} inputs from case {first}: {self.kinds.total() - slow} "
            f"tracebacks of {len(self.kinds)} kinds, {slow} over {SLOW:g} s, peak memory "
            f"{self.peak:.0f} MiB, {seconds:.0f} s"
        )

    def run(self, root: Path, first: int, count: int, only: str = "") -> int:
        """Run cases in a process; returns how many began."""
        words = ["--root", str(root), "--first", str(first), "--count", str(count), "--only", only]
        command = [sys.executable, "-m", "tests.fuzz", *words]
        began, last = 0, ""
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                said = json.loads(line)
                self.peak = max(self.peak, said.get("peak", 0.0))
                if "what" in said:
                    self.fail(Failure(**said))
                elif "case" in said:
                    began, last = began + 1, said["case"]
                    self.cases[last.rpartition(":")[0]] += 1
        if process.returncode:
            self.fail(Failure(last, "", f"the process ended with {process.returncode}", ""))
        return max(began, 1)


def main() -> None:
    """Run cases and print every kind of failure once, with its number of cases."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--only", default="", help="a target: cases of it alone")
    parser.add_argument("--case", default="", help="TARGET:NUMBER")
    parser.add_argument("--root", type=Path, help="(of the processes it starts)")
    given = parser.parse_args()
    if given.root:
        return _chunk(given.root, given.first, given.count, given.only)
    if given.case:
        given.only, _, number = given.case.rpartition(":")
        given.first, given.count = int(number), 1
    start, sums, done = time.perf_counter(), Sums(), 0
    memory = Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory(
            prefix="polyplink-fuzz-", dir=memory if memory.is_dir() else None
        ) as root,
        contextlib.suppress(KeyboardInterrupt),
    ):
        for target in targets(Path(root) / "whole"):
            check_whole(target, Path(root))
        while done < given.count:
            many = min(CHUNK, given.count - done)
            done += sums.run(Path(root), given.first + done, many, given.only)
            print(sums.line(given.first, time.perf_counter() - start), flush=True)
    for what, times in (*sorted(sums.cases.items()), *sums.kinds.most_common()):
        print(f"{times:8} x {what}")
    sys.exit(bool(sums.kinds))


if __name__ == "__main__":
    main()
