"""Ranges of settings."""

import math
from dataclasses import dataclass
from typing import Annotated

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.core.ranges import AT_LEAST_ONE, POSITIVE, SHARE, Range, Ranged


@dataclass(frozen=True)
class Settings(Ranged, prefix="optim"):
    epochs: Annotated[int, AT_LEAST_ONE] = 3
    rate: Annotated[float, POSITIVE] = 0.1
    share: Annotated[float | None, SHARE] = None
    warm_up: Annotated[float, Range(0, 1, above=True, below=True)] = 0.3
    name: str = "x"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"epochs": 0}, r"optim\.epochs is 0; give 1 or more"),
        ({"rate": 0.0}, r"optim\.rate is 0\.0; give one above 0"),
        ({"rate": math.inf}, r"optim\.rate is inf; give one above 0"),
        ({"rate": math.nan}, r"optim\.rate is nan"),
        ({"share": 1.5}, r"optim\.share is 1\.5; give one from 0 to 1"),
        ({"warm_up": 1.0}, r"optim\.warm_up is 1\.0; give one in \(0, 1\)"),
    ],
)
def test_a_value_out_of_its_range_is_named_with_the_range(
    given: dict[str, float], says: str
) -> None:
    with pytest.raises(PolyplinkError, match=says):
        Settings(**given)  # type: ignore[arg-type]


def test_values_within_their_ranges_and_none_are_accepted() -> None:
    assert Settings(epochs=1, rate=1e-9, share=1.0, warm_up=0.999).share == 1.0
    assert Settings().share is None
