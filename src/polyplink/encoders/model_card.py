"""What describes a folder of model files: config.json with their SHA-256, and a model card."""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from polyplink import __version__
from polyplink.core.artefacts import file_key, write_json, write_text
from polyplink.core.errors import PolyplinkError
from polyplink.encoders.weights import CONFIG, WeightsRecord, made_with, record_text

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
        licence: Licence of the weights; None for the licence in the record of published weights.
    """
    models = sorted([*folder.glob("*.onnx"), *folder.glob("*.safetensors")])
    files = {path.name: file_key(path) for path in models}
    licence_name = licence or str(record.origin.get("licence", "not stated"))
    config = {"polyplink": __version__, "files": files, "licence": licence_name, **facts}
    write_json(folder / CONFIG, config | {"record": json.loads(record_text(record))})
    write_text(folder / CARD, model_card(record, files, licence_name, facts, measured))


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
            has_patients = any(procedure != patient for _, procedure, patient in rows_of_set)
            n_patients = len({patient for _, _, patient in rows_of_set})
            patients = f"patients: {n_patients}" if has_patients else "patients not known"
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
