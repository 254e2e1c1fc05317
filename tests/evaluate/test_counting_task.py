import numpy as np
import pytest

from polyplink.associate.clusterers import Agglomerative, Dbscan, Hdbscan
from polyplink.associate.search import Grid
from polyplink.associate.similarity import unit_rows
from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.choosing import RATES, make_folds, summarise
from polyplink.evaluate.counting import count_procedure
from polyplink.evaluate.counting_task import (
    assignment_table,
    clinic_figures,
    clinic_row,
    count_task,
    counted_scenes,
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


def test_every_clusterer_is_counted_as_its_settings_alone() -> None:
    vectors, samples, names = made(unknown=4)
    scenes, without = counted_scenes(unit_rows(vectors), samples, "l2")
    assert without == ()
    found = count_task(scenes, samples, GRID)
    assert list(found) == list(GRID.by_clusterer())
    for name, settings in GRID.by_clusterer().items():
        counts = []
        for scene in scenes:
            labels = [setting.cluster(scene.V, scene.positions).labels for setting in settings]
            counts.append(
                count_procedure(labels, [names[row] for row in scene.rows], scene.procedure)
            )
        assert found[name].figures.folds == make_folds(counts)
        one = found[name]
        for rows, own, fold in zip(one.rows, one.labels, one.figures.folds, strict=True):
            assert samples.known[rows].all()
            assert np.unique(own).size == fold.clusters
        clinic = found[name].clinic
        assert clinic is not None
        assert [r.counted for r in clinic.rows] == [f.clusters for f in found[name].figures.folds]
        assert clinic.adr is None


def test_settings_may_be_chosen_on_other_procedures() -> None:
    vectors, samples, _ = made()
    scenes, _ = counted_scenes(unit_rows(vectors), samples, "l2")
    on = (samples.procedures[0], samples.procedures[2])
    found = count_task(scenes, samples, GRID, clusterers=["threshold"], chosen_on=on)
    assert list(found) == ["threshold"]
    one = found["threshold"]
    assert one.figures.folds == make_folds(one.counts, on)
    assert len(one.labels) == len(one.figures.folds) == 2
    assert one.not_converged == 0.0


def test_histology_travels_with_the_clusters() -> None:
    vectors, samples, _ = made(noise=0.01)
    scenes, _ = counted_scenes(unit_rows(vectors), samples, "l2")
    kinds = [bool(polyp % 2) for polyp in samples.polyp.tolist()]
    clinic = count_task(scenes, samples, GRID, clusterers=["threshold"], adenoma=kinds)[
        "threshold"
    ].clinic
    assert clinic is not None
    assert (clinic.with_histology, clinic.ppc) == (4, 2.0)
    with_one = {int(samples.procedure[i]) for i in range(30) if kinds[i]}
    assert clinic.adr == len(with_one) / 4


def test_nothing_to_count_and_nothing_to_count_with() -> None:
    samples = Samples.of(["a", "b"], ["v", "w"], ["p", None], [0, 0])
    scenes, without = counted_scenes(np.eye(2), samples, "l2")
    assert ([scene.procedure for scene in scenes], without) == (["v"], ("w",))
    assert count_task([], samples, GRID) == {}
    with pytest.raises(PolyplinkError, match="no clusterer 'thresholds'; did you mean threshold"):
        count_task(scenes, samples, GRID, clusterers=["thresholds"])
    with pytest.raises(PolyplinkError, match="the grid has no setting"):
        count_task(scenes, samples, Grid())


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
    assert [row.polyps for row in rows] == [2, 2, 2]
    assert [row.counted for row in rows] == [3, 1, 1]
    assert [row.adenomas for row in rows] == [1, 1, 0]
    assert [row.adenomas_counted for row in rows] == [2, 0, 0]
    rates = [found.ppc, found.ppc_counted, found.apc, found.apc_counted, found.adr]
    assert rates == pytest.approx([2.0, 5 / 3, 2 / 3, 2 / 3, 2 / 3])
    assert found.adr_counted == pytest.approx(1 / 3)
    assert (found.procedures, found.with_histology) == (3, 3)


def test_a_tie_is_an_adenoma_and_unknown_histology_is_not_a_no() -> None:
    tie = clinic_row("v", [0, 0], [0, 1], [True, False])
    assert tie.adenomas_counted == 1
    unknown = clinic_row("w", [0, 1], [2, 3], [None, None])
    assert (unknown.adenomas, unknown.adenomas_counted) == (None, None)
    found = clinic_figures([tie, unknown])
    assert found is not None
    assert (found.adr, found.with_histology, found.procedures) == (1.0, 1, 2)
    nothing = clinic_figures([unknown])
    assert nothing is not None
    assert (nothing.adr, nothing.apc) == (None, None)
    assert clinic_figures([]) is None


def test_measures_are_means_over_folds_and_say_how_many() -> None:
    vectors, samples, _ = made(unknown=4, noise=2.0)
    scenes, _ = counted_scenes(unit_rows(vectors), samples, "l2")
    counted = count_task(scenes, samples, GRID, clusterers=["threshold"])["threshold"]
    measures = counting_measures("threshold", counted, draw_weights(4, resamples=50))
    folds, summary = counted.figures.folds, summarise(counted.figures.folds)
    for name, attribute in RATES.items():
        found, mean = measures[f"threshold/{name}"], getattr(summary, attribute)
        assert found.n == mean.n
        assert found.value == (None if mean.value is None else pytest.approx(mean.value))
    assert measures["threshold/exact"].value == pytest.approx(summary.exact)
    errors = [abs(fold.clusters - fold.polyps) for fold in folds]
    assert measures["threshold/count error"].value == pytest.approx(np.mean(errors))
    assert measures["threshold/FPR"].n == sum(fold.polyps > 1 for fold in folds) == 3
    assert measures["threshold/PPC"].value == pytest.approx(np.mean([f.clusters for f in folds]))
    table = assignment_table("threshold", counted, samples)
    assert table.height == samples.known.sum()
    assert table["track"].null_count() == table.height
    one = samples.take(np.flatnonzero(samples.procedure == 0))
    scenes, _ = counted_scenes(unit_rows(vectors)[samples.procedure == 0], one, "l2")
    alone = count_task(scenes, one, GRID, clusterers=["threshold"])["threshold"]
    nothing = counting_measures("threshold", alone, draw_weights(1, resamples=5))
    assert all(measure.value is None for measure in nothing.values())
    assert assignment_table("threshold", alone, one).height == 0
