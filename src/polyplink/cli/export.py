"""The verb `export`: an encoder for programs without PyTorch."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from polyplink.cli import options
from polyplink.cli.options import StrPath, check_inputs
from polyplink.cli.verb import inform, verb
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import Progress, Result, ShownFields

Precision = Literal["float32", "bf16", "int8"]
CALIBRATION = 64  # crops that scale the activations of an 8-bit export


@dataclass(frozen=True)
class Exported(ShownFields):
    """An exported encoder.

    Attributes:
        path: The folder.
        precision: float32, bf16 or int8.
        bits: Bits of its weights: 32 or 8.
        size: Width and height of its input crops, pixels.
        bytes: Size of its graphs in bytes.
        weights: Id of the exported weights.
        mean_ap: Retrieval mAP by precision on a sample of the data, if data were passed.
    """

    path: Path
    precision: str
    bits: int
    size: int
    bytes: int
    weights: str
    mean_ap: Mapping[str, float] = field(default_factory=dict)


@verb
def export(
    weights: options.Weights,
    out: Annotated[StrPath, Argument(help="New folder for the exported encoder.")],
    *,
    precision: Annotated[
        Precision | None,
        Option(help="float32, bf16 or int8; float32 by default."),
    ] = None,
    data: Annotated[
        StrPath | None,
        Option(help="Data for 8-bit calibration and for measuring the effect on mAP."),
    ] = None,
    int8: Annotated[
        StrPath | None,
        Option("--int8", metavar="DATA", help="Short for --precision int8 --data DATA."),
    ] = None,
    part: Annotated[str | None, Option(help="Part of that data; all by default.")] = None,
    workers: options.Workers = 2,
    progress: Progress = inform,
) -> Result[Exported]:
    """Write an encoder as a folder for onnxruntime; the other verbs take it as WEIGHTS.

    Args:
        progress: Called for crops.

    Raises:
        PolyplinkError: If the encoder reads clips, int8 is requested for an encoder that is not a
            convolutional network, a part is named without data, or weights or data are missing or
            broken.
    """
    from polyplink.tracklets.prepare import prepare, typical_crops

    weights, out = Path(weights), Path(out)
    if out.exists():
        raise PolyplinkError(f"{out} exists already", "name a new folder for the exported encoder")
    precision, data = _precision_and_data(precision, int8, data, part)
    check_inputs(weights, data, [part])
    import torch

    from polyplink.encoders.encoder import FrameWise
    from polyplink.encoders.export import export_encoder
    from polyplink.encoders.load import load_encoder, load_named
    from polyplink.evaluate.truth import mean_aps_text, precision_effect

    # The graphs.
    loaded = load_encoder(weights, torch.device("cpu"))
    encoder, record = loaded.encoder, loaded.record
    if not isinstance(encoder, FrameWise):
        raise PolyplinkError(
            f"{weights} looks at whole clips, and only encoders of single frames are exported",
            "give the weights themselves: WEIGHTS of every verb, --weights of `run` and `live`",
        )
    side = record.prepare.size
    mean_ap = {}
    prepared = None
    crops = None
    if data is not None:
        prepared = prepare(
            data,
            record.prepare,
            procedures=part,
            workers=workers,
            progress=partial(progress, "crops"),
        )
        crops = typical_crops(prepared, CALIBRATION) if precision == "int8" else None
    export_encoder(encoder, out, record, precision, crops)

    # Their size, and what a lower precision costs.
    if prepared is not None and precision != "float32":
        with suppress(PolyplinkError):  # a processor without bf16 writes the file all the same
            narrow = load_named(out)
            plain = load_named(weights, "cpu", precision="float32")
            mean_ap = precision_effect(prepared, [plain, narrow])
    size = sum(path.stat().st_size for path in out.glob("*.onnx"))
    exported = Exported(
        path=out,
        precision=precision,
        bits=8 if precision == "int8" else 32,
        size=side,
        bytes=size,
        weights=loaded.weights_id,
        mean_ap=mean_ap,
    )
    text = (
        f"{out}: {precision}, crops of {side} pixels, {size / 1e6:.1f} MB; "
        f"weights {loaded.weights_id}"
    )
    return Result(exported, printed=[text, *mean_aps_text(mean_ap)])


def _precision_and_data(
    precision: Precision | None, int8: StrPath | None, data: StrPath | None, part: str | None
) -> tuple[Precision, Path | None]:
    """The precision, and the data folder for calibration; options that exclude others are refused.

    Args:
        precision: The option --precision.
        int8: The option --int8.
        data: The option --data.
        part: The option --part.
    """
    source = int8 or data
    if part is not None and source is None:
        raise PolyplinkError(f"--part {part} needs data", "add --int8 DATA, or leave --part out")
    if int8 is not None and (data is not None or precision not in (None, "int8")):
        raise PolyplinkError(
            "--int8 DATA excludes --data and another --precision", "give one of them"
        )
    chosen: Precision = "int8" if int8 else precision or "float32"
    if chosen == "float32" and source is not None:
        raise PolyplinkError(
            "--data is for the precisions int8 and bf16, and float32 needs none",
            "leave it out, or add --precision int8 or bf16",
        )
    if chosen == "int8" and source is None:
        raise PolyplinkError("--precision int8 needs crops for calibration", "add --data DATA")
    return chosen, None if source is None else Path(source)
