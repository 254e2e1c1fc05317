import numpy as np
import torch

from polyplink.bench.simulate import (
    MARGIN,
    crops,
    draw,
    measure,
    plain_march,
    rate_alone,
    renderer,
    work,
)
from polyplink.simulate.picture.march import march_windows


def test_crops_are_measured_and_equal() -> None:
    result = measure(8, 24, 1)
    assert (result.name, result.size, result.equal) == ("simulate", 8, True)
    assert result.rate is not None
    assert "a second" in result.line()


def test_crops_are_about_polyps() -> None:
    frames, windows = crops("cpu", 5)
    assert (np.diff(frames) >= 0).all()
    assert ((windows[:, 2] - windows[:, 0]) > MARGIN * 10).all()
    _, masks = draw("cpu", 5, 16)
    assert ((masks >= 0).mean((1, 2)) > 0.1).all()


def test_the_rival_marches_plainly() -> None:
    first = renderer("cpu", plain_march)
    frames, windows = crops("cpu", 1)
    (some, drawn), *rest = first.draw(frames, first._windows(windows, (20, 20)))
    assert (some.tolist(), rest) == ([0], [])
    assert torch.isfinite(drawn.linear).all()
    assert renderer("cpu", march_windows) is not first


def test_a_process_tells_when_it_drew() -> None:
    start, stop = work("cpu", 1, 8)
    assert stop > start


def test_a_rate_is_crops_over_seconds() -> None:
    assert 0 < rate_alone("cpu", 300, 4) < 1e6  # more than there are boxes: they come again
