"""The exception for users' mistakes, and settings out of range."""

import math
import pickle
from dataclasses import dataclass
from typing import Annotated

import pytest

from polyplink.core.errors import ImportOptionError, PolyplinkError, first_line
from polyplink.core.ranges import AT_LEAST_ONE, POSITIVE, SHARE, Range, Ranged


def test_an_error_reads_as_one_line_with_a_hint() -> None:
    error = PolyplinkError("table polyps: no rows", "import again")
    assert str(error) == "table polyps: no rows; import again"
    assert (error.what, error.hint) == ("table polyps: no rows", "import again")


def test_errors_can_be_pickled() -> None:
    # Import workers raise this one.
    import_error = pickle.loads(pickle.dumps(ImportOptionError("a", "b")))
    assert (type(import_error), str(import_error)) == (ImportOptionError, "a; b")
    error = pickle.loads(pickle.dumps(PolyplinkError("a", "b")))
    assert isinstance(error, PolyplinkError)
    assert str(error) == "a; b"


def test_first_line_drops_later_lines() -> None:
    assert first_line(ValueError("bad\n\nYou might want to try ...")) == "bad"
    assert first_line(ValueError()) == "ValueError"


@dataclass(frozen=True)
class Settings(Ranged, prefix="optim"):
    epochs: Annotated[int, AT_LEAST_ONE] = 3
    rate: Annotated[float, POSITIVE] = 0.1
    share: Annotated[float | None, SHARE] = None
    warm_up: Annotated[float, Range(0, 1, above=True, below=True)] = 0.3
    name: str = "x"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epochs": 0}, r"optim\.epochs is 0; give 1 or more"),
        ({"epochs": 2**31}, r"optim\.epochs is 2147483648; give 2147483647 or less"),
        ({"epochs": 10**400}, r"optim\.epochs is 10+ \.\.\. 0+; give 2147483647 or less"),
        ({"rate": 0.0}, r"optim\.rate is 0\.0; give one above 0"),
        ({"rate": math.inf}, r"optim\.rate is inf; give a finite number"),
        ({"rate": math.nan}, r"optim\.rate is nan"),
        ({"share": 1e30}, r"optim\.share is 1e\+30; give one from 0 to 1"),
        ({"share": 1.5}, r"optim\.share is 1\.5; give one from 0 to 1"),
        ({"warm_up": 1.0}, r"optim\.warm_up is 1\.0; give one in \(0, 1\)"),
    ],
)
def test_a_value_out_of_range_is_named_with_its_range(
    values: dict[str, float], message: str
) -> None:
    with pytest.raises(PolyplinkError, match=message):
        Settings(**values)  # type: ignore[arg-type]


def test_values_in_range_and_none_are_accepted() -> None:
    assert Settings(epochs=1, rate=1e-9, share=1.0, warm_up=0.999).share == 1.0
    assert Settings().share is None
