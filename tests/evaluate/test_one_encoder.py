import pytest

from polyplink.associate.search import Grid
from polyplink.associate.similarity import unit_rows
from polyplink.evaluate.asked import EvaluationSettings, Facts
from polyplink.evaluate.one_encoder import Work, evaluate_one
from polyplink.evaluate.retrieval import retrieve
from tests.evaluate.made import boxes_of, made

GRID = Grid(thresholds=(0.3, 0.6, 0.9))
VECTORS, SAMPLES, _ = made(unknown=2)
UNIT = unit_rows(VECTORS)


def settings(*tasks: str, chosen_on: tuple[str, ...] = ()) -> EvaluationSettings:
    return EvaluationSettings(GRID, resamples=50, tasks=tasks, chosen_on=chosen_on)


@pytest.mark.parametrize(
    ("task", "figure", "tables"),
    [
        ("retrieval", "mAP", {"queries"}),
        ("reid", "AUROC", set()),
        ("counting", "threshold/FR", {"curve", "assignment"}),
        ("tracking", "tracking/threshold/HOTA", {"curve", "assignment"}),
    ],
)
def test_only_what_is_asked_for_is_done(task: str, figure: str, tables: set[str]) -> None:
    work = Work(settings(task), Facts(boxes_of(SAMPLES)))
    done = evaluate_one(UNIT, SAMPLES, work)
    assert figure in done.measures
    kinds = {"mAP", "AUROC", "threshold/FR", "tracking/threshold/HOTA"} - {figure}
    assert not kinds & set(done.measures)
    assert set(done.tables) == tables
    for curve in done.tables.get("curve", []):
        assert ("fr" in curve.columns, "HOTA" in curve.columns) == (
            task == "counting",
            task == "tracking",
        )
    assert bool(work.seen) == (task == "tracking")


def test_procedures_to_choose_on_are_not_evaluated() -> None:
    on = SAMPLES.procedures[:1]
    work = Work(
        settings("retrieval", "counting", "tracking", chosen_on=on), Facts(boxes_of(SAMPLES))
    )
    done = evaluate_one(UNIT, SAMPLES, work)
    left = (SAMPLES.procedure != 0).nonzero()[0]
    exact = retrieve(VECTORS[left], SAMPLES.take(left))
    assert done.measures["mAP"].value == pytest.approx(exact.mean_ap)
    assert done.measures["threshold/FR"].n == 3
    (assignment,) = done.tables["assignment"]
    assert set(assignment["procedure_id"]) == set(SAMPLES.procedures[1:])
    assert assignment["track"].null_count() == 0
    (curve,) = done.tables["curve"]
    assert (curve["clusterer"][0], curve.height) == ("threshold", 3)
    assert {"value", "fr", "fpr", "HOTA", "IDF1 mean", "MOTA"} < set(curve.columns)
