"""Live counting compared with counting afterwards. Run by `make study`.

Agreement and counts of the online linker on the part "eval"; times per frame, with boxes in a
picture of noise (times do not depend on its content); memory of the process over two hours.
POLYPLINK_STUDY names a folder that keeps data and weights, as in test_chain.py.
"""

import itertools
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

import polyplink
from polyplink import export
from polyplink.associate.clusterers import LearnedLinks
from polyplink.associate.identities import OperatingPoint, identify, recorded_point
from polyplink.associate.links import LinkModel, term_names
from polyplink.associate.online import OnlineLinker
from polyplink.counting.interval import Cover
from polyplink.counting.link import by_procedure, screen
from polyplink.data.files.images import Picture
from polyplink.data.origin import UNKNOWN, BoxSource
from polyplink.encoders.config import EncoderConfig
from polyplink.encoders.encode import encode
from polyplink.encoders.load import NamedEncoder, load_named
from polyplink.encoders.weights import WEIGHTS_FILE, Seen, WeightsRecord, save_weights
from polyplink.learn.train_config import LAST
from polyplink.recipes.by_name import RECIPES
from polyplink.streaming.live_count import LiveCount, percentiles
from polyplink.streaming.sources import LiveFrame, LiveSource
from polyplink.tracklets.settings import PrepareSettings
from polyplink_lab.simulate.data_set import simulate
from polyplink_lab.simulate.presets import preset
from tests.encoders.small import random_encoder
from tests.samples import write_procedures

pytestmark = pytest.mark.study
FPS, SIZE = 25.0, (1350, 1080)
LINKS = LinkModel(-4.0, dict.fromkeys(term_names(), 0.0) | {"cosine": 8.0}, 1, 1)
BY_HAND = OperatingPoint(LearnedLinks(2.0), LINKS, "by hand", spread=2.0)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(os.environ.get("POLYPLINK_STUDY") or tmp_path_factory.mktemp("live"))


def calibrated_weights(study: Path, name: str) -> tuple[Path, Path]:
    """Weights of `ntssl-small`, trained on `small` and calibrated on a preset, and its data.

    Missing weights and data are computed.
    """
    data = {preset_name: study / f"{preset_name}-0" for preset_name in ("small", name)}
    for preset_name, folder in data.items():
        if not (folder / "detections.parquet").is_file():
            simulate(folder, preset(preset_name), 0, workers=2)
    run, weights = study / "runs" / "0", study / "live" / name
    if not (run / WEIGHTS_FILE).is_file():
        recipe, resume = RECIPES["ntssl-small"](), (run / LAST).is_file()
        polyplink.train(recipe, data["small"], out=run, resume=resume, device="cpu")
    if not (weights / WEIGHTS_FILE).is_file():
        polyplink.calibrate(run, data[name], out=weights, part="train")
    return weights, data[name]


def pairs_together(labels: np.ndarray) -> np.ndarray:
    rows = np.triu_indices(len(labels), 1)
    return np.asarray((labels[:, None] == labels[None, :])[rows])


@pytest.mark.parametrize("name", ["small", "real-colon-sim"])
def test_the_online_linker_agrees_with_the_offline_partition(study: Path, name: str) -> None:
    weights, data = calibrated_weights(study, name)
    encoder = load_named(weights, "cpu")
    assert encoder.record is not None
    point = recorded_point(encoder.record.operating).for_purpose("count")
    encoded = encode([encoder], data, "eval")
    embeddings = encoded.embeddings[encoder.name]
    screened = screen(encoded.prepared, embeddings, point)
    agreeing_pairs, online_errors, offline_errors, most_views, revised, seconds = (
        [],
        [],
        [],
        0,
        0,
        [],
    )
    in_interval = []
    for procedure in by_procedure(screened.prepared, embeddings):
        linker, polyp = OnlineLinker(point), {}
        views = procedure.views
        assert views.frames is not None
        frames = views.frames
        for row in np.lexsort((views.start, views.end)).tolist():
            start = time.perf_counter()
            added = linker.add(
                str(row), views.vectors[row], views.start[row], views.end[row], frames[row]
            )
            seconds.append(time.perf_counter() - start)
            polyp[str(row)] = added.polyp
            polyp |= {revision.tracklet: revision.now for revision in added.revisions}
            revised += len(added.revisions)
            most_views = max(most_views, len(linker.stored.start) if linker.stored else 0)
        online = np.array([polyp[str(row)] for row in range(len(polyp))])
        batch = identify(views, procedure.positions, point)
        n_polyps = len(set(procedure.polyps))
        agreeing_pairs.append(pairs_together(online) == pairs_together(batch.labels))
        online_errors.append(abs(len(set(online.tolist())) - n_polyps))
        offline_errors.append(abs(int(batch.labels.max()) + 1 - n_polyps))
        assert added.interval is not None
        in_interval.append(added.interval[0] <= n_polyps <= added.interval[1])
    pairs, agreement = (
        np.concatenate(agreeing_pairs),
        [procedure.mean() for procedure in agreeing_pairs if procedure.size],
    )
    print(
        "\n| set | tracklets | pairs as offline | of a procedure, mean (lowest) | count off, "
        "online | offline | interval holds the truth | revisions | views kept | a tracklet, ms |\n"
        f"| {name} | {len(seconds)} | {pairs.mean():.1%} | {np.mean(agreement):.1%} "
        f"({min(agreement):.1%}) | {np.mean(online_errors):.2f} | {np.mean(offline_errors):.2f} "
        f"| {np.mean(in_interval):.0%} "
        f"| {revised} | {most_views} "
        f"| {percentiles(seconds)} |"
    )
    assert pairs.mean() >= 0.95


def random_weights(folder: Path) -> Path:
    """Random weights of the published size: ResNet-50 and a transformer, crops of 232 pixels."""
    config, seen = EncoderConfig(), Seen("none", (), ())
    record = WeightsRecord(config, PrepareSettings(), {"name": "random"}, seen, {}, asdict(BY_HAND))
    save_weights(folder / WEIGHTS_FILE, random_encoder(config), record)
    return folder


def counting(encoder: NamedEncoder, out: Path) -> LiveCount:
    assert encoder.record is not None
    source = LiveSource("live", FPS, *SIZE, iter(()))
    point = recorded_point(encoder.record.operating).for_purpose("count")
    point = replace(point, alarms=None)
    cover = Cover(BoxSource(UNKNOWN, None, "recordings", fps=FPS), None, "no labels")
    return LiveCount(source, encoder, point, out, lambda event: None, cover=cover)


def views(seconds: float, every: float, long: float) -> Iterator[tuple[int, np.ndarray]]:
    """Frames and their boxes (k, 5): consecutive views of a drifting box."""
    for frame in range(round(seconds * FPS)):
        place = frame / FPS % every
        box = [[300.0 + 5 * place, 200.0, 220.0, 180.0, 0.9]] if place < long else []
        yield frame, np.array(box, np.float64).reshape(-1, 5)


def test_times_of_a_frame_and_of_a_tracklet(study: Path, tmp_path: Path) -> None:
    """A minute with a box during five of every ten seconds."""
    picture = np.random.default_rng(0).integers(0, 255, (*SIZE[::-1], 3), np.uint8)
    weights, random_path = (
        calibrated_weights(study, "small")[0],
        random_weights(tmp_path / "random"),
    )
    export(weights, tmp_path / "exported")
    export(random_path, tmp_path / "large")
    data = write_procedures(tmp_path, procedures=2)
    export(random_path, tmp_path / "large8", int8=data)
    for name, path in (
        ("small, torch", weights),
        ("small, exported", tmp_path / "exported"),
        ("ResNet-50, 232 px, exported", tmp_path / "large"),
        ("ResNet-50, 232 px, 8 bits", tmp_path / "large8"),
    ):
        count = counting(load_named(path, "cpu"), tmp_path / f"out {name}")
        threads, start = count.warm_up(os.cpu_count() or 1), time.process_time()
        for frame, boxes in views(60, 10, 5):
            count.frame(LiveFrame(frame, Picture(picture)), boxes)
        cpu_seconds = time.process_time() - start
        with_crop = sorted(count.latencies)[-round(30 * FPS / 4) :]
        print(
            f"\n| {name} | {threads} | {percentiles(count.latencies)} | of frames with a crop: "
            f"{percentiles(with_crop)} | {percentiles(count.closings)} | processor time of a "
            f"second: {cpu_seconds / 60:.2f} s | load {os.getloadavg()[0]:.1f} |"
        )
        assert name != "small, exported" or (percentiles(count.latencies)["p99"] or 0) < 100


@pytest.mark.parametrize("kind", ["torch", "exported"])
def test_memory_does_not_grow_over_two_hours(study: Path, tmp_path: Path, kind: str) -> None:
    """A view of three seconds every ten seconds, of 60 polyps; the test gives the crops."""
    path = calibrated_weights(study, "small")[0]
    if kind == "exported":
        export(path, tmp_path / "exported")
        path = tmp_path / "exported"
    count, rng, memory = counting(load_named(path, "cpu"), tmp_path / "out"), None, {}
    count.warm_up(os.cpu_count() or 1)
    polyps = np.random.default_rng(0).integers(0, 255, (60, 8, 8, 3), np.uint8)
    for frame, boxes in views(7200, 10, 3):
        rng = np.random.default_rng(frame)
        polyp = int(np.clip(frame / FPS / 120 + rng.normal(0, 0.3), 0, 59))
        noisy = polyps[polyp].repeat(8, 0).repeat(8, 1) // 2 + rng.integers(0, 99, (64, 64, 3))
        crops = list(itertools.repeat(noisy.astype(np.uint8), len(boxes)))
        count.frame(LiveFrame(frame, None, boxes, crops), boxes)
        if (frame + 1) % round(600 * FPS) == 0:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            memory[f"{(frame + 1) / FPS / 60:g} min"] = pages * os.sysconf("SC_PAGESIZE") >> 20
    views_kept = len(count._linker.stored.start) if count._linker.stored else 0
    print(
        f"\n{kind}: resident memory, MiB: {memory}; views kept {views_kept}, tracklets "
        f"{len(count.closings)}, ms: {percentiles(count.closings)}"
    )
    assert memory["120 min"] <= memory["30 min"] + 60
