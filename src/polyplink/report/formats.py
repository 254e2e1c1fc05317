"""Numbers, times and images as text."""

import base64
import math

from polyplink.report.figures import Figure

DASH = "–"
MINUS = "\N{MINUS SIGN}"


def number(value: float | None, digits: int = 3) -> str:
    """A number with fixed digits, or a dash for None, NaN and infinities."""
    if value is None or not math.isfinite(value):
        return DASH
    # Adding 0.0 turns the minus zero of what rounds to nothing into zero.
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", MINUS)


def signed(value: float | None, digits: int = 3) -> str:
    """A number with its sign, none for zero, or a dash."""
    text = number(value, digits)
    bare = text.startswith(MINUS) or text in (DASH, number(0, digits))
    return text if bare else f"+{text}"


def interval(figure: Figure, digits: int = 3) -> str:
    """The two ends of a 95 % interval, or nothing where there is none."""
    if not figure.known or figure.low is None or figure.high is None:
        return ""
    return f"{number(figure.low, digits)} to {number(figure.high, digits)}"


def reason(figure: Figure) -> str:
    """Why a figure is missing; nothing for one that is there."""
    return "" if figure.known else figure.why or "no value: undefined on these data"


def clock(seconds: float) -> str:
    """Seconds as m:ss, or h:mm:ss from one hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes_left = divmod(minutes, 60)
    return f"{hours}:{minutes_left:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def moment(frame: int, fps: float | None) -> str:
    """A frame as a time in the recording where the rate is known, else as its number."""
    return clock(frame / fps) if fps else f"frame {frame}"


def duration(seconds: float) -> str:
    """A time that something took, with a unit."""
    if seconds < 0.1:
        return f"{seconds * 1000:.1f} ms"
    return f"{seconds:.1f} s" if seconds < 120 else f"{clock(seconds)} min"


def data_uri(kind: str, data: bytes) -> str:
    """Bytes as a data URI of an image ("jpeg", "png")."""
    return f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"
