"""Augmentations against those of torchvision, and their randomness per view."""

import importlib
import math

import pytest
import torch
from torch.nn import functional

from polyplink.core.lazy_torch import heal_torchvision
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

ALL_AUGMENTATIONS = AugmentConfig(0.5, 20.0, 0.1, 0.2, 0.4, 0.4, 0.4, 0.1)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pixels(n: int = 4, size: int = 12) -> torch.Tensor:
    return torch.rand(n, 3, size, size, generator=seeded(1))


def crops(n: int = 6, size: int = 12) -> torch.Tensor:
    return torch.randint(0, 256, (n, size, size, 3), generator=seeded(2), dtype=torch.uint8)


@pytest.mark.parametrize("factor", [0.5, 1.0, 1.6])
def test_colour_changes_equal_those_of_torchvision(factor: float) -> None:
    x, ones, factors = pixels(), torch.ones(4), torch.full((4,), factor)
    for ours, theirs in (
        (jitter(x, factors, ones, ones), tv.adjust_brightness(x, factor)),
        (jitter(x, ones, factors, ones), tv.adjust_contrast(x, factor)),
        (jitter(x, ones, ones, factors), tv.adjust_saturation(x, factor)),
        (grey(x), tv.rgb_to_grayscale(x)),
    ):  # torchvision rounds its weights of grey
        torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=0.0)


def test_turning_the_hue_by_a_third_permutes_the_channels() -> None:
    x = pixels()
    third = torch.full((4,), 2 * math.pi / 3)
    torch.testing.assert_close(turn_hue(x, third), x[:, [2, 0, 1]])
    torch.testing.assert_close(turn_hue(x, torch.zeros(4)), x)
    unsaturated = 0.4 + 0.2 * x  # nothing is clipped, so R + G + B is constant
    torch.testing.assert_close(
        turn_hue(unsaturated, torch.full((4,), 0.5)).sum(1), unsaturated.sum(1)
    )


def test_a_flip_with_probability_one_flips_both_axes() -> None:
    flipped = move(pixels(), draw_affine(AugmentConfig(flip=1.0), 4, seeded()))
    torch.testing.assert_close(flipped, pixels().flip(2).flip(3))
    horizontal = torch.tensor([[[-1.0, 0, 0], [0, 1, 0]]])
    torch.testing.assert_close(move(pixels(1), horizontal), pixels(1).flip(3))


def test_rotation_and_scale_equal_those_of_torchvision() -> None:
    x = functional.interpolate(pixels(1, 4), size=40, mode="bilinear")
    angle, scale = 17.0, 1.2
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    affine = torch.tensor([[[cos / scale, -sin / scale, 0.0], [sin / scale, cos / scale, 0.0]]])
    expected = tv.affine(
        x, -angle, [0, 0], scale, [0.0, 0.0], interpolation=InterpolationMode.BILINEAR
    )
    inside = (slice(None), slice(None), slice(10, 30), slice(10, 30))
    error, error_of_opposite = (
        (move(x, a)[inside] - expected[inside]).abs().max()
        for a in (affine, affine * torch.tensor([[1.0, -1, 1], [-1, 1, 1]]))
    )
    assert min(error, error_of_opposite) < 1e-4  # the sign of an angle is a convention


def test_frames_of_a_view_share_an_augmentation_and_views_differ() -> None:
    identical_frames = crops(1).expand(6, -1, -1, -1)
    augmented = augment(ALL_AUGMENTATIONS, identical_frames, 3, seeded())
    assert augmented.shape == identical_frames.shape
    assert 0 <= augmented.min() <= augmented.max() <= 1
    torch.testing.assert_close(augmented[0], augmented[2])
    torch.testing.assert_close(augmented[3], augmented[5])
    assert (augmented[0] - augmented[3]).abs().max() > 0.05
    assert torch.equal(augment(ALL_AUGMENTATIONS, identical_frames, 3, seeded()), augmented)
    assert not torch.equal(augment(ALL_AUGMENTATIONS, identical_frames, 3, seeded(6)), augmented)


def test_an_empty_augmentation_returns_the_crops_unchanged() -> None:
    original = crops()
    assert augment(AugmentConfig(), original, 2, seeded()) is original
    moved = augment(AugmentConfig(flip=1e-9), original, 2, seeded())
    torch.testing.assert_close(moved, original.float() / 255, atol=1e-5, rtol=0.0)


def test_random_affine_maps_stay_within_their_limits() -> None:
    config = AugmentConfig(degrees=30.0, translate=0.1, scale=0.2)
    maps = draw_affine(config, 2000, seeded())
    size = 1 / maps[:, :, :2].det().sqrt()
    assert 0.8 <= size.min() < 0.82
    assert 1.18 < size.max() <= 1.2
    assert 0.19 < maps[:, :, 2].abs().max() <= 0.2  # of a width of 2
    angle = torch.atan2(maps[:, 1, 0], maps[:, 0, 0]).rad2deg()
    assert 29 < angle.abs().max() <= 30
