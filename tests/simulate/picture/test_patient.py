import math

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from polyplink.simulate.colon.surface import centre_line, draw_colon, wall_radius
from polyplink.simulate.picture.patient import draw_patient


@given(st.integers(0, 2**32 - 1))
def test_every_lumen_leaves_room_for_the_camera(seed: int) -> None:
    colon = draw_colon(np.random.default_rng(seed))
    angle, z = torch.meshgrid(
        torch.linspace(0, 2 * math.pi, 60), torch.linspace(-8, 8, 200), indexing="ij"
    )
    middle, _ = centre_line(colon, z)
    radius = wall_radius(colon, z, middle, angle.cos(), angle.sin())
    assert radius.min() > 0.55  # units: a camera may sway about the middle
    assert radius.max() < 1.1


def test_patients_differ_and_are_repeatable() -> None:
    first, again, other = (draw_patient(np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert first.colon == again.colon
    assert torch.equal(first.mucosa.coarse, again.mucosa.coarse)
    assert first.colon != other.colon
    assert (first.wall - other.wall).abs().max() > 0.01


def test_mucosa_is_red_and_polyps_redder() -> None:
    patients = [draw_patient(np.random.default_rng(seed)) for seed in range(6)]
    assert all(p.wall[0] > p.wall[1] > p.wall[2] * 0.8 for p in patients)
    redness = [float(p.tissue[0] / p.tissue[1] - p.wall[0] / p.wall[1]) for p in patients]
    assert np.mean(redness) > 0.1


def test_moving_to_a_device_changes_nothing() -> None:
    patient = draw_patient(np.random.default_rng(0))
    moved = patient.to(torch.device("cpu"))
    assert torch.equal(moved.mucosa.fine, patient.mucosa.fine)
    assert moved.colon == patient.colon


def test_a_worse_prepared_bowel_is_yellower() -> None:
    def yellow(bbps: float) -> float:
        _, green, blue, *_ = draw_patient(np.random.default_rng(3), bbps).mucosa.coarse
        return float((green - blue).mean())

    assert yellow(4.0) > yellow(9.0) + 0.005
