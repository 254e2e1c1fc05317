"""The verb `export`: write an encoder as an ONNX file for inference on CPUs."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, echo

from polyplink.app.request import Progress, Result, Weights, Workers, silent
from polyplink.core.errors import PolyplinkError

if TYPE_CHECKING:
    import numpy as np

    from polyplink.tracklets import Prepared

CALIBRATION = 64  # crops that scale the activations of an 8-bit export


@dataclass(frozen=True)
class ExportRequest:
    """What to export, and how."""

    weights: Weights
    out: Annotated[Path, Argument(help="File to write: NAME.onnx.")]
    int8: Annotated[
        Path | None,
        Option("--int8", metavar="DATA", help="In 8 bits, scaled by crops of this data."),
    ] = None
    part: Annotated[str | None, Option(help="Part of that data; all by default.")] = None
    workers: Workers = 2


@dataclass(frozen=True)
class Exported(Result):
    """An exported encoder.

    Attributes:
        path: The file.
        bits: 32 or 8.
        size: Width and height of the crops it takes, pixels.
        bytes: Size of the file.
        weights: Id of the weights it came from.
    """

    path: Path
    bits: int
    size: int
    bytes: int
    weights: str

    def print_text(self) -> None:
        """Print the file and what it holds."""
        echo(
            f"{self.path}: {self.bits} bits, crops of {self.size} pixels, "
            f"{self.bytes / 1e6:.1f} MB; weights {self.weights}"
        )


def export(request: ExportRequest, progress: Progress = silent) -> Exported:
    """Write an encoder for fast embedding on CPUs; embed and count take the file as WEIGHTS.

    Raises:
        PolyplinkError: If the encoder looks at clips, 8 bits are asked of one that is no
            convolutional network, a part is named without data, or weights or data are at fault.
    """
    import torch

    from polyplink.app.encoded import prepare_part
    from polyplink.encoders import FrameWise, load_encoder
    from polyplink.encoders.export import SUFFIX, export_frames, quantise

    weights, out, data = request.weights, request.out, request.int8
    PolyplinkError.unless(out.suffix == SUFFIX, f"{out} is no .onnx file", "name one")
    PolyplinkError.unless(not out.is_dir(), f"{out} is a folder", "name a file")
    PolyplinkError.unless(
        request.part is None or data is not None,
        f"part {request.part!r} is of no data",
        "give --int8 DATA too, or leave --part out",
    )
    loaded = load_encoder(weights, torch.device("cpu"))
    encoder, record = loaded.encoder, loaded.record
    if not isinstance(encoder, FrameWise):
        raise PolyplinkError(
            f"{weights} looks at whole clips, and only encoders of single frames are exported",
            "embed with the weights themselves",
        )
    side = record.prepare.size
    if data is None:
        export_frames(encoder, out, side, record)
    else:
        prepared = prepare_part(data, record.prepare, request.part, request.workers, progress)
        crops = typical_crops(prepared, CALIBRATION)
        with tempfile.TemporaryDirectory(prefix="polyplink-export-") as folder:
            wide = export_frames(encoder, Path(folder) / "encoder.onnx", side, record)
            quantise(wide, out, crops, source=weights)
    bits = 32 if data is None else 8
    return Exported(out, bits, side, out.stat().st_size, loaded.weights_id)


def typical_crops(prepared: "Prepared", count: int) -> "np.ndarray":
    """Crops (n, size, size, 3) uint8, evenly spaced over all those of a prepared part.

    Raises:
        PolyplinkError: If there is none.
    """
    import numpy as np

    names = prepared.tracklets["procedure_id"].unique(maintain_order=True).to_list()
    arrays = [prepared.crops(name) for name in names]
    starts = np.cumsum([0, *map(len, arrays)])
    total = int(starts[-1])
    PolyplinkError.unless(
        total > 0,
        f"no tracklets in {prepared.folder.parent.parent} to scale 8-bit numbers by",
        "give a data folder with polyps",
    )
    rows = np.unique(np.linspace(0, total - 1, min(count, total)).astype(np.int64))
    owners = np.searchsorted(starts, rows, side="right") - 1
    pairs = zip(owners, rows - starts[owners], strict=True)
    return np.stack([arrays[owner][row] for owner, row in pairs])
