"""Exporting an encoder for inference on CPUs."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.encoders import FrameWise, load_encoder
from polyplink.encoders.export import SUFFIX, export_frames, quantise
from polyplink.jobs.embedding import prepare_part
from polyplink.jobs.progress import Progress, silent
from polyplink.tracklets import Prepared

CALIBRATION = 64  # crops that scale the activations of an 8-bit export


@dataclass(frozen=True)
class Exported:
    """An exported encoder.

    Attributes:
        path: The file.
        bits: 32 or 8.
        size: Width and height of the crops it reads, pixels.
        bytes: Of the file.
        weights: Id of the weights it came from.
    """

    path: Path
    bits: int
    size: int
    bytes: int
    weights: str

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        plain: dict[str, Any] = to_plain(self)
        return plain


def typical_crops(prepared: Prepared, count: int) -> np.ndarray:
    """Crops (n, size, size, 3) uint8, spread evenly over those of a prepared part.

    Raises:
        PolyplinkError: If there is none.
    """
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


def export_encoder(
    weights: Path,
    out: Path,
    *,
    eight_bit: Path | None = None,
    part: str | None = None,
    workers: int = 2,
    progress: Progress = silent,
) -> Exported:
    """Write an encoder as an ONNX file that `embed` and `count` take in place of weights.

    Args:
        weights: Weights file, run folder or name.
        out: The file to write; it ends in .onnx.
        eight_bit: A data folder by whose crops the activations of an 8-bit export are scaled;
            None for float32.
        part: Part of that data folder; None for all of it.
        workers: Threads that cut its crops.
        progress: Told of crops.

    Raises:
        PolyplinkError: If the encoder looks at clips, 8 bits are asked of one that is no network
            of convolutions, a part is named of no data, or weights or data are at fault.
    """
    PolyplinkError.unless(out.suffix == SUFFIX, f"{out} is no .onnx file", "name one")
    PolyplinkError.unless(not out.is_dir(), f"{out} is a folder", "name a file")
    PolyplinkError.unless(
        part is None or eight_bit is not None,
        f"part {part!r} is of no data",
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
    if eight_bit is None:
        export_frames(encoder, out, side, record)
    else:
        prepared = prepare_part(eight_bit, record.prepare, part, workers, progress)
        crops = typical_crops(prepared, CALIBRATION)
        with tempfile.TemporaryDirectory(prefix="polyplink-export-") as folder:
            wide = export_frames(encoder, Path(folder) / "encoder.onnx", side, record)
            quantise(wide, out, crops, source=weights)
    bits = 32 if eight_bit is None else 8
    return Exported(out, bits, side, out.stat().st_size, loaded.weights_id)
