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


def full_frame(n: int = 1, size: tuple[int, int] = FRAME) -> Windows:
    return Windows(torch.tensor([[0.0, 0.0, 100.0, 80.0]]).repeat(n, 1), FRAME, size)


def instruments(reach: float, kind: float) -> torch.Tensor:
    """One instrument that enters from below."""
    return torch.tensor([[reach], [0.5 * math.pi], [kind]])


def test_snare_and_forceps_look_different_and_stay_in_range() -> None:
    snare, forceps = (
        overlays.draw_instruments(IMAGES, full_frame(), instruments(0.9, kind))
        for kind in (SNARE, FORCEPS)
    )
    assert (snare - forceps).abs().max() > 0.2
    for kind in (SNARE, FORCEPS):
        without_reach = overlays.draw_instruments(IMAGES, full_frame(), instruments(0.0, kind))
        torch.testing.assert_close(without_reach, IMAGES)
    for images in (snare, forceps):
        assert images.min() >= 0
        assert images.max() <= 1


START = datetime.datetime(2011, 3, 5, 10, 2, 3)


def label_image(label: overlays.Label, width: int, height: int) -> torch.Tensor:
    image = torch.zeros(3, height, width)
    overlays.write_label(image, [0.0, 0.0, 1.0, height / width], label)
    return image[0]


def test_the_clock_advances() -> None:
    first, one_minute_later = overlays.clock(START, 0), overlays.clock(START, 61)
    assert np.array_equal(one_minute_later[0], overlays.text_cells(["05/03/2011", "10:03:04"]))
    assert not np.array_equal(first[0], one_minute_later[0])


def test_text_is_outside_the_field_of_view() -> None:
    for brand, label, frame in (
        ("Fujifilm", overlays.clock(START, 0), (1248, 959)),
        ("Olympus", overlays.badge(1080 / 1352), (1352, 1080)),
        ("Olympus", overlays.badge(1007 / 1162), (1162, 1007)),
    ):
        windows = Windows(torch.tensor([[0.0, 0.0, *map(float, frame)]]), frame, frame)
        light, _ = lens_mask(Lens.of(LENS_CORNERS[brand], *frame), windows)
        ink = label_image(label, *frame) > 0.1
        assert ink.any()
        assert light[0][ink].max() == 0


def test_a_window_shows_the_text_of_its_frame() -> None:
    label = overlays.clock(START, 0)
    label_at_full_size, part = label_image(label, 400, 300), torch.zeros(3, 40, 60)
    overlays.write_label(part, [10 / 400, 0.0, 70 / 400, 40 / 400], label)
    torch.testing.assert_close(part[0], label_at_full_size[:40, 10:70], atol=2e-3, rtol=0)
    elsewhere = torch.zeros(3, 40, 60)
    overlays.write_label(elsewhere, [0.5, 0.5, 0.7, 0.6], label)
    assert not elsewhere.any()


NOISE = overlays.draw_grain(np.random.default_rng(0))


def test_grain_depends_only_on_the_frame() -> None:
    together = overlays.read_grain(NOISE, np.array([3, 900, 2_000_000]), full_frame(3))
    read_alone = overlays.read_grain(NOISE, np.array([2_000_000]), full_frame(1))
    assert torch.equal(together[2:], read_alone)
    assert together.std().item() == pytest.approx(overlays.GRAIN, rel=0.05)
    assert abs(np.corrcoef(together[0].ravel(), together[1].ravel())[0, 1]) < 0.05
