"""The verb `weights save`: weights as a folder to share."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from polyplink.cli import options
from polyplink.cli.options import StrPath
from polyplink.cli.verb import verb
from polyplink.core.artefacts import file_key
from polyplink.core.results import Result
from polyplink.core.text import many


@verb
def save_weights_folder(
    weights: options.Weights,
    out: Annotated[StrPath, Argument(help="New folder.")],
    *,
    figures: Annotated[
        StrPath | None,
        Option(metavar="FOLDER", help="Folder of `evaluate` with the figures for the card."),
    ] = None,
    licence: Annotated[str | None, Option(help="Licence of the weights.")] = None,
    mirrors: Annotated[
        Sequence[str],
        Option("--mirror", help="Where else to get the folder; may be repeated."),
    ] = (),
) -> Result[dict[str, Any]]:
    """Write weights as a folder in the Hugging Face Hub's layout, with a model card.

    Args:
        licence: Licence of the weights; by default the one in their record.

    Returns:
        out, sha256, and procedures_named: the number of procedures in the record.

    Raises:
        PolyplinkError: If the weights or figures do not exist, or `out` exists.
    """
    from polyplink.encoders.pretrained import save_pretrained
    from polyplink.encoders.weights import HUB_FILE, read_record

    folder = save_pretrained(
        Path(weights),
        Path(out),
        figures=None if figures is None else Path(figures),
        licence=licence,
        mirrors=mirrors,
    )
    record = read_record(folder / HUB_FILE)
    n_procedures = len({row[:2] for row in (*record.seen.trained, *record.seen.validated)})
    saved = {"out": folder, "sha256": file_key(folder / HUB_FILE), "procedures_named": n_procedures}
    warnings = []
    if n_procedures:
        text = f"the record names {many(n_procedures, 'procedure')}, each with its patient"
        warnings.append(text)
    if not (licence or record.origin.get("licence")):
        warnings.append("the licence is not stated; give --licence")
    return Result(saved, printed=["{out}: SHA-256 {sha256}".format(**saved)], warnings=warnings)
