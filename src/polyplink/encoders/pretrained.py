"""Folders for sharing weights: model files, config.json with their SHA-256, and a model card.

The model files are either model.safetensors, in the layout of the Hugging Face Hub
(`save_pretrained`), or the graphs of an exported encoder (`export`).
"""

import csv
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from polyplink.core.artefacts import atomic_folder
from polyplink.core.errors import PolyplinkError
from polyplink.core.runs import read_run
from polyplink.encoders.device import pick_device
from polyplink.encoders.model_card import write_config
from polyplink.encoders.weights import (
    HUB_FILE,
    check_seal,
    read_record,
    weights_id,
    weights_path,
)

if TYPE_CHECKING:
    from polyplink.encoders.load import LoadedEncoder


def save_pretrained(
    weights: Path,
    folder: Path,
    *,
    figures: Path | None = None,
    licence: str | None = None,
    mirrors: Sequence[str] = (),
) -> Path:
    """Write weights as a folder in the layout of the Hub: tensors, config.json, model card.

    The tensors are copied byte for byte, so that vectors cached for the weights stay valid.

    Args:
        weights: File, run folder or name; added weights that were changed are refused.
        folder: The folder; it must not exist.
        figures: A folder of `polyplink evaluate` with figures and intervals of these weights, for
            the card.
        licence: Licence of the weights; None for the licence in the record of published weights.
        mirrors: Other places of the folder, for the card and config.json.

    Returns:
        The folder.

    Raises:
        PolyplinkError: If the weights or figures do not exist, the figures are of other weights, or
            the folder exists.
    """
    path = weights_path(weights)
    check_seal(path)
    record = read_record(path)
    if path.suffix == ".onnx":
        raise PolyplinkError(
            f"{weights} is an exported encoder, which can be shared unchanged",
            "copy its folder, or give the weights it was exported from",
        )
    with atomic_folder(folder) as new:
        shutil.copyfile(path, new / HUB_FILE)
        measured = [] if figures is None else _read_figures(figures, weights_id(path))
        write_config(new, record, {"mirrors": list(mirrors)}, measured, licence)
    return folder


def from_pretrained(folder: Path, device: str = "cpu") -> "LoadedEncoder":
    """Load an encoder from a folder that `save_pretrained` wrote; nothing is downloaded.

    Every verb also takes such a folder as WEIGHTS.

    Args:
        folder: The folder, or a name in one of the folders of $POLYPLINK_MIRRORS.
        device: Name of the device: auto, cpu, cuda or cuda:N.

    Raises:
        PolyplinkError: If the folder does not exist, the SHA-256 of its tensors differs from
            config.json, or there is no such device.

    Example:
        >>> from_pretrained(Path("shared/ntssl")).encoder.width  # doctest: +SKIP
        256
    """
    from polyplink.encoders.load import load_encoder  # noqa: PLC0415 - it imports torch

    return load_encoder(folder, pick_device(device))


def _read_figures(figures: Path, key: str) -> list[dict[str, str]]:
    """Rows of figures.csv with a value, of the weights with an id."""
    path = figures / "figures.csv" if figures.is_dir() else figures
    if not path.is_file():
        raise PolyplinkError(
            f"no figures at {path}", "give a folder that `polyplink evaluate` wrote"
        )
    rows: list[dict[str, str]] = []
    with path.open(newline="", encoding="utf-8") as file, suppress(UnicodeDecodeError, csv.Error):
        rows = list(csv.DictReader(file))  # another file: no rows
    names = {"method", "group", "metric", "value", "low", "high", "units", "unit"}
    if not rows or not names <= rows[0].keys():
        raise PolyplinkError(
            f"{path} has no figures", "give a folder that `polyplink evaluate` wrote"
        )
    # run.json has the id of each method's weights; "weights" is the id of the first method's.
    run = read_run(path.parent)
    ids = run.get("inputs", {}) if run else {"weights": key}
    holders = [name for name, weights_id in ids.items() if str(weights_id).partition("-")[0] == key]
    if not holders:
        raise PolyplinkError(
            f"the figures of {path} are of other weights ({ids.get('weights')}) than these ({key})",
            "evaluate these with `polyplink evaluate`, or leave the figures out",
        )
    method = rows[0]["method"] if "weights" in holders else holders[0]
    return [row for row in rows if row["method"] == method and row["value"]]
