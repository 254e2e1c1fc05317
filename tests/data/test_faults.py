import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults


def test_a_fault_is_raised_with_its_mend_if_strict() -> None:
    with pytest.raises(PolyplinkError) as error:
        Faults(strict=True).fault("box of no area", "a.xml", "correct the box")
    assert str(error.value) == "a.xml: box of no area; correct the box, or import without --strict"


def test_faults_and_warnings_are_counted_with_the_first_name() -> None:
    faults, other = Faults(), Faults()
    faults.fault("box of no area", "a.xml", "correct the box")
    faults.warn("odd", "x")
    other.fault("box of no area", "b.xml", "correct the box")
    other.warn("odder", "y", 3)
    faults.add(other)
    assert faults.lines() == [
        "2 x box of no area, left out (first: a.xml)",
        "1 x odd (first: x)",
        "3 x odder (first: y)",
    ]
