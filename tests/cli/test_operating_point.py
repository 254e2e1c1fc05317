"""Finding an operating point, and linking with it."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import get_args

import numpy as np
import polars as pl
import pytest

from polyplink.associate.alarms import AlarmModel
from polyplink.associate.clusterers import LearnedLinks, TemporalAP
from polyplink.associate.identities import (
    UNTUNED,
    Calibration,
    Identities,
    OperatingPoint,
    identify,
    recorded_point,
)
from polyplink.associate.links import COMMON, Views, fit_and_cross_fit
from polyplink.associate.similarity import cosine
from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.counting.link import ProcedureTracklets, by_procedure
from polyplink.counting.operating_point import find_operating_point
from polyplink.data.origin import BoxSource, Material
from polyplink.encoders.embed import colour_histogram
from polyplink.encoders.encode import Embeddings, embed
from polyplink.tracklets.prepare import prepare
from polyplink.tracklets.settings import PrepareSettings
from tests.samples import write_procedures


def tracklets(name: str, polyps: list[str | None]) -> ProcedureTracklets:
    """Tracklets with high similarity within a polyp."""
    n = len(polyps)
    table = pl.DataFrame({"polyp_id": polyps}, schema={"polyp_id": pl.String}).with_columns(
        position=np.linspace(0, 1, n)
    )
    codes = {polyp: code for code, polyp in enumerate(dict.fromkeys(polyps))}
    vectors = np.eye(len(codes) + 1)[[codes[polyp] for polyp in polyps]]
    vectors += np.random.default_rng(n).normal(scale=0.3, size=vectors.shape)
    start = 3.0 * np.arange(n, dtype=np.float64)
    views = Views(vectors, start, np.asarray(start + 1.0, np.float64))
    return ProcedureTracklets(name, table, views)


def link(procedure: ProcedureTracklets, point: OperatingPoint) -> Identities:
    return identify(procedure.views, procedure.positions, point)


def test_the_operating_point_counts_separable_polyps_with_an_interval() -> None:
    polyps: list[str | None] = ["a", "a", "a", "b", "b", "c", "c", "c"]
    procedures = [tracklets(f"v{i}", [None, *polyps[: 4 + i % 5]]) for i in range(20)]
    point = find_operating_point(procedures)
    assert "of 20 procedures; cross-fitted there: count off by 0.20 polyps" in point.origin
    assert point.spread is not None
    assert point.calibration is None  # the source of the boxes is unknown
    point = find_operating_point(procedures, BoxSource("9f", "Own", "recordings"))
    assert point.calibration == Calibration("9f", "Own", "recordings", procedures=20, views=9)
    assert recorded_point(to_plain(point)) == point
    without_calibration = {
        name: value for name, value in to_plain(point).items() if name != "calibration"
    }
    # A record of an earlier version.
    assert recorded_point(without_calibration) == replace(point, calibration=None)
    for procedure in procedures:
        linked = link(procedure, point)
        low, high = linked.interval or (0, 0)
        assert low <= len(linked.names) <= high
        assert len(linked.names) - 1 <= len(set(procedure.polyps) - {None}) <= len(linked.names)
        wide_interval = link(procedure, replace(point, spread=1e3)).interval or (0, 0)
        assert wide_interval[0] <= low <= high <= wide_interval[1]
    assert isinstance(point.for_purpose("link").setting, LearnedLinks)
    assert point.prices["link"] <= point.prices["count"]
    six_procedures = find_operating_point(procedures[:6])
    assert six_procedures.spread is None  # six procedures cannot show that 90 % are covered
    assert link(procedures[0], six_procedures).interval is None


def test_the_error_of_a_count_includes_false_alarms_and_missed_polyps() -> None:
    polyps: list[str | None] = ["a", "a", "a", "b", "b", "b"]
    apart = [tracklets(f"v{i}", polyps) for i in range(20)]
    true = {procedure.procedure_id: 2 for procedure in apart}
    assert find_operating_point(apart, polyps=true).error == 0
    # A third polyp of every procedure has no tracklet; links cannot make up for it.
    assert find_operating_point(apart, polyps=dict.fromkeys(true, 3)).error == 1
    # A false alarm unlike all polyps is in every fourth procedure.
    alarms = [tracklets(f"v{i}", polyps + [None, None, None] * (i % 4 == 0)) for i in range(20)]
    assert find_operating_point(alarms, polyps=true).error == 0.25
    # Two alike with one and five polyps, each counted under the price that the other chooses: under
    # one price between one and five for both, the error would be 2.
    alike = [tracklets(name, polyps) for name in ("one", "five")]
    error = find_operating_point(alike, polyps={"one": 1, "five": 5}).error
    assert error is not None
    assert error > 3
    # A procedure with false alarms only counts in the interval, but not in the fit of links.
    only_alarms, source = tracklets("n", [None] * 3), BoxSource("9f", "Own", "recordings")
    point = find_operating_point([*apart, only_alarms], source, {**true, "n": 0})
    assert point.calibration == Calibration("9f", "Own", "recordings", procedures=21, views=6)
    assert point.links == find_operating_point(apart).links


def test_prices_are_chosen_where_the_number_of_polyps_is_known() -> None:
    polyps: list[str | None] = ["a", "a", "b", "b", "c", "d", "c", "d"]
    procedures = [tracklets(f"v{i}", polyps[: 5 + i % 4]) for i in range(24)]
    true_counts = {p.procedure_id: len(set(p.polyps)) for p in procedures[::2]}
    named = pl.when(pl.col("polyp_id") < "c").then("polyp_id")
    partly = [
        p
        if p.procedure_id in true_counts
        else replace(p, table=p.table.with_columns(polyp_id=named))
        for p in procedures
    ]
    point = find_operating_point(partly, polyps=true_counts)
    assert point.error is not None
    assert point.error < 0.5  # 1.0 with the surplus of the others
    off = [len(link(p, point).names) - true_counts[p.procedure_id] for p in procedures[::2]]
    assert np.abs(off).mean() < 0.5


def test_where_polyps_are_known_of_one_patient_alone_those_with_tracklets_are_counted() -> None:
    procedures = [tracklets(f"v{i}", ["a", "a", "b", "b", "c"]) for i in range(10)]
    true_counts = {procedure.procedure_id: 4 for procedure in procedures[1:]}
    for names in (["v1"], list(true_counts)):  # of one procedure, and of nine of one patient
        point = find_operating_point(
            procedures,
            polyps={name: true_counts[name] for name in names},
            patients={"v0": "p0"} | dict.fromkeys(true_counts, "p1"),
        )
        assert point.error is not None
        assert (bool(point.prices), point.spread) == (True, None)


def test_links_of_stills_are_fitted_on_runs_and_copies_and_judged_on_procedures() -> None:
    polyps: list[str | None] = ["a", "a", "a", "b", "b", "c", "c", "c"]
    procedures = [tracklets(f"v{i}", [None, *polyps[: 4 + i % 5]]) for i in range(20)]
    stills = BoxSource("9f", "Own", "stills in motion")
    point = find_operating_point(procedures, stills)
    variants = [
        [
            (views, procedure.polyps)
            for views in (procedure.views, procedure.views.with_common(COMMON))
        ]
        for procedure in procedures
    ]
    model, _ = fit_and_cross_fit(variants, any_length=True)
    assert point.links == model
    assert point.calibration == Calibration(**asdict(stills), procedures=20, views=9)
    assert point.error == 0  # 0.1 if copies counted
    # Two alike with one and five polyps, each counted under the price that the other and its copy
    # choose. The copy of the same procedure would lower the error to 2.
    alike = [tracklets(name, ["a", "a", "a", "b", "b", "b"]) for name in ("one", "five")]
    error = find_operating_point(alike, stills, {"one": 1, "five": 5}).error
    assert error is not None
    assert error > 2


def test_without_labels_of_several_polyps_the_point_is_untuned() -> None:
    for procedures, message in (
        (
            [tracklets("v", [None])],
            "no procedure has known polyps, and no procedure has two tracklets",
        ),
        (
            [tracklets("v", ["a", "a", "a"])],
            "all 3 labelled pairs of views without a common frame show one polyp",
        ),
        (
            [tracklets("v", ["a", "b", "c"])],
            "none of 3 labelled pairs of views without a common frame shows one polyp",
        ),
        ([tracklets("v", ["a", "a", "b"])], "but only one has known polyps"),
    ):
        point = find_operating_point(procedures)
        for material in get_args(Material):
            assert find_operating_point(procedures, BoxSource("9f", "Own", material)) == point
        assert point.setting == UNTUNED
        assert point.links is None
        assert message in point.origin
    assert recorded_point(None).setting == UNTUNED
    unlabelled = find_operating_point([tracklets(f"v{n}", [None] * n) for n in range(2, 14)])
    assert "links fitted without labels on 12 procedures" in unlabelled.origin
    assert unlabelled.for_purpose("link") == unlabelled
    linked = link(tracklets("v", [None] * 9), unlabelled)
    assert linked.interval is None
    assert np.isfinite(linked.scores).all()
    with pytest.raises(PolyplinkError, match="broken operating point"):
        recorded_point({"setting": 3})


@pytest.mark.parametrize("share", [0, 1, 0.0, 1.0, -0.2, float("nan")])
def test_a_share_of_polyps_that_no_calibration_gives_is_refused_when_it_is_read(
    share: float,
) -> None:
    alarms = AlarmModel(0.0, (), (), 0.5, "", 0.3)
    record = to_plain(OperatingPoint(UNTUNED, None, "made up", alarms=alarms))
    assert recorded_point(record).alarms == alarms
    record["alarms"]["share"] = share
    message = r"broken operating point \(alarms.share: .* (greater than 0|less than 1)\); write a"
    with pytest.raises(PolyplinkError, match=message):
        recorded_point(record)


def test_polyps_are_numbered_in_order_of_appearance() -> None:
    setting = TemporalAP(alpha=1.0, gamma=1.0, preference=0.5)
    point = OperatingPoint(setting, None, "made up")
    procedure = tracklets("v", ["a", "a", "a", "b", "b", "b"])
    start = procedure.views.start[::-1].copy()
    reversed_times = replace(procedure, views=Views(procedure.views.vectors, start, start + 1.0))
    for current, labels in ((procedure, [0, 0, 0, 1, 1, 1]), (reversed_times, [1, 1, 1, 0, 0, 0])):
        identities = link(current, point)
        assert identities.names == ["P1", "P2"]
        assert identities.labels.tolist() == labels


def test_by_procedure_groups_vectors_in_any_order(tmp_path: Path) -> None:
    prepared = prepare(
        write_procedures(tmp_path, procedures=3), PrepareSettings(size=32, crop_factor=2.0)
    )
    embeddings = embed(prepared, colour_histogram, "h")
    # Vectors can be in any order.
    order = np.random.default_rng(0).permutation(len(embeddings.tracklet_ids))
    ids = [embeddings.tracklet_ids[i] for i in order]
    shuffled = Embeddings(ids, embeddings.vectors[order], "h", "c")
    procedures = by_procedure(prepared, shuffled)
    assert [procedure.procedure_id for procedure in procedures] == ["001-001", "001-002", "001-003"]
    for procedure in procedures:
        V = cosine(procedure.views.vectors)
        polyps = np.array(procedure.polyps)
        same = polyps[:, None] == polyps[None, :]
        assert V[same].min() > V[~same].max()  # plain colours
    incomplete = Embeddings(embeddings.tracklet_ids[1:], embeddings.vectors[1:], "h", "c")
    with pytest.raises(PolyplinkError, match="tracklet 001-001:00000 has no vector"):
        by_procedure(prepared, incomplete)
