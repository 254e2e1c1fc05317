from polyplink.bench.sweep import GRID, one_by_one, run, synthetic_procedure


def test_the_sweep_is_measured_and_equal() -> None:
    result = run(12)
    assert (result.name, result.size, result.equal) == ("sweep", 12, True)


def test_the_rival_answers_every_setting() -> None:
    found = one_by_one(*synthetic_procedure(10))
    assert len(found) == len(GRID.temporal_ap())
    assert any(labels is not None and len(labels) == 10 for labels in found)
