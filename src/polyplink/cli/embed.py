"""The verb `embed`: a vector for every tracklet."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Unpack

from typer import Option

from polyplink.cli import options
from polyplink.cli.options import StrPath, TrackletOptions, check_inputs
from polyplink.cli.verb import inform, verb
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import Progress, Result, silent
from polyplink.core.text import many

if TYPE_CHECKING:
    import numpy as np

    from polyplink.encoders.encode import Encoded
    from polyplink.encoders.load import NamedEncoder
    from polyplink.scale.on_ray import Work


@verb
def embed_data(
    weights: options.Weights,
    data: options.Data,
    *,
    out: Annotated[StrPath | None, Option("--out", "-o", help="Parquet file to write.")] = None,
    part: options.Part = None,
    device: options.Device = "auto",
    precision: Annotated[
        Literal["float32", "tf32", "bf16", "int8"] | None,
        Option(help="float32, tf32 (on a GPU), bf16 or int8; bf16 by default on a GPU."),
    ] = None,
    workers: options.Workers = 2,
    shard: Annotated[
        str | None, Option(metavar="I/N", help="Embed one of N parts of the procedures.")
    ] = None,
    engine: Annotated[
        Literal["local", "ray"], Option(help="Compute in this process, or by Ray's workers.")
    ] = "local",
    address: Annotated[
        str | None,
        Option(metavar="HOST:PORT", help="Ray cluster; one is started here by default."),
    ] = None,
    keep_crops: Annotated[
        bool, Option(help="Keep crops for other verbs, or remove them when they are embedded.")
    ] = True,
    progress: Progress = inform,
    **tracklets: Unpack[TrackletOptions],
) -> "Result[Encoded]":
    """Turn every tracklet into a vector.

    The vectors of each procedure are stored in the prepared folder, where other verbs read them;
    `out` is a copy. With bf16, the mAP of a sample of the tracklets is also measured in float32.

    Args:
        precision: float32, tf32 (on a GPU), bf16 or int8; by default bf16 on a GPU, float32 on a
            CPU, and the exported precision for an exported encoder.
        shard: I/N: embed only the shard I, from 1, of N shards of the procedures.
        progress: Called for crops and tracklets, or for procedures.

    Returns:
        The vectors: `value.vectors` maps the encoder's name to an array (tracklets, width).

    Raises:
        PolyplinkError: If the weights, the data folder or an image is missing or broken, there is
            no such shard, or no Ray cluster answers.
    """
    weights, data = Path(weights), Path(data)
    check_inputs(weights, data, [part], device)
    if out is not None and Path(out).suffix not in ("", ".parquet"):
        raise PolyplinkError(
            f"vectors are written as Parquet, and {out} has another ending",
            f"give --out {Path(out).with_suffix('.parquet')}",
        )
    if address is not None and engine != "ray":
        raise PolyplinkError(
            "--address is for a Ray cluster, but the engine is local", "give --engine ray too"
        )
    from polyplink.data.origin import read_origin
    from polyplink.data.tables import read_data
    from polyplink.encoders.encode import encode, vectors_folder, write_embeddings
    from polyplink.encoders.load import load_named
    from polyplink.evaluate.truth import mean_aps_text, precision_effect
    from polyplink.scale.on_ray import on_ray, shard as procedures_of

    if out is not None and Path(out).is_file() and not _is_parquet(Path(out)):
        raise PolyplinkError(f"{out} is a file of another kind", "name another --out")

    # The encoder and the procedures.
    load = partial(
        load_named,
        device=device,
        precision=precision,
        tracklets=tracklets,
        origin=read_origin(data),
    )
    encoder = loaded = load(weights)
    procedures = of_part = read_data(data).part(part)
    if shard is not None:
        procedures = procedures_of(of_part, shard)

    # Ray's workers store the vectors, which are then only read here.
    if engine == "ray" and procedures:
        import torch

        # Workers have another working directory; added weights are named, not a path.
        load = partial(load, weights.absolute() if weights.exists() else weights)
        devices = on_ray(
            partial(start_embedding, load, data.absolute(), keep_crops=keep_crops),
            procedures,
            address=address,
            workers=workers,
            gpus=device != "cpu",
            progress=partial(progress, "procedures"),
        )
        key, device_type = devices[0]  # of a GPU where the workers have one
        encoder = replace(
            encoder, key=key, device=torch.device(device_type), embedder=_refuse_to_embed
        )
    encoded = encode(
        [encoder], data, procedures, keep_crops=keep_crops, workers=workers, progress=progress
    )

    # The effect of bf16 is measured against float32, if crops exist.
    mean_ap = {}
    if precision == "bf16" and keep_crops:
        in_float32 = load_named(weights, device, precision="float32")
        in_float32 = replace(in_float32, prepare=encoder.prepare)
        mean_ap = precision_effect(encoded.prepared, [in_float32, loaded])

    # The copy of the vectors, and messages.
    embeddings = encoded.embeddings[encoder.name]
    if out is not None:
        write_embeddings(Path(out), embeddings)
    tracklet_count, width = embeddings.vectors.shape
    counts = {
        "out": str(out or vectors_folder(encoder, encoded.prepared)),
        "tracklets": tracklet_count,
        "width": width,
        "weights": embeddings.weights_id,
        "crops": embeddings.crops_id,
        "precision": encoder.precision,
        "mAP": mean_ap,
    }
    printed = [f"{counts['out']}: {many(tracklet_count, 'vector')} of length {width}"]
    if shard is not None:
        counts["procedures"] = procedures
        printed.append(f"shard {shard}: {len(procedures)} of {many(len(of_part), 'procedure')}")
    warnings = [] if tracklet_count or not procedures else [options.NO_TRACKLETS]
    return Result(encoded, counts, [*printed, *mean_aps_text(mean_ap)], warnings)


def _is_parquet(path: Path) -> bool:
    """Whether a file is a Parquet file, by its first bytes."""
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def start_embedding(
    load: "Callable[[], NamedEncoder]", data: Path, *, keep_crops: bool = True
) -> "Work":
    """Build the function that embeds a procedure in a Ray worker; returns the key and device.

    Args:
        load: Loads the encoder.
        data: The data folder.
        keep_crops: Keep crops, or remove them once they are embedded.
    """
    from polyplink.encoders.encode import crops_of, stored_vectors, vectors_folder
    from polyplink.tracklets.prepare import prepare

    encoder = load()
    prepared = prepare(data, encoder.prepare, with_crops=False)
    passing = None if keep_crops else vectors_folder(encoder, prepared)
    cut = partial(crops_of, data=data, workers=1, passing=passing)

    def work(procedure_id: str) -> tuple[str, str]:
        stored_vectors(encoder, prepared.select([procedure_id]), None, silent, cut)
        return encoder.key, encoder.device.type

    return work


def _refuse_to_embed(crops: "np.ndarray", lengths: Sequence[int]) -> "np.ndarray":
    raise PolyplinkError("vectors vanished while they were read", "give the same command again")
