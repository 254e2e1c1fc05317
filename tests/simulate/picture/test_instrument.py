import math

import pytest
import torch

from polyplink.simulate.picture.instrument import (
    ENTRY,
    FORCEPS,
    SNARE,
    Reach,
    along_and_across,
    draw_instruments,
)
from polyplink.simulate.picture.window import Windows

FRAME = (100, 80)
IMAGES = torch.full((3, 1, 80, 100), 0.3)
BELOW = 0.5 * math.pi


def whole(n: int = 1) -> Windows:
    return Windows(torch.tensor([[0.0, 0.0, 100.0, 80.0]]).repeat(n, 1), FRAME, FRAME)


def tools(reach: float, kind: int, angle: float = BELOW) -> Reach:
    return Reach(torch.tensor([reach]), torch.tensor([angle]), torch.tensor([kind]))


def changed(reach: float, kind: int, angle: float = BELOW) -> torch.Tensor:
    drawn = draw_instruments(IMAGES, whole(), tools(reach, kind, angle))
    return (drawn - IMAGES).abs().amax(0)[0] > 0.1


def test_the_entry_lies_where_the_angle_says() -> None:
    along, across = along_and_across(whole(), torch.tensor([BELOW]))
    assert along[0, 40, 50].item() == pytest.approx(ENTRY, abs=0.01)
    assert along[0, 79, 50] < along[0, 10, 50]
    assert across[0, 40, 50].item() == pytest.approx(0, abs=0.01)
    assert across[0, 40, 80].abs() > 0.2


@pytest.mark.parametrize("kind", [SNARE, FORCEPS])
def test_no_reach_is_no_instrument(kind: int) -> None:
    drawn = draw_instruments(IMAGES, whole(), tools(0.0, kind))
    torch.testing.assert_close(drawn, IMAGES)


@pytest.mark.parametrize("kind", [SNARE, FORCEPS])
def test_an_instrument_comes_from_below_towards_the_middle(kind: int) -> None:
    near, far = changed(0.6, kind), changed(1.0, kind)
    assert far.sum() > near.sum() > 50
    assert near[70:, 45:56].any()
    assert not near[:30].any()
    assert far[30:45, 40:60].any()


def test_another_angle_is_another_side() -> None:
    left = changed(0.7, SNARE, BELOW + 0.5)
    columns = torch.nonzero(left.any(0))[:, 0].float()
    assert columns.mean() < 45


def test_snare_and_forceps_look_different_and_stay_in_range() -> None:
    snare, forceps = (
        draw_instruments(IMAGES, whole(), tools(0.9, kind)) for kind in (SNARE, FORCEPS)
    )
    assert (snare - forceps).abs().max() > 0.2
    for images in (snare, forceps):
        assert images.min() >= 0
        assert images.max() <= 1


def test_a_window_shows_the_instrument_of_its_frame() -> None:
    drawn = draw_instruments(IMAGES, whole(), tools(0.8, FORCEPS))
    part = Windows(torch.tensor([[30.0, 40.0, 70.0, 80.0]]), FRAME, (40, 40))
    crop = draw_instruments(IMAGES[..., 40:80, 30:70], part, tools(0.8, FORCEPS))
    torch.testing.assert_close(crop, drawn[..., 40:80, 30:70], atol=1e-4, rtol=0)
