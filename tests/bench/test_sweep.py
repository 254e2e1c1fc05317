import numpy as np
import pytest

from polyplink.associate import paper_grid
from polyplink.bench import sweep
from polyplink.bench.sweep import (
    GRID,
    as_alone,
    boxes_of,
    labelled,
    one_by_one,
    ours,
    procedures,
    run,
    same_partitions,
    synthetic_procedure,
    whole_grid,
)
from polyplink.evaluate.tracking_table import look_at


def test_the_sweep_is_measured_and_equal() -> None:
    result = run(24)
    assert (result.name, result.size, result.equal) == ("sweep", 24, True)
    assert "164 settings scaled to 29274" in result.rival


def test_the_rival_answers_every_setting() -> None:
    found = one_by_one(*synthetic_procedure(10)[:2])
    assert len(found) == len(GRID.temporal_ap())
    assert any(labels is not None and len(labels) == 10 for labels in found)


def test_every_setting_is_counted_and_tracked() -> None:
    made = procedures(48)[-3:]
    found = ours(made, 1)
    assert {"FR", "HOTA", "IDF1", "MOTA"} < set(found)
    assert all(values.shape == (len(GRID.temporal_ap()),) for values in found.values())
    labels = [labelled(V, positions, 1) for V, positions, _ in made]
    assert as_alone(made, labels, found)
    assert not as_alone(made, labels, found | {"HOTA": found["HOTA"] + 1e-9})


def test_boxes_are_ground_truth_in_the_table_form() -> None:
    truth = look_at("v", boxes_of(synthetic_procedure(48)[2]))
    assert truth.table
    assert truth.met.together.any()


def test_free_answers_are_as_common_as_in_the_whole_grid() -> None:
    """Similarities are at most 1: a preference above leaves every tracklet alone."""
    free = np.mean([p > 1 for p in GRID.preferences])
    whole = np.mean([p > 1 for p in paper_grid().preferences])
    assert free == pytest.approx(whole, abs=0.02)
    assert whole_grid() == 29_274


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
