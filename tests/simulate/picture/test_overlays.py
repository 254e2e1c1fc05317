import datetime

import numpy as np
import pytest
import torch

from polyplink.simulate.picture.lens import lens_mask
from polyplink.simulate.picture.overlays import (
    INK,
    Label,
    badge,
    clock,
    coverage,
    text_cells,
    write_label,
)
from polyplink.simulate.picture.window import Windows

START = datetime.datetime(2011, 3, 5, 10, 2, 3)


def written(label: Label, width: int, height: int) -> torch.Tensor:
    image = torch.zeros(3, height, width)
    write_label(image, [0.0, 0.0, 1.0, height / width], label)
    return image[0]


def test_letters_are_cells() -> None:
    cells = text_cells(["1"])
    assert ["".join(".#"[int(cell)] for cell in row) for row in cells[:7]] == [
        "..#...",
        ".##...",
        "..#...",
        "..#...",
        "..#...",
        "..#...",
        ".###..",
    ]
    assert text_cells(["Near", "Focus"]).shape == (20, 30)


def test_coverage_is_the_share_of_a_pixel() -> None:
    shares = coverage(torch.tensor([-0.5, 0.5, 1.0, 3.0]), 3)
    assert shares.tolist() == [[0.5, 0, 0], [1, 0, 0], [0, 0.5, 0.5]]


def test_the_clock_runs() -> None:
    first, later = clock(START, 0), clock(START, 61)
    assert np.array_equal(later.cells, text_cells(["05/03/2011", "10:03:04"]))
    assert not np.array_equal(first.cells, later.cells)


def test_text_is_sharp_at_full_size_and_a_hint_at_a_small_one() -> None:
    label = clock(START, 0)
    large, small = written(label, 1248, 959), written(label, 96, 74)
    assert large.max().item() == pytest.approx(INK, abs=0.02)
    assert 0.05 < small.max() < 0.75
    ink = label.cells.sum() * label.cell**2 * INK  # in squares of the frame's width
    for image in (large, small):
        assert float(image.sum()) / image.shape[1] ** 2 == pytest.approx(ink, rel=0.02)


def test_text_stands_outside_the_view() -> None:
    for brand, label, frame in (
        ("Fujifilm", clock(START, 0), (1248, 959)),
        ("Olympus", badge(1080 / 1352), (1352, 1080)),
        ("Olympus", badge(1007 / 1162), (1162, 1007)),
    ):
        light, _ = lens_mask(
            brand, Windows(torch.tensor([[0.0, 0.0, *map(float, frame)]]), frame, frame)
        )
        ink = written(label, *frame) > 0.1
        assert ink.any()
        assert light[0][ink].max() == 0


def test_a_window_shows_the_text_of_its_frame() -> None:
    label = clock(START, 0)
    whole, part = written(label, 400, 300), torch.zeros(3, 40, 60)
    write_label(part, [10 / 400, 0.0, 70 / 400, 40 / 400], label)
    torch.testing.assert_close(part[0], whole[:40, 10:70], atol=2e-3, rtol=0)
    away = torch.zeros(3, 40, 60)
    write_label(away, [0.5, 0.5, 0.7, 0.6], label)
    assert not away.any()
