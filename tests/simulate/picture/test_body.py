import torch

from polyplink.simulate.colon.surface import MAP_EXTENT, Lump
from polyplink.simulate.picture.body import Skin, make_body

SIZE = 41
EDGE = torch.linspace(-MAP_EXTENT, MAP_EXTENT, SIZE)
ROWS, COLUMNS = torch.meshgrid(EDGE, EDGE, indexing="ij")
LUMP = Lump(
    torch.tensor([1.0, 2.0, 3.0]),
    torch.eye(3)[:, [1, 2, 0]],
    torch.tensor([0.4, 0.3, 0.2]),
    0.1,
    (1 + 0.3 * ROWS - 0.2 * COLUMNS)[None],
)
PAINT = torch.rand(3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
BODY = make_body(Skin(LUMP, PAINT))


def test_maps_are_radius_slopes_and_colours() -> None:
    maps = BODY.maps[0]
    assert torch.equal(maps[0], LUMP.maps[0])
    assert torch.equal(maps[3:], PAINT)
    inside = (slice(1, -1), slice(1, -1))
    torch.testing.assert_close(maps[1][inside], torch.full((SIZE - 2, SIZE - 2), -0.2))
    torch.testing.assert_close(maps[2][inside], torch.full((SIZE - 2, SIZE - 2), 0.3))
    assert torch.equal(BODY.radius[0, 0], LUMP.maps[0])


def test_beyond_the_border_the_radius_does_not_change() -> None:
    for slope in BODY.maps[0, 1:3]:
        assert (slope[[0, -1]] == 0).all()
        assert (slope[:, [0, -1]] == 0).all()


def test_rows_and_offset_lead_into_the_lump() -> None:
    point = torch.tensor([1.5, 2.1, 2.7])
    local = torch.tensor(BODY.rows) @ point + torch.tensor(BODY.offset)
    torch.testing.assert_close(local, LUMP.axes.T @ (point - LUMP.centre))
