"""The operating point, and what is linked at it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from polyplink.associate.clusterers import LearnedLinks, TemporalAP
from polyplink.associate.identities import UNTUNED, Calibration, OperatingPoint, from_record
from polyplink.associate.links import Views
from polyplink.associate.similarity import cosine
from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.counting.link import ProcedureTracklets, by_procedure, link
from polyplink.counting.operating_point import find_operating_point
from polyplink.data.origin import BoxSource
from polyplink.encoders.embed import colour_histogram, embed
from polyplink.encoders.vectors import Embeddings
from polyplink.tracklets.prepare import prepare
from polyplink.tracklets.settings import PrepareSettings
from tests.samples import write_procedures


def tracklets(name: str, polyps: list[str | None]) -> ProcedureTracklets:
    """Tracklets whose similarity is high within a polyp."""
    n = len(polyps)
    table = pl.DataFrame({"polyp_id": polyps}, schema={"polyp_id": pl.String})
    codes = {polyp: code for code, polyp in enumerate(dict.fromkeys(polyps))}
    vectors = np.eye(len(codes) + 1)[[codes[polyp] for polyp in polyps]]
    vectors += np.random.default_rng(n).normal(scale=0.3, size=vectors.shape)
    start = 3.0 * np.arange(n, dtype=np.float64)
    views = Views(vectors, start, np.asarray(start + 1.0, np.float64))
    return ProcedureTracklets(name, table, np.linspace(0, 1, n), views)


def test_it_counts_what_is_separate_and_says_how_sure_it_is() -> None:
    polyps: list[str | None] = ["a", "a", "a", "b", "b", "c", "c", "c"]
    given = [tracklets(f"v{i}", [None, *polyps[: 4 + i % 5]]) for i in range(20)]
    found = find_operating_point(given)
    assert "of 20 procedures; cross-fitted there: count off by 0.00 polyps" in found.origin
    assert found.spread is not None
    assert found.calibration is None  # nobody said where the boxes come from
    found = find_operating_point(given, BoxSource("9f", "Own", "recordings"))
    assert found.calibration == Calibration("9f", "Own", "recordings", procedures=20)
    assert from_record(to_plain(found)) == found
    before = {name: value for name, value in to_plain(found).items() if name != "calibration"}
    assert from_record(before) == replace(found, calibration=None)  # of an earlier version
    for one in given:
        linked = link(one, found).identities
        low, high = linked.interval or (0, 0)
        assert low <= len(linked.names) <= high
        assert len(linked.names) - 1 <= len(set(one.polyps) - {None}) <= len(linked.names)
        wide = link(one, replace(found, spread=1e3)).identities.interval or (0, 0)
        assert wide[0] <= low <= high <= wide[1]
    assert isinstance(found.at("link").setting, LearnedLinks)
    assert found.prices["link"] <= found.prices["count"]
    few = find_operating_point(given[:6])
    assert few.spread is None  # six procedures cannot show that 90 % are covered
    assert link(given[0], few).identities.interval is None


def test_without_labels_or_with_one_polyp_it_is_not_tuned() -> None:
    for held, message in (
        (
            [tracklets("v", [None])],
            "no procedure has known polyps, and no procedure has two tracklets",
        ),
        ([tracklets("v", ["a", "a", "a"])], "all 3 labelled pairs show one polyp"),
    ):
        found = find_operating_point(held)
        assert found.setting == UNTUNED
        assert found.links is None
        assert message in found.origin
    assert from_record(None).setting == UNTUNED
    guessed = find_operating_point([tracklets(f"v{n}", [None] * n) for n in range(2, 14)])
    assert "links fitted without labels on 12 procedures" in guessed.origin
    assert guessed.at("link") == guessed
    linked = link(tracklets("v", [None] * 9), guessed).identities
    assert linked.interval is None
    assert np.isfinite(linked.scores).all()
    with pytest.raises(PolyplinkError, match="broken operating point"):
        from_record({"setting": 3})


def test_polyps_are_numbered_as_they_appear() -> None:
    point = OperatingPoint(
        TemporalAP(alpha=1.0, gamma=1.0, preference=0.5),
        find_operating_point([tracklets("w", ["a", "a", "b", "b"])] * 3).links,
        "made up",
    )
    mine = tracklets("v", ["a", "a", "a", "b", "b", "b"])
    start = mine.views.start[::-1].copy()
    late_first = replace(mine, views=Views(mine.views.vectors, start, start + 1.0))
    for one, labels in ((mine, [0, 0, 0, 1, 1, 1]), (late_first, [1, 1, 1, 0, 0, 0])):
        found = link(one, point).identities
        assert found.names == ["P1", "P2"]
        assert found.labels.tolist() == labels
        assert np.isfinite(found.scores).all()


def test_rows_of_each_procedure_stay_together(tmp_path: Path) -> None:
    prepared = prepare(
        write_procedures(tmp_path, procedures=3), PrepareSettings(size=32, crop_factor=2.0)
    )
    embeddings = embed(prepared, colour_histogram, "h")
    # The vectors may lie in any order.
    order = np.random.default_rng(0).permutation(len(embeddings.tracklet_ids))
    ids = [embeddings.tracklet_ids[i] for i in order]
    shuffled = Embeddings(ids, embeddings.vectors[order], "h", "c")
    found = by_procedure(prepared, shuffled)
    assert [one.procedure_id for one in found] == ["001-001", "001-002", "001-003"]
    for one in found:
        V = cosine(one.views.vectors)
        polyps = np.array(one.polyps)
        same = polyps[:, None] == polyps[None, :]
        assert V[same].min() > V[~same].max()  # plain colours
    short = Embeddings(embeddings.tracklet_ids[1:], embeddings.vectors[1:], "h", "c")
    with pytest.raises(PolyplinkError, match="tracklet 001-001:00000 has no vector"):
        by_procedure(prepared, short)
