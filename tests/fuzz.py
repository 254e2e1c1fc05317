"""Mutated files of every kind: read, or refused with one line; never another exception.

`make fuzz N=100000` runs cases and prints what they came to. A case is a kind and a number, which
says which file is spoilt and how, so that one that failed can be run again alone
(`python -m tests.fuzz --case coco:123`). The kinds share time, not cases; those of a kind run in a
process of their own, so that a crash costs one case and is reported, and so is memory. Several
runs with distant numbers (`--first`) have no case in common.
"""

import argparse
import contextlib
import faulthandler
import gc
import io
import json
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

import numpy as np
import polars as pl
import torch
from PIL import Image

from polyplink.__main__ import silence_libraries
from polyplink.associate.identities import recorded_point
from polyplink.core.artefacts import read_json, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import silent
from polyplink.data.conversion import convert
from polyplink.data.doctor import diagnose
from polyplink.data.files.video import open_video
from polyplink.data.formats.masks import import_masks
from polyplink.data.image_files import decode_size
from polyplink.data.protocols import check_splits, checked_parts
from polyplink.data.sets.facts import read_rows
from polyplink.data.tables import DataSet, read_data, write_data
from polyplink.data.vocabulary import find_maps
from polyplink.detect.first_pass import detect
from polyplink.detect.onnx import OnnxDetector, read_record
from polyplink.detect.recordings import find_recordings
from polyplink.encoders.embed import colour_histogram
from polyplink.encoders.encode import (
    Embeddings,
    embed,
    read_embeddings,
    stored_vectors,
    write_embeddings,
)
from polyplink.encoders.encoder import Encoder
from polyplink.encoders.load import histogram, load_encoder
from polyplink.encoders.published import read_published
from polyplink.encoders.weights import Seen, WeightsRecord, save_weights
from polyplink.evaluate.probe_tasks import read_split
from polyplink.learn.checkpoint import load_checkpoint, save_checkpoint
from polyplink.recipes.by_name import find_recipe, override
from polyplink.scale.index import ROWS, Index, build_index
from polyplink.serve.desk import Desk
from polyplink.streaming.sources import boxes_from
from polyplink.tracklets.prepare import Prepared, prepare
from polyplink.tracklets.settings import PrepareSettings
from tests.cli.live_lines import lines
from tests.data.every_format import READERS, write_format
from tests.data.packing import files_of, pack
from tests.data.sample_sets import scored_set, small_set
from tests.data.spreadsheets import spreadsheet
from tests.data.videos import write_video
from tests.detect.models import outputs_of, write_model
from tests.detect.test_detect import SETTINGS as TRACKS, MovingBox, detect_into, write_frames
from tests.encoders.small import SFE, TRANSFORMER, random_crops, random_encoder
from tests.fuzz_pages import live_page, review, write_requests
from tests.mutations import misplace, spoil
from tests.samples import write_procedures
from tests.serve.loads import write_counted

SLOW = 5.0  # seconds of the processor that no file of less than a megabyte may take
SHORT = PrepareSettings(size=8, min_length=2)  # keeps the short tracklets of the samples
# Seconds of the processor, or without any, after which a process is ended; an exception interrupts
# it after half of the former. Where others keep the processors busy, a case may take minutes.
HANGS = 120.0


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
    """Import, and continue as the next command would, unless with the data of an earlier case."""
    imported = read(folder)
    "\n".join(imported.lines).encode()
    data = imported.data
    sources = data.procedures["source"].str.replace(str(folder), "", literal=True)
    signature = (data.key, repr(data.splits), *sources, *data.detections["image"].unique().sort())
    if signature in done:
        return
    done.add(signature)
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
        recorded_point(record.operating)
        replace(record.prepare, size=8)
    loaded.encoder(random_crops(2, 32), [2])


def _only(folder: Path) -> Path:
    return min(path for path in folder.rglob("*") if path.is_file())


def _published(folder: Path, _: Done) -> None:
    read_published(_only(folder))


@cache
def _set_and_encoder() -> tuple[DataSet, Encoder]:
    return small_set(), random_encoder(SFE)


def _checkpoint(folder: Path, _: Done) -> None:
    load_checkpoint(_only(folder), _set_and_encoder()[1])


def _detector(folder: Path, _: Done) -> None:
    OnnxDetector(next(folder.glob("*.onnx"), folder / "none"), threads=1)


def _images(folder: Path, _: Done) -> None:
    for path in folder.iterdir():
        decode_size(path.read_bytes())


def _video(folder: Path, _: Done) -> None:
    with open_video(_only(folder)) as video:
        for _number, frame in video.frames(range(min(video.n_frames, 48))):
            pixels = "lost" if frame is None else frame.rgb()
            assert isinstance(pixels, str) or pixels.shape == (video.height, video.width, 3)


def _spreadsheet(folder: Path, _: Done) -> None:
    read_rows(_only(folder).read_bytes(), "a.xlsx")


def _recipe(folder: Path, _: Done) -> None:
    recipe, *assignments = _only(folder).read_bytes().decode("utf-8", "replace").split("\n")
    override(find_recipe(recipe), assignments)


def _json(read: Callable[[Path], object], folder: Path, _: Done) -> None:
    read(_only(folder))


def _vectors(folder: Path, _: Done) -> None:
    embeddings = read_embeddings(_only(folder))
    np.asarray(embeddings.vectors).sum()


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


def _histograms(crops: Prepared, folder: Path) -> Embeddings:
    """Colour histograms of tracklets, stored in a folder beside their crops."""
    part = replace(crops, folder=folder)
    encoder = histogram("h", torch.device("cpu"), SHORT)
    return stored_vectors(
        encoder,
        part,
        None,
        silent,
        lambda part: contextlib.nullcontext(replace(part, folder=crops.folder)),
    )


def _stored(prepared: Path, folder: Path, _: Done) -> None:
    """Stored vectors are those of the crops, or are computed again."""
    crops = prepare(prepared, SHORT, workers=1)
    whole = embed(crops, colour_histogram, "h").vectors
    embeddings = _histograms(crops, folder)
    assert np.array_equal(embeddings.vectors, whole), "vectors of other crops"


def _kept_crops(folder: Path, _: Done) -> None:
    prepared = prepare(folder, TRACKS, workers=1)
    for procedure in prepared.procedures[:1]:  # none where the table lost its rows
        np.asarray(prepared.crops(procedure)).sum()


def _detected(frames: Path, folder: Path, done: Done) -> None:
    """A stopped detection continues; its stored crops are used, or cut again."""
    recordings = find_recordings(frames)
    with patch("polyplink.detect.first_pass.PIECE", 8):
        data, _ = detect_into(recordings, MovingBox(), folder, TRACKS)
    assert data.procedures.height == 1
    _kept_crops(folder, done)


def _live(folder: Path, _: Done) -> None:
    with _only(folder).open(encoding="utf-8", errors="replace") as lines:
        for frame in boxes_from(lines, "boxes").frames:
            np.asarray(frame.boxes).sum()


def _splits(path: Path) -> None:
    splits = checked_parts(read_json(path), str(path), "")
    check_splits(splits, _set_and_encoder()[0].procedures, str(path))


def _divided(path: Path) -> None:
    data = _set_and_encoder()[0]
    labels = data.polyps.select("polyp_id", label=pl.lit(1))
    read_split(path, data, labels)


FILMS = {"mp4": "libx264", "mkv": "libx264", "ts": "mpeg2video", "avi": "mpeg4"}


def write_all(root: Path) -> None:
    """Write whole files of every kind below `root`, each target's in a folder of its name."""
    for form in READERS:
        write_format(form, root / form)
    for k, folder in enumerate(("images", "masks")):
        (root / "masks" / folder).mkdir(parents=True)
        for frame in range(3):
            pixels = np.zeros((48, 64), np.uint8)
            pixels[8:20, 10:30] = 255 * k
            Image.fromarray(pixels).save(root / "masks" / folder / f"case_{frame}.png")
    write_data(root / "tables", scored_set())
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
    for ending, codec in FILMS.items():
        (root / f"video {ending}").mkdir()
        write_video(root / f"video {ending}" / f"a.{ending}", 24, codec=codec)
    (root / "spreadsheet").mkdir()
    (root / "spreadsheet" / "a.xlsx").write_bytes(spreadsheet())
    for kind, config in (("sfe", SFE), ("transformer", TRANSFORMER)):
        (root / f"weights {kind}").mkdir()
        name: dict[str, Any] = {"name": "x"}
        seen = Seen("k", (("s", "p", "q"),))
        record = WeightsRecord(config, PrepareSettings(size=32), name, seen, {"epoch": 1})
        save_weights(
            root / f"weights {kind}" / "weights.safetensors", random_encoder(config), record
        )
    state = {f"layer{k}.weight": torch.ones(2, 2) for k in range(3)}
    for kind, zipped in (("zip", True), ("legacy", False)):
        (root / f"torch {kind}").mkdir()
        path = root / f"torch {kind}" / "a.pth"
        torch.save({"state_dict": state}, path, _use_new_zipfile_serialization=zipped)
    encoder = random_encoder(SFE)
    optimizer = torch.optim.AdamW(encoder.parameters())
    save_checkpoint(root / "checkpoint" / "a.safetensors", encoder, optimizer, {})
    (root / "detector").mkdir()
    write_model(root / "detector" / "a.onnx", outputs_of("yolov8"), [1, 3, 64, 64])
    ids = [f"t{k}" for k in range(12)]
    vectors = np.random.default_rng(0).normal(size=(12, 8)).astype(np.float32)
    write_embeddings(root / "vectors" / "vectors.parquet", Embeddings(ids, vectors, "w", "c"))
    rows = pl.DataFrame({"tracklet_id": ids, "procedure_id": ["v"] * 12, "key": ["k"] * 12})
    absent = (pl.lit(None, kind).alias(n) for n, kind in ROWS.items() if n not in rows.columns)
    build_index(root / "index", [(rows.with_columns(*absent), vectors)], "w")
    crops_of = prepare(root / "prepared", SHORT, workers=1)
    _histograms(crops_of, root / "stored vectors")
    (root / "film").mkdir()
    write_frames(root / "film" / "p1")
    recordings = find_recordings(root / "film" / "p1")
    with patch("polyplink.detect.first_pass.PIECE", 8), contextlib.suppress(KeyboardInterrupt):
        detect(recordings, MovingBox(stop_after=20), root / "stopped detection", TRACKS)
    detect_into(recordings, MovingBox(), root / "kept crops", TRACKS)
    write_requests(root)
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
    "operating": lambda path: recorded_point(read_json(path)),
    "detector record": lambda path: read_record(path.with_suffix(".onnx")),
}


def targets(root: Path) -> list[Target]:
    """Every kind of file and its reader; intact files are written below `root` if it is new."""
    if not root.exists():
        write_all(root)
    imports = []
    for form, read in READERS.items():
        imports.append(Target(form, root / form, partial(_import, read)))
        if form in ("ldpolyp", "sun", "polypsset"):
            for ending in (".zip", ".tar", ".tar.gz"):
                imports.append(
                    Target(f"{form}{ending}", root / form, partial(_import, read), ending)
                )
    others: Mapping[str, Callable[[Path, Done], object]] = {
        "masks": partial(_import, import_masks),
        "tables": _data_folder,
        "frames": _prepared,
        "prepared": _prepared,
        **{f"image {kind}": _images for kind in ("jpg", "png", "bmp", "tif", "gif", "webp")},
        **{f"video {ending}": _video for ending in FILMS},
        "spreadsheet": _spreadsheet,
        "weights sfe": _weights,
        "weights transformer": _weights,
        "torch zip": _published,
        "torch legacy": _published,
        "checkpoint": _checkpoint,
        "detector": _detector,
        "vectors": _vectors,
        "index": _index,
        "counted": _desk,
        "stored vectors": partial(_stored, root / "prepared"),
        "stopped detection": partial(_detected, root / "film" / "p1"),
        "kept crops": _kept_crops,
        "review requests": partial(review, root / "counted"),
        "live requests": live_page,
        "live": _live,
        "recipe": _recipe,
        **{kind: partial(_json, read) for kind, read in READ_JSON.items()},
    }
    return imports + [Target(name, root / name, read) for name, read in others.items()]


@dataclass(frozen=True)
class Failure:
    """A case that was neither read nor refused: its number, its mutations, and the traceback."""

    case: str
    file: str
    what: str
    trace: str


class Scratch:
    """Where the cases of a target run: a copy of its files, and what earlier cases have read."""

    def __init__(self, target: Target, work: Path) -> None:
        self.target, self.folder = target, work / "case"
        self.packed = work / "packed"
        shutil.rmtree(self.folder, ignore_errors=True)
        paths = sorted(path for path in target.files.rglob("*") if path.is_file())
        self.paths = [self.folder / path.relative_to(target.files) for path in paths]
        self.whole = {
            copy: (path.read_bytes(), path.stat().st_mtime_ns)
            for copy, path in zip(self.paths, paths, strict=True)
        }
        self.stamps: dict[Path, tuple[int, int, int]] = {}
        self.done: Done = set()

    def restore(self) -> None:
        """Restore the copy; only files that a case or its reader changed are written."""
        unchanged = {}
        for top, folders, files in os.walk(self.folder, topdown=False):
            for name in files:
                path = Path(top, name)
                if self.stamps.get(path, ()) == (stamp := _stamp(path)):
                    unchanged[path] = stamp
                else:
                    path.unlink()
            for name in folders:
                with contextlib.suppress(OSError):  # it holds files
                    Path(top, name).rmdir()
        for path, (data, modified) in self.whole.items():
            if path not in unchanged:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                os.utime(path, ns=(modified, modified))
                unchanged[path] = _stamp(path)
        self.stamps = unchanged

    def pack(self) -> Path:
        """The archive of the copy, or the copy."""
        if not self.target.pack:
            return self.folder
        shutil.rmtree(self.packed, ignore_errors=True)
        files = files_of(self.folder).items()
        files_by_text = {os.fsencode(name).decode("utf-8", "replace"): b for name, b in files}
        return pack(self.packed / f"a{self.target.pack}", files_by_text)

    def read(self, path: Path) -> None:
        """Read the copy or the archive of it."""
        self.target.read(path.parent if self.target.pack else path, self.done)


def _stamp(path: Path) -> tuple[int, int, int]:
    status = path.lstat()
    return status.st_mtime_ns, status.st_size, status.st_ino


def run_case(scratch: Scratch, number: int) -> Failure | str:
    """Run one case: "read", "refused" (with one line), or how it failed."""
    rng = random.Random(f"{scratch.target.name}:{number}")
    scratch.restore()
    mutations = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        path = rng.choice(scratch.paths)
        if path.is_file():
            moved = rng.random() < 0.12 and len(scratch.paths) > 1
            odd = misplace(scratch.folder, path, rng) if moved else spoil(path, rng)
            mutations.append(f"{path.name} {odd}")
    read_from = scratch.pack()
    if scratch.target.pack and rng.random() < 0.5:
        mutations.append(f"archive {spoil(read_from, rng)}")
    failed = partial(Failure, f"{scratch.target.name}:{number}", ", ".join(mutations))
    start, result = time.process_time(), "read"
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            scratch.read(read_from)
    except PolyplinkError as error:
        if len(str(error).splitlines()) != 1:
            return failed("message of several lines", str(error))
        result = "refused"
    except OSError as error:
        if error.errno is None:
            return failed(repr(error)[:200], traceback.format_exc())
        result = "refused"
    except BaseException as error:  # panics of polars too
        if isinstance(error, KeyboardInterrupt):
            raise
        last = traceback.extract_tb(error.__traceback__)
        inner = next((f for f in reversed(last) if "/polyplink/" in f.filename), last[-1])
        what = f"{type(error).__name__} at {Path(inner.filename).name}:{inner.lineno}"
        return failed(what, traceback.format_exc())
    if (seconds := time.process_time() - start) > SLOW:
        return failed(f"took {seconds:.1f} s", "")
    return result


def check_whole(scratch: Scratch) -> None:
    """The intact files must be read: mutations of files that are refused anyway test nothing."""
    scratch.restore()
    scratch.read(scratch.pack())


FLOOR = 20  # cases of a kind at least, in each round


@dataclass
class Kind:
    """The results of the cases of one kind."""

    cases: int = 0
    read: int = 0
    refused: int = 0
    failed: int = 0
    slowest: float = 0.0
    which: int = 0
    peak: float = 0.0

    def add(self, other: "Kind") -> None:
        """Add the cases of another round."""
        if other.slowest > self.slowest:
            self.slowest, self.which = other.slowest, other.which
        for name in ("cases", "read", "refused", "failed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.peak = max(self.peak, other.peak)


def _give_up(*_: object) -> None:
    raise RuntimeError("hang")


def _run_many(
    target: Target, root: Path, numbers: range, seconds: float, report: Callable[[object], None]
) -> None:
    """Run cases until the time is over; report the number of each, then its result and time."""
    faulthandler.enable(os.dup(2))
    silence_libraries()
    terminal = tempfile.TemporaryFile()  # noqa: SIM115 - the process ends with it
    os.dup2(terminal.fileno(), 2)
    signal.signal(signal.SIGPROF, _give_up)
    scratch = Scratch(target, root)
    check_whole(scratch)
    gc.freeze()  # what is imported is not searched for garbage again: a fifth of all time
    begin = last = time.process_time()
    for number in numbers:
        if number - numbers.start >= FLOOR and last - begin > seconds:
            break
        report(number)
        signal.setitimer(signal.ITIMER_PROF, HANGS / 2)
        result = run_case(scratch, number)
        signal.setitimer(signal.ITIMER_PROF, 0)
        if text := _printed(terminal):
            line = text.decode("utf-8", "replace").splitlines()[0][:200]
            result = Failure(f"{target.name}:{number}", "", f"on the terminal: {line}", "")
        now = time.process_time()
        report((asdict(result) if isinstance(result, Failure) else result, now - last))
        last = now


def _printed(terminal: IO[bytes]) -> bytes:
    """What was printed since the last call, by libraries in C too."""
    text = os.pread(terminal.fileno(), 1 << 16, 0)
    os.ftruncate(terminal.fileno(), 0)
    os.lseek(terminal.fileno(), 0, os.SEEK_SET)
    return text


def run_kind(
    target: Target, root: Path, numbers: range, seconds: float
) -> tuple[Kind, list[Failure]]:
    """Run cases in a separate process: a crash costs one case, and its memory is measured."""
    out, into = os.pipe()

    def report(value: object) -> None:
        os.write(into, json.dumps(value).encode() + b"\n")

    child = _fork(partial(_run_many, target, root, numbers, seconds, report))
    os.close(into)
    reported, since, last = bytearray(), 0.0, -1.0  # seconds of the processor at the last report
    while True:
        if select.select([out], [], [], HANGS)[0]:
            if not (some := os.read(out, 1 << 16)):
                break
            reported += some
            last = -1.0
        elif last < 0:
            since = last = _seconds_of(child)
        elif (now := _seconds_of(child)) == last or now - since > HANGS:
            os.kill(child, signal.SIGABRT)  # what no exception can interrupt
        else:
            last = now
    os.close(out)
    _, status, used = os.wait4(child, 0)

    kind, failures, number = Kind(peak=used.ru_maxrss / 1024), list[Failure](), numbers.start
    for value in map(json.loads, reported.splitlines()):
        if isinstance(value, int):
            kind.cases, number = kind.cases + 1, value
            continue
        result, took = value
        kind.read += result == "read"
        kind.refused += result == "refused"
        if isinstance(result, dict):
            failures.append(Failure(**result))
        if took > kind.slowest:
            kind.slowest, kind.which = took, number
    if code := os.waitstatus_to_exitcode(status):
        case = f"{target.name}:{number}"
        failures.append(Failure(case, "", f"{target.name}: the process ended with {code}", ""))
    kind.failed = len(failures)
    return kind, failures


def _seconds_of(process: int) -> float:
    """Seconds of the processor that a process has taken."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _fork(run: Callable[[], None]) -> int:
    """Start a process that has imported everything; this one must not start threads of polars."""
    sys.stdout.flush()
    if child := os.fork():
        return child
    code = 1
    try:
        run()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


class Sums:
    """The results of all rounds, by kind of file and of failure."""

    def __init__(self) -> None:
        self.kinds: dict[str, Kind] = {}
        self.failures = Counter[str]()
        self.start = time.perf_counter()

    def add(self, name: str, kind: Kind, failures: list[Failure]) -> None:
        """Add cases, and print the first failure of each kind."""
        self.kinds.setdefault(name, Kind()).add(kind)
        for failure in failures:
            self.failures[failure.what] += 1
            if self.failures[failure.what] == 1:
                print(
                    f"{failure.case} ({failure.file}): {failure.what}\n{failure.trace}", flush=True
                )

    def total(self) -> int:
        """The number of cases."""
        return sum(kind.cases for kind in self.kinds.values())

    def table(self) -> str:
        """A line for each kind of file, and the sums."""
        head = ("kind", "cases", "read", "refused", "failed", "slowest s", "of case", "peak MiB")
        lines = ["{:20} {:>8} {:>8} {:>8} {:>7} {:>9} {:>9} {:>8}".format(*head)]
        for name, kind in self.kinds.items():
            counts = f"{kind.cases:8} {kind.read:8} {kind.refused:8} {kind.failed:7}"
            lines.append(f"{name:20} {counts} {kind.slowest:9.2f} {kind.which:9} {kind.peak:8.0f}")
        slow = sum(n for what, n in self.failures.items() if what.startswith("took"))
        peak = max(kind.peak for kind in self.kinds.values())
        lines.append(
            f"{self.total()} inputs: {self.failures.total() - slow} tracebacks of "
            f"{len(self.failures)} kinds, {slow} over {SLOW:g} s, peak memory {peak:.0f} MiB, "
            f"{time.perf_counter() - self.start:.0f} s"
        )
        return "\n".join([*lines, *(f"{n:8} x {w}" for w, n in self.failures.most_common())])


def main() -> None:
    """Run cases and print every kind of failure once, with its number of cases."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=0, help="number of every kind's first case")
    parser.add_argument("--count", type=int, default=2000, help="at least so many cases")
    parser.add_argument("--seconds", type=float, help="of the processor, for each kind and round")
    parser.add_argument("--only", default="", help="a kind: cases of it alone")
    parser.add_argument("--case", default="", help="KIND:NUMBER")
    arguments = parser.parse_args()
    only, _, number = arguments.case.rpartition(":")
    first, sums = int(number or arguments.first), Sums()
    seconds = arguments.count / 25_000 if arguments.seconds is None else arguments.seconds
    most = 1 if arguments.case else max(FLOOR, arguments.count // (1 if arguments.only else 10))
    os.environ["RUST_BACKTRACE"] = "0"
    memory = Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory(
            prefix="polyplink-fuzz-", dir=memory if memory.is_dir() else None
        ) as folder,
        contextlib.suppress(KeyboardInterrupt),
    ):
        root = Path(folder)
        _, status = os.waitpid(_fork(lambda: write_all(root / "whole")), 0)
        assert status == 0
        wanted = only or arguments.only
        every = [target for target in targets(root / "whole") if wanted in ("", target.name)]
        following = dict.fromkeys((target.name for target in every), first)
        while not sums.kinds or (sums.total() < arguments.count and not arguments.case):
            for target in every:
                at = following[target.name]
                results, failures = run_kind(target, root, range(at, at + most), seconds)
                sums.add(target.name, results, failures)
                following[target.name] += results.cases
            print(sums.table(), flush=True)
        print(f"to go on: --first {max(following.values())}")
    sys.exit(bool(sums.failures))


if __name__ == "__main__":
    main()
