"""Embedding a data set with an encoder, once."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from polyplink.core.artefacts import content_key
from polyplink.core.errors import PolyplinkError
from polyplink.data import read_data
from polyplink.encoders import (
    Embedder,
    Embeddings,
    LoadedEncoder,
    NetworkEmbedder,
    build_encoder,
    colour_histogram,
    embed,
    load_encoder,
    pick_device,
    place,
    read_embeddings,
    write_embeddings,
)
from polyplink.encoders.export import SUFFIX, load_exported
from polyplink.jobs.progress import Progress, counter, silent
from polyplink.tracklets import Prepared, PrepareSettings, prepare


@dataclass(frozen=True)
class Embedded:
    """A prepared part of a data set and its vectors.

    Attributes:
        loaded: The encoder and its record.
        prepared: The tracklets.
        embeddings: Their vectors, in the order of the tracklets.
        path: The file they lie in.
    """

    loaded: LoadedEncoder
    prepared: Prepared
    embeddings: Embeddings
    path: Path


def kept(
    prepared: Prepared,
    embedder: Embedder,
    weights_id: str,
    device: torch.device,
    progress: Progress,
) -> tuple[Embeddings, Path]:
    """Embed a part of a prepared data set, or find it embedded; the vectors and their file."""
    # bf16 on a GPU and float32 on a CPU give other last digits: each keeps its own.
    name = f"{weights_id}-{device.type}-{content_key(prepared.procedures)}.parquet"
    path = prepared.folder / "embeddings" / name
    if path.is_file():
        with suppress(PolyplinkError):  # what cannot be read is made again
            return read_embeddings(path), path
    stage = counter(progress, f"embed {weights_id}")
    embeddings = embed(prepared, embedder, weights_id, progress=stage)
    write_embeddings(path, embeddings)
    return embeddings, path


def prepare_part(
    folder: Path,
    settings: PrepareSettings,
    part: str | Sequence[str] | None,
    workers: int,
    progress: Progress,
) -> Prepared:
    """Prepare a part of a data folder as weights or a recipe want it; at once where it is done."""
    named = read_data(folder).part(part) if isinstance(part, str) else part
    return prepare(
        folder,
        settings,
        procedures=named,
        workers=workers,
        progress=counter(progress, "crops"),
    )


def _loaded(weights: Path, device: str) -> tuple[LoadedEncoder, Embedder, torch.device]:
    """Weights or an exported file, what embeds with it, and where."""
    if weights.suffix == SUFFIX:
        PolyplinkError.unless(
            device in ("auto", "cpu"),
            f"{weights} is an exported encoder, which computes on the CPU",
            "give the weights it was exported from, or --device cpu",
        )
        return *load_exported(weights), torch.device("cpu")
    where = pick_device(device)
    loaded = load_encoder(weights, where)
    return loaded, NetworkEmbedder(loaded.encoder), where


def embed_data(
    weights: Path,
    folder: Path,
    *,
    part: str | Sequence[str] | None = None,
    out: Path | None = None,
    device: str = "auto",
    workers: int = 2,
    progress: Progress = silent,
) -> Embedded:
    """Turn every tracklet of a part of a data set into a vector.

    The vectors are kept beside the crops, keyed by weights, crops and procedures, and found
    there the next time.

    Args:
        weights: Weights file, the folder of a training run, or a file that `export` wrote.
        folder: The data folder.
        part: Part of the data set, or names of procedures; None for all of it.
        out: A Parquet file to write besides.
        device: Where to compute.
        workers: Threads that cut crops.
        progress: Told of crops and tracklets.

    Raises:
        PolyplinkError: If the weights, the data folder or an image is at fault.
    """
    loaded, embedder, where = _loaded(weights, device)
    prepared = prepare_part(folder, loaded.record.prepare, part, workers, progress)
    embeddings, path = kept(prepared, embedder, loaded.weights_id, where, progress)
    if out is not None:
        write_embeddings(out, embeddings)
    return Embedded(loaded, prepared, embeddings, out or path)


def untrained(loaded: LoadedEncoder, device: torch.device, seed: int = 0) -> NetworkEmbedder:
    """The same encoder with random weights: what training has to beat."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = build_encoder(loaded.record.encoder)
    return NetworkEmbedder(place(encoder, device))


def baselines(loaded: LoadedEncoder, device: torch.device) -> dict[str, tuple[str, Embedder]]:
    """By name: an id of their own and the embedder, for methods that learned nothing."""
    shape = content_key(loaded.record.encoder)
    return {
        "untrained encoder": (f"untrained-{shape}", untrained(loaded, device)),
        "colour histogram": ("histogram-8x8x8", colour_histogram),
    }
