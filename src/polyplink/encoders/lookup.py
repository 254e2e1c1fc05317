"""Weights by path, by run folder or by name."""

from pathlib import Path

from polyplink.core.errors import PolyplinkError
from polyplink.encoders.foundation.catalogue import FOUNDATION
from polyplink.encoders.store import stored_path

WEIGHTS_FILE = "weights.safetensors"


def weights_path(given: Path) -> Path:
    """The weights file: `given` itself, the one in the run folder `given`, or added weights.

    Raises:
        PolyplinkError: If there is none; of known weights it is told where they are to be had.
    """
    path = given / WEIGHTS_FILE if given.is_dir() else given
    if path.is_file():
        return path
    plain = given.name == str(given)
    if plain and not given.is_dir() and (added := stored_path(given.name)).is_file():
        return added
    if plain and (spec := FOUNDATION.get(given.name)) is not None:
        origin = spec.origin
        raise PolyplinkError(
            f"the weights of {spec.title} are not on this machine, and nothing is downloaded",
            f"get {origin.file} from {origin.source} (licence: {origin.licence}), then "
            "`polyplink weights add FILE`",
        )
    raise PolyplinkError(
        f"no weights at {path}",
        "give a .safetensors file, a folder `polyplink train` made, or a name that "
        "`polyplink weights list` shows",
    )
