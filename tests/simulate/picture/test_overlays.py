import datetime
import math

import numpy as np
import pytest
import torch

from polyplink_lab.simulate.colon.projection import LENS_CORNERS, Lens
from polyplink_lab.simulate.course.conditions import FORCEPS, SNARE
from polyplink_lab.simulate.picture import overlays
from polyplink_lab.simulate.picture.rays import Windows, lens_mask

FRAME = (100, 80)
IMAGES = torch.full((3, 1, 80, 100), 0.3)


def whole(n: int = 1, size: tuple[int, int] = FRAME) -> Windows:
    return Windows(torch.tensor([[0.0, 0.0, 100.0, 80.0]]).repeat(n, 1), FRAME, size)


def tools(reach: float, kind: float) -> torch.Tensor:
    """From below."""
    return torch.tensor([[reach], [0.5 * math.pi], [kind]])


@pytest.mark.parametrize("kind", [SNARE, FORCEPS])
def test_no_reach_is_no_instrument(kind: float) -> None:
    drawn = overlays.draw_instruments(IMAGES, whole(), tools(0.0, kind))
    torch.testing.assert_close(drawn, IMAGES)


def test_snare_and_forceps_look_different_and_stay_in_range() -> None:
    snare, forceps = (
        overlays.draw_instruments(IMAGES, whole(), tools(0.9, kind)) for kind in (SNARE, FORCEPS)
    )
    assert (snare - forceps).abs().max() > 0.2
    for images in (snare, forceps):
        assert images.min() >= 0
        assert images.max() <= 1


START = datetime.datetime(2011, 3, 5, 10, 2, 3)


def written(label: overlays.Label, width: int, height: int) -> torch.Tensor:
    image = torch.zeros(3, height, width)
    overlays.write_label(image, [0.0, 0.0, 1.0, height / width], label)
    return image[0]


def test_the_clock_runs() -> None:
    first, later = overlays.clock(START, 0), overlays.clock(START, 61)
    assert np.array_equal(later[0], overlays.text_cells(["05/03/2011", "10:03:04"]))
    assert not np.array_equal(first[0], later[0])


def test_text_is_sharp_at_full_size_and_a_hint_at_a_small_one() -> None:
    label = overlays.clock(START, 0)
    large, small = written(label, 1248, 959), written(label, 96, 74)
    assert large.max().item() == pytest.approx(overlays.INK, abs=0.02)
    assert 0.05 < small.max() < 0.75
    ink = label[0].sum() * label[3] ** 2 * overlays.INK  # in squares of the frame's width
    for image in (large, small):
        assert float(image.sum()) / image.shape[1] ** 2 == pytest.approx(ink, rel=0.02)


def test_text_stands_outside_the_view() -> None:
    for brand, label, frame in (
        ("Fujifilm", overlays.clock(START, 0), (1248, 959)),
        ("Olympus", overlays.badge(1080 / 1352), (1352, 1080)),
        ("Olympus", overlays.badge(1007 / 1162), (1162, 1007)),
    ):
        windows = Windows(torch.tensor([[0.0, 0.0, *map(float, frame)]]), frame, frame)
        light, _ = lens_mask(Lens.of(LENS_CORNERS[brand], *frame), windows)
        ink = written(label, *frame) > 0.1
        assert ink.any()
        assert light[0][ink].max() == 0


def test_a_window_shows_the_text_of_its_frame() -> None:
    label = overlays.clock(START, 0)
    whole, part = written(label, 400, 300), torch.zeros(3, 40, 60)
    overlays.write_label(part, [10 / 400, 0.0, 70 / 400, 40 / 400], label)
    torch.testing.assert_close(part[0], whole[:40, 10:70], atol=2e-3, rtol=0)
    away = torch.zeros(3, 40, 60)
    overlays.write_label(away, [0.5, 0.5, 0.7, 0.6], label)
    assert not away.any()


NOISE = overlays.draw_grain(np.random.default_rng(0))


def test_grain_is_that_of_the_frame_whatever_it_is_drawn_with() -> None:
    together = overlays.read_grain(NOISE, np.array([3, 900, 2_000_000]), whole(3))
    alone = overlays.read_grain(NOISE, np.array([2_000_000]), whole(1))
    assert torch.equal(together[2:], alone)
    assert together.std().item() == pytest.approx(overlays.GRAIN, rel=0.05)
    assert abs(np.corrcoef(together[0].ravel(), together[1].ravel())[0, 1]) < 0.05
