from typing import Any

import numpy as np
import polars as pl
import pytest

from polyplink.associate.clusterers import Agglomerative, Dbscan, Hdbscan
from polyplink.associate.search import Grid
from polyplink.associate.similarity import unit_rows, visual
from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.choosing import RATES, make_folds, summarise
from polyplink.evaluate.counting import count_procedure
from polyplink.evaluate.counting_task import (
    Counted,
    clinic_figures,
    clinic_row,
    count_task,
    counting_measures,
)
from polyplink.evaluate.intervals import draw_weights
from polyplink.evaluate.samples import Samples
from tests.evaluate.made import made

GRID = Grid(
    alphas=(0.5, 1.0),
    gammas=(1.0,),
    preferences=(-1.0, 0.5),
    thresholds=(0.3, 0.6),
    dbscans=(Dbscan(0.3, 2),),
    hdbscans=(Hdbscan(2, 1),),
    linkages=(Agglomerative(0.3), Agglomerative(0.6)),
)


def count(vectors: np.ndarray, samples: Samples, **asked: Any) -> Counted:
    return count_task(unit_rows(vectors), samples, GRID, clusterers=["threshold"], **asked)[
        "threshold"
    ]


def test_every_clusterer_is_counted_as_its_settings_alone() -> None:
    vectors, samples, names = made(unknown=4)
    found = count_task(unit_rows(vectors), samples, GRID)
    assert list(found) == list(GRID.by_clusterer())
    parts = [samples.of_procedure(place) for place in range(len(samples.procedures))]
    for name, settings in GRID.by_clusterer().items():
        counts = []
        for part, rows in parts:
            V = visual(unit_rows(vectors)[rows])
            labels = [setting.cluster(V, part.positions).labels for setting in settings]
            counts.append(count_procedure(labels, [names[r] for r in rows], part.procedures[0]))
        one = found[name]
        assert one.figures.folds == make_folds(counts)
        table = one.assignment
        assert (table.height, table["track"].null_count()) == (26, 26)
        clusters = table.group_by("procedure_id", maintain_order=True).agg(
            pl.col("cluster").n_unique()
        )["cluster"]
        assert clusters.to_list() == [fold["clusters"] for fold in one.figures.folds]
        assert one.clinic is not None
        assert [row["counted"] for row in one.clinic.rows] == clusters.to_list()
        assert one.clinic.adr is None


def test_settings_may_be_chosen_on_other_procedures() -> None:
    vectors, samples, _ = made()
    on = (samples.procedures[0], samples.procedures[2])
    one = count(vectors, samples, chosen_on=on)
    assert one.figures.folds == make_folds(one.counts, on)
    assert one.assignment["procedure_id"].n_unique() == len(one.figures.folds) == 2
    assert one.not_converged == 0.0


def test_histology_travels_with_the_clusters() -> None:
    vectors, samples, _ = made(noise=0.01)
    kinds = [bool(polyp % 2) for polyp in samples.polyp.tolist()]
    clinic = count(vectors, samples, adenoma=kinds).clinic
    assert clinic is not None
    assert (clinic.with_histology, clinic.ppc) == (4, 2.0)
    with_one = {int(samples.procedure[i]) for i in range(30) if kinds[i]}
    assert clinic.adr == len(with_one) / 4


def test_nothing_to_count_with_is_refused() -> None:
    _, samples, _ = made()
    with pytest.raises(PolyplinkError, match="no clusterer 'thresholds'; did you mean threshold"):
        count_task(np.eye(30), samples, GRID, clusterers=["thresholds"])
    with pytest.raises(PolyplinkError, match="the grid has no setting"):
        count_task(np.eye(30), samples, Grid())


def test_rates_of_three_procedures_by_hand() -> None:
    rows = [
        # An adenoma in two clusters, a hyperplastic polyp alone.
        clinic_row("v", [0, 0, 1, 2], [0, 0, 0, 1], [True, True, True, False]),
        # An adenoma lost among the views of another polyp.
        clinic_row("w", [0, 0, 0], [2, 2, 3], [False, False, True]),
        # No adenoma; one polyp of unknown histology joins the other's cluster.
        clinic_row("x", [5, 5], [4, 5], [False, None]),
    ]
    found = clinic_figures(rows)
    assert found is not None
    assert [row["polyps"] for row in rows] == [2, 2, 2]
    assert [row["counted"] for row in rows] == [3, 1, 1]
    assert [row["adenomas"] for row in rows] == [1, 1, 0]
    assert [row["adenomas_counted"] for row in rows] == [2, 0, 0]
    rates = [found.ppc, found.ppc_counted, found.apc, found.apc_counted, found.adr]
    assert rates == pytest.approx([2.0, 5 / 3, 2 / 3, 2 / 3, 2 / 3])
    assert found.adr_counted == pytest.approx(1 / 3)
    assert (found.procedures, found.with_histology) == (3, 3)


def test_a_tie_is_an_adenoma_and_unknown_histology_is_not_a_no() -> None:
    tie = clinic_row("v", [0, 0], [0, 1], [True, False])
    assert tie["adenomas_counted"] == 1
    unknown = clinic_row("w", [0, 1], [2, 3], [None, None])
    assert (unknown["adenomas"], unknown["adenomas_counted"]) == (None, None)
    found = clinic_figures([tie, unknown])
    assert found is not None
    assert (found.adr, found.with_histology, found.procedures) == (1.0, 1, 2)
    nothing = clinic_figures([unknown])
    assert nothing is not None
    assert (nothing.adr, nothing.apc) == (None, None)
    assert clinic_figures([]) is None


def test_measures_are_means_over_folds_and_say_how_many() -> None:
    vectors, samples, _ = made(unknown=4, noise=2.0)
    counted = count(vectors, samples)
    measures = counting_measures("threshold", counted, draw_weights(4, resamples=50))
    folds, summary = counted.figures.folds, summarise(counted.figures.folds)
    for name, attribute in RATES.items():
        found, mean = measures[f"threshold/{name}"], summary[attribute]
        assert found.n == mean.n
        assert found.value == (None if mean.value is None else pytest.approx(mean.value))
    assert measures["threshold/exact"].value == pytest.approx(summary["exact"])
    errors = [abs(fold["clusters"] - fold["polyps"]) for fold in folds]
    assert measures["threshold/count error"].value == pytest.approx(np.mean(errors))
    assert measures["threshold/FPR"].n == sum(fold["polyps"] > 1 for fold in folds) == 3
    assert measures["threshold/PPC"].value == pytest.approx(np.mean([f["clusters"] for f in folds]))
    one = samples.take(np.flatnonzero(samples.procedure == 0))
    alone = count(vectors[samples.procedure == 0], one)
    nothing = counting_measures("threshold", alone, draw_weights(1, resamples=5))
    assert all(measure.value is None for measure in nothing.values())
    assert alone.assignment.height == 0
