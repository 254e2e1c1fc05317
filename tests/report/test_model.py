from dataclasses import replace

import numpy as np
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.report import Procedure, Provenance, Report, Tracklet, UncertainLink
from tests.report.sample import procedure


def test_counts_groups() -> None:
    assert procedure().n_counted == 3
    assert Procedure("p", 10, ()).n_counted == 0


@pytest.mark.parametrize(("first", "last"), [(5, 4), (-1, 3)])
def test_refuses_frames_that_run_backwards(first: int, last: int) -> None:
    with pytest.raises(PolyplinkError, match=f"'t': frames {first} to {last}; give 0 <= first"):
        Tracklet("t", first, last, "x")


@pytest.mark.parametrize(
    "crop",
    [
        np.zeros((4, 4, 3), dtype=np.float32),
        np.zeros((4, 4), dtype=np.uint8),
        np.zeros((4, 4, 4), dtype=np.uint8),
        np.zeros((0, 4, 3), dtype=np.uint8),
    ],
)
def test_refuses_what_is_no_crop(crop: np.ndarray) -> None:
    with pytest.raises(PolyplinkError, match=r"give uint8 \(height, width, 3\)"):
        Tracklet("t", 0, 1, "x", crop=crop)


def test_refuses_what_does_not_fit_the_procedure() -> None:
    good = procedure()
    with pytest.raises(PolyplinkError, match="'p0': tracklet 't0' occurs twice"):
        replace(good, tracklets=(good.tracklets[0],) * 2, similarity=None, uncertain=())
    with pytest.raises(PolyplinkError, match="'t4' ends at frame 1200 of 1200; correct n_frames"):
        replace(good, n_frames=1200)
    with pytest.raises(PolyplinkError, match=r"similarity of shape \(4, 5\) for 5 tracklets"):
        replace(good, similarity=np.zeros((4, 5)))
    with pytest.raises(PolyplinkError, match="a link names tracklet 'q', which is not there"):
        replace(good, uncertain=(UncertainLink(("t0",), ("q",), True, 0.5),))


def test_refuses_links_without_sides_or_sureness() -> None:
    with pytest.raises(PolyplinkError, match="empty side"):
        UncertainLink((), ("t0",), True, 0.5)
    for sureness in (1.5, -0.1, float("nan")):
        with pytest.raises(PolyplinkError, match="give a probability"):
            UncertainLink(("t1",), ("t0",), True, sureness)


def test_refuses_a_procedure_twice() -> None:
    with pytest.raises(PolyplinkError, match="procedure 'p0' occurs twice"):
        Report("r", Provenance("d", "today", "m"), (procedure(), procedure()))
