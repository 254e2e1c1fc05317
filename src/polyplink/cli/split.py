"""The verb `split`: parts of a data folder, by patient."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from typer import Option

from polyplink.cli import options
from polyplink.cli.options import StrPath
from polyplink.cli.verb import verb
from polyplink.core.artefacts import read_json, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import Result

SHARES = "train=0.7,eval=0.15,test=0.15"


@verb
def split_data(
    data: options.Data,
    *,
    shares: Annotated[
        str | None,
        Option(
            metavar="PART=SHARE,...",
            help=f"Parts and their shares of the procedures; {SHARES} by default.",
        ),
    ] = None,
    seed: Annotated[int | None, Option(help="Seed of the order of patients; 0 by default.")] = None,
    lists: Annotated[
        StrPath | None, Option(help="JSON file of part -> procedure ids, instead of shares.")
    ] = None,
) -> Result[dict[str, list[str]]]:
    """Divide a data folder into parts; no patient is in two.

    Writes splits.json; existing parts are replaced.

    Args:
        shares: Parts and their shares of the procedures, which add up to 1.

    Raises:
        PolyplinkError: If the shares or lists are malformed, a list names an unknown procedure, a
            part has the name of a published one, a patient would be in two parts, or there are
            fewer patients than parts.
    """
    from polyplink.data.protocols import check_splits, checked_parts, split_by_shares
    from polyplink.data.tables import read_data

    if lists is not None and (shares is not None or seed is not None):
        raise PolyplinkError(
            "--lists names the procedures of each part, and --shares and --seed choose them",
            "give either",
        )
    path = Path(data) / "splits.json"
    dataset = read_data(path.parent)
    if lists is None:
        parsed = _shares(SHARES if shares is None else shares)
        source, splits = "--shares", split_by_shares(dataset.procedures, parsed, seed or 0)
    else:
        source, splits = str(lists), read_json(Path(lists), "check the path given with --lists")
    hint = 'write {"train": ["001-001"], "test": ["001-002"]}'
    splits = checked_parts(splits, source, hint)
    check_splits(splits, dataset.procedures, source)
    write_json(path, splits)
    parts = f"the parts {', '.join(dataset.splits)}"
    replaced = [f"replaced {parts}"] if any(dataset.splits.values()) else []
    text = ", ".join(f"{part} {len(ids)}" for part, ids in splits.items())
    return Result(splits, printed=[f"{path}: {text}"], warnings=replaced)


def _shares(text: str) -> Mapping[str, float]:
    shares: dict[str, float] = {}
    for pair in text.split(","):
        part, _, share = (piece.strip() for piece in pair.partition("="))
        try:
            value = float(share)
        except ValueError:
            value = 0.0
        if not part or part in shares or not 0 < value <= 1:
            raise PolyplinkError(
                f"--shares {text!r} is not a list of parts with shares above 0",
                f"write {SHARES}",
            )
        shares[part] = value
    total = sum(shares.values())
    if abs(total - 1) > 1e-6:
        raise PolyplinkError(f"--shares {text!r} add up to {total:g}", "make them add up to 1")
    return shares
