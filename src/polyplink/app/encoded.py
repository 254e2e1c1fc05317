"""Encoders on a part of a data folder: prepared, embedded, cached, checked.

Every verb that needs vectors gets them here: `load_named` reads weights, `encode` cuts crops,
embeds them and keeps the vectors of each procedure in the prepared folder for the next call.
"""

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

from polyplink import __version__
from polyplink.app.options import TrackletOptions
from polyplink.app.request import Progress, counter, inform
from polyplink.core.artefacts import content_key, whole_file, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.core.text import brief
from polyplink.data import BoxesOrigin, read_data, read_origin
from polyplink.encoders import (
    AnyEncoderConfig,
    Embedder,
    Embeddings,
    NetworkEmbedder,
    WeightsRecord,
    WithCrops,
    build_started,
    colour_histogram,
    default_precision,
    embed,
    embed_stored,
    fragment_table,
    load_encoder,
    pick_device,
    place,
    weights_path,
)
from polyplink.encoders.export import ExportedEncoder
from polyplink.evaluate import Samples, TrackletBoxes, retrieve
from polyplink.tracklets import Prepared, PrepareSettings, box_rows, prepare
from polyplink.tracklets.build import USUAL_FPS
from polyplink.tracklets.crops import broken_path
from polyplink.tracklets.prepare import add_crops, cut_at_broken


@dataclass(frozen=True)
class NamedEncoder:
    """An encoder with everything that is needed to use it.

    Attributes:
        name: For tables and figures.
        key: Identifies the weights; names the files of cached vectors.
        embedder: Turns packed crops into vectors.
        device: Device that it runs on.
        prepare: Crop rule and sampling of its input.
        record: The record of its weights; None if there is none.
        precision: float32, bf16 or int8.
        remark: What a table has to say beside its figures; "" for nothing.
        stand_in: Which network stands in for the one that the name means; "" for none.
    """

    __repr__ = brief

    name: str
    key: str
    embedder: Embedder
    device: torch.device
    prepare: PrepareSettings
    record: WeightsRecord | None = None
    precision: str = "float32"
    remark: str = ""
    stand_in: str = ""


def load_named(
    weights: Path,
    device: str = "auto",
    name: str | None = None,
    precision: str | None = None,
    tracklets: TrackletOptions | None = None,
    origin: BoxesOrigin | None = None,
) -> NamedEncoder:
    """Load a weights file, the folder of a training run, added weights, or an exported encoder.

    Args:
        weights: File, folder or name.
        device: "auto", "cpu", "cuda" or "cuda:N"; exported encoders compute on the CPU.
        name: Its name; by default that of the recipe that trained it.
        precision: "float32", "tf32", "bf16" or "int8"; by default bf16 on a GPU, float32 on the
            CPU, and of an exported encoder what it was exported for.
        tracklets: What to change in the settings that the weights carry.
        origin: The detector of the boxes, which states thresholds of its own.

    Raises:
        PolyplinkError: If the weights are missing or broken, there is no such device, or it does
            not compute in that precision.
    """
    path = weights_path(weights)
    if path.suffix == ".onnx":
        PolyplinkError.unless(
            device in ("auto", "cpu"),
            f"{weights} is an exported encoder, which computes on the CPU",
            "give the weights it was exported from, or --device cpu",
        )
        where = torch.device("cpu")
        exported = ExportedEncoder(path, precision)
        usual, used = exported.exported_for, exported.precision
        network: Embedder = exported
        record, key = exported.record, exported.weights_id
    else:
        where = pick_device(device)
        usual = default_precision(where)
        used = precision or usual
        if used == "tf32" and where.type == "cpu":  # which computes float32 then
            used = "float32"
        PolyplinkError.unless(
            used != "int8",
            f"{weights} holds no 8-bit numbers",
            "write some with `polyplink export --int8 DATA`",
        )
        loaded = load_encoder(weights, where)
        network = NetworkEmbedder(loaded.encoder, compute=used, frozen=True)
        record, key = loaded.record, loaded.weights_id
    name = name or record.name or weights.stem
    key = key if used == usual else f"{key}-{used}"
    settings = (tracklets or TrackletOptions()).on(record.prepare, origin)
    return NamedEncoder(name, key, network, where, settings, record, used)


def load_for(weights: Path, data: Path, request: Any) -> NamedEncoder:
    """Load weights for the boxes of a data folder, with the thresholds that their detector states.

    Args:
        weights: File, folder or name.
        data: The data folder.
        request: Has the options of tracklets and the device.

    Raises:
        PolyplinkError: As `load_named`.
    """
    return load_named(weights, request.device, tracklets=request, origin=read_origin(data))


def load_several(
    weights: Sequence[Path],
    device: str = "auto",
    tracklets: TrackletOptions | None = None,
    data: Path | None = None,
) -> list[NamedEncoder]:
    """Load encoders under different names: by their files where a recipe trained several.

    Raises:
        PolyplinkError: If a file is given twice, and as `load_named`.
    """
    PolyplinkError.unless(
        len(set(weights)) == len(weights), "weights are given twice", "give others to compare"
    )
    origin = None if data is None else read_origin(data)
    loaded = [load_named(path, device, tracklets=tracklets, origin=origin) for path in weights]
    count = Counter(one.name for one in loaded)
    return [
        one if count[one.name] == 1 else replace(one, name=f"{one.name} ({path})")
        for one, path in zip(loaded, weights, strict=True)
    ]


def precision_effect(
    prepared: Prepared, encoders: Sequence[NamedEncoder], most: int = 64
) -> dict[str, float]:
    """Retrieval mAP of encoders that differ in precision, on a sample of a part.

    Args:
        prepared: The part; its first procedures that have `most` tracklets together are embedded.
        encoders: Each embeds the sample again.
        most: Tracklets that suffice.

    Returns:
        mAP by precision; empty if no polyp of the sample is known or has two tracklets.
    """
    counts = prepared.tracklets.group_by("procedure_id", maintain_order=True).len()
    enough = (counts["len"].cum_sum() - counts["len"]) < most
    sample = prepared.select(counts["procedure_id"].filter(enough).to_list())
    try:
        samples = samples_of(sample)
    except PolyplinkError:
        return {}
    vectors = {one.precision: embed(sample, one.embedder, one.key).vectors for one in encoders}
    found = {name: retrieve(rows, samples).mean_ap for name, rows in vectors.items()}
    return {name: value for name, value in found.items() if value is not None}


def untrained(config: AnyEncoderConfig, device: torch.device, seed: int = 0) -> NetworkEmbedder:
    """An encoder with random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = build_started(config)
    return NetworkEmbedder(place(encoder, device))


def baselines(encoder: NamedEncoder) -> list[NamedEncoder]:
    """Untrained baselines: the same network with random weights, and a colour histogram."""
    assert encoder.record is not None
    config, where = encoder.record.encoder, encoder.device
    network = untrained(config, where)
    key = f"untrained-{content_key(config)}"
    return [
        NamedEncoder("untrained encoder", key, network, where, encoder.prepare),
        histogram("colour histogram", where, encoder.prepare),
    ]


def histogram(name: str, device: torch.device, settings: PrepareSettings) -> NamedEncoder:
    """The colour histogram as an encoder."""
    return NamedEncoder(name, "histogram-8x8x8", colour_histogram, device, settings)


def prepare_part(
    folder: Path,
    settings: PrepareSettings,
    part: str | Sequence[str] | None,
    workers: int,
    progress: Progress = inform,
    *,
    with_crops: bool = True,
) -> Prepared:
    """Prepare a part of a data folder, or use the cached result.

    Args:
        folder: The data folder.
        settings: Crop rule and sampling.
        part: Name of a part, ids of procedures, or None for the whole data set.
        workers: Threads that cut crops.
        progress: Called for crops.
        with_crops: False for the tables alone.
    """
    procedures = read_data(folder).part(part) if isinstance(part, str) else part
    stage = counter(progress, "crops")
    return prepare(
        folder,
        settings,
        procedures=procedures,
        with_crops=with_crops,
        workers=workers,
        progress=stage,
    )


@dataclass(frozen=True)
class Encoded:
    """Encoders on the same tracklets, or on fragments of them.

    Attributes:
        folder: The data folder.
        part: The part of it, as requested.
        prepared: Tracklets and their crops, with the settings of the first encoder.
        clip: Crops of a fragment; None where whole tracklets were embedded.
        encoders: The encoders, by name; the first is the reference for comparisons.
        embeddings: Vectors by the encoder's name, rows as in `table`.
        folders: The folder of each encoder's vectors, a file a procedure.
    """

    __repr__ = brief

    folder: Path
    part: str | Sequence[str] | None
    prepared: Prepared
    clip: int | None
    encoders: Mapping[str, NamedEncoder]
    embeddings: Mapping[str, Embeddings]
    folders: Mapping[str, Path]

    @property
    def first(self) -> NamedEncoder:
        """The encoder that was given first."""
        return next(iter(self.encoders.values()))

    @property
    def vectors(self) -> dict[str, np.ndarray]:
        """Vectors (n, d) by the encoder's name."""
        return {name: found.vectors for name, found in self.embeddings.items()}

    @cached_property
    def table(self) -> pl.DataFrame:
        """The n rows: tracklets, or fragments under `fragment_id`."""
        if self.clip is None:
            return self.prepared.tracklets
        return fragment_table(self.prepared, self.clip)

    @cached_property
    def samples(self) -> Samples:
        """The rows as samples for the tasks of `evaluate`.

        Raises:
            PolyplinkError: If there is no row, or no polyp is known.
        """
        return samples_of(self.prepared, self.clip)

    def boxes(self) -> TrackletBoxes:
        """All boxes of all tracklets, in the order of the rows; only for whole tracklets."""
        assert self.clip is None
        rows, tracklet = box_rows(self.prepared.tracklets)
        found = self.prepared.detections.select("frame", "x", "y", "w", "h")[rows]
        return TrackletBoxes(
            self.samples.polyp,
            np.searchsorted(tracklet, np.arange(self.prepared.tracklets.height + 1)),
            found["frame"].to_numpy().astype(np.int64),
            found.select("x", "y", "w", "h").to_numpy().astype(np.float64),
        )

    def add(
        self, encoders: Sequence[NamedEncoder], workers: int = 2, progress: Progress = inform
    ) -> "Encoded":
        """The same with further encoders, embedded now.

        Raises:
            PolyplinkError: If an encoder is made for other tracklets, or a vector is not finite.
        """
        ids = self.prepared.tracklets["tracklet_id"].to_list()
        found, folders = dict(self.embeddings), dict(self.folders)
        for encoder in encoders:
            own = self.prepared
            if encoder.prepare != own.settings:
                own = prepare_part(self.folder, encoder.prepare, self.part, workers, progress)
                PolyplinkError.unless(
                    own.tracklets["tracklet_id"].to_list() == ids,
                    f"{encoder.name} is made for tracklets of other settings than the first",
                    "give --min-length, --max-gap and --min-iou for all, or evaluate it alone",
                )
            found[encoder.name] = stored_vectors(encoder, own, self.clip, progress)
            folders[encoder.name] = vectors_folder(encoder, own, self.clip)
        named = {**self.encoders, **{encoder.name: encoder for encoder in encoders}}
        return replace(self, encoders=named, embeddings=found, folders=folders)


def encode(
    encoders: Sequence[NamedEncoder],
    folder: Path,
    part: str | Sequence[str] | None = None,
    *,
    clip: int | None = None,
    keep_crops: bool = True,
    workers: int = 2,
    progress: Progress = inform,
) -> Encoded:
    """Turn every tracklet, or every fragment, of a part into a vector by each encoder.

    Vectors are kept in the prepared folder (see `vectors_folder`), a file a procedure.

    Args:
        encoders: At least one.
        folder: The data folder.
        part: Name of a part, ids of procedures, or None for the whole data set.
        clip: Crops of a fragment; None to embed whole tracklets.
        keep_crops: False to remove each procedure's crops when its tracklets are embedded.
        workers: Threads that cut crops.
        progress: Called for crops, and for tracklets or fragments.

    Raises:
        PolyplinkError: If the data folder, an image or a vector is at fault, no tracklet has
            `clip` crops, or the encoders are made for different tracklets.
    """
    settings = encoders[0].prepare
    prepared = prepare_part(folder, settings, part, workers, progress, with_crops=keep_crops)
    if not keep_crops:
        for encoder in encoders:
            passing = vectors_folder(encoder, prepared)
            cut = partial(crops_of, data=folder, workers=workers, passing=passing)
            stored_vectors(encoder, prepared, None, progress, cut)
        prepared = cut_at_broken(prepared)
    return Encoded(folder, part, prepared, clip, {}, {}, {}).add(encoders, workers, progress)


def vectors_folder(encoder: NamedEncoder, prepared: Prepared, clip: int | None = None) -> Path:
    """Where a prepared folder keeps an encoder's vectors, `Prepared.stem`.parquet a procedure.

    A GPU (bf16) and a CPU (float32) give slightly different vectors: each has a folder of its own.
    """
    name = f"{encoder.key}-{encoder.device.type}" + (f"-fragments{clip}" if clip else "")
    return prepared.folder / "vectors" / name


def stored_vectors(
    encoder: NamedEncoder,
    prepared: Prepared,
    clip: int | None,
    progress: Progress,
    with_crops: WithCrops = nullcontext,
) -> Embeddings:
    """Read an encoder's vectors from their files, or embed and write them; see `embed_stored`."""
    folder = vectors_folder(encoder, prepared, clip)
    if not (folder / "run.json").is_file():
        settings = {"fragments": clip, "tracklets": prepared.settings}
        made = {"polyplink": __version__, "command": "embed", "settings": settings}
        inputs = {"weights": encoder.key, "device": encoder.device.type}
        write_json(folder / "run.json", made | {"inputs": inputs})
    what = f"embed {encoder.key}" if clip is None else f"embed fragments of {clip}"
    return embed_stored(
        prepared,
        encoder.embedder,
        encoder.key,
        folder,
        length=clip,
        with_crops=with_crops,
        progress=counter(progress, what),
    )


@contextmanager
def crops_of(
    part: Prepared, *, data: Path, workers: int, passing: Path | None = None
) -> Iterator[Prepared]:
    """Give the part of one procedure its crops, for `stored_vectors`.

    Args:
        part: The part.
        data: The data folder.
        workers: Threads that cut crops.
        passing: Folder for crops that are removed in the end; None to keep them.
    """
    kept = part.crops_path(part.procedures[0])
    if passing is None or part.has_crops(part.procedures[0]):
        yield add_crops(part, data, workers=workers)
        return
    cut = add_crops(replace(part, folder=passing), data, workers=workers)
    crops = cut.crops_path(cut.procedures[0])
    broken = broken_path(crops)
    if broken.is_file():  # whoever reads the vectors must know where tracklets were cut
        with whole_file(broken_path(kept)) as copy:
            shutil.copyfile(broken, copy)
    yield cut
    crops.unlink()
    broken.unlink(missing_ok=True)
    with suppress(OSError):  # another process cuts there
        crops.parent.rmdir()


def samples_of(prepared: Prepared, clip: int | None = None) -> Samples:
    """Tracklets, or fragments of `clip` crops, as samples for the tasks of `evaluate`.

    Raises:
        PolyplinkError: If there is none, or no polyp is known.
    """
    table = prepared.tracklets if clip is None else fragment_table(prepared, clip)
    if table.is_empty():
        raise PolyplinkError(
            f"no tracklet of {prepared.settings.min_length} boxes or more to evaluate on",
            "name another --part, or give --min-length, --max-gap or --min-iou: `polyplink doctor` "
            "says which values keep how many",
        )
    if table["polyp_id"].is_null().all():
        raise PolyplinkError(
            "table detections: column polyp_id is empty, and evaluation needs true polyps",
            "give labelled procedures, or use `polyplink count`",
        )
    spans = prepared.spans.procedures.rows()
    seen = seconds(table, prepared.data.procedures) if clip is None else None
    return Samples.of(
        table["tracklet_id" if clip is None else "fragment_id"].to_list(),
        table["procedure_id"].to_list(),
        table["polyp_id"].to_list(),
        table["position"].to_numpy(),
        {procedure: max(last - first, 1) for procedure, first, last in spans},
        seen,
    )


def seconds(tracklets: pl.DataFrame, procedures: pl.DataFrame) -> np.ndarray:
    """First and last moment of tracklets (n, 2), seconds; at 25 frames a second if not known.

    Args:
        tracklets: procedure_id, first_frame and last_frame (n rows).
        procedures: procedure_id and fps of all procedures.
    """
    fps = {name: fps or USUAL_FPS for name, fps in procedures["procedure_id", "fps"].rows()}
    rate = np.array([fps[name] for name in tracklets["procedure_id"]])[:, None]
    moments: np.ndarray = tracklets.select("first_frame", "last_frame").to_numpy() / rate
    return moments
