"""Stills in motion: boxes bound the polyps in the frames, and polyps are visited again."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.images import read_image
from polyplink.data.tables import DataSet, read_data
from polyplink.stills.annotated_stills import Still
from polyplink.stills.moving_camera import boxes_in_view, draw_path, render
from polyplink.stills.procedures import StillsConfig, draw_course, write_procedures
from polyplink.stills.still_views import draw_views

CONFIG = StillsConfig(
    procedures=2, least=2, most=3, fps=5.0, visit=2.0, between=0.5, width=160, height=128
)


@pytest.fixture(scope="module")
def stills(tmp_path_factory: pytest.TempPathFactory) -> list[Still]:
    """Grey images with one blue ellipse each."""
    folder, rng, images = tmp_path_factory.mktemp("stills"), np.random.default_rng(0), []
    y, x = np.mgrid[:200, :240] + 0.5
    for k in range(6):
        half, middle = rng.uniform(18, 35, 2), rng.uniform([70, 70], [170, 130])
        pixels = np.full((200, 240, 3), 110, np.uint8)
        inside = ((x - middle[0]) / half[0]) ** 2 + ((y - middle[1]) / half[1]) ** 2 < 1
        pixels[inside] = [40, 60, 200]
        Image.fromarray(pixels).save(folder / f"{k}.png")
        images.append(
            Still(folder / f"{k}.png", f"g{k}", np.array([[*(middle - half), *(2 * half)]]))
        )
    return images


@pytest.fixture(scope="module")
def written(stills: list[Still], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DataSet]:
    """A folder that tests may continue to fill, and what was written into it."""
    folder = tmp_path_factory.mktemp("written") / "out"
    return folder, write_procedures(folder, stills, (), CONFIG, name="ellipses")


def test_boxes_bound_the_polyps_in_the_frames(written: tuple[Path, DataSet]) -> None:
    folder, data = written
    assert read_data(folder).detections.equals(data.detections)
    assert set(data.procedures["dataset"]) == {"stills in motion, ellipses"}
    errors = []
    for row in data.detections.iter_rows(named=True):
        pixels = read_image(folder / row["image"])
        assert not isinstance(pixels, str)
        blue = pixels[..., 2].astype(int) > pixels[..., 0].astype(int) + 40
        y, x = np.nonzero(blue)
        pixel_box = np.array([x.min(), y.min(), x.max() + 1, y.max() + 1])
        x0, y0, w, h = (row[side] for side in "xywh")
        errors.append(np.abs(pixel_box - [x0, y0, x0 + w, y0 + h]).max())
    assert np.median(errors) < 4  # highlights and blur shift an edge
    assert len(errors) > 40
    per_procedure = data.polyps.group_by("procedure_id").len()["len"]
    assert per_procedure.is_between(2, 3).all()


def test_a_seed_reproduces_the_frames_and_an_interrupted_run_continues(
    stills: list[Still], written: tuple[Path, DataSet]
) -> None:
    (folder, first), name = written, "ellipses"
    files = sorted(folder.rglob("*.jpg"))
    assert len(files) == first.procedures["n_frames"].sum()
    content = files[-1].read_bytes()
    files[-1].unlink()
    modified = files[0].stat().st_mtime_ns
    continued = write_procedures(folder, stills, (), CONFIG, name=name)
    assert continued.detections.equals(first.detections)
    assert files[-1].read_bytes() == content
    assert files[0].stat().st_mtime_ns == modified
    extended = write_procedures(folder, stills, (), replace(CONFIG, procedures=3), name=name)
    assert extended.detections.filter(pl.col("procedure_id") != "s0002").equals(first.detections)
    with pytest.raises(PolyplinkError, match="already has 3 procedures, more than the 2"):
        write_procedures(folder, stills, (), CONFIG, name=name)
    # Frames of other settings are not reused.
    with pytest.raises(PolyplinkError, match="has frames of other stills or of other settings"):
        write_procedures(folder, stills, (), replace(CONFIG, seed=1), name=name)
    # Neither are those of other images in the files.
    image = stills[0].path.read_bytes()
    stills[0].path.write_bytes(stills[1].path.read_bytes())
    with pytest.raises(PolyplinkError, match="has frames of other stills or of other settings"):
        write_procedures(folder, stills, (), replace(CONFIG, procedures=3), name=name)
    stills[0].path.write_bytes(image)


def test_patients_share_no_still(stills: list[Still], tmp_path: Path) -> None:
    """Every second still is red, the others are blue; a patient's procedures have one colour."""
    coloured = []
    for k, still in enumerate(stills):
        pixels = np.full((200, 240, 3), [40, 40, 200] if k % 2 else [200, 40, 40], np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{k}.png")
        coloured.append(replace(still, path=tmp_path / f"{k}.png"))
    config = replace(CONFIG, procedures=3, patients=2, visit=0.6)
    data = write_procedures(tmp_path / "out", coloured, (), config, name="n")
    assert data.procedures["patient"].to_list() == ["patient0", "patient1", "patient0"]
    rows = data.detections.join(data.procedures, "procedure_id")
    for patient, image in rows.select("patient", "image").unique().iter_rows():
        frame = read_image(tmp_path / "out" / image)
        assert not isinstance(frame, str)
        red, _, blue = frame.mean(axis=(0, 1))
        assert (red > blue) == (patient == "patient0")
    with pytest.raises(PolyplinkError, match="6 groups of stills: too few"):
        write_procedures(tmp_path / "o", stills, (), replace(config, patients=3), name="n")


def test_views_show_the_polyp_of_their_still_independently_of_others(stills: list[Still]) -> None:
    drawn = list(draw_views(stills[:2], 4, 32, 1.5))
    assert [crops.shape for crops in drawn] == [(5, 32, 32, 3)] * 2
    for crops in drawn:
        pixels = crops.astype(int)
        assert (pixels[..., 2] > pixels[..., 0] + 40).mean((1, 2)).min() > 0.15  # a blue ellipse
        assert len(np.unique(crops.reshape(5, -1), axis=0)) == 5
    views_of_first = next(draw_views(stills[:1], 4, 32, 1.5))
    assert np.array_equal(views_of_first, drawn[0])


def test_the_visible_share_of_a_box_falls_as_it_leaves_the_view() -> None:
    box, still = np.array([[100.0, 80, 40, 20]]), np.zeros((200, 240, 3), np.uint8)
    identity = np.eye(3)
    full_box, share = boxes_in_view(box, identity, (240, 200))
    np.testing.assert_allclose(full_box, box, atol=0.4)
    assert share == pytest.approx(1)
    shift = np.array([[1.0, 0, -120], [0, 1, 0], [0, 0, 1]])
    half_box, share = boxes_in_view(box, shift, (240, 200))
    np.testing.assert_allclose(half_box, [[0, 80, 20, 20]], atol=0.4)
    assert share == pytest.approx(0.5, abs=0.02)
    rng = np.random.default_rng(1)
    path = draw_path(rng, 30, 10, (240, 200), (160, 128), target=box[0])
    steps = np.abs(np.diff(path.maps[:, :2, 2], axis=0)).max(1)
    assert steps.max() < 60  # a smooth path
    assert render(still, path, 3, (160, 128), rng).shape == (128, 160, 3)


@pytest.mark.parametrize("visits", [1.0, 2.2, 16.0])
def test_a_course_visits_every_polyp_as_often_as_asked_on_average(visits: float) -> None:
    courses = [draw_course(np.random.default_rng(seed), 4, visits) for seed in range(200)]
    assert all(set(course) == {0, 1, 2, 3} for course in courses)
    first_visits = [[course.index(polyp) for polyp in range(4)] for course in courses]
    assert all(places == sorted(places) for places in first_visits)
    lengths = np.array([len(course) for course in courses])
    assert lengths.mean() / 4 == pytest.approx(visits, rel=0.1)
    assert (lengths == 4).all() == (visits == 1)


def test_too_few_stills_and_unreadable_images_are_refused(
    stills: list[Still], tmp_path: Path
) -> None:
    with pytest.raises(PolyplinkError, match="1 group of stills: too few"):
        write_procedures(tmp_path, stills[:1], (), CONFIG, name="n")
    tiny = [replace(still, boxes=np.array([[50.0, 50, 2, 2]])) for still in stills]
    with pytest.raises(PolyplinkError, match="no polyp of these stills is visible in a frame"):
        write_procedures(tmp_path / "t", tiny, (), replace(CONFIG, visit=0.4), name="n")
    mixed = [*tiny[:2], stills[2]]  # a procedure without any box in view is not refused
    data = write_procedures(
        tmp_path / "m", mixed, (), replace(CONFIG, procedures=3, least=1, most=1), name="n"
    )
    assert data.detections["procedure_id"].n_unique() == 1
    assert data.procedures.height == 3
    (tmp_path / "broken.png").write_bytes(b"no image")
    with pytest.raises(PolyplinkError, match=r"image .*broken.png cannot be decoded"):
        write_procedures(tmp_path / "o", stills, [tmp_path / "broken.png"], CONFIG, name="n")
