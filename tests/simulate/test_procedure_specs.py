"""Presets and the procedures that they specify."""

import dataclasses
import functools
import itertools

import numpy as np
import polars as pl
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.protocols import (
    lesion_info,
    positive_frames,
    published_splits,
    split_by_rule,
    video_info,
)
from polyplink_lab.simulate.presets import PRESETS, Preset, preset, small, smoke, tiny
from polyplink_lab.simulate.procedure_specs import (
    PAIR_LIMIT,
    SITES,
    ProcedureSpec,
    procedure_specs,
    stream,
)


@functools.cache
def specs_of(name: str) -> tuple[ProcedureSpec, ...]:
    return procedure_specs(preset(name), 0)


def test_presets_are_selected_by_name_and_difficulty() -> None:
    assert all(
        preset(name) == build_preset() and build_preset().name == name
        for name, build_preset in PRESETS.items()
    )
    assert smoke().at_difficulty(None) == smoke().at_difficulty(0.5) == smoke()
    harder = smoke().at_difficulty(0.8)
    assert (harder.name, harder.difficulty) == ("smoke@0.8", 0.8)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("width", 15, ".width is 15; give 16 or more"),
        ("height", 129, " has frames of 64 x 129 pixels; give even numbers"),
        ("long_views", (3, 2), ".long_views is 3 to 2; give the smaller number first"),
        ("short_frames", (0, 4), ".short_frames is 0 to 4; give the smaller .* each 1 or more"),
        ("short_views", (-1, 2), ".short_views is -1 to 2; give the smaller .* each 0 or more"),
        ("polyps", (("001-001", -1),), ".polyps has fewer than 0 polyps; give counts from 0"),
        ("pair_share", 1.5, ".pair_share is 1.5; give one from 0 to 1"),
        ("fullest", 0.0, r".fullest is 0.0; give one in \(0, 1\]"),
        ("shorter", 0.5, ".shorter is 0.5; give 1 or more"),
        ("insertion", (0.5, 0.7), ".insertion is 0.5 to 0.7; give the .* one from 0 to 0.6"),
    ],
)
def test_values_out_of_range_are_refused(name: str, value: object, message: str) -> None:
    with pytest.raises(PolyplinkError, match=f"smoke{message}"):
        dataclasses.replace(smoke(), **{name: value})  # type: ignore[arg-type]


def test_released_presets_refuse_other_procedure_names() -> None:
    for name in ("001-016", "005-016", "own", "1-001", "000-001", "0005-001"):
        with pytest.raises(
            PolyplinkError, match=f"own: {name} is not a procedure of REAL-Colon; give"
        ):
            Preset("own", ((name, 1),), released=True)


@pytest.mark.parametrize("build_preset", [small, tiny])
def test_copies_of_a_preset_have_its_figures_and_parts_but_other_polyps(
    build_preset: object,
) -> None:
    original: Preset = build_preset()  # type: ignore[operator]
    doubled = original.repeated(2)
    assert original.repeated(1) == original
    assert doubled.name == original.name  # the name marks a set as seen in training
    specs = procedure_specs(doubled, seed=0)
    assert len({spec.procedure_id for spec in specs}) == len(specs) == 2 * len(original.polyps)
    first, second = specs[: len(original.polyps)], specs[len(original.polyps) :]
    parts = split_by_rule(
        [s.procedure_id for s in specs], {s.procedure_id for s in specs if s.polyps}
    )
    for names in parts.values():  # each part has as many copies as originals
        assert len({name for name in names if name < "005"}) == len(names) / 2
    assert [len(spec.polyps) for spec in first] == [len(spec.polyps) for spec in second]
    assert all(
        a.polyps != b.polyps for a, b in zip(first, second, strict=True) if len(a.polyps) > 1
    )
    if original.published_looks:
        assert [s.boxed_frames for s in first] == [s.boxed_frames for s in second]
        assert [s.n_frames for s in first] == [s.n_frames for s in second]


@pytest.mark.parametrize(
    ("name", "times", "message"),
    [
        ("mine", 2, "smoke: mine cannot be repeated; give names SSS"),
        ("005-001", 2, "smoke: 005-001 cannot be repeated"),
        ("001-001", 0, "smoke 0 times over; give --times from 1 to 249"),
        ("001-001", 250, "smoke 250 times over"),
    ],
)
def test_names_and_numbers_that_cannot_be_repeated_are_refused(
    name: str, times: int, message: str
) -> None:
    with pytest.raises(PolyplinkError, match=message):
        dataclasses.replace(smoke(), polyps=((name, 1),)).repeated(times)


def test_random_streams_depend_only_on_seed_procedure_and_purpose() -> None:
    names = list(itertools.product((0, 1), ("001-001", "001-010"), ("course", "camera")))
    draws = {name: stream(*name).random() for name in names}
    assert len(set(draws.values())) == 8
    assert all(stream(*name).random() == draws[name] for name in reversed(names))


def test_a_seed_reproduces_its_procedures() -> None:
    first, repeated, other = (procedure_specs(tiny(), seed) for seed in (3, 3, 4))
    assert first == repeated != other
    for name in PRESETS:
        specs = specs_of(name)
        assert [(s.procedure_id, len(s.polyps)) for s in specs] == list(preset(name).polyps)


def test_a_procedure_does_not_depend_on_other_procedures() -> None:
    one_procedure = dataclasses.replace(tiny(), polyps=(("002-003", 2),), pair_share=0.0)
    spec_alone = procedure_specs(one_procedure, 0)[0]
    spec_in_preset = {spec.procedure_id: spec for spec in specs_of("tiny")}["002-003"]
    assert spec_alone == dataclasses.replace(spec_in_preset, pairs=(), n_frames=spec_alone.n_frames)


def test_figures_of_the_release_are_reproduced_exactly() -> None:
    specs = specs_of("real-colon-sim")
    boxed = dict(positive_frames().select("video_id", "n_polyp_frames").iter_rows())
    assert {spec.procedure_id: spec.boxed_frames for spec in specs} == boxed
    videos = video_info().sort("unique_video_name")
    assert [spec.n_frames for spec in specs] == videos["num_frames"].to_list()
    assert [spec.brand for spec in specs] == videos["endoscope_brand"].to_list()
    assert sum(p.visible_frames for spec in specs for p in spec.polyps) == 351_264
    n_polyps = {spec.procedure_id: len(spec.polyps) for spec in specs}
    assert (sum(n_polyps.values()), n_polyps["003-012"]) == (132, 3)
    evaluation = set(published_splits()["rc19"])
    assert sum(len(spec.polyps) for spec in specs if spec.procedure_id in evaluation) == 47


def test_small_has_the_polyps_of_the_release_in_fewer_frames() -> None:
    lesions = lesion_info()
    specs, full = specs_of("small"), specs_of("real-colon-sim")
    assert [len(spec.polyps) for spec in specs] == [len(spec.polyps) for spec in full]
    for spec in specs:
        for index, polyp in enumerate(spec.polyps, start=1):
            row = lesions.filter(pl.col("unique_object_id") == f"{spec.procedure_id}_{index}")
            assert row["size [mm]"][0] == polyp.size_mm
            assert row["histology_class"][0] == polyp.histology_class
            assert polyp.site in SITES
    assert [(s.width, s.height, s.fps) for s in specs] == [(s.width, s.height, s.fps) for s in full]
    assert sum(s.n_frames for s in specs) < 200_000
    assert all(s.boxed_frames <= 0.4 * s.n_frames for s in specs)


def test_sampled_polyps_come_from_the_released_tables() -> None:
    specs = specs_of("tiny")
    polyps = [polyp for spec in specs for polyp in spec.polyps]
    assert {p.size_mm for p in polyps} <= set(lesion_info()["size [mm]"])
    assert np.mean([p.size_mm <= 5 for p in polyps]) == pytest.approx(117 / 132, abs=0.1)
    assert {"AD", "HP"} <= {p.histology_class for p in polyps}
    for spec in specs:
        sites = [SITES.index(polyp.site) for polyp in spec.polyps]
        assert sites == sorted(sites)
        assert (spec.width, spec.height, spec.fps) == (96, 84, 25.0)
    assert 19_000 < sum(p.visible_frames for p in polyps) < 23_000
    assert sum(spec.n_frames for spec in specs) < 32_000
    assert 700 < sum(spec.n_frames for spec in specs_of("smoke")) < 1300


@pytest.mark.parametrize("name", list(PRESETS))
def test_pairs_are_neighbours_that_also_have_separate_frames(name: str) -> None:
    tested_preset, specs = preset(name), specs_of(name)
    several = sum(count > 1 for _, count in tested_preset.polyps)
    assert sum(bool(spec.pairs) for spec in specs) == round(tested_preset.pair_share * several)
    for spec in specs:
        boxes = sum(polyp.visible_frames for polyp in spec.polyps)
        assert spec.boxed_frames == boxes - sum(pair.frames for pair in spec.pairs)
        for pair in spec.pairs:
            assert pair.second == pair.first + 1 < len(spec.polyps)
            assert pair.frames > 0
            for polyp in (pair.first, pair.second):
                assert pair.frames <= (PAIR_LIMIT + 0.1) * spec.polyps[polyp].visible_frames
