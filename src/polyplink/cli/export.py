"""The verbs `embed` and `export`: a vector for every tracklet; an encoder for other programs."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from polyplink.cli import options
from polyplink.cli.options import Request, TrackletRequest, option
from polyplink.cli.verb import Result, check_given, inform
from polyplink.core.errors import PolyplinkError
from polyplink.core.notebook import Facts
from polyplink.core.progress import Progress, counter, silent

if TYPE_CHECKING:
    import numpy as np

    from polyplink.encoders.encode import Encoded
    from polyplink.encoders.load import NamedEncoder
    from polyplink.scale.on_ray import Work

Precision = Annotated[
    Literal["float32", "bf16", "int8"] | None,
    Option(help="float32, bf16 or int8; float32 by default, bf16 on a GPU."),
]
CALIBRATION = 64  # crops that scale the activations of an 8-bit export


def mean_aps_text(mean_ap: Mapping[str, float]) -> list[str]:
    """The effect of a precision on retrieval in one line; no line if it was not measured.

    Example:
        >>> mean_aps_text({"float32": 0.39911, "bf16": 0.39904})
        ['mAP on a sample: float32 0.3991, bf16 0.3990']
    """
    values = ", ".join(f"{name} {value:.4f}" for name, value in mean_ap.items())
    return [f"mAP on a sample: {values}"] if mean_ap else []


@dataclass(frozen=True)
class EmbedRequest(TrackletRequest):
    """What to embed, and with which weights."""

    weights: options.Weights
    data: options.Data
    out: Path | None = option("Parquet file to write.", None, "--out", "-o")
    part: options.Part = None
    device: options.Device = "auto"
    precision: Annotated[
        Literal["float32", "tf32", "bf16", "int8"] | None,
        Option(help="float32, tf32 (on a GPU), bf16 or int8; bf16 by default on a GPU."),
    ] = None
    workers: options.Workers = 2
    shard: str | None = option("Embed one of N parts of the procedures.", metavar="I/N")
    engine: Literal["local", "ray"] = option(
        "Compute in this process, or by Ray's workers.", "local"
    )
    address: str | None = option(
        "Ray cluster; one is started here by default.", metavar="HOST:PORT"
    )
    keep_crops: bool = option(
        "Keep crops for other verbs, or remove them when they are embedded.", True
    )


def embed_data(request: EmbedRequest, progress: Progress = inform) -> "Result[Encoded]":
    """Turn every tracklet into a vector.

    The vectors of each procedure are a file in the prepared folder, where other verbs find them;
    `out` is a copy. With bf16, the mAP of a sample of the tracklets is also measured in float32.

    Raises:
        PolyplinkError: If the weights, the data folder or an image is at fault, there is no such
            shard, or no Ray cluster answers.
    """
    check_given(request.weights, request.data, [request.part], request.device)
    PolyplinkError.unless(
        request.address is None or request.engine == "ray",
        "--address is of a Ray cluster, and the engine is local",
        "give --engine ray too",
    )
    from polyplink.data import read_data, read_origin
    from polyplink.encoders import write_embeddings
    from polyplink.encoders.encode import encode
    from polyplink.encoders.load import load_named
    from polyplink.evaluate.truth import precision_effect
    from polyplink.scale import shard

    encoder = load_named(
        request.weights,
        request.device,
        precision=request.precision,
        tracklets=request.tracklet_options,
        origin=read_origin(request.data),
    )
    part = read_data(request.data).part(request.part)
    procedures = part if request.shard is None else shard(part, request.shard)
    if request.engine == "ray" and procedures:
        encoder = _embed_on_ray(request, encoder, procedures, progress)
    encoded = encode(
        [encoder],
        request.data,
        procedures,
        keep_crops=request.keep_crops,
        workers=request.workers,
        progress=progress,
    )
    mean_ap = {}
    # The effect of bf16 is measured, float32 being the reference, where there are crops.
    if request.precision == "bf16" and request.keep_crops:
        plain = load_named(request.weights, request.device, precision="float32")
        plain = replace(plain, prepare=encoder.prepare)
        mean_ap = precision_effect(encoded.prepared, [plain, encoder])
    embeddings = encoded.embeddings[encoder.name]
    if request.out is not None:
        write_embeddings(request.out, embeddings)
    n, d = embeddings.vectors.shape
    counts = {
        "out": str(request.out or encoded.folders[encoder.name]),
        "tracklets": n,
        "width": d,
        "weights": embeddings.weights_id,
        "crops": embeddings.crops_id,
        "precision": encoder.precision,
        "mAP": mean_ap,
    }
    shown = ["{out}: {tracklets} vectors of {width}".format(**counts)]
    if request.shard is not None:
        counts["procedures"] = procedures
        shown.append(f"shard {request.shard}: {len(procedures)} of {len(part)} procedures")
    no_tracklets = "no tracklets: `polyplink doctor` says which options give some"
    warnings = [] if n or not procedures else [no_tracklets]
    return Result(encoded, counts, [*shown, *mean_aps_text(mean_ap)], warnings)


def _embed_on_ray(
    request: EmbedRequest, encoder: "NamedEncoder", procedures: Sequence[str], progress: Progress
) -> "NamedEncoder":
    """Have Ray's workers embed procedures; returns the encoder as what finds their vectors."""
    import torch

    from polyplink.scale import on_ray

    weights = request.weights
    source = weights.absolute() if weights.exists() else weights  # or the name of added weights
    answers = on_ray(
        partial(start_embedding, replace(request, weights=source, data=request.data.absolute())),
        procedures,
        address=request.address,
        workers=request.workers,
        gpus=request.device != "cpu",
        progress=counter(progress, "procedures"),
    )
    key, device = answers[0]  # of a GPU where the workers have one
    return replace(encoder, key=key, device=torch.device(device), embedder=_nothing_left)


def start_embedding(request: EmbedRequest) -> "Work":
    """What embeds a procedure in one of Ray's workers; answers with key and device of the vectors.

    Raises:
        PolyplinkError: As `embed_data`.
    """
    from polyplink.data import read_origin
    from polyplink.encoders.encode import crops_of, prepare_part, stored_vectors, vectors_folder
    from polyplink.encoders.load import load_named

    encoder = load_named(
        request.weights,
        request.device,
        precision=request.precision,
        tracklets=request.tracklet_options,
        origin=read_origin(request.data),
    )
    prepared = prepare_part(request.data, encoder.prepare, None, 1, silent, with_crops=False)
    passing = None if request.keep_crops else vectors_folder(encoder, prepared)
    cut = partial(crops_of, data=request.data, workers=1, passing=passing)

    def work(procedure_id: str) -> tuple[str, str]:
        stored_vectors(encoder, prepared.select([procedure_id]), None, silent, cut)
        return encoder.key, encoder.device.type

    return work


def _nothing_left(crops: "np.ndarray", lengths: Sequence[int]) -> "np.ndarray":
    raise PolyplinkError("vectors vanished while they were read", "give the same command again")


@dataclass(frozen=True)
class ExportRequest(Request):
    """What to export, and how."""

    weights: options.Weights
    out: Annotated[Path, Argument(help="New folder for the exported encoder.")]
    precision: Precision = None
    data: Path | None = option("Data for 8-bit calibration and for measuring the effect on mAP.")
    int8: Path | None = option(
        "Short for --precision int8 --data DATA.", None, "--int8", metavar="DATA"
    )
    part: str | None = option("Part of that data; all by default.")
    workers: options.Workers = 2


@dataclass(frozen=True)
class Exported(Facts):
    """An exported encoder.

    Attributes:
        path: The folder.
        precision: float32, bf16 or int8.
        bits: 32 or 8: bits of its weights.
        size: Width and height of the crops it takes, pixels.
        bytes: Size of its graphs.
        weights: Id of the weights it came from.
        mean_ap: Retrieval mAP by precision on a sample of the data, if any was given.
    """

    path: Path
    precision: str
    bits: int
    size: int
    bytes: int
    weights: str
    mean_ap: Mapping[str, float] = field(default_factory=dict)


def export(request: ExportRequest, progress: Progress = inform) -> Result[Exported]:
    """Write an encoder as a folder for onnxruntime; the other verbs take it as WEIGHTS.

    Raises:
        PolyplinkError: If the encoder looks at clips, 8 bits are asked of one that is no
            convolutional network, a part is named without data, or weights or data are at fault.
    """
    from polyplink.tracklets.prepare import typical_crops

    weights, out, data = request.weights, request.out, request.int8 or request.data
    precision = "int8" if request.int8 else request.precision or "float32"
    PolyplinkError.unless(
        not out.exists(), f"{out} exists already", "name a new folder for the exported encoder"
    )
    PolyplinkError.unless(
        request.part is None or data is not None,
        f"part {request.part!r} is of no data",
        "give --int8 DATA too, or leave --part out",
    )
    PolyplinkError.unless(
        request.int8 is None or (request.data is None and request.precision in (None, "int8")),
        "--int8 DATA is given beside another --precision or --data",
        "give one of them",
    )
    PolyplinkError.unless(
        precision != "int8" or data is not None,
        "8-bit numbers are scaled by crops, and no data is given",
        "give --data DATA",
    )
    check_given(weights, data, [request.part])
    import torch

    from polyplink.encoders import FrameWise, load_encoder
    from polyplink.encoders.encode import prepare_part
    from polyplink.encoders.export import export_encoder
    from polyplink.encoders.load import load_named
    from polyplink.evaluate.truth import precision_effect

    loaded = load_encoder(weights, torch.device("cpu"))
    encoder, record = loaded.encoder, loaded.record
    if not isinstance(encoder, FrameWise):
        raise PolyplinkError(
            f"{weights} looks at whole clips, and only encoders of single frames are exported",
            "give the weights themselves: WEIGHTS of every verb, --weights of `run` and `live`",
        )
    side, mean_ap, prepared, crops = record.prepare.size, {}, None, None
    if data is not None:
        prepared = prepare_part(data, record.prepare, request.part, request.workers, progress)
        crops = typical_crops(prepared, CALIBRATION) if precision == "int8" else None
    export_encoder(encoder, out, record, precision, crops)
    if prepared is not None and precision != "float32":
        with suppress(PolyplinkError):  # a processor without bf16 writes the file all the same
            narrow = load_named(out)
            plain = load_named(weights, "cpu", precision="float32")
            mean_ap = precision_effect(prepared, [plain, narrow])
    bits, size = 8 if precision == "int8" else 32, sum(p.stat().st_size for p in out.glob("*.onnx"))
    exported = Exported(out, precision, bits, side, size, loaded.weights_id, mean_ap)
    text = (
        f"{out}: {precision}, crops of {side} pixels, {size / 1e6:.1f} MB; "
        f"weights {loaded.weights_id}"
    )
    return Result(exported, shown=[text, *mean_aps_text(mean_ap)])
