from pathlib import Path

import numpy as np

from polyplink.bench.input import (
    GREY_LEVELS,
    LENGTH,
    SIDE,
    STD,
    at_every_step,
    from_crops,
    run,
    run_first_pass,
    store,
)


def test_fragments_are_measured_and_equal() -> None:
    result = run(8)
    assert (result.name, result.size, result.equal) == ("input", 8, True)
    assert result.ratio is not None
    assert result.ratio > 20
    assert result.rate is not None


def test_the_first_pass_is_measured_and_equal() -> None:
    result = run_first_pass(8)
    assert (result.name, result.size, result.equal) == ("first-pass", 8, True)


def test_both_ways_give_the_same_pixels(tmp_path: Path) -> None:
    stored = store(tmp_path, 2)
    ours, theirs = from_crops(stored.crops, 1), at_every_step(stored.images[LENGTH:])
    assert ours.shape == theirs.shape == (LENGTH, 3, SIDE, SIDE)
    off = (ours - theirs).abs().mean().item() * STD * 255
    assert 0 < off < GREY_LEVELS
    assert np.ptp(ours.numpy()) > 1  # they show something
