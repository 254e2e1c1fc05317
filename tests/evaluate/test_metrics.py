"""All metrics of the registry: order of tracklets, ideal, interval, and undefined values."""

from typing import Any

import numpy as np
import pytest

from polyplink.associate.clusterers import Threshold
from polyplink.core.errors import PolyplinkError
from polyplink.core.parts import METRICS
from polyplink.evaluate.evaluation import Evaluation, EvaluationSettings, evaluate_embeddings
from polyplink.evaluate.intervals import Figure
from polyplink.evaluate.metric import TASKS, Metric, values_of
from polyplink.evaluate.samples import Samples
from polyplink.testing import check_metric
from tests.evaluate.random_tracklets import boxes_of, random_samples

SETTINGS = EvaluationSettings(
    {"threshold": list(map(Threshold, (0.3, 0.6, 0.9)))},
    tasks=tuple(TASKS),
    resamples=200,
    seed=4,
)
LEVELS = {"retrieval": "", "reid": "", "counting": "threshold/", "tracking": "tracking/threshold/"}
COUNTS = {"PPC", "ADR"}  # their ideal depends on the data
POOLED = {
    "AUROC (as published)",
    "AUPR (as published)",
}  # over all pairs together, as the tools of the papers do
OF_BOXES = {"DetA", "LocA"}  # figures of boxes, which are true in this data


def evaluate(vectors: np.ndarray, samples: Samples) -> Evaluation:
    adenoma = [bool(polyp % 2) for polyp in samples.polyp]
    boxes = boxes_of(samples)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("polyplink.evaluate.intervals.FEWEST", 2)  # of four procedures
        return evaluate_embeddings({"x": vectors}, samples, SETTINGS, boxes=boxes, adenoma=adenoma)[
            0
        ]


def figure(name: str, evaluation: Evaluation) -> Figure:
    return evaluation.encoders["x"].figures[LEVELS[METRICS[name].task] + name]


@pytest.fixture(scope="module")
def ordinary() -> Evaluation:
    vectors, samples, _ = random_samples(noise=2.0)
    return evaluate(vectors, samples)


@pytest.fixture(scope="module")
def reordered() -> Evaluation:
    """The same tracklets in another order, with rotated and scaled vectors."""
    vectors, samples, _ = random_samples(noise=2.0)
    rng = np.random.default_rng(1)
    # Procedures keep their order, which decides the resamples.
    order = np.lexsort((rng.random(len(vectors)), samples.procedure))
    rotated = 3 * vectors @ np.linalg.qr(rng.normal(size=(6, 6)))[0]
    return evaluate(rotated[order], samples.take(order))


@pytest.fixture(scope="module")
def perfect() -> Evaluation:
    """Tracklets of a polyp share a vector, orthogonal to those of all other polyps."""
    _, samples, _ = random_samples()
    return evaluate(np.eye(samples.polyp.max() + 1)[samples.polyp], samples)


@pytest.fixture(scope="module")
def single() -> Evaluation:
    """Two procedures of one tracklet each: no pair, and no query with a match."""
    return evaluate(np.eye(2), Samples.of(["a", "b"], ["v", "w"], ["p", "q"], [0.0, 0.0]))


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_does_not_depend_on_the_order_of_tracklets(
    name: str, ordinary: Evaluation, reordered: Evaluation
) -> None:
    first, second = figure(name, ordinary), figure(name, reordered)
    assert first.value is not None
    assert second.value == pytest.approx(first.value, abs=1e-9)
    assert (second.low, second.high) == pytest.approx((first.low, first.high), abs=1e-9)
    assert second.n == first.n


@pytest.mark.parametrize("name", METRICS)
def test_perfect_vectors_reach_the_ideal_and_ordinary_ones_do_not(
    name: str, perfect: Evaluation, ordinary: Evaluation
) -> None:
    perfect_value, value = figure(name, perfect).value, figure(name, ordinary).value
    assert value is not None
    if name in COUNTS:
        assert perfect_value is not None
        assert perfect_value > 0
        return
    assert perfect_value == pytest.approx(METRICS[name].ideal)
    assert name in OF_BOXES or value != pytest.approx(perfect_value)  # the data are hard enough


@pytest.mark.parametrize("name", METRICS)
def test_an_interval_is_over_resampled_procedures(name: str, ordinary: Evaluation) -> None:
    measured = figure(name, ordinary)
    assert measured.value is not None
    if name in POOLED:
        assert measured.low is None
        return
    assert measured.low is not None
    assert measured.high is not None
    assert measured.low <= measured.value <= measured.high
    assert 2 <= measured.n <= 4


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_without_data_is_undefined_or_ideal(name: str, single: Evaluation) -> None:
    value = figure(name, single).value
    assert value is None or name in COUNTS or value == METRICS[name].ideal


def test_no_two_metrics_of_a_task_have_one_key() -> None:
    keys = [(metric.task, metric.key) for metric in METRICS.values() if metric.key]
    assert len(keys) == len(set(keys))


def test_a_metric_of_an_unknown_task_is_refused() -> None:
    with pytest.raises(PolyplinkError, match="no task 'retreival'; did you mean retrieval"):
        Metric(task="retreival", meaning="x")  # type: ignore[arg-type]


def test_an_infinite_value_is_undefined() -> None:
    """JSON has no infinity."""
    metric = Metric(task="tracking", meaning="x", value=lambda counts: [np.inf, counts, -np.inf])
    np.testing.assert_equal(values_of("x", metric, 2.0, (3,)), [np.nan, 2.0, np.nan])


def test_a_metric_of_others_cannot_change_its_argument() -> None:
    def reciprocal(ranks: Any) -> Any:
        ranks[ranks == 0] = 1
        return 1 / ranks

    ranks = np.array([0.0, 2.0])
    values = values_of("x", Metric(task="retrieval", meaning="x", value=reciprocal), ranks, (2,))
    assert (values.tolist(), ranks.tolist()) == ([1.0, 0.5], [0.0, 2.0])


def test_values_of_another_shape_or_kind_are_refused() -> None:
    for values, shape, says in (
        (1.0, (3,), r"returns 1\.0, not an array of shape \(3,\)"),
        (np.ones(2), (), r"returns an array of shape \(2,\), not one number"),
        (np.ones(2) * 1j, (2,), r"returns array\("),
    ):
        metric = Metric(task="retrieval", meaning="x", value=lambda values: values)
        with pytest.raises(PolyplinkError, match=f"metric 'x' {says}"):
            values_of("x", metric, values, shape)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (lambda counted: counted.polyps, r"returns an array of shape \(8,\), not one number"),
        (lambda counted: "many", "returns 'many', not one number"),
        (lambda counted: float(counted.polyps[0]), "depends on the order"),
    ],
)
def test_check_metric_names_what_a_metric_does_wrong(value: Any, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check_metric(Metric(task="counting", meaning="x", value=value))


def test_check_metric_refuses_the_task_that_evaluate_refuses() -> None:
    with pytest.raises(AssertionError, match="only built-in metrics"):
        check_metric(Metric(task="reid", meaning="x", value=lambda pairs: 1.0))
