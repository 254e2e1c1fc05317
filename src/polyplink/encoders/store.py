"""Where weights that were added lie on this machine.

The folder is $POLYPLINK_HOME/weights where that is set, else polyplink/weights in the user's data
folder ($XDG_DATA_HOME, or ~/.local/share). Beside NAME.safetensors lies its SHA-256.
"""

import os
from pathlib import Path

from polyplink.core.artefacts import file_key, write_text
from polyplink.core.errors import PolyplinkError

SUFFIX = ".safetensors"


def store_folder() -> Path:
    """The folder of added weights; it need not exist."""
    if home := os.environ.get("POLYPLINK_HOME"):
        return Path(home) / "weights"
    shared = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(shared) / "polyplink" / "weights"


def stored_path(name: str) -> Path:
    """Where weights of a name lie, or would lie.

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


def seal(path: Path) -> None:
    """Write down the SHA-256 of added weights, as sha256sum does."""
    write_text(_seal_of(path), f"{file_key(path)}  {path.name}\n")


def check_seal(path: Path, digest: str | None = None) -> None:
    """Refuse added weights that were changed since.

    Args:
        path: Any weights file; one without a SHA-256 beside it passes.
        digest: Its SHA-256 where it is known already.

    Raises:
        PolyplinkError: If the file is another than was added.
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
