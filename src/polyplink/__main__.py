"""The `polyplink` command: from its first moment on, Ctrl-C and mistakes are one line."""

import gc
import logging
import os
import signal
import sys
import warnings
from io import TextIOWrapper

from polyplink.core.errors import INTERRUPTED, MISTAKE, UNEXPECTED


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
        # Imported here, so that Ctrl-C during the import prints no traceback either.
        from polyplink.cli.command import app  # noqa: PLC0415

        code = app(standalone_mode=False, prog_name="polyplink")
        sys.stdout.flush()  # here, where the errors of a full or closed output are caught
        # Everything is written: Ctrl-C ends what libraries do at exit, without a traceback.
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
        sys.exit(code)
    except BrokenPipeError:  # the reader closed the pipe, as in `polyplink ... | head`
        _forget_output()
    except OSError as error:
        _forget_output()
        print(f"polyplink: {error.strerror or error}; check the output", file=sys.stderr)
        sys.exit(MISTAKE)
    except KeyboardInterrupt:
        print("polyplink: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except Exception as error:
        # A mistake on the command line itself; its class is private to the library below.
        message = getattr(error, "format_message", None)
        if message is None:
            from polyplink.core.unexpected import unexpected  # noqa: PLC0415 - for this alone

            print(f"polyplink: {unexpected(error, 'polyplink')}", file=sys.stderr)
            sys.exit(UNEXPECTED)
        if type(error).__name__ == "NoArgsIsHelpError":  # a group without its verb
            print(message(), file=sys.stderr)
            sys.exit(MISTAKE)
        text = " ".join(message().split()).rstrip(".").replace("Value error, ", "")
        if text.startswith("Got unexpected extra argument"):
            text += "; put a name that has spaces in quotes"
        context = getattr(error, "ctx", None)
        page = getattr(context, "command_path", "polyplink")
        if type(error).__name__ == "MissingParameter" and context is not None:
            from polyplink.cli.command import missing_argument  # noqa: PLC0415 - for this alone

            text = missing_argument(context, sys.argv[len(page.split()) :]) or text
        then = " See" if text.endswith("?") else "; see"
        print(f"polyplink: {text}{then} `{page} --help`", file=sys.stderr)
        sys.exit(MISTAKE)


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


def _forget_output() -> None:
    """Discard what is left in stdout's buffer: Python would fail on it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
