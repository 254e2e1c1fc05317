"""Augmentations against torchvision's, one view at a time."""

import importlib
import math

import pytest
import torch
from torch.nn import functional

from polyplink.core._torchvision import heal_torchvision
from polyplink.learn.augment import (
    AugmentConfig,
    augment,
    draw_affine,
    grey,
    jitter,
    move,
    turn_hue,
)

heal_torchvision()
InterpolationMode = importlib.import_module("torchvision.transforms").InterpolationMode
tv = importlib.import_module("torchvision.transforms.v2.functional")

EVERYTHING = AugmentConfig(0.5, 20.0, 0.1, 0.2, 0.4, 0.4, 0.4, 0.1)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pixels(n: int = 4, size: int = 12) -> torch.Tensor:
    return torch.rand(n, 3, size, size, generator=seeded(1))


def crops(n: int = 6, size: int = 12) -> torch.Tensor:
    return torch.randint(0, 256, (n, size, size, 3), generator=seeded(2), dtype=torch.uint8)


@pytest.mark.parametrize("factor", [0.5, 1.0, 1.6])
def test_colours_are_those_of_torchvision(factor: float) -> None:
    x, one, other = pixels(), torch.ones(4), torch.full((4,), factor)
    for ours, theirs in (
        (jitter(x, other, one, one), tv.adjust_brightness(x, factor)),
        (jitter(x, one, other, one), tv.adjust_contrast(x, factor)),
        (jitter(x, one, one, other), tv.adjust_saturation(x, factor)),
        (grey(x), tv.rgb_to_grayscale(x)),
    ):  # torchvision rounds the weights of grey
        torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=0.0)


def test_a_turn_of_a_third_of_the_circle_changes_the_channels_places() -> None:
    x = pixels()
    third = torch.full((4,), 2 * math.pi / 3)
    torch.testing.assert_close(turn_hue(x, third), x[:, [2, 0, 1]])
    torch.testing.assert_close(turn_hue(x, torch.zeros(4)), x)
    dull = 0.4 + 0.2 * x  # nothing is clipped: R + G + B stays
    torch.testing.assert_close(turn_hue(dull, torch.full((4,), 0.5)).sum(1), dull.sum(1))


def test_a_certain_flip_flips_both_ways() -> None:
    flipped = move(pixels(), draw_affine(AugmentConfig(flip=1.0), 4, seeded()))
    torch.testing.assert_close(flipped, pixels().flip(2).flip(3))
    once = torch.tensor([[[-1.0, 0, 0], [0, 1, 0]]])
    torch.testing.assert_close(move(pixels(1), once), pixels(1).flip(3))


def test_turns_shifts_and_sizes_are_those_of_torchvision() -> None:
    x = functional.interpolate(pixels(1, 4), size=40, mode="bilinear")
    angle, scale = 17.0, 1.2
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    affine = torch.tensor([[[cos / scale, -sin / scale, 0.0], [sin / scale, cos / scale, 0.0]]])
    wanted = tv.affine(
        x, -angle, [0, 0], scale, [0.0, 0.0], interpolation=InterpolationMode.BILINEAR
    )
    inside = (slice(None), slice(None), slice(10, 30), slice(10, 30))
    plus, minus = (
        (move(x, a)[inside] - wanted[inside]).abs().max()
        for a in (affine, affine * torch.tensor([[1.0, -1, 1], [-1, 1, 1]]))
    )
    assert min(plus, minus) < 1e-4  # the sign of an angle is a matter of taste


def test_frames_of_a_view_are_changed_alike_and_views_otherwise() -> None:
    same = crops(1).expand(6, -1, -1, -1)
    found = augment(EVERYTHING, same, 3, seeded())
    assert found.shape == same.shape
    assert 0 <= found.min() <= found.max() <= 1
    torch.testing.assert_close(found[0], found[2])
    torch.testing.assert_close(found[3], found[5])
    assert (found[0] - found[3]).abs().max() > 0.05
    assert torch.equal(augment(EVERYTHING, same, 3, seeded()), found)
    assert not torch.equal(augment(EVERYTHING, same, 3, seeded(6)), found)


def test_nothing_to_do_leaves_the_crops_alone() -> None:
    given = crops()
    assert augment(AugmentConfig(), given, 2, seeded()) is given
    moved = augment(AugmentConfig(flip=1e-9), given, 2, seeded())
    torch.testing.assert_close(moved, given.float() / 255, atol=1e-5, rtol=0.0)


def test_draws_stay_within_their_bounds() -> None:
    config = AugmentConfig(degrees=30.0, translate=0.1, scale=0.2)
    maps = draw_affine(config, 2000, seeded())
    size = 1 / maps[:, :, :2].det().sqrt()
    assert 0.8 <= size.min() < 0.82
    assert 1.18 < size.max() <= 1.2
    assert 0.19 < maps[:, :, 2].abs().max() <= 0.2  # of a width of 2
    angle = torch.atan2(maps[:, 1, 0], maps[:, 0, 0]).rad2deg()
    assert 29 < angle.abs().max() <= 30
