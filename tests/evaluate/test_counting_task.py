import numpy as np
import pytest

from polyplink.associate.clusterers import Agglomerative, Dbscan, Hdbscan
from polyplink.associate.search import Grid
from polyplink.associate.similarity import unit_rows
from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.choosing import choose_elsewhere, leave_one_out
from polyplink.evaluate.counting import count_procedure
from polyplink.evaluate.counting_task import count_task, counted_scenes, fold_rows
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
        assert found[name].figures.folds == leave_one_out(counts)
        for part, clustering, fold in zip(
            fold_rows(found[name], scenes),
            found[name].clusterings,
            found[name].figures.folds,
            strict=True,
        ):
            scene, known = part
            assert samples.known[scene.rows].all()
            assert np.unique(known.labels).size == fold.clusters
            assert known.converged == clustering.converged
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
    assert one.figures.folds == choose_elsewhere(one.counts, on)
    assert len(one.clusterings) == len(one.figures.folds) == 2
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
