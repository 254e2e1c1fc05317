import pytest
import torch

from polyplink.simulate.colon.surface import calm_place
from polyplink.simulate.picture.numbers import Numbers, OwnNumbers, number
from tests.simulate.picture.test_field import BODIES, CALM


def test_a_number_has_no_dimensions() -> None:
    assert number(1.5).shape == ()
    assert number(1.5).dtype == torch.float32
    assert number(1.5).item() == 1.5


def test_a_bodys_rows_are_in_units_of_its_radii() -> None:
    for body in BODIES:
        own = OwnNumbers.of(body)
        rows = torch.tensor([[float(first), *others] for first, *others in own.rows])
        torch.testing.assert_close(rows * body.lump.radii[:, None], body.lump.axes.T)
        centre = rows @ body.lump.centre + torch.stack(own.offset)
        torch.testing.assert_close(centre, torch.zeros(3), atol=1e-5, rtol=0)


def test_numbers_are_the_tubes() -> None:
    numbers = Numbers.of(CALM, BODIES)
    assert [rate.item() for rate, _, _ in numbers.line] == pytest.approx(CALM.bend_rate)
    assert numbers.fold_rate.item() == pytest.approx(CALM.fold_rate)
    assert numbers.calm == tuple(calm_place(CALM, place) for place in CALM.calm)
    assert len(numbers.bodies) == len(BODIES)
