import base64
from dataclasses import replace

import numpy as np
import pytest
import simplejpeg
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.report.matching import match
from polyplink.report.model import Procedure, Tracklet, UncertainLink
from polyplink.report.strips import MOST, SIDE, choose, jpeg, shrink, strips, uncertain_pairs
from tests.report.sample import procedure


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 20), st.integers(0, 2**31))
@settings(deadline=None, max_examples=60)
def test_shrink_averages_areas(height: int, width: int, side: int, seed: int) -> None:
    image = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    small = shrink(image, side)
    if max(height, width) <= side:
        assert small is image
        return
    rows, columns = small.shape[:2]
    assert max(rows, columns) == side
    for i in range(rows):
        for j in range(columns):
            top, bottom = i * height // rows, (i + 1) * height // rows
            left, right = j * width // columns, (j + 1) * width // columns
            mean = image[top:bottom, left:right].reshape(-1, 3).mean(axis=0)
            assert np.abs(small[i, j] - mean).max() <= 0.5 + 1e-6


def test_jpeg_is_small_and_looks_the_same() -> None:
    ramp = np.linspace(0, 255, 300, dtype=np.uint8)
    image = np.repeat(np.repeat(ramp[None, :, None], 200, axis=0), 3, axis=2)
    uri = jpeg(image)
    assert uri.startswith("data:image/jpeg;base64,")
    seen = simplejpeg.decode_jpeg(base64.b64decode(uri.partition(",")[2]))
    assert seen.shape == (64, SIDE, 3)
    assert np.abs(seen.astype(int) - shrink(image, SIDE)).mean() < 3


def test_strips_hold_every_tracklet_once_in_time() -> None:
    made = procedure()
    found = {strip.polyp.name: strip for strip in strips(made, match(made))}
    assert list(found) == ["x", "z", "y"]
    assert [c.tracklet.tracklet_id for c in found["x"].crops] == ["t0", "t1"]
    assert (found["z"].n, found["z"].n_wrong, found["z"].crops[0].wrong) == (1, 1, True)
    true = found["z"].crops[0].true
    assert true is not None
    assert true.label == "A"
    assert found["x"].crops[1].when == "0:06"


def test_a_long_strip_keeps_the_wrong_and_the_least_sure() -> None:
    sure = [0.9 - 0.01 * i for i in range(20)]
    members = [Tracklet(f"t{i}", 100 * i, 100 * i + 50, "x", "a", sure[i]) for i in range(20)]
    members[0] = replace(members[0], polyp_id="b", sureness=1.0)
    members[1] = replace(members[1], sureness=None)
    members[2] = replace(members[2], sureness=float("nan"))
    made = Procedure("p", 3000, tuple(members))
    shown = choose(members, match(made), MOST)
    assert [t.tracklet_id for t in shown] == [
        f"t{i}" for i in (0, 1, 2, 11, 12, 13, 14, 15, 16, 17, 18, 19)
    ]
    strip = strips(made, match(made))[0]
    assert (len(strip.crops), strip.n) == (MOST, 20)


def test_no_crop_is_no_image() -> None:
    made = Procedure("p", 10, (Tracklet("t", 0, 5, "x"),))
    view = strips(made, match(made))[0].crops[0]
    assert view.image is None
    assert view.when == "0"  # a frame, where the rate is unknown


def test_least_sure_links_come_first_over_all_procedures() -> None:
    entries = []
    for name, sureness in (("p0", (0.3, 0.1)), ("p1", (0.2, 0.45))):
        links = tuple(UncertainLink(("t0", "t1", "t2"), ("t3",), True, s) for s in sureness)
        made = replace(procedure(name), uncertain=links)
        entries.append((made, match(made)))
    pairs = uncertain_pairs(entries, 3)
    assert [(p.procedure_id, p.link.sureness) for p in pairs] == [
        ("p0", 0.1),
        ("p1", pytest.approx(0.2)),
        ("p0", 0.3),
    ]
    assert [c.tracklet.tracklet_id for c in pairs[0].members] == ["t0", "t1"]
    assert [c.tracklet.tracklet_id for c in pairs[0].others] == ["t3"]
