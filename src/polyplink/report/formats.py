"""Numbers, figures and times as text, for the pages, tables and plots of reports."""

import math
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from polyplink.associate.probes import Reading
from polyplink.core.errors import escape_control
from polyplink.core.messages import Message, catalogue, text_of

if TYPE_CHECKING:
    from polyplink.evaluate.intervals import Figure

DASH = "–"
MINUS = "\N{MINUS SIGN}"


def number(value: float | None, digits: int = 3) -> str:
    """A number with fixed digits, or a dash for None, NaN and infinities.

    Example:
        >>> number(0.53249), number(-1.5, 1), number(None)
        ('0.532', '−1.5', '–')
    """
    if value is None or not math.isfinite(value):
        return DASH
    # Adding 0.0 turns the negative zero of a small negative number into zero.
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", MINUS)


def percent(share: float | None) -> str:
    """A share in [0, 1] as whole percent, or a dash for None and NaN.

    Only shares of exactly 0 and 1 are written as 0 and 100 %.

    Example:
        >>> percent(0.314), percent(0.998), percent(None)
        ('31 %', '> 99 %', '–')
    """
    text = number(None if share is None else 100 * share, 0)
    if share is not None and 0 < share < 1:
        text = {"0": "< 1", "100": "> 99"}.get(text, text)
    return text if text == DASH else f"{text} %"


def signed(value: float | None, digits: int = 3) -> str:
    """A number with its sign (zero has none), or a dash for None, NaN and infinities."""
    text = number(value, digits)
    is_positive = not text.startswith(MINUS) and text not in (DASH, number(0, digits))
    return f"+{text}" if is_positive else text


def interval(figure: "Figure", digits: int = 3) -> str:
    """The 95 % interval of a figure, as in "0.446 to 0.637"; "" if it has none."""
    if not figure.is_defined or figure.low is None or figure.high is None:
        return ""
    return f"{number(figure.low, digits)} to {number(figure.high, digits)}"


def value_and_sd(figure: "Figure", digits: int = 3) -> str:
    """A figure with its standard deviation, if it has one, as in "0.532 ± 0.021"."""
    text = number(figure.value, digits)
    has_sd = figure.is_defined and figure.sd is not None
    return f"{text} ± {number(figure.sd, digits)}" if has_sd else text


def figure_text(figure: "Figure", digits: int = 3) -> str:
    """A figure with its interval, or with its standard deviation if it has no interval.

    Example:
        >>> from polyplink.evaluate.intervals import Figure
        >>> figure_text(Figure(0.532, 0.446, 0.637, n=19))
        '0.532 (0.446 to 0.637)'
        >>> figure_text(Figure(2.4, n=19, sd=1.75), 2)
        '2.40 ± 1.75'
    """
    ends = interval(figure, digits)
    return f"{number(figure.value, digits)} ({ends})" if ends else value_and_sd(figure, digits)


def reason(figure: "Figure") -> str:
    """The reason why a figure is missing; "" if it has a value."""
    return "" if figure.is_defined else figure.why or "no value: undefined on these data"


def clock(seconds: float, *, hours_always: bool = False) -> str:
    """Seconds as m:ss, or h:mm:ss from one hour.

    Args:
        seconds: The time.
        hours_always: Write h:mm:ss for any time: spreadsheets read m:ss as hours and minutes.

    Example:
        >>> clock(62), clock(3662), clock(62, hours_always=True)
        ('1:02', '1:01:02', '0:01:02')
    """
    minutes, second = divmod(math.floor(seconds + 0.5), 60)
    hours, minute = divmod(minutes, 60)
    if hours or hours_always:
        return f"{hours}:{minute:02d}:{second:02d}"
    return f"{minutes}:{second:02d}"


def code(text: str) -> Markup:
    """A text for a page in which commands between backticks are marked as code.

    Example:
        >>> print(code("`a < b` counts"))
        <code>a &lt; b</code> counts
    """
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped


@dataclass(frozen=True)
class Texts:
    """The texts, numbers and times of a page in its language: `t` in the templates.

    Attributes:
        language: A language of the catalogue.

    Raises:
        PolyplinkError: If the language is not supported.

    Example:
        >>> t = Texts("de")
        >>> t("views", n=3), t.number(0.5, 1)
        ('3 Ansichten', '0,5')
    """

    language: str = "en"

    def __post_init__(self) -> None:
        catalogue(self.language)

    def __call__(self, kind: str, **values: Any) -> str:
        """A text of the catalogue with its values; `n` selects its form."""
        return Message(kind, values).text(self.language)

    def line(self, line: object) -> str:
        """A line of a page, which is a message or is shown verbatim."""
        return text_of(line, self.language)

    def number(self, value: float | None, digits: int = 3) -> str:
        """See `number`, with the decimal sign of the language."""
        return number(value, digits).replace(".", self("decimal"))

    def moment(self, frame: int, fps: float | None) -> str:
        """A frame as a time in the recording if the frame rate is known, else as its number."""
        return clock(frame / fps) if fps else self("report.frame", n=frame)

    def duration(self, seconds: float) -> str:
        """An elapsed time with its unit."""
        if seconds < 0.1:
            return f"{self.number(seconds * 1000, 1)} ms"
        if seconds < 120:
            return f"{self.number(seconds, 1)} s"
        text = clock(seconds)
        return f"{text} {'h' if text.count(':') == 2 else 'min'}"

    def count(self, polyps: int, low: int | None, high: int | None) -> str:
        """A count with its interval, as "5 (4 to 6)"; "5" if the interval is a single number."""
        if low == high:
            return str(polyps)
        return f"{polyps} ({self('interval.short', low=low, high=high)})"

    def interval(self, low: int | None, high: int | None, polyps: int | None = None) -> str:
        """The 90 % interval of a count, as a phrase."""
        if low is None:
            return self("interval.none" if polyps != 0 else "interval.zero")
        return self("interval.same" if low == high else "interval", low=low, high=high)

    def reading(self, reading: Reading) -> str:
        """Size and histology of a polyp; "" without probes.

        Args:
            reading: Any object with the fields of a `Reading`.

        Example:
            >>> Texts().reading(Reading(5.2, 3.1, 8.7, adenoma=0.72))
            'about 5.2 mm (3.1 to 8.7), probability of an adenoma 72 %'
            >>> Texts("de").reading(Reading(adenoma=0.998))
            'Wahrscheinlichkeit eines Adenoms > 99 %'
        """
        texts = []
        if reading.size_mm is not None:
            size = (reading.size_mm, reading.size_low_mm, reading.size_high_mm)
            mm, low, high = (self.number(millimetres, 1) for millimetres in size)
            texts.append(self("polyp.size", mm=mm, low=low, high=high))
        if reading.adenoma is not None:
            texts.append(self("polyp.adenoma", p=percent(reading.adenoma)))
        return ", ".join(texts)


def plain(value: object) -> object:
    """A value for a page: control characters in text are replaced by escapes."""
    return escape_control(value) if type(value) is str else value


@cache
def environment(package: str = "polyplink.report", folder: str = "templates") -> Environment:
    """The HTML templates of a package, with the functions above as filters; compiled once.

    They may include those of the report. Everything that comes from data is escaped, including
    control characters; an undefined name is an error.

    Args:
        package: The package.
        folder: The folder of its templates.
    """
    templates = Environment(
        loader=ChoiceLoader(
            [PackageLoader(package, folder), PackageLoader("polyplink.report", "templates")]
        ),
        autoescape=True,
        finalize=plain,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (number, percent, signed, value_and_sd, interval, reason, clock, code)
    templates.filters |= {function.__name__: function for function in filters}
    return templates
