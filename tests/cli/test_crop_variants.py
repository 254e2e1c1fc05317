"""Figures by name, for given vectors and for other crops and clips."""

from typing import Any

import numpy as np
import pytest

from polyplink.associate.clusterers import Threshold
from polyplink.associate.grid_search import find_grid
from polyplink.core.errors import PolyplinkError
from polyplink.encoders.load import load_named
from polyplink.evaluate.evaluation import EvaluationSettings
from polyplink.evaluate.intervals import Figure
from polyplink.evaluate.samples import Samples, TrackletBoxes
from polyplink_lab.reproduce import crop_variants
from polyplink_lab.reproduce.crop_variants import Variant, compare_variants
from polyplink_lab.reproduce.published_tables import published_tables
from tests.conftest import SampleRun
from tests.evaluate.random_tracklets import boxes_of, random_samples

QUICK = EvaluationSettings(grid=find_grid("demo"), resamples=200)


def named_figures(*arguments: Any, **options: Any) -> dict[str, Figure]:
    figures = crop_variants.named_figures(*arguments, **options)
    return {name: figure for name, (figure, _) in figures.items()}


def two_procedures(noise: float) -> tuple[np.ndarray, Samples]:
    """Two procedures with two polyps each, and four consecutive tracklets per polyp."""
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


BOXES = TrackletBoxes(  # ten per tracklet, in consecutive frames
    np.repeat(np.arange(4), 4),
    np.arange(0, 161, 10),
    np.tile(np.arange(80), 2),
    np.tile([5.0, 5.0, 10.0, 10.0], (160, 1)),
)


def test_figures_of_perfect_vectors_equal_a_count_by_hand() -> None:
    """Similarities are 0 or 1, so that the papers' rule, FPR above 0, gives a single cluster."""
    vectors, samples = two_procedures(0.0)
    expected = dict.fromkeys(("AUPR", "mAP", "HR@1", "AUROC"), 1.0) | {
        "threshold/FR": 0.5,  # one cluster for two polyps
        "threshold/FPR": 1.0,
        "threshold/recall": 1.0,
        # (2 x 12 pairs of one polyp + 8 self-pairs) / (2 x 28 pairs + 8 self-pairs)
        "threshold/precision with self": 32 / 64,
        "threshold/IDF1": 0.5,  # one track has 40 of 80 boxes
        "threshold/AssA": 0.5,
        "threshold/AssRe": 1.0,
        "none/FR": 4.0,  # without clustering every tracklet is a polyp
        "none/FPR": 0.0,
    }
    figures = named_figures(list(expected), vectors, samples, BOXES, QUICK)
    assert list(figures) == list(expected)
    assert {name: figures[name].value for name in expected} == pytest.approx(expected)
    assert (figures["mAP"].n, figures["threshold/FR"].n) == (2, 2)
    assert (figures["threshold/FR"].sd, figures["none/FR"].sd) == (0.0, 0.0)


def test_figures_that_cannot_be_measured_have_a_reason() -> None:
    vectors, samples = two_procedures(0.0)
    figures = named_figures(["ap/AssA", "ap/FR", "no/such"], vectors, samples, None, QUICK)
    assert figures["ap/AssA"].why == "tracking needs whole tracklets"
    assert figures["ap/FR"].value is not None
    assert "no/such" not in figures
    one_procedure, _ = samples.of_procedure(0)
    single = named_figures(["ap/FR"], vectors[:8], one_procedure, settings=QUICK)
    assert single["ap/FR"].value is None
    assert "no other to choose a setting on" in single["ap/FR"].why
    one_polyp = Samples.of(["t0", "t1"], ["v0"] * 2, ["p0"] * 2, np.array([0.0, 0.5]))
    unclustered = named_figures(["none/FR", "none/FPR"], vectors[:2], one_polyp)
    assert [figure.value for figure in unclustered.values()] == [2.0, None]  # no pair of polyps
    with pytest.raises(PolyplinkError):
        named_figures(["mAP"], np.zeros((16, 4)), samples, settings=QUICK)
    with pytest.raises(PolyplinkError, match="ap"):
        without_ap = EvaluationSettings({"threshold": [Threshold(0.5)]})
        named_figures(["ap/FR"], vectors, samples, settings=without_ap)


def test_variants_of_crops_and_clips_are_compared(sample_run: SampleRun) -> None:
    encoder = load_named(sample_run.run, "cpu")
    variants = [Variant(1.0, None), Variant(None, 4), Variant(2.0, 90)]
    names = {variant: ["mAP", "no/such"] for variant in variants}
    rows = compare_variants(encoder, sample_run.data, "eval", names, settings=QUICK, workers=1)
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


def test_published_figures_are_named_and_compared_by_the_values_that_are_shown() -> None:
    """Tracking figures over all boxes together differ from their means over procedures."""
    names = {cell.measure for table in published_tables().values() for cell in table.cells}
    vectors, samples, _ = random_samples(1, noise=2.0)
    by_name = crop_variants.named_figures(names, vectors, samples, boxes_of(samples), QUICK)
    other_figures = ("cost/", "val/", "test/", "size/", "histology/")
    assert set(by_name) == {name for name in names if not name.startswith(other_figures)}
    compared = {name: pair for name, pair in by_name.items() if pair[1] is not None}
    assert {"mAP", "AUPR", "threshold/FR", "temporal_ap/AssA", "dbscan/IDF1"} <= compared.keys()
    for name, (printed, resampled) in compared.items():
        assert resampled is not None
        assert resampled.value == pytest.approx(printed.value), name
