import math

import numpy as np
import torch

from polyplink.simulate.picture.march import (
    FAR,
    FIELD,
    Rays,
    advance,
    camera_rays,
    march,
    pixel_rays,
    turn_rays,
)
from polyplink.simulate.picture.scene import scene_distance
from tests.simulate.scenes import shots_at, small_scene

CPU = torch.device("cpu")


def test_camera_rays_are_a_pinhole() -> None:
    rays = camera_rays(8, 6, CPU)
    focal = 4 / math.tan(FIELD / 2)
    for row in range(6):
        for column in range(8):
            way = np.array([(column + 0.5 - 4) / focal, (row + 0.5 - 3) / focal, 1.0])
            np.testing.assert_allclose(rays[:, row, column], way / np.linalg.norm(way), atol=1e-6)


def test_turn_rays_multiplies_every_ray() -> None:
    rays = camera_rays(4, 2, CPU)
    turn = torch.linalg.qr(
        torch.from_numpy(np.random.default_rng(0).normal(size=(3, 3, 3)))
    ).Q.float()
    turned = turn_rays(rays, turn)
    for frame in range(3):
        np.testing.assert_allclose(turned[:, frame, 1, 2], turn[frame] @ rays[:, 1, 2], atol=1e-6)


def test_rays_reach_where_they_point() -> None:
    rays = Rays(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[0.0], [0.6], [0.8]]))
    assert rays.at(torch.tensor([5.0]))[:, 0].tolist() == [1.0, 5.0, 7.0]


def test_advance_stops_at_the_far_end() -> None:
    patient, _ = small_scene()
    rays = Rays(torch.zeros(3, 1), torch.tensor([[0.0], [0.0], [1.0]]))
    depth, _ = advance(patient.colon, [], rays, torch.tensor([FAR]), 3)
    assert depth.item() <= FAR


def test_march_finds_what_a_patient_naive_march_finds() -> None:
    patient, skin = small_scene()
    shots = shots_at(patient, skin)
    grid = camera_rays(32, 28, CPU)
    depth, rays = march(patient.colon, [skin.lump], shots.origins, shots.rotations, grid)
    naive = torch.zeros_like(depth)
    for _ in range(200):  # every ray by itself, from the camera, until it rests
        naive = (naive + scene_distance(patient.colon, [skin.lump], rays.at(naive))).clamp(max=FAR)
    near = naive < 3
    assert near.float().mean() > 0.5
    wrong = (depth - naive).abs() > 0.02 * naive
    assert wrong[near].float().mean() < 0.01


def test_pixel_rays_keep_the_order_of_frames() -> None:
    origins = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    turned = turn_rays(camera_rays(4, 2, CPU), torch.eye(3).expand(2, 3, 3))
    rays = pixel_rays(origins, turned)
    assert rays.origins[:, 0].tolist() == [1.0, 2.0, 3.0]
    assert rays.origins[:, 8].tolist() == [4.0, 5.0, 6.0]
    assert torch.equal(rays.some(torch.tensor([9])).directions[:, 0], turned[:, 1, 0, 1])
