"""How a job tells what it is doing."""

from polyplink.jobs.progress import counter, silent


def test_a_stage_is_named_once() -> None:
    told: list[tuple[str, int, int]] = []
    counter(lambda *step: told.append(step), "crops")(2, 5)
    counter(silent, "crops")(1, 5)
    assert told == [("crops", 2, 5)]
