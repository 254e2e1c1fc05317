import dataclasses
from pathlib import Path

import av
import numpy as np
import polars as pl
import pytest
from PIL import Image

from polyplink.simulate import preview as room
from polyplink.simulate import smoke
from polyplink.simulate.boxes import boxes_of
from polyplink.simulate.cast import procedure_specs
from polyplink.simulate.crops import SimulatedProcedure
from polyplink.simulate.plan import plan_procedure
from polyplink.simulate.preview import (
    Scene,
    chosen,
    film_frames,
    film_pictures,
    look_boxes,
    workflow,
    write_preview,
)


@pytest.fixture(scope="module")
def scene() -> Scene:
    spec = procedure_specs(smoke(), 0)[0]
    plan = plan_procedure(smoke(), 0, spec)
    return Scene(plan, boxes_of(plan), SimulatedProcedure.of(plan, 0))


def test_one_procedure_of_each_brand_is_shown() -> None:
    specs = procedure_specs(smoke(), 0)
    shown = chosen(
        [
            dataclasses.replace(s, brand="Fujifilm" if k == 1 else "Olympus")
            for k, s in enumerate(specs)
        ]
    )
    assert sorted(spec.brand for spec in shown) == ["Fujifilm", "Olympus"]
    paired = [spec for spec in specs if spec.pairs]
    assert not paired or any(spec.pairs for spec in chosen(specs))


def test_moments_show_what_they_say(scene: Scene) -> None:
    moments = workflow(scene)
    conditions, boxed = scene.plan.conditions, set(scene.boxes["frame"])
    assert moments["insertion"] < scene.plan.timeline.turn
    assert moments["insertion"] not in boxed
    assert moments["inspection"] in boxed
    assert not conditions.blink[moments["inspection"]]
    assert conditions.splash[moments["inspection"]] < 0.05
    if "instrument" in moments:
        assert conditions.instrument[moments["instrument"], 0] > 0
    if "nothing seen" in moments:
        assert conditions.blink[moments["nothing seen"]]


def test_every_look_shown_has_its_box(scene: Scene) -> None:
    for polyp in range(len(scene.plan.spec.polyps)):
        own = look_boxes(scene, polyp)
        assert not own.is_empty()
        assert set(own["polyp"]) == {polyp}
        assert own["frame"].is_unique().all()


def test_a_film_runs_forward_and_marks_polyps(scene: Scene) -> None:
    frames = film_frames(scene)
    assert (np.diff(frames) > 0).all()
    assert frames[0] >= 0
    assert frames[-1] < scene.plan.spec.n_frames
    boxed = scene.boxes.filter(pl.col("frame").is_in(frames.tolist()))["frame"].to_numpy()[:2]
    plain = list(film_pictures(scene, boxed, marked=False))
    marked = list(film_pictures(scene, boxed, marked=True))
    assert all(p.shape == m.shape and (p != m).any() for p, m in zip(plain, marked, strict=True))


def test_both_files_can_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "film_frames", lambda scene: np.arange(10, 22))
    told: list[tuple[int, int]] = []
    sheet, film = write_preview(tmp_path, smoke(), 0, progress=lambda *step: told.append(step))
    with Image.open(sheet) as image:
        assert image.width > 300
    with av.open(str(film)) as container:
        assert container.streams.video[0].width == 240  # smoke's 64 pixels are nothing to look at
        assert sum(1 for _ in container.decode(video=0)) == 12
    assert told == [(done, 12) for done in range(13)]
