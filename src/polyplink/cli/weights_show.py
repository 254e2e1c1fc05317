"""The verb `weights show`: the record of weights."""

import json
from pathlib import Path
from typing import Annotated, Any

from typer import Argument

from polyplink.cli.options import StrPath
from polyplink.cli.verb import verb
from polyplink.core.artefacts import file_key, to_plain
from polyplink.core.results import Result

_LONGEST_LIST, _FIRST = 20, 3  # entries: a list that is printed whole, and those of a longer one


@verb
def show_weights(
    weights: Annotated[StrPath, Argument(help="Weights file, run folder, or a name.")],
) -> Result[dict[str, Any]]:
    """Print the record of weights as JSON: encoder, crops, origin, training procedures.

    Of a long list, such as the procedures, the first entries are printed; with --json, all.

    Raises:
        PolyplinkError: If the weights do not exist, or have changed since they were added.

    Example:
        >>> show_weights("encoder-v1").value["prepare"]["size"]
        224
    """
    from polyplink.encoders.weights import check_seal, read_record, weights_path

    path = weights_path(Path(weights))
    digest = file_key(path)
    check_seal(path, digest)
    plain: dict[str, Any] = {"path": str(path), "sha256": digest} | to_plain(read_record(path))
    return Result(plain, printed=[json.dumps(_shorten(plain), indent=1)])


def _shorten(value: Any) -> Any:
    """A value of JSON with the first entries of long lists, and how many follow."""
    if isinstance(value, dict):
        return {name: _shorten(entry) for name, entry in value.items()}
    if isinstance(value, list) and len(value) > _LONGEST_LIST:
        return [*value[:_FIRST], f"{len(value) - _FIRST} more, printed with --json"]
    return value
