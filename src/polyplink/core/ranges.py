"""Ranges of the fields of settings, declared with the fields and checked on construction.

    @dataclass(frozen=True)
    class OptimConfig(Ranged, prefix="optim"):
        epochs: Annotated[int, AT_LEAST_ONE] = 50
        rate: Annotated[float, POSITIVE] = 1e-5

A field without a range may have any value.
"""

import dataclasses
import math
from functools import cache
from typing import Any, ClassVar, get_type_hints

from polyplink.core.errors import PolyplinkError, one_line

MOST = 2**31 - 1  # the largest value of any setting, so that tables and kernels can hold it


@dataclasses.dataclass(frozen=True)
class Range:
    """The finite values that a field may have.

    Attributes:
        low: Lower bound.
        high: Upper bound.
        above: Exclude `low` itself.
        below: Exclude `high` itself.

    Example:
        >>> Range(0.0, 1.0, above=True).holds(0.0), str(Range(0.0, 1.0)), str(Range(1))
        (False, 'one from 0 to 1', '1 or more')
    """

    low: float = 0.0
    high: float = math.inf
    above: bool = False
    below: bool = False

    def holds(self, value: float) -> bool:
        """Whether a value lies in the range; NaN and values above `MOST` never do."""
        above_low = value > self.low if self.above else value >= self.low
        below_high = value < self.high if self.below else value <= self.high
        return bool(above_low and below_high and value <= MOST)

    def __str__(self) -> str:
        """The range in words, to follow the word "give"."""
        if self.high == math.inf:
            return f"one above {self.low:g}" if self.above else f"{self.low:g} or more"
        if self.above or self.below:
            ends = "(["[not self.above] + f"{self.low:g}, {self.high:g}" + ")]"[not self.below]
            return f"one in {ends}"
        return f"one from {self.low:g} to {self.high:g}"


AT_LEAST_ONE, NOT_NEGATIVE = Range(1), Range(0)
POSITIVE, SHARE = Range(0, above=True), Range(0, 1)


def check_ranges(prefix: str, settings: Any) -> None:
    """Check the fields of a dataclass against the ranges they are annotated with.

    A field that is None is not set and is not checked.

    Args:
        prefix: What the user types before the name of a field ("optim"), or "".
        settings: The dataclass.

    Raises:
        PolyplinkError: If a field is out of its range; names the first such field and its range.
    """
    for name, allowed in _ranges(settings.__class__):
        value = getattr(settings, name)
        if value is not None and not allowed.holds(value):
            path = f"{prefix}.{name}" if prefix else name
            if -math.inf < value < math.inf:
                exceeds_most = allowed.high == math.inf and value > MOST
                expected = f"{MOST} or less" if exceeds_most else str(allowed)
            else:
                expected = "a finite number"
            raise PolyplinkError(f"{path} is {one_line(str(value), 40)}", f"give {expected}")


@cache
def _ranges(kind: type) -> list[tuple[str, Range]]:
    """Fields of a dataclass with the ranges they are annotated with."""
    return [
        (name, allowed)
        for name, hint in get_type_hints(kind, include_extras=True).items()
        for allowed in getattr(hint, "__metadata__", ())
        if isinstance(allowed, Range)
    ]


class Ranged:
    """Base of a dataclass with ranges, which are checked on construction.

    Args:
        prefix: What the user types before the name of a field, see `check_ranges`; that of the base
            by default.
    """

    _prefix: ClassVar[str] = ""

    def __init_subclass__(cls, prefix: str | None = None) -> None:
        super().__init_subclass__()
        if prefix is not None:
            cls._prefix = prefix

    def __post_init__(self) -> None:
        check_ranges(self._prefix, self)
