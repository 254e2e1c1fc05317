"""The last recorded ratios, and which paths fell behind them."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from polyplink.bench.harness import BenchResult
from polyplink.core.artefacts import write_json
from polyplink.core.errors import PolyplinkError, first_line

RECORDED = Path(__file__).with_name("recorded.json")
KEPT = 0.75  # of a recorded ratio; less is a path that fell

Ratios = Mapping[str, Mapping[str, float]]
"""Name of a path -> "size" and "ratio"."""


def read_recorded(path: Path = RECORDED) -> Ratios:
    """The recorded ratios; none where nothing was recorded.

    Raises:
        PolyplinkError: If the file is no JSON object.
    """
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise PolyplinkError(
            f"{path} cannot be read ({first_line(error)})", "record again with --record"
        ) from None
    if not isinstance(found, dict):
        raise PolyplinkError(f"{path} holds no ratios", "record again with --record")
    return found


def record(results: Iterable[BenchResult], path: Path = RECORDED) -> None:
    """Write the ratios of results over those of the same paths; other paths stay."""
    ratios = {
        result.name: {
            "size": result.size,
            "ratio": round(result.ratio, 1 if result.ratio > 9 else 3),
        }
        for result in results
        if result.ratio is not None
    }
    write_json(path, dict(read_recorded(path)) | ratios)


def complaint(result: BenchResult, recorded: Ratios) -> str | None:
    """What is wrong with a result: outputs that differ, or a ratio that fell by over a quarter.

    Args:
        result: As measured now.
        recorded: The last ratios; one of another size says nothing.

    Returns:
        One line, or None.
    """
    if not result.equal:
        return f"{result.name}: outputs are not equal"
    last = recorded.get(result.name)
    if last is None or result.ratio is None or last["size"] != result.size:
        return None
    if result.ratio >= KEPT * last["ratio"]:
        return None
    return (
        f"{result.name}: fell from {last['ratio']:g} to {result.ratio:.3g} times the rival's speed"
    )
