"""How long a user waits for nothing: importing polyplink, and asking it for help."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from polyplink.bench.harness import Work
from polyplink.core.errors import PolyplinkError

HEAVY = ("torch", "numpy", "polars", "sklearn", "matplotlib", "numba")
HEAVY_FOR_HELP = ("torch", "sklearn", "matplotlib", "numba")

IMPORT = "import polyplink"
HELP = """
import contextlib, io, sys
from polyplink.__main__ import main
sys.argv = ["polyplink", "--help"]
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    main()
"""


def startup(size: int, device: torch.device, folder: Path) -> Work:
    """`polyplink --help` in a fresh Python, the start of Python included; 0.3 s or less.

    `equal` is whether nothing heavy was imported: neither torch and the like by the help page,
    nor numpy by `import polyplink`.

    Raises:
        PolyplinkError: If `size` is not 1: nothing grows here.
    """
    if size != 1:
        raise PolyplinkError(f"start-up of size {size}", "leave the size out")

    def light(output: object, expected: object) -> bool:
        return not imported(IMPORT, HEAVY) and not imported(HELP, HEAVY_FOR_HELP)

    return Work(ours=lambda: python(HELP), rival=None, equal=light)


def python(code: str) -> str:
    """What code prints in a fresh Python.

    Raises:
        PolyplinkError: If it fails, with the last line of its error.
    """
    done = subprocess.run(  # noqa: S603  the code is this file's own
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    if done.returncode:
        reason = (done.stderr.strip() or "no message").splitlines()[-1]
        raise PolyplinkError(f"a fresh Python ended with {reason!r}", "install polyplink again")
    return done.stdout


def imported(code: str, modules: Sequence[str]) -> list[str]:
    """Which of `modules` are imported once `code` has run in a fresh Python."""
    ask = f"import json, sys; print(json.dumps([m for m in {modules!r} if m in sys.modules]))"
    found: list[str] = json.loads(python(f"{code}\n{ask}"))
    return found
