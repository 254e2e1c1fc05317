import dataclasses

import numpy as np
import pytest
import torch

from polyplink.simulate.course.conditions import Conditions
from polyplink.simulate.picture.effects import apply_effects, write_overlays
from polyplink.simulate.picture.window import Windows
from tests.simulate.picture.test_appearance import SCENERY

N = 20
FRAME = (160, 128)
CLEAR = Conditions(
    phase=np.zeros(N, np.float32),
    focus=np.zeros(N, np.float32),
    motion=np.zeros((N, 2), np.float32),
    haze=np.zeros(N, np.float32),
    splash=np.zeros(N, np.float32),
    blink=np.zeros(N, np.bool_),
    instrument=np.zeros((N, 3), np.float32),
    near=np.zeros(N, np.bool_),
)
FULL = np.full(N, 0.6, np.float32)
TROUBLES = {
    "focus": FULL / 30,
    "motion": np.repeat(FULL[:, None], 2, 1) / 10,
    "haze": FULL,
    "splash": FULL,
    "blink": SCENERY.blinks >= 0,
    "instrument": np.stack([FULL, FULL + 1, 0 * FULL], axis=1),
}
FRAMES = np.array([1, 6, 11])  # of which 1 and 11 blink where frames do


def scene() -> torch.Tensor:
    y, x = torch.meshgrid(torch.linspace(0, 9, 128), torch.linspace(0, 9, 160), indexing="ij")
    wavy = 0.5 + 0.2 * torch.stack([(x + y).sin(), (x - y).cos(), x.sin() * y.cos()])
    return wavy[:, None].repeat(1, 3, 1, 1)


def whole(n: int = 3) -> Windows:
    return Windows(torch.tensor([[0.0, 0.0, 160.0, 128.0]]).repeat(n, 1), FRAME, FRAME)


def with_trouble(name: str) -> Conditions:
    return Conditions(**(vars(CLEAR) | {name: TROUBLES[name]}))


def test_clear_frames_stay_as_they_are() -> None:
    assert torch.equal(apply_effects(scene(), FRAMES, whole(), CLEAR, SCENERY), scene())


@pytest.mark.parametrize("name", sorted(TROUBLES))
def test_every_trouble_changes_its_frames(name: str) -> None:
    images = apply_effects(scene(), FRAMES, whole(), with_trouble(name), SCENERY)
    changed = (images - scene()).abs().amax(dim=(0, 2, 3)) > 0.004
    assert changed.tolist() == [True, name != "blink", True]
    assert images.min() >= 0
    assert images.max() <= 1


@pytest.mark.parametrize("name", sorted(TROUBLES))
def test_a_frame_is_the_same_alone_and_among_others(name: str) -> None:
    together = apply_effects(scene(), FRAMES, whole(), with_trouble(name), SCENERY)
    for index in range(3):
        alone = apply_effects(
            scene()[:, :1], FRAMES[index : index + 1], whole(1), with_trouble(name), SCENERY
        )
        assert torch.equal(alone[:, 0], together[:, index])


@pytest.mark.parametrize("name", sorted(TROUBLES))
def test_a_window_shows_the_trouble_of_its_frame(name: str) -> None:
    images = apply_effects(scene(), FRAMES, whole(), with_trouble(name), SCENERY)
    part = Windows(torch.tensor([[40.0, 40.0, 120.0, 104.0]]).repeat(3, 1), FRAME, (80, 64))
    cut = scene()[:, :, 40:104, 40:120]
    window = apply_effects(cut, FRAMES, part, with_trouble(name), SCENERY)
    inner = (..., slice(12, 52), slice(12, 68))  # blur reads beyond a window's edge
    expected = images[:, :, 40:104, 40:120][inner]
    torch.testing.assert_close(window[inner], expected, atol=0.02, rtol=0)


def test_nothing_of_the_scene_is_left_in_a_blink() -> None:
    blink = with_trouble("blink")
    first = apply_effects(scene(), FRAMES, whole(), blink, SCENERY)
    second = apply_effects(1 - scene(), FRAMES, whole(), blink, SCENERY)
    assert torch.equal(first[:, [0, 2]], second[:, [0, 2]])
    assert not torch.equal(first[:, 1], second[:, 1])


def test_each_brand_writes_its_own_overlay() -> None:
    fuji, olympus, near = (torch.zeros(3, 3, 128, 160) for _ in range(3))
    write_overlays(fuji, FRAMES, whole(), CLEAR, SCENERY)
    other = dataclasses.replace(SCENERY, brand="Olympus")
    write_overlays(olympus, FRAMES, whole(), CLEAR, other)
    focused = dataclasses.replace(CLEAR, near=FRAMES[1] == np.arange(N))
    write_overlays(near, FRAMES, whole(), focused, other)
    assert (fuji.amax(dim=(0, 2, 3)) > 0.1).all()
    assert not olympus.any()
    assert near.amax(dim=(0, 2, 3)).gt(0.1).tolist() == [False, True, False]
