"""Every exception as one line on stderr and an exit code."""

import errno
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from polyplink.core.errors import INTERRUPTED, MISTAKE, UNEXPECTED, PolyplinkError, one_line
from polyplink.core.extras import extras_installed
from polyplink.core.unexpected import unexpected

LONGEST_MESSAGE = 1200  # characters


@contextmanager
def one_line_errors(doing: str = "polyplink", *, debug: bool = False) -> Iterator[None]:
    """Turn every exception into one line and an exit code.

    The exit code is 2 for a user's mistake, 130 for Ctrl-C, and 3 for any unexpected exception.

    Args:
        doing: The command, for the message.
        debug: Also print the traceback.
    """
    try:
        try:
            with extras_installed(doing):
                yield
        except BaseException:
            if debug:
                traceback.print_exc()
            raise
    except PolyplinkError as error:
        _stop(str(error), MISTAKE)
    except KeyboardInterrupt:
        _stop("interrupted; finished results are kept", INTERRUPTED)
    except BrokenPipeError:
        raise typer.Exit(0) from None
    except OSError as error:
        at_file = f" at {error.filename}" if error.filename else ""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            _stop(f"the disk is full{at_file}; free space and run the command again", MISTAKE)
        _stop(f"{error.strerror or error}{at_file}; check the path and its permissions", MISTAKE)
    except MemoryError:
        _stop("there is not enough memory; close other programs, or give fewer --workers", MISTAKE)
    except Exception as error:
        _stop(unexpected(error, doing), UNEXPECTED)


def video_hint(values: Iterable[object]) -> str:
    """Hint at `polyplink run` if a command that takes no video got one, or "".

    Example:
        >>> video_hint(["case7.mp4"])
        '; a video is counted by `polyplink run case7.mp4`'
    """
    from polyplink.data.files.video import is_video

    videos = [name for name in map(str, values) if is_video(name)]
    return f"; a video is counted by `polyplink run {videos[0]}`" if videos else ""


def _stop(message: str, code: int) -> NoReturn:
    typer.echo(f"polyplink: {one_line(message, LONGEST_MESSAGE)}", err=True)
    raise typer.Exit(code) from None
