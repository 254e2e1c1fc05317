"""Folders for sharing weights: model files, config.json with their SHA-256, and a model card.

The model files are either model.safetensors, in the layout of the Hugging Face Hub
(`save_pretrained`), or the graphs of an exported encoder (`export`).
"""

import csv
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polyplink import __version__
from polyplink.core.artefacts import file_key, read_run, whole_folder, write_json, write_text
from polyplink.core.errors import PolyplinkError
from polyplink.encoders.device import pick_device
from polyplink.encoders.weights import (
    CONFIG,
    HUB_FILE,
    WeightsRecord,
    check_seal,
    made_with,
    read_record,
    record_text,
    weights_id,
    weights_path,
)

if TYPE_CHECKING:
    from polyplink.encoders.build import LoadedEncoder

CARD = "README.md"
# Licences with an identifier on the Hub.
HUB_LICENCES = re.compile(
    r"apache-2\.0|bsd-3-clause|mit|a?gpl-3\.0|cc0-1\.0|cc-by(-nc)?(-sa)?-4\.0"
)
LIMITS = """\
- Not a medical device: for research. Identities and counts are estimates and should be checked.
- Crops must be cut as stated under Input; vectors are only comparable within these weights.
- Results differ with cameras, detectors or motion that are not in the training data.
- Evaluate on procedures that are not among the data above; `polyplink evaluate` refuses the others.
"""


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
    PolyplinkError.unless(
        path.suffix != ".onnx",
        f"{weights} is an exported encoder, which can be shared unchanged",
        "copy its folder, or give the weights it was exported from",
    )
    with whole_folder(folder) as new:
        shutil.copyfile(path, new / HUB_FILE)
        measured = [] if figures is None else _measured(figures, weights_id(path))
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
    from polyplink.encoders.build import load_encoder  # noqa: PLC0415 - it imports torch

    return load_encoder(folder, pick_device(device))


def write_config(
    folder: Path,
    record: WeightsRecord,
    facts: Mapping[str, Any],
    measured: Sequence[Mapping[str, str]] = (),
    licence: str | None = None,
) -> None:
    """Write config.json and the model card into a folder of model files.

    Args:
        folder: Folder of the model files.
        record: The record of the weights.
        facts: Further entries of config.json.
        measured: Rows of figures.csv.
        licence: See `save_pretrained`.
    """
    models = sorted([*folder.glob("*.onnx"), *folder.glob("*.safetensors")])
    files = {path.name: file_key(path) for path in models}
    licence_name = licence or str(record.origin.get("licence", "not stated"))
    stated = {"polyplink": __version__, "files": files, "licence": licence_name, **facts}
    write_json(folder / CONFIG, stated | {"record": json.loads(record_text(record))})
    write_text(folder / CARD, model_card(record, files, licence_name, facts, measured))


def _measured(figures: Path, key: str) -> list[dict[str, str]]:
    """Rows of figures.csv with a value, of the weights with an id."""
    path = figures / "figures.csv" if figures.is_dir() else figures
    PolyplinkError.unless(
        path.is_file(), f"no figures at {path}", "give a folder that `polyplink evaluate` wrote"
    )
    rows: list[dict[str, str]] = []
    with path.open(newline="", encoding="utf-8") as file, suppress(UnicodeDecodeError, csv.Error):
        rows = list(csv.DictReader(file))  # another file: no rows
    names = {"method", "group", "metric", "value", "low", "high", "units", "unit"}
    PolyplinkError.unless(
        bool(rows) and names <= rows[0].keys(),
        f"{path} has no figures",
        "give a folder that `polyplink evaluate` wrote",
    )
    # run.json has the id of each method's weights; "weights" is the id of the first method's.
    run = read_run(path.parent)
    ids = run.get("inputs", {}) if run else {"weights": key}
    holders = [name for name, weights_id in ids.items() if str(weights_id).partition("-")[0] == key]
    PolyplinkError.unless(
        bool(holders),
        f"the figures of {path} are of other weights ({ids.get('weights')}) than these ({key})",
        "evaluate these with `polyplink evaluate`, or leave the figures out",
    )
    method = rows[0]["method"] if "weights" in holders else holders[0]
    return [row for row in rows if row["method"] == method and row["value"]]


def model_card(
    record: WeightsRecord,
    files: Mapping[str, str],
    licence: str,
    facts: Mapping[str, Any],
    measured: Sequence[Mapping[str, str]],
) -> str:
    """The model card of weights in Markdown, with the front matter that the Hub reads.

    Args:
        record: The record of the weights.
        files: SHA-256 by file.
        licence: Licence of the weights.
        facts: Mirrors, and the shapes of exported graphs.
        measured: Rows of figures.csv.
    """
    name = record.name or "encoder"
    prepare, encoder = record.prepare, record.encoder
    rule = "the full frame"
    if prepare.crop_factor is not None:
        rule = f"{prepare.crop_factor:g} times the box's width and height around its centre"
    operating = dict(record.operating or {}).get("origin", "none; `polyplink calibrate` finds one")
    parts = [
        f"---\nlibrary_name: polyplink\n{_licence_lines(licence)}\n"
        "tags: [colonoscopy, polyp, re-identification]\n---\n",
        f"# {name}\n\nAn encoder for polyplink: maps the crops of a polyp tracklet to one vector. "
        "Tracklets of the same polyp have similar vectors.\n",
        f"## Input\n\nCrops of {prepare.size} x {prepare.size} pixels, RGB, 8 bits; {rule}, "
        f"resized without keeping the aspect ratio (antialiased bilinear); one of every "
        f"{prepare.stride} boxes. Normalisation is part of the model: pixels / 255, minus "
        f"{_numbers(encoder.mean)}, divided by {_numbers(encoder.std)}.\n",
        "## Data\n\n" + "\n".join(_data_lines(record)) + "\n",
        *_shipped_lines(record),
        "## Figures\n\n" + "\n".join(_figure_lines(measured)) + "\n",
        f"Operating point for counting: {operating}.\n",
        f"## Limits\n\n{LIMITS}",
        f"## Licence\n\n{licence}\n",
        "## Files\n\n" + "\n".join(f"- `{name}`: SHA-256 {key}" for name, key in files.items()),
        *(f"- mirror: {place}" for place in facts.get("mirrors", ())),
    ]
    return "\n".join(parts) + "\n"


def _licence_lines(licence: str) -> str:
    """The licence in the Hub's front matter, with the Hub's identifier if there is one."""
    if HUB_LICENCES.fullmatch(licence.lower()):
        return f"license: {licence.lower()}"
    return f"license: other\nlicense_name: {json.dumps(licence)}"


def _numbers(values: Sequence[float] | None) -> str:
    """Values per channel; None are those of a preset."""
    return "the preset's values" if values is None else ", ".join(f"{value:g}" for value in values)


def _data_lines(record: WeightsRecord) -> list[str]:
    """Training and validation data of the weights, a line for each data set."""
    seen, lines = record.seen, []
    for use, rows in (("trained", seen.trained), ("validated", seen.validated)):
        for dataset, members in groupby(sorted(rows), key=lambda row: row[0]):
            rows_of_set = list(members)
            # A procedure, or a group of stills, of an unknown patient counts as its own patient.
            known = any(procedure != patient for _, procedure, patient in rows_of_set)
            n_patients = len({patient for _, _, patient in rows_of_set})
            patients = f"patients: {n_patients}" if known else "patients not known"
            lines.append(f"- {use} on {dataset} (procedures: {len(rows_of_set)}, {patients})")
    lines += [f"- pre-trained by others on {dataset}" for dataset in seen.datasets]
    if not lines:
        return ["Not stated."]
    if seen.trained and all("simulated" in row[0] for row in seen.trained):
        lines += ["", "All of it is simulated."]
    return lines


def _shipped_lines(record: WeightsRecord) -> list[str]:
    """The notice of weights that were made with a shipped encoder, and where its data come from."""
    model = made_with(record)
    if model is None:
        return []
    sources = "\n".join(f"- {line}" for line in model.data)
    return [
        f"**Research use only.** Made with {model.name} of polyplink ({model.licence}), which was "
        f"made from:\n\n{sources}\n"
    ]


def _figure_lines(measured: Sequence[Mapping[str, str]]) -> list[str]:
    """A Markdown table of figures with their intervals."""
    if not measured:
        return ["None were measured for this card."]

    def number(text: str) -> str:
        try:
            return f"{float(text):.3g}" if text else ""
        except ValueError:
            raise PolyplinkError(
                f"a figure is {text!r}, which is not a number",
                "give a folder that `polyplink evaluate` wrote",
            ) from None

    lines = ["| figure | value | interval | of |", "|---|---|---|---|"]
    for row in measured:
        interval = f"{number(row['low'])} to {number(row['high'])}" if row["low"] else ""
        lines.append(
            f"| {row['group']}: {row['metric']} | {number(row['value'])} | {interval} "
            f"| {row['units']} {row['unit']} |"
        )
    return lines
