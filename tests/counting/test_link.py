"""Tracklets screened and linked: annotated ones stay, and weights keep their tolerance."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from polyplink.associate.alarms import FEATURES, AlarmModel, with_share
from polyplink.associate.clusterers import LearnedLinks
from polyplink.associate.identities import OperatingPoint, untuned
from polyplink.associate.links import LinkModel, Views, term_names
from polyplink.core.arrays import Floats
from polyplink.core.errors import PolyplinkError
from polyplink.counting.calibration import fit_point
from polyplink.counting.labels import with_truth
from polyplink.counting.link import judge_together, screen, true_counts
from polyplink.data.tables import DataSet, read_data, write_data
from polyplink.encoders.encode import Embeddings
from polyplink.tracklets.prepare import Prepared, prepare
from polyplink.tracklets.settings import PrepareSettings, TrackSettings
from tests.samples import write_procedures

LINKS = LinkModel(-6.0, dict.fromkeys(term_names(), 0.0) | {"cosine": 12.0}, 1, 1)
LINKED = OperatingPoint(LearnedLinks(0.5), LINKS, "a test")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four annotated procedures, each with two polyps in three views, without images."""
    return write_procedures(tmp_path_factory.mktemp("annotated"), images=False)


def random_vectors(prepared: Prepared) -> Embeddings:
    names = prepared.tracklets["tracklet_id"].to_list()
    vectors = np.random.default_rng(0).normal(size=(len(names), 4)).astype(np.float32)
    return Embeddings(names, vectors, "", "")


def detected_procedures(data: Path, out: Path, number: int = 1) -> Prepared:
    """The six tracklets of each of some procedures, as of a detector."""
    tables = read_data(data)
    procedures = tables.procedures.head(number)
    boxes = tables.detections.filter(
        pl.col("procedure_id").is_in(procedures["procedure_id"].implode())
    ).with_columns(score=pl.lit(0.9), polyp_id=pl.lit(None, pl.String))
    write_data(out, DataSet.of(boxes, procedures, tables.polyps.clear()))
    return prepare(out, PrepareSettings(tracks=TrackSettings(bridge=0.0)), with_crops=False)


def test_annotated_tracklets_are_never_false_alarms(data: Path, tmp_path: Path) -> None:
    tables = read_data(data)
    detected = pl.col("procedure_id") == "001-001"
    boxes = tables.detections.with_columns(
        score=pl.when(detected).then(0.9),
        polyp_id=pl.when(~detected).then("polyp_id"),
    )
    write_data(tmp_path, DataSet.of(boxes, tables.procedures, tables.polyps.filter(~detected)))
    prepared = prepare(tmp_path, PrepareSettings(), with_crops=False)
    model = AlarmModel(-9.0, (0.0,) * len(FEATURES), (0.0,) * 4, 0.5, "")
    rejects_all = replace(untuned("a test"), alarms=model)
    screened = screen(prepared, random_vectors(prepared), rejects_all)
    assert set(screened.alarms["procedure_id"]) == {"001-001"}
    assert screened.alarms.height > 0
    tracklets = screened.prepared.tracklets
    assert tracklets["tracklet_id"].to_list() == (
        prepared.tracklets.filter(~detected)["tracklet_id"].to_list()
    )
    assert tracklets["shows_polyp"].null_count() == tracklets.height
    nothing = screen(prepared, random_vectors(prepared), rejects_all, keep_alarms=True).alarms
    assert nothing.is_empty()


@pytest.mark.parametrize(
    ("directions", "directions_kept"),
    [
        # Probabilities of showing a polyp: a 0.5, b 0.6, c 0.3, d 0.9.
        ("abccdb", "bdb"),  # the two of b together 0.73, those of c 0.40
        ("aabccb", "bb"),  # those of a together 0.62
        ("ddbabc", "ddbb"),
        ("abcaca", "aaa"),  # 0.70
    ],
)
def test_tracklets_of_one_polyp_reach_the_threshold_of_false_alarms_together(
    data: Path, tmp_path: Path, directions: str, directions_kept: str
) -> None:
    prepared = detected_procedures(data, tmp_path)
    embeddings = Embeddings(
        prepared.tracklets["tracklet_id"].to_list(),
        np.eye(4, dtype=np.float32)[["abcd".index(letter) for letter in directions]],
        "",
        "",
    )
    odds = tuple(np.log(p / (1 - p)) for p in (0.5, 0.6, 0.3, 0.9))
    alarms = AlarmModel(0.0, (0.0,) * len(FEATURES), odds, 2 / 3, "")
    screened = screen(prepared, embeddings, replace(LINKED, alarms=alarms))
    names = screened.prepared.tracklets["tracklet_id"].to_list()
    assert (
        "".join(directions[embeddings.tracklet_ids.index(name)] for name in names)
        == directions_kept
    )
    assert len(names) + screened.alarms.height == 6
    # Without links, each is judged alone.
    alone = screen(prepared, embeddings, replace(untuned("a test"), alarms=alarms))
    assert alone.prepared.tracklets.height == directions.count("d")


def test_rescued_tracklets_reach_the_threshold_as_they_are_counted(
    data: Path, tmp_path: Path
) -> None:
    prepared = detected_procedures(data, tmp_path)
    names = prepared.tracklets["tracklet_id"].to_list()
    # The two of a, 0.68 together, are linked only beside views of false alarms between them.
    between = LINKS.weights | {"log views in between": 3.0, "cosine": 4.0}
    point = replace(LINKED, links=replace(LINKS, intercept=-7.0, weights=between))
    odds = tuple(np.log(p / (1 - p)) for p in (0.55, 0.1, 0.1, 0.9))
    alarms = AlarmModel(0.0, (0.0,) * len(FEATURES), odds, 2 / 3, "")
    vectors = np.eye(4, dtype=np.float32)[["abcd".index(letter) for letter in "abcbca"]]
    screened = screen(prepared, Embeddings(names, vectors, "", ""), replace(point, alarms=alarms))
    assert screened.prepared.tracklets.is_empty()
    # More views between them stay: those of a polyp above the threshold.
    vectors = np.eye(4, dtype=np.float32)[["abcd".index(letter) for letter in "addbda"]]
    screened = screen(prepared, Embeddings(names, vectors, "", ""), replace(point, alarms=alarms))
    assert screened.prepared.tracklets["tracklet_id"].to_list() == [
        name for name, letter in zip(names, "addbda", strict=True) if letter != "b"
    ]


def seen_times(*numbers: int) -> tuple[Views, list[int]]:
    """Views of polyps, each seen so many times and linked without doubt, and the polyp of each."""
    polyps = [polyp for polyp, number in enumerate(numbers) for _ in range(number)]
    start: Floats = np.arange(len(polyps), dtype=np.float64) * 60
    end: Floats = start + 5
    return Views(np.eye(len(numbers))[polyps], start, end), polyps


@pytest.mark.parametrize(
    ("numbers", "p", "kept"),
    [
        ((8, 8, 1), 0.8, False),  # others (8 + 8 + 1) / 3 on average: odds 4 become 0.5
        ((8, 8, 1), 0.9, True),  # 1.1
        ((2, 2, 1), 0.8, True),
        ((1, 1, 1), 0.7, True),
        ((1,), 0.7, True),
        ((8, 8, 2), 0.8, True),
    ],
)
def test_a_polyp_seen_more_rarely_than_others_needs_more_evidence(
    numbers: tuple[int, ...], p: float, kept: bool
) -> None:
    views, polyps = seen_times(*numbers)
    alarms = AlarmModel(0.0, (), (), 2 / 3, "")
    is_last = np.array(polyps) == len(numbers) - 1
    point = replace(LINKED, alarms=alarms)
    judged_polyps = judge_together(views, np.where(is_last, p, 0.99), point)
    judged, stays = judged_polyps.chance, judged_polyps.is_linked
    assert stays[~is_last].all()
    assert (stays[is_last] == kept).all()
    np.testing.assert_allclose(judged[~is_last], 0.99, atol=0.01)
    rarity = min(1.0, 2 * numbers[-1] / ((sum(numbers[:-1]) + 1) / len(numbers))) ** 2
    np.testing.assert_allclose(judged[is_last] / (1 - judged[is_last]), rarity * p / (1 - p))
    # Annotated tracklets stay, however rare.
    assert judge_together(views, np.where(is_last, np.nan, 0.99), point).is_linked.all()


def test_false_alarms_that_may_be_further_polyps_are_asked_about() -> None:
    # A kept polyp, a false alarm that links join with it, two that they join with each other, and
    # one that is probably none.
    views, _ = seen_times(3, 2, 1)
    chance = np.array([0.9, 0.9, 0.6, 0.43, 0.41, 0.3])
    judged = judge_together(views, chance, replace(LINKED, alarms=AlarmModel(0.0, (), (), 0.7, "")))
    assert judged.is_linked.tolist() == [True, True, False, False, False, False]
    assert judged.in_doubt.tolist() == [False, False, False, True, False, False]
    np.testing.assert_allclose(judged.chance, chance)


def test_tracklets_linked_with_a_kept_one_stay_false_alarms(data: Path, tmp_path: Path) -> None:
    prepared = detected_procedures(data, tmp_path)
    near = [0.9, 0.19**0.5, 0, 0]  # a cosine of 0.9 with the first
    vectors = np.array([[1, 0, 0, 0], near, near, *np.eye(4)[1:]], np.float32)
    embeddings = Embeddings(prepared.tracklets["tracklet_id"].to_list(), vectors, "", "")
    # Probabilities of 0.9, of 0.45 for each of the two near it, and of nearly 0.
    alarms = AlarmModel(0.0, (0.0,) * len(FEATURES), (2.2, -5.0, -5.0, -5.0), 2 / 3, "")
    screened = screen(prepared, embeddings, replace(LINKED, alarms=alarms))
    assert screened.prepared.tracklets["tracklet_id"].to_list() == embeddings.tracklet_ids[:1]


def test_tracklets_are_judged_by_the_others_of_their_procedure(data: Path, tmp_path: Path) -> None:
    prepared = detected_procedures(data, tmp_path, 2)
    # All tracklets of the first procedure are probably polyps; of the second, only the first is.
    chance, share = np.array([0.7] * 6 + [0.7] + [0.05] * 5), 0.6
    embeddings = Embeddings(
        prepared.tracklets["tracklet_id"].to_list(),
        np.eye(4, dtype=np.float32)[(chance < 0.5).astype(int)],
        "",
        "",
    )
    odds = (*np.log([0.7 / 0.3, 0.05 / 0.95]), 0.0, 0.0)
    model = AlarmModel(0.0, (0.0,) * len(FEATURES), odds, 2 / 3, "", share)
    screened = screen(prepared, embeddings, replace(untuned("a test"), alarms=model))
    assert screened.prepared.tracklets["procedure_id"].unique().to_list() == ["001-001"]
    table = pl.concat([screened.prepared.tracklets, screened.alarms]).sort("tracklet_id")
    expected = [with_share(chance[:6], share), with_share(chance[6:], share)]
    np.testing.assert_allclose(table["shows_polyp"], np.concatenate(expected))
    earlier = screen(
        prepared,
        embeddings,
        replace(untuned("a test"), alarms=replace(model, share=None)),
    )
    assert earlier.prepared.tracklets.height == 7


def test_links_are_fitted_on_annotated_tracklets_beside_those_of_a_detector(tmp_path: Path) -> None:
    tables = read_data(write_procedures(tmp_path / "annotated", procedures=6, images=False))
    detected = pl.col("procedure_id") > "001-002"
    is_alarm = detected & (pl.col("frame") >= 5 * 42)  # the last view of a procedure
    boxes = tables.detections.with_columns(
        score=pl.when(is_alarm).then(0.5).when(detected).then(0.9),
        polyp_id=pl.when(~detected).then("polyp_id"),
    )
    write_data(tmp_path, DataSet.of(boxes, tables.procedures, tables.polyps.filter(~detected)))
    settings = PrepareSettings(tracks=TrackSettings(bridge=0.0))  # a track per view
    prepared = prepare(tmp_path, settings, with_crops=False)
    polyp = pl.concat_str("procedure_id", pl.col("first_frame") // (3 * 42), separator="_")
    polyp_of_view = pl.when(pl.col("first_frame") < 5 * 42).then(polyp)
    labelled = replace(
        prepared,
        tracklets=prepared.tracklets.with_columns(
            polyp_id=pl.when(detected).then(polyp_of_view).otherwise("polyp_id")
        ),
    )
    patients = {name: name for name in prepared.procedures}
    point, warnings = fit_point(
        untuned("a test"),
        labelled,
        random_vectors(prepared),
        0.9,
        source=None,
        polyps=None,
        patients=patients,
    )
    assert point.alarms is not None
    assert "4 patients" in point.alarms.origin  # those of the detector
    assert "of 6 procedures" in point.origin
    assert warnings == []


def test_procedures_without_polyps_count_only_where_all_are_annotated(data: Path) -> None:
    tables = read_data(data)
    names = tables.procedures["procedure_id"].to_list()
    annotated = pl.col("procedure_id") != names[0]
    part = DataSet.of(
        tables.detections.filter(annotated), tables.procedures, tables.polyps.filter(annotated)
    )
    annotated_counts = dict.fromkeys(names[1:], 2)
    assert true_counts(part, names, every=False) == annotated_counts
    assert true_counts(part, names, every=True) == {names[0]: 0} | annotated_counts


def test_the_number_of_polyps_is_unknown_with_a_box_of_an_unknown_polyp(
    data: Path, tmp_path: Path
) -> None:
    tables, prepared = read_data(data), prepare(data, PrepareSettings(), with_crops=False)
    names = list(prepared.procedures)
    unknown = (pl.col("procedure_id") == names[1]) & (pl.col("frame") == 0)
    boxes = tables.detections.with_columns(polyp_id=pl.when(~unknown).then("polyp_id"))
    part = DataSet.of(boxes, tables.procedures, tables.polyps)
    others = dict.fromkeys([names[0], *names[2:]], 2)
    assert true_counts(part, names, every=False) == true_counts(part, names, every=True) == others
    write_data(tmp_path / "truth", part)
    with pytest.raises(PolyplinkError, match=f"{names[1]}' has annotated boxes without a polyp id"):
        with_truth(prepared, tmp_path / "truth")
    # A box with a score is a detector's, and a procedure that is not counted does not matter.
    scored = part.detections.with_columns(score=pl.when(unknown).then(0.9))
    write_data(tmp_path / "scored", DataSet.of(scored, part.procedures, part.polyps))
    assert with_truth(prepared, tmp_path / "scored").tracklets["polyp_id"].null_count() == 0
    first = replace(
        prepared,
        procedures=(names[0],),
        tracklets=prepared.tracklets.filter(procedure_id=names[0]),
    )
    assert with_truth(first, tmp_path / "truth").tracklets.height == 6


def test_a_calibration_keeps_the_tolerance_of_the_weights(data: Path) -> None:
    prepared = prepare(data, PrepareSettings(), with_crops=False)
    before = replace(untuned("a test"), setting=LearnedLinks(1.0, tolerance=0.5))
    for tolerance, expected in ((None, 0.5), (0.7, 0.7)):
        point, warnings = fit_point(
            before,
            prepared,
            random_vectors(prepared),
            None,
            source=None,
            polyps=None,
            patients={},
            tolerance=tolerance,
        )
        assert point.links is not None
        assert (point.tolerance, warnings) == (expected, [])
