"""The `polyplink` command: from its first moment on, Ctrl-C and mistakes are one line."""

import gc
import logging
import os
import signal
import sys
import warnings
from io import TextIOWrapper

from polyplink.core.errors import INTERRUPTED, one_line_errors


def main() -> None:
    """Run the command line and end the process with its exit code."""
    _open_streams()
    silence_libraries()
    gc.set_threshold(10_000)  # imports make many objects and hardly any garbage
    # Feature maps are new memory every time, which Linux clears in pages of 4 kB unless asked.
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # of torch: large tensors in large pages
    if len(sys.argv) == 1:
        sys.argv.append("--help")
    try:
        with one_line_errors():
            from polyplink.cli.command import app  # noqa: PLC0415 - Ctrl-C may interrupt it

            app(prog_name="polyplink")
    finally:
        # Everything is written: Ctrl-C ends what libraries do at exit, without a traceback.
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))


def silence_libraries() -> None:
    """Keep warnings and logs of libraries, this process's and its workers', from the user.

    What matters of them becomes a line of this program. `python -W` and PYTHONWARNINGS still show
    the warnings.
    """
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
        os.environ["PYTHONWARNINGS"] = "ignore"  # of processes that this one starts
    # Python prints records that no handler takes; from here on it does so for our own alone.
    if logging.lastResort:
        logging.getLogger("polyplink").addHandler(logging.lastResort)
    logging.getLogger().addHandler(logging.NullHandler())


def _open_streams() -> None:
    """Prepare the streams: no text fails on them, and what goes to a closed one is discarded.

    A file that is opened later would get what goes to a closed one. Where output does not go to a
    console, Windows has an encoding without a minus sign.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, open(number, "w" if number else "r"))  # noqa: PTH123, SIM115
        stream = getattr(sys, name)
        if isinstance(stream, TextIOWrapper):
            if os.name == "nt" and "PYTHONIOENCODING" not in os.environ:
                stream.reconfigure(encoding="utf-8")
            if number:
                stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    main()
