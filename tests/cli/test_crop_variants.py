"""Figures by name, of any vectors and on other crops and clips."""

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from polyplink.associate.grid_search import Grid, demo_grid
from polyplink.core.errors import PolyplinkError
from polyplink.encoders.load import load_named
from polyplink.evaluate.evaluation import EvaluationSettings
from polyplink.evaluate.intervals import Figure
from polyplink.evaluate.samples import Samples, TrackletBoxes
from polyplink_lab.reproduce import crop_variants
from polyplink_lab.reproduce.crop_variants import Variant, compare_variants
from polyplink_lab.reproduce.published_tables import PUBLISHED_MAP, published
from tests.conftest import SampleRun

QUICK = EvaluationSettings(grid=demo_grid(), resamples=200)


def named_figures(*arguments: Any, **named: Any) -> dict[str, Figure]:
    found = crop_variants.named_figures(*arguments, **named)
    return {name: figure for name, (figure, _) in found.items()}


def two_procedures(noise: float) -> tuple[np.ndarray, Samples]:
    """Two procedures of two polyps, four tracklets each, one after the other in time."""
    rng = np.random.default_rng(0)
    polyp = np.repeat(np.arange(4), 4)
    vectors = np.eye(4)[polyp] + noise * rng.normal(size=(16, 4))
    samples = Samples.of(
        [f"t{i}" for i in range(16)],
        [f"v{p // 2}" for p in polyp],
        [f"p{p}" for p in polyp],
        np.tile(np.linspace(0, 0.9, 8), 2),
    )
    return vectors, samples


BOXES = TrackletBoxes(  # ten of each tracklet, one tracklet after the other
    np.repeat(np.arange(4), 4),
    np.arange(0, 161, 10),
    np.tile(np.arange(80), 2),
    np.tile([5.0, 5.0, 10.0, 10.0], (160, 1)),
)


def test_perfect_vectors_score_perfectly_and_clusters_are_counted_by_hand() -> None:
    """Similarities are 0 or 1: by the papers' rule, FPR above 0, all is one cluster."""
    vectors, samples = two_procedures(0.0)
    expected = dict.fromkeys(("AUPR", "mAP", "HR@1", "AUROC"), 1.0) | {
        "threshold/FR": 0.5,  # one cluster for two polyps
        "threshold/FPR": 1.0,
        "threshold/recall": 1.0,
        # (2 x 12 pairs of one polyp + 8 self-pairs) / (2 x 28 pairs + 8 self-pairs)
        "threshold/precision with self": 32 / 64,
        "threshold/IDF1": 0.5,  # 40 of 80 boxes by one track
        "threshold/AssA": 0.5,
        "threshold/AssRe": 1.0,
        "none/FR": 4.0,  # without clustering every tracklet is a polyp
        "none/FPR": 0.0,
    }
    found = named_figures(list(expected), vectors, samples, BOXES, QUICK)
    assert list(found) == list(expected)
    assert {name: found[name].value for name in expected} == pytest.approx(expected)
    assert (found["mAP"].n, found["threshold/FR"].n) == (2, 2)
    assert (found["threshold/FR"].sd, found["none/FR"].sd) == (0.0, 0.0)


def test_both_ways_of_averaging_precision() -> None:
    """torchmetrics, which the program uses, leaves out matches of cosine 0 or below."""
    rng = np.random.default_rng(1)
    _, samples = two_procedures(0.0)
    vectors = rng.normal(size=(16, 3))  # cosines of both signs
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosine = unit @ unit.T
    exact: list[float] = []
    published: list[float] = []
    for i in range(16):
        order = [j for j in np.argsort(-cosine[i]) if j != i]
        ranks = [k for k, j in enumerate(order, 1) if samples.polyp[j] == samples.polyp[i]]
        each = [(place / rank, cosine[i, order[rank - 1]]) for place, rank in enumerate(ranks, 1)]
        kept = [value for value, score in each if score > 0]
        exact.append(float(np.mean([value for value, _ in each])))
        published.append(float(np.mean(kept)) if kept else 0.0)
    found = named_figures(["mAP", PUBLISHED_MAP], vectors, samples, settings=QUICK)
    assert found["mAP"].value == pytest.approx(np.mean(exact))
    assert found[PUBLISHED_MAP].value == pytest.approx(np.mean(published))
    assert np.mean(published) > np.mean(exact) + 0.02


def test_pairs_are_scored_as_scikit_learn_does() -> None:
    vectors, samples = two_procedures(0.6)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    i, j = np.triu_indices(16, 1)
    same, score = samples.polyp[i] == samples.polyp[j], (unit @ unit.T)[i, j]
    found = named_figures(["AUPR", "AUROC"], vectors, samples, settings=QUICK)
    assert found["AUROC"].value == pytest.approx(roc_auc_score(same, score))
    assert found["AUPR"].value == pytest.approx(average_precision_score(same, score))


def test_every_published_figure_of_vectors_has_a_name_here() -> None:
    vectors, samples = two_procedures(0.3)
    elsewhere = ("cost/", "val/", "test/", "size/", "histology/")
    wanted = {cell.measure for table in published().values() for cell in table.cells}
    wanted = {name for name in wanted if not name.startswith(elsewhere)}
    assert set(named_figures(wanted, vectors, samples, BOXES, QUICK)) == wanted


def test_what_cannot_be_measured_says_why() -> None:
    vectors, samples = two_procedures(0.0)
    found = named_figures(["ap/AssA", "ap/FR", "no/such"], vectors, samples, None, QUICK)
    assert found["ap/AssA"].why == "tracking needs whole tracklets"
    assert found["ap/FR"].value is not None
    assert "no/such" not in found
    alone, _ = samples.of_procedure(0)
    one = named_figures(["ap/FR"], vectors[:8], alone, settings=QUICK)
    assert one["ap/FR"].value is None
    assert "no other to choose a setting on" in one["ap/FR"].why
    with pytest.raises(PolyplinkError):
        named_figures(["mAP"], np.zeros((16, 4)), samples, settings=QUICK)
    with pytest.raises(PolyplinkError, match="ap"):
        named_figures(
            ["ap/FR"], vectors, samples, settings=EvaluationSettings(Grid(thresholds=(0.5,)))
        )


def test_crops_and_clips_are_measured_side_by_side(sample_run: SampleRun) -> None:
    encoder = load_named(sample_run.run, "cpu")
    variants = [Variant(1.0, None), Variant(None, 4), Variant(2.0, 90)]
    wanted = {variant: ["mAP", "no/such"] for variant in variants}
    rows = compare_variants(encoder, sample_run.data, "eval", wanted, settings=QUICK, workers=1)
    assert list(rows) == variants
    for variant in variants[:2]:
        value = rows[variant]["mAP"][0].value
        assert value is not None
        assert 0.0 <= value <= 1.0
        assert rows[variant]["no/such"][0].why == "no such figure"
    assert "no tracklet has 90 crops" in rows[variants[2]]["mAP"][0].why
    assert [variant.words for variant in variants[:2]] == [
        "psi 1, whole tracklets",
        "full frame, fragments of 4",
    ]
