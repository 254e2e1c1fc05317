"""Weights files: where they are on this machine, and tensors read, written and checked.

Added weights are in the store: the folder $POLYPLINK_HOME/weights where that variable is set,
else polyplink/weights in the user's data folder ($XDG_DATA_HOME, or ~/.local/share). The SHA-256
of NAME.safetensors is kept beside it.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from polyplink.core.artefacts import file_key, whole_file, write_text
from polyplink.core.errors import PolyplinkError, first_line
from polyplink.encoders.foundation import FOUNDATION

SUFFIX = ".safetensors"
WEIGHTS_FILE = f"weights{SUFFIX}"


def store_folder() -> Path:
    """The folder of added weights; it need not exist."""
    if home := os.environ.get("POLYPLINK_HOME"):
        return Path(home) / "weights"
    shared = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(shared) / "polyplink" / "weights"


def stored_path(name: str) -> Path:
    """The file of a name in the store; it need not exist.

    Raises:
        PolyplinkError: If the name is a path or starts with a dot.
    """
    plain = name.removesuffix(SUFFIX)
    PolyplinkError.unless(
        bool(plain) and plain == Path(plain).name and not plain.startswith("."),
        f"{name!r} is no name for weights",
        "use letters, digits, dots and dashes",
    )
    return store_folder() / f"{plain}{SUFFIX}"


def stored() -> list[Path]:
    """All added weights, by name."""
    return sorted(store_folder().glob(f"[!.]*{SUFFIX}"))


def added_weights(given: Path) -> Path | None:
    """The added weights of a bare name, or None if `given` exists, is a path or unknown."""
    if given.exists() or given.name != str(given):
        return None
    return path if (path := stored_path(given.name)).is_file() else None


def weights_path(given: Path) -> Path:
    """The weights file: `given` itself, the one in the run folder `given`, or added weights.

    Raises:
        PolyplinkError: If there is none; for a known model it says where to get its weights.
    """
    path = given / WEIGHTS_FILE if given.is_dir() else given
    if path.is_file():
        return path
    if (added := added_weights(given)) is not None:
        return added
    if given.name == str(given) and (spec := FOUNDATION.get(given.name)) is not None:
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


def seal(path: Path) -> None:
    """Write the SHA-256 of added weights beside them, in the format of sha256sum."""
    write_text(_seal_of(path), f"{file_key(path)}  {path.name}\n")


def check_seal(path: Path, digest: str | None = None) -> None:
    """Refuse added weights that have changed since.

    Args:
        path: Any weights file; one without a SHA-256 beside it passes.
        digest: Its SHA-256 if it is known already.

    Raises:
        PolyplinkError: If the file is not the one that was added.
    """
    beside = _seal_of(path)
    if not beside.is_file():
        return
    wanted = beside.read_text(encoding="utf-8").split(" ")[0]
    PolyplinkError.unless(
        (digest or file_key(path)) == wanted,
        f"{path} is not the file that was added: its SHA-256 is another",
        "add it again with `polyplink weights add`",
    )


def _seal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def read_tensors(path: Path, mend: str = "train or copy again") -> dict[str, torch.Tensor]:
    """All tensors of a safetensors file, on the CPU.

    Raises:
        PolyplinkError: If it is not safetensors, with what to do about it.
    """
    try:
        return load_file(path)
    except SafetensorError as error:
        raise PolyplinkError(f"{path} is not safetensors ({first_line(error)})", mend) from None


def write_tensors(
    path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]
) -> None:
    """Write tensors of any device as safetensors, whole or not at all."""
    cpu = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
    # Serialised in memory: the library's own writer does not report that a disk is full.
    data = save(cpu, dict(metadata))
    with whole_file(path) as temporary:
        temporary.write_bytes(data)


def check_state(
    path: Path, state: Mapping[str, torch.Tensor], wanted: Mapping[str, torch.Tensor]
) -> None:
    """Refuse tensors whose names or shapes differ from those of a model.

    Args:
        path: Where they were read, for the message.
        state: What was read.
        wanted: The model's state dict.

    Raises:
        PolyplinkError: Counting missing and unknown tensors and other shapes, and naming one.
    """
    missing = sorted(wanted.keys() - state.keys())
    unknown = sorted(state.keys() - wanted.keys())
    bent = sorted(k for k in wanted.keys() & state.keys() if wanted[k].shape != state[k].shape)
    if missing or unknown or bent:
        raise PolyplinkError(
            f"{path} holds weights of another encoder: {len(missing)} tensors missing, "
            f"{len(unknown)} unknown, {len(bent)} of another shape, "
            f"first {(missing + unknown + bent)[0]!r}",
            "give the weights of the encoder that the recipe names",
        )
