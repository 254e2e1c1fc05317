"""Checks that authors of plugins run on their parts, in tests of their own.

Each raises an AssertionError that says what does not hold. docs/how-to/plugins.md shows them.
"""

import copy
import dataclasses
import inspect
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import torch
from pydantic import TypeAdapter

from polyplink.associate.grid_search import checked_clustering, cluster_all
from polyplink.associate.similarity import visual
from polyplink.core.arrays import Floats, Ints
from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import silent
from polyplink.data.files.images import Pixels
from polyplink.data.tables import DataSet, Imported, read_data, write_data
from polyplink.detect.first_pass import check_output
from polyplink.detect.onnx import DetectorRecord
from polyplink.encoders.build import check_tokens
from polyplink.encoders.embed import NetworkEmbedder
from polyplink.encoders.encoder import Encoder, FrameWise
from polyplink.evaluate.choosing import choose
from polyplink.evaluate.counting import clinic_row, count_procedure
from polyplink.evaluate.counting_figures import CountedProcedure, apply_choice
from polyplink.evaluate.hota import TrackingCounts, score_tracks
from polyplink.evaluate.metric import Metric, values_of
from polyplink.evaluate.retrieval import retrieve
from polyplink.evaluate.samples import BoxTracks, Samples
from polyplink.learn.bags import problem_of
from polyplink.learn.contrastive import Views
from polyplink.learn.fragment_set import FragmentSet, Tracklets
from polyplink.report.plots import plot_style
from polyplink.tracklets.crops import CropSource
from polyplink.tracklets.settings import TrackSettings

VIEWS, WIDTH = 6, 8
CLOSE = 1e-4


def _require(holds: Any, says: str) -> None:
    if not holds:
        raise AssertionError(says)


@contextmanager
def _refusals_as_assertions() -> Iterator[None]:
    try:
        yield
    except PolyplinkError as refused:
        raise AssertionError(str(refused)) from refused


def _check_fields(part: Any) -> None:
    """A frozen dataclass with a `kind`, which survives being written as JSON."""
    name = type(part).__name__
    _require(not isinstance(part, type), f"{part} is a class: give an instance, with ()")
    frozen = getattr(getattr(part, "__dataclass_params__", None), "frozen", False)
    _require(frozen, f"{name} is no frozen dataclass: recipes hold and compare it")
    _require(isinstance(getattr(part, "kind", None), str), f"{name} has no field kind")
    plain = json.loads(json.dumps(to_plain(part)))
    restored = TypeAdapter(type(part)).validate_python(plain)
    _require(restored == part, f"{name} read from its JSON is {restored}, not {part}")


def check_loss(loss: Any) -> None:
    """Check a loss: a scalar, finite with its gradient, whatever the order and size of the views.

    Args:
        loss: An instance, called with `Views`.

    Example:
        >>> from polyplink.learn.soft_targets import NtXentLoss
        >>> check_loss(NtXentLoss())
    """
    _check_fields(loss)
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(VIEWS, WIDTH, generator=generator)
    bag = torch.arange(VIEWS) // 2
    order = torch.tensor([4, 5, 0, 1, 2, 3])  # whole bags, so that anchors stay first

    def value(
        scale: float, rows: torch.Tensor, bags: torch.Tensor, case: str = "with bags of two views"
    ) -> tuple[float, torch.Tensor]:
        vectors = (scale * z[rows]).requires_grad_()
        frames, first = vectors.repeat_interleave(2, dim=0), torch.arange(VIEWS) % 2 == 0
        result = loss(
            Views(vectors, frames, bags, first, bags, torch.zeros_like(bags), rows / VIEWS)
        )
        _require(result.shape == (), f"the loss is no scalar but of shape {tuple(result.shape)}")
        (slope,) = torch.autograd.grad(result, vectors, allow_unused=True)
        _require(slope is not None, "the loss has no gradient")
        _require(
            result.isfinite() and slope.isfinite().all(),
            f"the loss or its gradient is not finite {case}",
        )
        return float(result.detach()), slope

    rows = torch.arange(VIEWS)
    value_at_rows, slope = value(1.0, rows, bag)
    _require(slope.abs().max() > 0, "the gradient is 0")
    moved, _ = value(1.0, order, bag)
    _require(
        abs(value_at_rows - moved) <= CLOSE * max(abs(value_at_rows), 1),
        "it depends on the order of bags",
    )
    value(1e4, rows, bag, "with huge vectors")
    value(1.0, rows, torch.arange(VIEWS), "without positives: each view in a bag of its own")
    value(1.0, rows, torch.zeros_like(bag), "without negatives: all views in one bag")


def check_encoder(config: Any, size: int = 32) -> None:
    """Check an encoder: vectors of its width, the same alone and packed, with gradients.

    Args:
        config: Its configuration, whose `build` makes it.
        size: Width and height of the crops to try, pixels.
    """
    _check_fields(config)
    for field in ("frame_weights", "mean", "std", "projector_hidden", "projector_out"):
        _require(hasattr(config, field), f"{type(config).__name__} has no field {field}")
    torch.manual_seed(0)
    encoder = config.build()
    _require(isinstance(encoder, Encoder), "build() gives no FrameWise or ClipWise encoder")
    with _refusals_as_assertions():
        check_tokens(encoder, size, 4)
    crops = np.random.default_rng(0).integers(0, 256, (9, size, size, 3), dtype=np.uint8)
    lengths = [4, 2, 3]
    embedder = NetworkEmbedder(encoder)
    vectors = embedder(crops, lengths)
    _require(vectors.shape == (3, encoder.width), f"vectors are {vectors.shape[1]} wide")
    _require(np.isfinite(vectors).all(), "vectors are not finite")
    _require((vectors == embedder(crops, lengths)).all(), "vectors differ from call to call")
    alone = np.concatenate([embedder(part, [len(part)]) for part in np.split(crops, [4, 6])])
    _require(np.allclose(vectors, alone, atol=CLOSE), "a tracklet's vector depends on the others")
    _require(np.abs(np.diff(vectors, axis=0)).max() > 0, "all vectors are equal")
    second = copy.deepcopy(config).build()
    second.load_state_dict(encoder.state_dict())
    loaded = NetworkEmbedder(second)(crops, lengths)
    _require(np.allclose(loaded, vectors, atol=CLOSE), "its state dict does not hold all it needs")
    tokens = encoder.train()(torch.from_numpy(crops), lengths)
    _require(tokens.frames.shape[0] == len(crops), "tokens.frames has not one row a frame")
    tokens.tracklet.sum().backward()
    slopes = [p.grad for p in encoder.backbone.parameters()]
    _require(
        any(s is not None and s.abs().max() > 0 for s in slopes), "the backbone learns nothing"
    )
    if isinstance(second, FrameWise):
        with torch.no_grad():
            features = second.encode_frames(torch.from_numpy(crops))
            packed = second.pool_packed(features, torch.tensor(lengths)).numpy()
        _require(
            np.allclose(packed, vectors, atol=CLOSE),
            "pool_packed, which `polyplink export` needs, gives other vectors than aggregate",
        )


def check_bags(bags: Any) -> None:
    """Check a sampler: rows that exist, the anchor first, the same epoch from the same seed.

    Args:
        bags: An instance, with `draw` and `draw_validation`.

    Example:
        >>> from polyplink.learn.temporal_bags import TemporalBags
        >>> check_bags(TemporalBags())
    """
    _check_fields(bags)
    count, polyps = np.array([8, 12, 4, 8, 8, 12]), np.arange(6) // 2
    first, procedures = np.cumsum(count) - count, polyps // 2
    data = FragmentSet.__new__(FragmentSet)  # without pixels
    is_known, names = np.ones(6, bool), [f"t{i}" for i in range(6)]
    data.tracklets = Tracklets(names, procedures, polyps, is_known, first, count)
    starts = np.concatenate([f + 4 * np.arange(c // 4) for f, c in zip(first, count, strict=True)])
    data.rows, data.stride = starts[:, None] + np.arange(4), 1
    data.tracklet_of = np.repeat(np.arange(6), count)
    data.polyp_positions = np.linspace(0, 1, len(data.tracklet_of))
    owner = data.tracklet_of[starts]
    data.procedures, data.polyps, data.labelled = procedures[owner], polyps[owner], is_known[owner]
    data.positions = np.linspace(0, 1, len(owner))

    def drawn(seed: int) -> list[Any]:
        rng = np.random.default_rng(seed)
        return [bags.draw(data, 0.0, 4, rng), bags.draw_validation(data, 3.0, 4, rng)]

    for epoch, repeated in zip(drawn(0), drawn(0), strict=True):
        problem = problem_of(epoch, int(count.sum()))
        _require(problem is None, problem or "")
        members = epoch.bags.members
        _require(len(members) > 1, "fewer than two bags are drawn")
        same_epoch = np.array_equal(members, repeated.bags.members) and np.array_equal(
            epoch.clips, repeated.clips
        )
        _require(same_epoch, "the same seed gives another epoch: take all chance from rng")


def check_clusterer(clusterer: Any) -> None:
    """Check a clusterer: labels of all tracklets, and two clear groups under one of its settings.

    Args:
        clusterer: The class, whose `grid()` gives instances with `cluster(V, positions)`.
    """
    for method in ("grid", "cluster"):
        _require(callable(getattr(clusterer, method, None)), f"{clusterer!r} has no {method}")
    settings = tuple(clusterer.grid())
    title = getattr(clusterer, "__name__", type(clusterer).__name__)
    _require(settings, "grid() has no setting")
    angle = np.array([0.0, 0.05, 0.1, 1.5, 1.55, 1.6])
    rows = np.column_stack([np.cos(angle), np.sin(angle)])
    V, positions = visual(rows, "l2"), np.linspace(0, 1, 6)
    apart = False
    with _refusals_as_assertions():
        many = cluster_all(settings, V, positions, title, threads=1)
    for row, setting in enumerate(settings):
        _require(dataclasses.is_dataclass(setting), f"{setting} is no dataclass")
        for n in (6, 1):
            with _refusals_as_assertions():
                clusters, repeated = (
                    checked_clustering(setting, V[:n, :n], positions[:n], str(setting))
                    for _ in range(2)
                )
            labels = np.asarray(clusters.labels)
            numbers = np.unique(labels)
            _require(
                (numbers == np.arange(len(numbers))).all(),
                f"{setting}: labels are {numbers.tolist()}, not 0 to {len(numbers) - 1}",
            )
            same = np.array_equal(labels, repeated.labels)
            _require(same, f"{setting}: another result for the same input")
            if n == 6:
                same = np.array_equal(labels, many.labels[row])
                _require(same, f"{setting}: another result of cluster_many than of cluster")
            apart |= labels.tolist() in ([0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0])
    _require(apart, "no setting of grid() separates two clear groups")


def check_tracker(tracker: Any) -> None:
    """Check a tracker: a track for every box, one box a frame in each, the same frame by frame.

    Args:
        tracker: The class, called with frames per second and `TrackSettings`.

    Example:
        >>> from polyplink.tracklets.tracks import Tracker
        >>> check_tracker(Tracker)
    """
    frames = np.repeat(np.arange(20), 2)
    boxes = np.tile(np.array([[10, 10, 40, 40], [300, 200, 40, 40]], np.float64), (20, 1))
    boxes[:, 0] += frames
    scores = np.full(40, 0.9)
    tracks = tracker(25.0, TrackSettings()).update(frames, boxes, scores)
    _require(np.shape(tracks) == (40,), "update gives not one track a box")
    _require(np.asarray(tracks).min() >= -1, "a track is below -1")
    for track in set(np.asarray(tracks).tolist()) - {-1}:
        track_frames = frames[tracks == track]
        _require(
            len(track_frames) == len(set(track_frames.tolist())),
            f"track {track} has two boxes in one frame",
        )
    first, second = np.asarray(tracks)[::2], np.asarray(tracks)[1::2]
    _require(len(set(first.tolist())) == 1, "a box that moves a pixel a frame changes its track")
    _require(not set(first.tolist()) & set(second.tolist()), "boxes far apart are one track")
    fresh = tracker(25.0, TrackSettings())
    by_frame = [
        fresh.update(frames[i : i + 2], boxes[i : i + 2], scores[:2]) for i in range(0, 40, 2)
    ]
    _require((np.concatenate(by_frame) == tracks).all(), "frame by frame it finds other tracks")
    empty = fresh.update(frames[:0], boxes[:0], scores[:0])
    _require(np.shape(empty) == (0,), "update of no box does not give none")


def check_layout(
    decode: Callable[..., Any], outputs: Mapping[str, Any], record: DetectorRecord
) -> None:
    """Check a layout of a detector's outputs: corners in pixels of its input, and scores.

    Args:
        decode: Called with the outputs of one image by name, and the record.
        outputs: Of your detector, with at least one box.
        record: With `size`.
    """
    assert record.size is not None
    corners, scores = decode(dict(outputs), record)
    _require(corners.ndim == 2 and corners.shape[1] == 4, "corners are not (n, 4)")
    _require(scores.shape == (len(corners),), "there is not one score a box")
    _require(len(corners), "these outputs hold no box")
    _require(np.isfinite(corners).all() and np.isfinite(scores).all(), "a value is not finite")
    _require(((scores >= 0) & (scores <= 1)).all(), "a score is outside 0 to 1")
    _require((corners[:, 2:] >= corners[:, :2]).all(), "corners are not left, top, right, bottom")
    _require(corners.max() > 1.5, "corners are shares of the image: multiply them by its size")


def check_importer(importer: Callable[..., Imported], source: Path) -> None:
    """Check an importer: tables that hold together, the same each time, and an unchanged source.

    Args:
        importer: Called with the source and images, strict, workers and progress by name.
        source: A small data set.
    """

    def contents() -> dict[Path, bytes]:
        files = [source] if source.is_file() else sorted(source.rglob("*"))
        return {path: path.read_bytes() for path in files if path.is_file()}

    def imported() -> Imported:
        return importer(
            source, images=True, strict=False, workers=1, progress=lambda done, total: None
        )

    before, read = contents(), imported()
    _require(isinstance(read, Imported), "the importer returns no Imported")
    _require(read.data.detections.height, "no box was read")
    _require(imported().data.key == read.data.key, "read again, the data set is another")
    _require(contents() == before, "the importer changes its source")
    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder), read.data)
        _require(read_data(Path(folder)).key == read.data.key, "written and read, it is another")


def check_detector(detector: Callable[[Pixels], npt.ArrayLike]) -> None:
    """Check a detector: boxes in images of several sizes, which stay as they are.

    Args:
        detector: Called with a black, a white and a random image of each size.

    Example:
        >>> check_detector(lambda image: [[0, 0, image.shape[1], image.shape[0], 0.9]])
    """
    rng = np.random.default_rng(0)
    for height, width in ((64, 48), (288, 384)):
        for low, high in ((0, 1), (255, 256), (0, 256)):
            image = rng.integers(low, high, (height, width, 3)).astype(np.uint8)
            before = image.copy()
            with _refusals_as_assertions():
                check_output(detector(image))
            _require((image == before).all(), "it changes the image, from which crops are cut")


def check_simulated_detector(
    detector: Callable[[str, DataSet, int, Path], pl.DataFrame], preset: str
) -> None:
    """Check a simulated detector: boxes with scores, in their frames, by the seed.

    Args:
        detector: Called with the preset, two procedures of one polyp each, a seed, and the folder
            of the procedures.
        preset: A name that it knows.
    """
    frames = np.arange(40)
    boxes = pl.concat(
        pl.DataFrame({"frame": frames, "x": 100 + frames, "y": 80.0, "w": 60.0, "h": 50.0})
        .cast({"x": pl.Float64})
        .with_columns(procedure_id=pl.lit(name), polyp_id=pl.lit(f"{name}-polyp"))
        for name in "vw"
    )
    size = {"n_frames": len(frames), "fps": 25.0, "width": 640, "height": 480, "source": "."}
    rows = [{"procedure_id": name, "dataset": "made", "patient": name, **size} for name in "vw"]
    polyps = boxes.select("polyp_id", "procedure_id").unique(maintain_order=True)
    data = DataSet.of(boxes, pl.DataFrame(rows), polyps)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder, data)

        def boxes_of(seed: int) -> pl.DataFrame:
            return detector(preset, read_data(folder), seed, folder)

        first_boxes = boxes_of(0)
        _require(first_boxes.equals(boxes_of(0)), "the same seed gives other boxes")
    _require(first_boxes.height, "it gives no box")
    DataSet.of(first_boxes, data.procedures, data.polyps.clear())
    scores = first_boxes["score"].to_numpy()
    _require(np.isfinite(scores).all(), "a box has no score")
    _require(((scores >= 0) & (scores <= 1)).all(), "a score is outside 0 to 1")
    inside = (pl.col("x") + pl.col("w") <= 640) & (pl.col("y") + pl.col("h") <= 480)
    inside &= (pl.col("x") >= 0) & (pl.col("y") >= 0) & pl.col("frame").is_in(frames.tolist())
    _require(
        first_boxes.select(inside.all()).item(), "a box is outside its frame, or its frame is none"
    )


def check_crops(source: CropSource, folder: Path, procedure_id: str) -> None:
    """Check a source of crops: pictures of the requested size, the same at each request.

    Args:
        source: The source.
        folder: A folder that it renders the crops of.
        procedure_id: A procedure there, of three frames or more.
    """
    with tempfile.TemporaryDirectory() as empty:
        _require(not source.holds(Path(empty)), "it takes a folder that is not its own")
    _require(source.holds(folder), f"it does not take {folder}")
    frames, windows = np.arange(3), np.tile([0, 0, 32, 32], (3, 1))
    crops = source.open(folder, procedure_id, "cpu").crops(frames, windows, 16, threads=1)
    _require(crops.dtype == np.uint8, f"crops are {crops.dtype}, not uint8")
    _require(crops.shape == (3, 16, 16, 3), f"three crops of 16 pixels are {crops.shape}")
    reopened = source.open(folder, procedure_id, "cpu")
    for k in range(3):
        single = reopened.crops(frames[k : k + 1], windows[k : k + 1], 16, threads=2)
        _require(np.array_equal(single[0], crops[k]), "a crop depends on those it is rendered with")


def check_figure(draw: Callable[[Any], Any]) -> None:
    """Check a figure: one of matplotlib, the same each time.

    Args:
        draw: Called with what is shown, as of `polyplink figures`: here two encoders on two
            procedures of three tracklets. Of `encoded` only `vectors` and `first` are there.

    Example:
        >>> from polyplink.report.figures import draw_recall
        >>> check_figure(draw_recall)
    """
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow

    rng = np.random.default_rng(0)
    samples = Samples.of("abcdef", "vvvwww", list("ppqrrs"), np.tile([0.0, 0.5, 1.0], 2))
    vectors = {name: rng.normal(size=(VIEWS, WIDTH)) for name in ("ours", "theirs")}
    first = SimpleNamespace(name="ours", record=None)
    encoded = SimpleNamespace(vectors=vectors, first=first)
    settings = {"grid": "demo", "threads": 1, "progress": silent, "weights": (), "clusterers": ()}
    context = SimpleNamespace(encoded=encoded, samples=samples, subtitle="made", **settings)

    def drawn() -> bytes:
        figure = draw(context)
        _require(isinstance(figure, Figure), f"it gives no Figure but {type(figure).__name__}")
        with plot_style(), BytesIO() as file:
            figure.savefig(file, format="svg", metadata={"Date": None})
            return file.getvalue()

    _require(drawn() == drawn(), "the figure is another one the second time")


def check_verb(verb: Callable[..., Any]) -> None:
    """Check a verb: a documented function, with parameters that the command line can take.

    Args:
        verb: The function.

    Example:
        >>> from polyplink import count
        >>> check_verb(count)
    """
    from polyplink.cli.command import command  # noqa: PLC0415 - of verbs alone

    _require(inspect.getdoc(verb), f"{verb.__name__} has no docstring, and so no help")
    with _refusals_as_assertions():
        command(verb)


def check_metric(metric: Metric) -> None:
    """Check a metric: numbers of the right shape, the same in any order of the tracklets.

    Args:
        metric: The metric.

    Example:
        >>> from polyplink.core.parts import METRICS
        >>> check_metric(METRICS["mAP"])
    """
    _require(isinstance(metric, Metric), f"{metric!r} is no Metric")
    _require(metric.task != "reid", "only built-in metrics can be of re-identification")
    _require(metric.meaning and callable(metric.value), "it has no meaning or no value")
    polyps = np.array([0, 0, 1, 1, 1, 2, 2, 3])
    clusters = np.array([0, 1, 1, 1, 2, 0, 3, 3])
    vectors = np.random.default_rng(0).normal(size=(len(polyps), WIDTH))
    order = np.array([5, 2, 7, 0, 3, 6, 1, 4])

    def value(argument: Any, shape: tuple[int, ...]) -> Floats:
        with _refusals_as_assertions():
            return values_of(metric.title or metric.meaning, metric, argument, shape)

    if metric.task == "tracking":
        counted = score_tracks(
            BoxTracks.of(range(10), ["p"] * 10, [[0, 0, 10, 10]] * 10),
            BoxTracks.of(range(10), ["a"] * 5 + ["b"] * 5, [[0, 0, 10, 10]] * 10),
        )
        resamples = value(TrackingCounts.weighted([counted], [[1.0], [2.0]]), (2,))
        _require(np.isfinite(resamples).all(), f"it returns {resamples}")
        return

    def value_of_rows(rows: Ints) -> Floats:
        labels = np.unique(clusters[rows], return_inverse=True)[1]
        if metric.task == "retrieval":
            polyp_ids = [f"polyp {polyp}" for polyp in polyps]
            samples = Samples.of(
                "abcdefgh", ["v"] * len(rows), polyp_ids, np.linspace(0, 1, len(rows))
            )
            retrieval = retrieve(vectors[rows], samples.take(rows))
            queries = value(retrieval, (len(rows),))
            return queries[np.argsort(rows)][:7]  # the last one has no match
        counts = count_procedure([labels], polyps[rows].tolist())
        fold = apply_choice(counts, choose([counts]))
        clinic = clinic_row("v", labels, polyps[rows].tolist(), [True] * len(rows))
        return value(CountedProcedure(fold, labels, polyps[rows], clinic), ())

    original, moved = value_of_rows(np.arange(len(polyps))), value_of_rows(order)
    undefined = metric.task == "counting" and np.isnan(original)
    _require(undefined or np.isfinite(original).all(), f"it returns {original}")
    _require(
        np.allclose(original, moved, equal_nan=True), "it depends on the order of the tracklets"
    )
