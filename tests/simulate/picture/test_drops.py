import numpy as np
import pytest
import torch

from polyplink.simulate.picture.drops import SHIFT, ZOOM, Drops, draw_drops, water
from polyplink.simulate.picture.window import Windows

DROPS = draw_drops(np.random.default_rng(0))
FRAME = (320, 256)
WHOLE = Windows(torch.tensor([[0.0, 0.0, *FRAME]]), FRAME, FRAME)
STILL = torch.zeros(1, 2)


def through(
    splash: float, image: torch.Tensor, drift: torch.Tensor = STILL, drops: Drops = DROPS
) -> torch.Tensor:
    return water(image, np.array([splash], np.float32), drops, drift, WHOLE)


def fine_lines() -> torch.Tensor:
    """A picture that water blurs wherever it is."""
    x = torch.arange(FRAME[0]) % 2
    return (0.3 + 0.3 * x).expand(3, 1, FRAME[1], FRAME[0]).clone()


def wet(splash: float, drift: torch.Tensor = STILL) -> torch.Tensor:
    """Which pixels (h, w) are under water."""
    return (through(splash, fine_lines(), drift) - fine_lines()).abs().amax((0, 1)) > 0.05


def test_the_tile_repeats() -> None:
    assert torch.equal(DROPS.tile[:, 0], DROPS.tile[:, -1])
    assert torch.equal(DROPS.tile[..., 0], DROPS.tile[..., -1])
    assert (np.diff(DROPS.levels) >= 0).all()


def test_slopes_are_those_of_the_heights() -> None:
    height, right, down = DROPS.tile[:, :-1, :-1].double().numpy()
    step = ZOOM / len(height) / 0.032
    for slope, axis in ((right, 1), (down, 0)):
        inner = np.gradient(height, step, axis=axis)
        assert np.abs(inner - slope)[1:-1, 1:-1].max() < 1e-4


def test_a_dry_lens_changes_nothing() -> None:
    assert torch.equal(through(0.0, fine_lines()), fine_lines())


@pytest.mark.parametrize("splash", [0.3, 0.5, 0.8])
def test_water_covers_the_share_that_it_should(splash: float) -> None:
    """Over a whole tile, for which the view is moved about."""
    steps = torch.linspace(0, ZOOM, 4)[:-1]
    shares = [wet(splash, torch.stack([x, y])[None]).float().mean() for x in steps for y in steps]
    assert float(np.mean(shares)) == pytest.approx(splash, abs=0.12)


def test_what_is_under_little_water_is_under_more() -> None:
    little, more = wet(0.3), wet(0.6)
    assert (little & ~more).float().mean() < 0.001  # lines that a shift happens to match
    assert more.sum() > 1.3 * little.sum()


def test_a_drop_shifts_what_is_behind_it_towards_its_slope() -> None:
    """On a ramp the brightness itself says where a pixel was read."""
    ramp = torch.linspace(0.3, 0.7, FRAME[0]).expand(3, 1, FRAME[1], FRAME[0]).clone()
    flat = Drops(DROPS.tile.clone(), DROPS.levels)
    flat.tile[2] = 0
    for slope in (2.0, -2.0):
        flat.tile[1] = slope
        # At the right end the edge goes on; in the middle a read further left is darker.
        moved = (through(1.0, ramp, drops=flat) - ramp)[0, 0, 100:150, 60:260].mean()
        still = Drops(flat.tile.clone(), flat.levels)
        still.tile[1] = 0
        alone = (through(1.0, ramp, drops=still) - ramp)[0, 0, 100:150, 60:260].mean()
        expected = -np.sign(slope) * 0.4 * SHIFT
        assert float(moved - alone) == pytest.approx(expected, abs=0.3 * 0.4 * SHIFT)


def test_drops_run_down() -> None:
    here, there = wet(0.5), wet(0.5, torch.tensor([[0.0, 32 / 320]]))
    assert (here[40:200] != there[72:232]).float().mean() < 0.02


def test_a_picture_stays_a_picture() -> None:
    for image in (torch.zeros(3, 1, 256, 320), torch.ones(3, 1, 256, 320)):
        result = through(0.7, image)
        assert result.min() >= 0
        assert result.max() <= 1


def test_procedures_have_drops_of_their_own() -> None:
    other = draw_drops(np.random.default_rng(1))
    assert not torch.equal(other.tile, DROPS.tile)
    assert torch.equal(draw_drops(np.random.default_rng(0)).tile, DROPS.tile)
    assert other.to(torch.device("cpu")).levels is other.levels
