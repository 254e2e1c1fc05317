"""Counting while a procedure runs, beside counting it afterwards. Run by `make study`.

Agreement, counts and times of the online linker on the part "eval"; times of whole frames with the
encoder as it is and exported, of boxes that lie in one picture of noise (the times do not depend on
what it shows); memory over two hours of events without
pictures. POLYPLINK_LIVE names the sets, NAME=WEIGHTS:DATA, separated by spaces.
"""

import os
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyplink.app.encoded import encode, load_named
from polyplink.app.export import ExportRequest, export
from polyplink.app.linked import by_procedure, screen
from polyplink.app.live_count import LiveCount, percentiles
from polyplink.associate import LearnedLinks, LinkModel, OnlineLinker, OperatingPoint, from_record
from polyplink.associate.identities import identify
from polyplink.associate.links import term_names
from polyplink.detect.live import LiveFrame, LiveSource
from polyplink.tracklets import prepare

SETS = [pair.partition("=") for pair in os.environ.get("POLYPLINK_LIVE", "").split()]
TIMED_FRAMES = 2000


def together(labels: np.ndarray) -> np.ndarray:
    rows = np.triu_indices(len(labels), 1)
    return np.asarray((labels[:, None] == labels[None, :])[rows])


@pytest.mark.study
@pytest.mark.parametrize(("name", "files"), [(name, files) for name, _, files in SETS])
def test_the_online_linker_agrees_with_the_offline_partition(name: str, files: str) -> None:
    weights, data = map(Path, files.split(":"))
    encoder = load_named(weights, "cpu")
    assert encoder.record is not None
    point = from_record(encoder.record.operating).at("count")
    encoded = encode([encoder], data, "eval")
    embeddings = encoded.embeddings[encoder.name]
    screened = screen(encoded.prepared, embeddings, point.alarms)
    same, off, offline, kept, revised, seconds = [], [], [], 0, 0, []
    inside = []
    for one in by_procedure(screened.prepared, embeddings):
        linker, polyp = OnlineLinker(point), {}
        views = one.views
        for row in np.lexsort((views.start, views.end)).tolist():
            begun = time.perf_counter()
            said = linker.add(str(row), views.vectors[row], views.start[row], views.end[row])
            seconds.append(time.perf_counter() - begun)
            polyp[str(row)] = said.polyp
            polyp |= {revision.tracklet: revision.now for revision in said.revisions}
            revised += len(said.revisions)
            kept = max(kept, len(linker.kept.start) if linker.kept else 0)
        online = np.array([polyp[str(row)] for row in range(len(polyp))])
        batch = identify(views, one.positions, point)
        true = len(set(one.polyps))
        same.append(together(online) == together(batch.labels))
        off.append(abs(len(set(online.tolist())) - true))
        offline.append(abs(int(batch.labels.max()) + 1 - true))
        assert said.interval is not None
        inside.append(said.interval[0] <= true <= said.interval[1])
    pairs = np.concatenate(same)
    each = np.mean([one.mean() for one in same if one.size])
    print(
        f"\n| {name} | {len(same)} | {len(seconds)} | {pairs.mean():.1%} | {each:.1%} | "
        f"{np.mean(off):.2f} | {np.mean(offline):.2f} | {np.mean(inside):.0%} | {revised} | "
        f"{kept} | {percentiles(seconds)} |"
    )


@pytest.mark.study
@pytest.mark.parametrize(("name", "files"), [(name, files) for name, _, files in SETS])
def test_a_frame_takes_less_than_a_tenth_of_a_second(tmp_path: Path, name: str, files: str) -> None:
    weights, data = map(Path, files.split(":"))
    plain = load_named(weights, "cpu")
    assert plain.record is not None
    point = from_record(plain.record.operating).at("count")
    given = prepare(data, plain.prepare, with_crops=False).part("eval")
    procedure_id = given.procedures[0]
    row: dict[str, Any] = given.data.procedures.filter(procedure_id=procedure_id).row(0, named=True)
    own = given.data.detections.filter(procedure_id=procedure_id)
    first = int(own["frame"].to_numpy().min())
    numbers = np.arange(first, min(row["n_frames"], first + TIMED_FRAMES))
    shape = (row["height"], row["width"], 3)
    picture = np.random.default_rng(0).integers(0, 255, shape, np.uint8)
    source = LiveSource(procedure_id, row["fps"], row["width"], row["height"], iter(()))
    export(ExportRequest(weights, tmp_path / "exported"))
    for kind, encoder in (("torch", plain), ("exported", load_named(tmp_path / "exported"))):
        count = LiveCount(source, encoder, point, tmp_path / kind, lambda event: None)
        threads = count.warm_up(os.cpu_count() or 1)
        for frame in numbers.tolist():
            boxes = own.filter(frame=frame).select("x", "y", "w", "h").to_numpy()
            scored = np.concatenate([boxes, np.ones((len(boxes), 1))], 1).astype(np.float64)
            count.frame(LiveFrame(frame, picture), scored)
        count.end()
        print(
            f"\n| {name}, {kind} | {row['width']} x {row['height']} | {len(count.latencies)} | "
            f"{threads} | {percentiles(count.latencies)} | {len(count.closings)} | "
            f"{percentiles(count.closings)} |"
        )


@pytest.mark.study
def test_memory_does_not_grow_over_two_hours() -> None:
    """Views of 60 polyps at a tracklet each ten seconds: events without pictures."""
    rng, weights = np.random.default_rng(0), dict.fromkeys(term_names(), 0.0)
    links = LinkModel(-4.0, weights | {"cosine": 8.0}, 1, 1)
    linker = OnlineLinker(OperatingPoint(LearnedLinks(2.0), links, "by hand", spread=2.0))
    centres, peaks, seconds = rng.normal(size=(60, 512)), [], []
    for k in range(720):
        near = int(np.clip(k / 12 + rng.normal(0, 1), 0, 59))
        begun = time.perf_counter()
        vector = centres[near] + rng.normal(0, 0.7, 512)
        linker.add(str(k), vector, 10.0 * k, 10.0 * k + 3.0)
        seconds.append(time.perf_counter() - begun)
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        assert linker.kept is not None
        assert len(linker.kept.start) <= linker.settings.rows
    hours = {f"{h:g} h": round(peaks[int(360 * h) - 1]) for h in (0.1, 0.5, 1, 2)}
    print(f"\npeak memory, MiB: {hours}; a tracklet, ms: {percentiles(seconds)}")
