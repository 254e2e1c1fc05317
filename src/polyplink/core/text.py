"""Text for file names, terminals, HTML, CSV and XML, escaped so that it is only text there.

Names of procedures, parts and polyps come from files that anyone may have written. They must not
lead a path out of its folder, control a terminal, or become a formula in a spreadsheet.
"""

import dataclasses
import hashlib
import os
import re
import unicodedata
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from polyplink.core.errors import PolyplinkError, escape_control, one_line

# A path that may lead out of the folder it is relative to, on Windows too.
OUTSIDE = r"^[/\\]|^[A-Za-z]:|(?:^|[/\\])\.\.(?:[/\\]|$)|\x00"
LONGEST_FILE_NAME = 160  # bytes; file systems allow 255, some of it for endings and temporary names
# A leading dot hides a file; Windows cuts off trailing dots and spaces, and reserves device names.
_ENDS = re.compile(r"^\.|[. ]$|^(?:aux|con|nul|prn|com\d|lpt\d)(?=\.|$)", re.IGNORECASE)
_NO_FILE = re.compile(
    r"[/\\]" if os.name != "nt" else rf'[/\\:<>"|?*]|{_ENDS.pattern}', re.IGNORECASE
)
_DIGITS = 16  # of the hash in a shortened file name
# Cells that spreadsheets evaluate as formulas; those that already begin with ' get one more, so
# that escaping can be undone.
FORMULA = r"^('*[=+\-@\t\r])"
ESCAPED_FORMULA = rf"^'{FORMULA[1:]}"


def many(number: int, noun: str) -> str:
    """A number and a noun, in the singular or plural.

    Example:
        >>> many(1, "box"), many(0, "polyp"), many(3, "box")
        ('1 box', '0 polyps', '3 boxes')
    """
    ending = "" if number == 1 else "es" if noun.endswith("x") else "s"
    return f"{number} {noun}{ending}"


def first_names(names: Sequence[str]) -> str:
    """At most three names, and an ellipsis if there are more.

    Example:
        >>> first_names(["a", "b"]), first_names(["a", "b", "c", "d"])
        ('a, b', 'a, b, c, ...')
    """
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def file_name(name: str, *, exact: bool = False) -> str:
    """Turn a name from data into the name of one file or folder; different names stay different.

    Characters that have a meaning in paths are percent-encoded, and a long name is shortened and
    ends in a hash.

    Args:
        name: The name of a procedure, part or sequence.
        exact: Return the name unchanged, for layouts in which the file name is the name.

    Raises:
        PolyplinkError: If `exact` is set and no file can have the name.

    Example:
        >>> file_name("001-003"), file_name("a/../b"), file_name("..")
        ('001-003', 'a%2F..%2Fb', '%2E%2E')
    """
    if exact:
        size = len(name.encode("utf-8", "surrogatepass"))
        if (
            not (0 < size <= LONGEST_FILE_NAME)
            or name != escape_control(name)
            or name[0] == "."
            or _NO_FILE.search(name)
        ):
            raise PolyplinkError(
                f"{one_line(repr(name), 200)} cannot be the name of a file",
                f"give it a name of 1 to {LONGEST_FILE_NAME} bytes without slashes, not beginning "
                "with a dot",
            )
        return name
    return _shorten(name, _quoted(name))


def readable_path(folder: Path, name: str, ending: str = "") -> Path:
    """The path of an output named after data: as `file_name`, but with letters and signs kept.

    An output of an earlier version, whose name has only ASCII letters, keeps its path.

    Args:
        folder: The folder of the output.
        name: The name of a procedure or recording.
        ending: Appended to the name.

    Example:
        >>> readable_path(Path("run"), "Fall Ä 2: Müller – links").name
        'Fall Ä 2%3A Müller – links'
    """
    plain = file_name(name)
    earlier = folder / f"{plain}{ending}"
    try:
        os.fsencode(name)
    except UnicodeEncodeError:  # the system cannot hold it
        return earlier
    letters = (c if not c.isascii() and _is_visible(c) else _quoted(c) for c in name)
    return earlier if earlier.exists() else folder / f"{_shorten(name, ''.join(letters))}{ending}"


def _is_visible(character: str) -> bool:
    """Whether a character is a letter, an accent, a number, a punctuation mark or a symbol."""
    return unicodedata.category(character)[0] in "LMNPS"


def _quoted(text: str) -> str:
    return quote(text, safe=" ,()+=@", errors="surrogatepass")


def _shorten(name: str, quoted: str) -> str:
    """A quoted name without reserved ends, shortened if it is too long."""
    quoted = _ENDS.sub(lambda end: f"%{ord(end[0][0]):02X}{end[0][1:]}", quoted) or "%"
    if len(quoted.encode()) > LONGEST_FILE_NAME:
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
        start = quoted.encode()[: LONGEST_FILE_NAME - 1 - _DIGITS].decode(errors="ignore")
        return f"{start}~{digest}"
    return quoted


def relative_path(path: Path, folder: Path) -> str:
    """A path relative to a folder, with forward slashes; absolute if on another Windows drive.

    Example:
        >>> relative_path(Path("data", "a.mp4"), Path("data", "images"))
        '../a.mp4'
    """
    try:
        relative = os.path.relpath(path, folder)
    except ValueError:
        relative = os.path.abspath(path)  # noqa: PTH100 - links are not resolved
    return Path(relative).as_posix()


def csv_cell(value: object) -> object:
    """A value for a CSV file, escaped if a spreadsheet would evaluate it as a formula.

    Example:
        >>> csv_cell("=1+1"), csv_cell(-1), csv_cell("'-1")
        ("'=1+1", -1, "''-1")
    """
    return re.sub(FORMULA, r"'\1", escape_control(value)) if isinstance(value, str) else value


def xml_text(text: str) -> str:
    """Escape a text for XML, including the control characters that XML cannot hold."""
    return escape(escape_control(text), quote=False)


def rounded_probability(value: float) -> float:
    """A probability with four digits; only exactly 0 and 1 are rounded to 0 and 1.

    Example:
        >>> rounded_probability(0.31416), rounded_probability(0.99999), rounded_probability(1.0)
        (0.3142, 0.9999, 1.0)
    """
    if not 0 < value < 1:
        return float(value)
    return min(max(round(float(value), 4), 0.0001), 0.9999)


def short_repr(record: Any) -> str:
    """The repr of a dataclass, each field cut to 40 characters: `__repr__ = short_repr`.

    Example:
        >>> from polyplink.core.ranges import Range
        >>> short_repr(Range(0, 1))
        'Range(low=0, high=1, above=False, below=False)'
    """
    fields = (
        f"{field.name}={one_line(repr(getattr(record, field.name)), 40)}"
        for field in dataclasses.fields(record)
        if field.repr
    )
    return f"{type(record).__name__}({', '.join(fields)})"
