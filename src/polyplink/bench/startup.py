"""How long a user waits for nothing: importing polyplink, and asking it for help."""

import json
import subprocess
import sys

from polyplink.bench.harness import BenchResult, best_of
from polyplink.core.errors import PolyplinkError

HEAVY = ("torch", "numpy", "polars", "sklearn", "matplotlib", "numba")
LIGHT_ENOUGH = ("torch", "sklearn", "matplotlib", "numba")  # for the help page

IMPORT = "import polyplink"
HELP = """
import contextlib, io, sys
from polyplink.__main__ import main
sys.argv = ["polyplink", "--help"]
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    main()
"""


def python(code: str) -> str:
    """Run code in a fresh Python, as a user's first call would; what it prints.

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


def imported(code: str, modules: tuple[str, ...]) -> list[str]:
    """Which of `modules` are imported once `code` has run in a fresh Python."""
    ask = f"import json, sys; print(json.dumps([m for m in {modules!r} if m in sys.modules]))"
    found: list[str] = json.loads(python(f"{code}\n{ask}"))
    return found


def run(size: int = 1) -> BenchResult:
    """Time `polyplink --help` in a fresh Python, the start of Python included; 0.3 s or less.

    `import polyplink` is part of it. `equal` is whether neither imported what is heavy: torch and
    the like by the help page, numpy besides by the import.

    Raises:
        PolyplinkError: If `size` is not 1: nothing grows here.
    """
    if size != 1:
        raise PolyplinkError(f"start-up of size {size}", "leave the size out")
    light = not imported(IMPORT, HEAVY) and not imported(HELP, LIGHT_ENOUGH)
    seconds = best_of(lambda: python(HELP), 5)
    return BenchResult("startup", "-", 1, seconds, None, None, None, light)
