"""Count intervals: only for boxes like those of the calibration, and with the stated coverage."""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from polyplink.associate.clusterers import LearnedLinks
from polyplink.associate.identities import (
    ASK_BELOW,
    MOST_QUESTIONS,
    SPREADS,
    Calibration,
    OperatingPoint,
    count_intervals,
    identify,
    possible_questions,
)
from polyplink.associate.links import LinkModel, Views, term_names
from polyplink.associate.online import OnlineLinker
from polyplink.core.artefacts import to_plain
from polyplink.core.messages import LANGUAGES, catalogue
from polyplink.counting.interval import (
    MISSED,
    Coverage,
    cover_of,
    fit_interval,
    point_for_boxes,
)
from polyplink.counting.link import (
    LinkedProcedure,
    ProcedureTracklets,
    alike_messages,
    alike_together,
    link_messages,
)
from polyplink.counting.result import Count, CountedProcedure
from polyplink.data.origin import BoxesOrigin, BoxSource
from polyplink.encoders.config import EncoderConfig
from polyplink.encoders.weights import Seen, WeightsRecord
from polyplink.report.formats import Texts
from polyplink.tracklets.settings import PrepareSettings, with_options

CALIBRATION = Calibration("annotated", None, "simulated procedures", 40, views=50)
LINKS = LinkModel(-3.0, dict.fromkeys(term_names(), 0.0) | {"cosine": 6.0}, 1, 1)
POINT = OperatingPoint(
    LearnedLinks(0.5), LINKS, "by hand", {"count": 0.5}, spread=2.0, calibration=CALIBRATION
)
SOURCE = BoxSource("annotated", None, "simulated procedures")


@pytest.mark.parametrize(
    ("together", "cosine", "warned"), [(1, 0.999, 1), (0, 0.999, 0), (1, 0.9, 0)]
)
def test_polyps_that_look_alike_in_one_frame_are_named(
    together: int, cosine: float, warned: int
) -> None:
    """The second and third of three views; with learned links, views in one frame stay apart."""
    vectors = np.array([[0, 0, 1], [1, 0, 0], [cosine, np.sqrt(1 - cosine**2), 0]])
    start = np.array([0.0, 20.0, 21.0 if together else 23.0])
    views = Views(vectors, start, start + 2.0)
    identities = identify(views, start / 30, POINT)
    assert len(np.unique(identities.labels[1:])) == 1 + (together or cosine < 0.5)
    alike = alike_together(POINT, views, identities.labels)
    texts = [str(message) for message in alike_messages({"case": alike})]
    assert len(texts) == warned
    assert all("although they look alike: case: 2, 3 (numbers" in text for text in texts)


def test_another_detector_of_the_same_name_as_in_the_calibration_is_named_so() -> None:
    point = replace(POINT, calibration=replace(CALIBRATION, boxes="9f", detector="YOLO"))
    (warning,) = cover_of(point, replace(SOURCE, boxes="YOLO", detector="YOLO")).warnings(point)
    counted, calibrated = str(warning).split(". The model was calibrated on ")
    assert counted.endswith(
        "of the detector YOLO, but not from the detector file of the calibration"
    )
    assert "on boxes of the detector YOLO." in calibrated


def test_an_earlier_count_has_the_interval_that_its_pages_describe() -> None:
    point = replace(POINT, calibration=replace(CALIBRATION, material="stills in motion"))
    cover = cover_of(point, replace(SOURCE, material="recordings"))
    record = {name: value for name, value in to_plain(point).items() if name != "missed"}
    count = Count("weights", "crops", PrepareSettings(), record, (), cover)
    assert f"higher by {MISSED}" in str(cover.basis)
    assert count.point.widened(2, 3) == (2, 3 + MISSED)


@pytest.mark.parametrize(
    ("calibrated", "options", "changed"),
    [
        (None, {}, ""),
        (None, {"stride": 1}, ""),  # of crops, not of boxes
        (None, {"high": 0.6}, "--high 0.6 instead of 0.5"),
        ({"min_seconds": 0.2}, {"min_seconds": 0.2}, ""),
        ({"min_seconds": 0.2}, {}, "--min-seconds 0.5 instead of 0.2"),
    ],
)
def test_no_interval_is_given_for_tracklets_of_other_settings(
    calibrated: dict[str, Any] | None, options: dict[str, Any], changed: str
) -> None:
    detector = BoxesOrigin("9f", "YOLO", high=0.5)
    calibration = replace(CALIBRATION, boxes="9f", detector="YOLO", tracklets=calibrated)
    record = WeightsRecord(
        EncoderConfig(),
        PrepareSettings(),
        {},
        Seen("", (), ()),
        {},
        to_plain(replace(POINT, calibration=calibration)),
    )
    settings = with_options(record.prepare, options, detector)
    source = replace(SOURCE, boxes="9f", detector="YOLO")
    point, cover = point_for_boxes(
        record, source, settings, detector, purpose="count", keep_alarms=False
    )
    assert (point.spread is None) == bool(changed)
    assert [str(message) for message in cover.changed] == ([changed] if changed else [])
    assert all(changed in str(warning) for warning in cover.warnings(point))


@pytest.mark.parametrize(
    ("change", "source", "gap"),
    [
        ({}, SOURCE, ""),
        ({}, replace(SOURCE, boxes="9f", detector="YOLO"), "boxes"),
        ({}, replace(SOURCE, material="recordings"), "material"),
        ({}, replace(SOURCE, material="mixed"), "material"),
        ({"spread": None}, SOURCE, "few"),
        ({"calibration": None}, SOURCE, "not recorded"),
        ({"calibration": None, "prices": {}}, SOURCE, "no labels"),
        ({"calibration": replace(CALIBRATION, boxes="9f")}, replace(SOURCE, boxes="9f"), ""),
        (
            {"calibration": replace(CALIBRATION, boxes="unknown")},
            replace(SOURCE, boxes="unknown"),
            "boxes",
        ),
        (
            {"calibration": replace(CALIBRATION, material="stills in motion")},
            replace(SOURCE, material="recordings"),
            "",
        ),
        # A calibration on 8 frames a second or more, and on an unknown number.
        *(
            ({"calibration": replace(CALIBRATION, fps=rate)}, replace(SOURCE, fps=fps), gap)
            for rate, fps, gap in (
                (8.0, 8.0, ""),
                (8.0, 60.0, ""),
                (25.0, 23.976, ""),
                (8.0, 2.0, "frame rate"),
                (8.0, None, "no frame rate"),
                (8.0, 5.0, ""),
                (None, 2.0, ""),
            )
        ),
    ],
)
def test_an_interval_is_given_only_for_calibrated_boxes(
    change: dict[str, Any], source: BoxSource, gap: str
) -> None:
    point = replace(POINT, **change)
    cover = cover_of(point, source)
    assert cover.gap == gap
    applied = cover.applied(point)
    rng = np.random.default_rng(3)
    start = np.arange(9, dtype=np.float64)
    views = Views(rng.normal(size=(9, 3)), start, start + 0.5)
    identified = identify(views, start / 9, applied)
    if not gap:
        assert identified.interval is not None
        basis = str(cover.basis)
        assert basis.startswith("A 90 % interval holds the true number in 9 of 10")
        unlike = cover.calibration is not None and cover.calibration.material != source.material
        assert ("recordings of patients is not known" in basis) == unlike
        assert applied.missed == (MISSED if unlike else 0)
        assert cover.warnings(applied) == []
        return
    assert identified.interval is None
    assert cover.basis is None
    assert [message.kind for message in cover.warnings(applied)] == [f"cover.{gap}"]
    # Exactly the decisions below the stated confidence become questions.
    P = LINKS.probability(views)
    labels = identified.labels
    expected_pairs = {
        (a, b)
        for a in range(labels.max() + 1)
        for b in range(a)
        if P[np.ix_(labels == a, labels == b)].mean() > 1 - ASK_BELOW
    }
    questions = [question for question in identified.questions if question.close]
    # The most doubtful others are listed too, and the first decisions with what they change.
    decisions = possible_questions(labels, P, LearnedLinks(0.5))
    assert len(identified.questions) == max(len(questions), min(MOST_QUESTIONS, len(decisions)))
    has_change = [question.change is not None for question in identified.questions]
    assert has_change == [i < MOST_QUESTIONS for i in range(len(has_change))]
    assert {
        tuple(sorted((labels[question.pair[0]], labels[question.pair[1]]), reverse=True))
        for question in questions
        if not question.joined
    } == expected_pairs
    assert all(question.confidence < ASK_BELOW for question in questions)
    uncertain_views = {
        i
        for i, score in enumerate(identified.scores)
        if (labels == labels[i]).sum() > 2 and score < ASK_BELOW
    }
    assert uncertain_views <= {question.members[0] for question in questions if question.joined}


@pytest.mark.parametrize(("views", "pairs", "most"), [(9, 1, 9), (8, 1, 8), (0, 36, 9), (0, 35, 8)])
def test_a_procedure_larger_than_all_calibrated_ones_has_no_interval(
    views: int, pairs: int, most: int
) -> None:
    """Weights of earlier versions record pairs alone: 36 pairs are those of nine views."""
    links, calibration = replace(LINKS, pairs=pairs), replace(CALIBRATION, views=views)
    point = replace(POINT, links=links, calibration=calibration)
    start = np.arange(9, dtype=np.float64)
    vectors = np.random.default_rng(3).normal(size=(9, 3))
    table = pl.DataFrame({"position": start / 9})
    tracklets = ProcedureTracklets("case", table, Views(vectors, start, start + 0.5))
    identities = identify(tracklets.views, tracklets.positions, point)
    assert (identities.interval is None) == (most < 9)
    messages = link_messages(point, [LinkedProcedure(tracklets, identities, [])])
    assert [message.values["most"] for message in messages] == [8] * (most < 9)
    linker = OnlineLinker(point)
    decisions = [
        linker.add(f"t{i}", vector, start[i], start[i] + 0.5) for i, vector in enumerate(vectors)
    ]
    assert [decision.interval is None for decision in decisions] == [i >= most for i in range(9)]


def test_a_margin_widens_every_interval_and_lone_single_numbers_alone() -> None:
    detected = replace(POINT, calibration=replace(CALIBRATION, boxes="detector", detector="d"))
    for margin, lone, interval, widened in (
        (0, 0, (3, 3), (3, 3)),
        (0, 1, (3, 3), (2, 4)),
        (0, 1, (3, 4), (3, 4)),
        (2, 1, (3, 3), (1, 5)),
        (2, 0, (1, 4), (0, 6)),
    ):
        assert replace(detected, margin=margin, lone=lone).widened(*interval) == widened
    assert replace(detected, margin=1, missed=1).widened(3, 3) == (2, 5)
    # Annotated boxes show a polyp, so there is at least one.
    assert replace(POINT, margin=2).widened(1, 4) == (1, 6)


def test_cover_names_another_purpose_and_accepts_kept_alarms() -> None:
    assert cover_of(POINT, SOURCE, purpose="link").gap == "purpose"
    # Without a false-alarm filter, kept alarms make no difference.
    assert cover_of(POINT, SOURCE, keep_alarms=True).gap == ""


def test_no_interval_is_given_if_more_than_a_tenth_of_the_frames_do_not_decode() -> None:
    assert cover_of(POINT, SOURCE, not_decoded=0.1).gap == ""
    cover = cover_of(POINT, SOURCE, not_decoded=0.11)
    applied = cover.applied(POINT)
    assert applied.spread is None
    (warning,) = cover.warnings(applied)
    assert warning.kind == "cover.not decoded"
    assert "11 % of the frames" in str(warning)


def test_the_interval_covers_polyps_that_the_detector_misses() -> None:
    """No price of a polyp counts the polyps that the detector misses."""
    rng = np.random.default_rng(0)
    links = []
    for _ in range(60):
        P = np.full((4, 4), 0.01)
        P[:2, :2] = P[2:, 2:] = 0.99
        links.append(P)
    missed = rng.binomial(2, 0.5, size=60)
    interval = fit_interval(links, (2 + missed).tolist(), LearnedLinks(0.5))
    assert interval is not None
    assert interval.margin == 2
    assert interval.held >= 0.9
    without_misses = fit_interval(links, [2] * 60, LearnedLinks(0.5))
    assert without_misses is not None
    assert (without_misses.margin, without_misses.lone, without_misses.held) == (0, 0, 1.0)
    for errors, needed in ((0, 22), (1, 38)):  # at most a tenth wrong, with 90 % confidence
        for n in (needed - 1, needed):
            few_wrong = fit_interval(
                links[:n], [2] * (n - errors) + [3] * errors, LearnedLinks(0.5)
            )
            assert few_wrong is not None
            assert (few_wrong.margin, few_wrong.lone) == (0, int(n < needed))
    # Nine of ten of one procedure more: of 20, the interval holds 19.
    for errors, margin in ((1, 0), (2, 1)):
        few = fit_interval(links[:20], [2] * (20 - errors) + [3] * errors, LearnedLinks(0.5))
        assert few is not None
        assert few.margin == margin
    assert fit_interval(links[:8], [2] * 8, LearnedLinks(0.5)) is None


def test_an_interval_that_is_often_wrong_is_not_chosen_for_being_narrow() -> None:
    """A little variation of the price gives 1 to 2 polyps; plus and minus one is 0 to 2."""
    links = [np.array([[1.0, 0.6], [0.6, 1.0]])] * 40
    for n_none, expected in ((1, (True, 0)), (3, (False, 1))):
        true = [0] * n_none + [1 + i % 2 for i in range(40 - n_none)]
        interval = fit_interval(links, true, LearnedLinks(0.5))
        assert interval is not None
        assert (interval.spread > 1, interval.margin) == expected


@pytest.mark.parametrize("seed", range(2))
def test_intervals_and_single_numbers_are_right_in_nine_of_ten(seed: int) -> None:
    rng = np.random.default_rng(seed)
    links, true_counts = [], []
    for _ in range(40):
        polyp = rng.integers(0, 3, size=6)
        noise = rng.normal(scale=0.25, size=(6, 6))
        same = polyp[:, None] == polyp[None, :]
        links.append(np.clip(np.where(same, 0.75, 0.25) + (noise + noise.T) / 2, 0.01, 0.99))
        true_counts.append(len(set(polyp.tolist())) + int(rng.random() < 0.2))
    interval = fit_interval(links, true_counts, LearnedLinks(0.5))
    assert interval is not None
    rows = []
    for P, true_count in zip(links, true_counts, strict=True):
        low, high = count_intervals(
            P, LearnedLinks(0.5), [f for f in SPREADS if f <= interval.spread]
        )
        point = replace(POINT, margin=interval.margin, lone=interval.lone)
        rows.append((true_count, *point.widened(int(low[-1]), int(high[-1]))))
    coverage = Coverage.of(rows)
    assert coverage.held >= 36
    assert coverage.single_wrong <= 0.1 * coverage.single


def test_what_intervals_hold_is_said_only_where_a_procedure_has_one() -> None:
    first, other = CountedProcedure("v"), CountedProcedure("w", low=1, high=3)
    count = Count(
        "weights", "crops", PrepareSettings(), to_plain(POINT), (first,), cover_of(POINT, SOURCE)
    )
    assert count.basis is None
    with_interval = replace(count, procedures=(first, other))
    assert str(with_interval.basis).startswith("A 90 % interval holds the true number in 9 of 10")


def test_a_count_of_0_without_an_interval_says_so() -> None:
    for language in LANGUAGES:
        t, texts = Texts(language), catalogue(language)
        assert t.interval(None, None, 0) == texts["interval.zero"]
        assert t.interval(None, None, 2) == t.interval(None, None) == texts["interval.none"]
        assert t.interval(0, 1, 0) == texts["interval"].format(low=0, high=1)


def test_coverage_counts_single_numbers_separately() -> None:
    coverage = Coverage.of([(2, 1, 3), (2, 2, 2), (3, 2, 2), (0, 1, 1)])
    assert coverage == Coverage(procedures=4, held=2, single=3, single_wrong=2)
