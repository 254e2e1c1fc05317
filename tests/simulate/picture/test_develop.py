import math

import numpy as np
import pytest
import torch

from polyplink.simulate.picture.develop import (
    CONTRAST,
    SOFTNESS,
    TARGET,
    automatic_gains,
    develop,
    soften,
)

LINEAR = torch.from_numpy(np.random.default_rng(0).uniform(0, 9, (3, 2, 6, 8)))


def test_gains_bring_frames_to_the_target() -> None:
    gains = automatic_gains(LINEAR.flatten(2))
    for s in range(2):
        roots = [math.sqrt(max(pixel)) for pixel in LINEAR[:, s].flatten(1).T.tolist()]
        assert gains[s].item() == pytest.approx((TARGET / np.mean(roots)) ** 2)


def test_exposure_does_not_care_how_bright_the_scene_is() -> None:
    gains = automatic_gains(LINEAR.flatten(2))
    torch.testing.assert_close(automatic_gains(0.1 * LINEAR.flatten(2)), 10 * gains)


def test_develop_is_the_naive_one() -> None:
    gains, whites = torch.tensor([1.0, 0.5]), torch.tensor([[1.0, 1, 1], [1.1, 1, 0.9]])
    result = develop(LINEAR.clone(), gains, whites)
    for s in range(2):
        for c in range(3):
            scaled = LINEAR[c, s].numpy() * float(gains[s]) * float(whites[s, c])
            toned = np.sqrt(1 - np.exp(-CONTRAST * scaled))
            wide = np.pad(toned, 1, mode="edge")
            for y in range(6):
                for x in range(8):
                    around = wide[y : y + 3, x : x + 3]
                    kernel = np.array([SOFTNESS, 1 - 2 * SOFTNESS, SOFTNESS])
                    expected = kernel @ around @ kernel
                    assert float(result[c, s, y, x]) == pytest.approx(expected, rel=1e-5)


def test_a_plain_picture_stays_as_it_is() -> None:
    plain = torch.full((3, 1, 5, 4), 0.3)
    torch.testing.assert_close(soften(plain), plain)
