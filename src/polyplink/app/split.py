"""The verb `split`: the parts of a data folder, by patient."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from polyplink.app import options
from polyplink.app.options import Request, option
from polyplink.app.request import Progress, Result, inform
from polyplink.core.artefacts import read_json, write_json
from polyplink.core.errors import PolyplinkError


@dataclass(frozen=True)
class SplitRequest(Request):
    """Which data folder to split, and how."""

    data: options.Data
    shares: str = option(
        "Parts and their shares of the procedures.",
        "train=0.7,eval=0.15,test=0.15",
        metavar="PART=SHARE,...",
    )
    seed: int = option("Seed of the order of patients.", 0)
    lists: Path | None = option("JSON file of part -> procedure ids, instead of shares.")


def split_data(request: SplitRequest, progress: Progress = inform) -> Result[dict[str, list[str]]]:
    """Divide a data folder into parts; no patient is in two.

    Writes splits.json; parts that were there are replaced.

    Raises:
        PolyplinkError: If the shares or lists are malformed, a list names an unknown procedure, a
            patient would be in two parts, or there are fewer patients than parts.
    """
    from polyplink.data import check_splits, read_data, split_by_shares

    data = read_data(request.data)
    if request.lists is None:
        splits = split_by_shares(data.procedures, _shares(request.shares), request.seed)
    else:
        splits = read_json(request.lists)
        check_splits(splits, data.procedures, str(request.lists))
    write_json(request.data / "splits.json", splits)
    progress("parts", len(splits), len(splits))
    replaced = [f"replaced the parts {', '.join(data.splits)}"] if any(data.splits.values()) else []
    text = ", ".join(f"{part} {len(ids)}" for part, ids in splits.items())
    return Result(splits, shown=[f"{request.data / 'splits.json'}: {text}"], warnings=replaced)


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
                f"--shares {text!r} is no list of parts with shares above 0",
                "write train=0.7,eval=0.15,test=0.15",
            )
        shares[part] = value
    total = sum(shares.values())
    if abs(total - 1) > 1e-6:
        raise PolyplinkError(f"--shares {text!r} add up to {total:g}", "make them add up to 1")
    return shares
