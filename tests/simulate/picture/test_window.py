import numpy as np
import pytest
import torch

from polyplink.simulate.picture.window import HOST, Windows, colour_like, onto

FRAME = (100, 80)


def test_places_are_shares_of_the_frames_width() -> None:
    whole = Windows(torch.tensor([[0.0, 0.0, 100.0, 80.0]]), FRAME, (10, 8))
    assert whole.x[0].tolist() == pytest.approx([0.05 + 0.1 * i for i in range(10)])
    assert whole.y[0].tolist() == pytest.approx([0.05 + 0.1 * i for i in range(8)])
    assert whole.scale.tolist() == [10.0]


def test_a_window_is_where_it_was_cut() -> None:
    whole = Windows(torch.tensor([[0.0, 0.0, 100.0, 80.0]]), FRAME, FRAME)
    part = Windows(torch.tensor([[20.0, 30.0, 60.0, 50.0]]), FRAME, (40, 20))
    torch.testing.assert_close(part.x, whole.x[:, 20:60])
    torch.testing.assert_close(part.y, whole.y[:, 30:50])


def test_some_windows_are_picked_by_index() -> None:
    edges = torch.arange(12.0).reshape(3, 4)
    some = Windows(edges, FRAME, (5, 5)).some(np.array([2, 0]))
    assert some.edges.tolist() == [edges[2].tolist(), edges[0].tolist()]
    assert some.size == (5, 5)


def test_values_and_colours_go_to_the_device() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert onto(values.T, HOST).tolist() == values.T.tolist()
    colour = colour_like(torch.zeros(2, dtype=torch.float64), (0.5, 0.25, 1.0))
    assert (colour.dtype, colour.tolist()) == (torch.float64, [0.5, 0.25, 1.0])
