import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.asked import EvaluationSettings, Facts, check_tasks
from tests.evaluate.made import boxes_of, made

VECTORS, SAMPLES, _ = made()


def test_what_is_asked_for_and_there_is_let_through() -> None:
    every = EvaluationSettings(tasks=("retrieval", "reid", "counting", "tracking"))
    check_tasks(SAMPLES, every, Facts(boxes_of(SAMPLES), [None] * 30))
    check_tasks(SAMPLES, EvaluationSettings(), Facts())
    assert EvaluationSettings().tasks == ("retrieval", "reid", "counting")


@pytest.mark.parametrize(
    ("settings", "facts", "says"),
    [
        (EvaluationSettings(tasks=("trackin",)), Facts(), "no task 'trackin'; did you mean track"),
        (EvaluationSettings(tasks=()), Facts(), "no task; name some of: retrieval"),
        (EvaluationSettings(tasks=("tracking",)), Facts(), "tracking needs boxes"),
        (EvaluationSettings(), Facts(adenoma=[None]), "histology of 1 tracklets for 30 samples"),
        (EvaluationSettings(chosen_on=("w",)), Facts(), r"procedure \['w'\] to choose settings on"),
        (
            EvaluationSettings(chosen_on=("v0", "v1", "v2", "v3")),
            Facts(),
            "none is left to evaluate",
        ),
    ],
)
def test_what_is_missing_is_named(settings: EvaluationSettings, facts: Facts, says: str) -> None:
    with pytest.raises(PolyplinkError, match=says):
        check_tasks(SAMPLES, settings, facts)
