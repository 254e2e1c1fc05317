from collections import Counter

import numpy as np
import pytest

from polyplink.associate import Grid, paper_grid
from polyplink.bench import sweep
from polyplink.bench.sweep import (
    EVERY,
    as_alone,
    boxes_of,
    labelled,
    one_by_one,
    ours,
    procedures,
    run,
    same_partitions,
    synthetic_procedure,
)
from polyplink.evaluate.tracking import TrackingTruth


@pytest.fixture(autouse=True)
def grid(monkeypatch: pytest.MonkeyPatch) -> Grid:
    """A grid of 80 settings in place of the paper's, of which the rival gets 27."""
    small = Grid(alphas=(0.25, 0.75), gammas=(0.5, 4.0), preferences=tuple(range(-15, 5)))
    monkeypatch.setattr(sweep, "GRID", small)
    monkeypatch.setattr(sweep, "EVERY", 3)
    return small


def test_the_sweep_is_measured_and_equal() -> None:
    result = run(24)
    assert (result.name, result.size, result.equal) == ("sweep", 24, True)
    assert "27 settings scaled to 80" in result.rival


def test_the_rival_answers_every_third_setting() -> None:
    found = one_by_one(*synthetic_procedure(10)[:2])
    assert len(found) == 27
    assert any(labels is not None and len(labels) == 10 for labels in found)


def test_every_setting_is_counted_and_tracked(grid: Grid) -> None:
    made = procedures(48)[-3:]
    found, sample = ours(made, 1)
    assert {"FR", "HOTA", "IDF1", "MOTA"} < set(found)
    assert all(values.shape == (len(grid.temporal_ap()),) for values in found.values())
    labels = [labelled(V, positions, 1) for V, positions, _ in made]
    for one, every in zip(sample, labels, strict=True):
        np.testing.assert_array_equal(one, every[::3])
    assert as_alone(made, labels, found)
    assert not as_alone(made, labels, found | {"HOTA": found["HOTA"] + 1e-9})


def test_boxes_are_ground_truth_in_the_table_form() -> None:
    truth = TrackingTruth.of("v", boxes_of(synthetic_procedure(48)[2]))
    assert truth.table
    assert truth.met.together.any()


def test_the_rival_gets_a_fair_sample_of_the_paper_s_grid() -> None:
    """Each preference as often: those above every similarity, 16 of 41, are answered unrun."""
    grid = paper_grid().temporal_ap()
    rows = range(0, len(grid), EVERY)
    assert (len(grid), len(rows)) == (29_274, 164)
    assert set(Counter(grid[row].preference for row in rows).values()) == {4}
    assert {grid[row].alpha for row in rows} == set(paper_grid().alphas)
    assert {grid[row].gamma for row in rows} == set(paper_grid().gammas)


def test_partitions_are_compared_without_their_numbers() -> None:
    ours = np.array([[0, 0, 1], [0, 1, 1]])
    assert same_partitions(ours, [np.array([5, 5, 2]), None])
    assert not same_partitions(ours, [np.array([5, 2, 2]), None])


def test_there_are_nineteen_procedures_up_to_the_largest() -> None:
    sizes = [len(positions) for _, positions, _ in procedures(48)]
    assert len(sizes) == 19
    assert (min(sizes), max(sizes)) == (3, 48)
    assert sweep.SIZES[0] == 3
    assert sweep.SIZES[-1] == 480
