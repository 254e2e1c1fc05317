import functools

import numpy as np
import pytest
import torch

from polyplink.simulate.picture import march
from polyplink.simulate.picture.appearance import draw_appearance
from polyplink.simulate.picture.field import Touch
from polyplink.simulate.picture.march import FAR
from polyplink.simulate.picture.render import Renderer, body_radius, polyp_pixels
from polyplink.simulate.plan import boxes_of
from tests.simulate.picture.test_march import Waits
from tests.simulate.plans import mini_plan

PLAN = mini_plan(0)
WIDTH, HEIGHT = PLAN.spec.width, PLAN.spec.height
WHOLE = (0.0, 0.0, float(WIDTH), float(HEIGHT))


@functools.cache
def renderer() -> Renderer:
    return Renderer(PLAN, draw_appearance(PLAN, 0), torch.device("cpu"))


def boxed(count: int) -> np.ndarray:
    """Some frames with a box, in order."""
    frames = boxes_of(PLAN)["frame"].unique().sort().to_numpy()
    return np.asarray(frames[np.linspace(0, len(frames) - 1, count).astype(int)], np.int64)


def draw(
    frames: np.ndarray, window: tuple[float, ...] = WHOLE, size: tuple[int, int] = (WIDTH, HEIGHT)
) -> tuple[np.ndarray, np.ndarray]:
    return renderer().windows(frames, np.tile(window, (len(frames), 1)), size)


def test_frames_are_pictures_with_the_polyps_of_their_boxes() -> None:
    frames = boxed(6)
    images, polyps = draw(frames)
    assert images.shape == (6, HEIGHT, WIDTH, 3)
    assert images.dtype == np.uint8
    assert polyps.dtype == np.int8
    assert (images.mean((1, 2, 3)) > 20).all()
    for row, frame in enumerate(frames):
        there = set(boxes_of(PLAN).filter(frame=int(frame))["polyp"].to_list())
        assert there <= set(np.unique(polyps[row]).tolist())


def test_the_same_bytes_whatever_is_drawn_with_them() -> None:
    frames = boxed(5)
    images, polyps = draw(frames)
    backwards, same = draw(frames[::-1])
    assert np.array_equal(images, backwards[::-1])
    assert np.array_equal(polyps, same[::-1])
    alone, _ = draw(frames[2:3])
    assert np.array_equal(alone[0], images[2])


def test_the_same_bytes_whatever_the_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = boxed(2)
    images, polyps = draw(frames)
    monkeypatch.setattr(renderer(), "tile", 1000)
    tiled, same = draw(frames)
    assert np.array_equal(polyps, same)
    assert np.array_equal(images, tiled)


def test_frames_that_show_different_polyps_may_be_drawn_together() -> None:
    """As on a GPU: pictures alike up to rounding, and every call for all frames."""
    frames = np.linspace(0, PLAN.spec.n_frames - 1, 24).astype(np.int64)
    images, polyps = draw(frames)
    assert len(np.unique(polyps)) > 2
    together = Renderer(PLAN, draw_appearance(PLAN, 0), torch.device("cpu"))
    together.mixed, together.tile = True, together.batch
    mixed, same = together.windows(frames, np.tile(WHOLE, (len(frames), 1)), (WIDTH, HEIGHT))
    off = np.abs(mixed.astype(int) - images)
    assert off.max() <= 2
    assert (off > 0).mean() < 1e-3
    assert (polyps != same).mean() < 1e-4


def test_a_gpu_is_waited_for_as_often_however_many_frames_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(march, "SETTLE_ROUNDS", {"cpu": march.SETTLE_ROUNDS["cuda"]})
    together = Renderer(PLAN, draw_appearance(PLAN, 0), torch.device("cpu"))
    together.mixed, together.tile = True, together.batch
    waits = []
    for count in (6, 48):
        frames = np.linspace(0, PLAN.spec.n_frames - 1, count).astype(np.int64)
        frames = frames[~PLAN.conditions.blink[frames]]
        with Waits() as waited:
            together.windows(frames, np.tile(WHOLE, (len(frames), 1)), (40, 32))
        waits.append(waited.count)
    # A march for the exposure and one for the pictures.
    assert max(waits) <= 2 * (1 + len(march.SETTLE_ROUNDS["cpu"]))
    assert min(waits) > 1


def test_a_wound_is_drawn_only_once_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs nothing before; pictures without it are the same bytes."""
    scar = renderer().appearance.scars[0]
    frames = np.array([scar.since - 1, scar.since])
    every = renderer()._windows(np.tile(WHOLE, (2, 1)), (WIDTH, HEIGHT))
    monkeypatch.setattr("polyplink.simulate.picture.render.in_windows", all_of)
    first = len(renderer()._bodies) + len(PLAN.colon.calm)
    assert renderer()._seen(frames, every)[:, first].tolist() == [False, True]


def all_of(windows: object, positions: np.ndarray, *others: np.ndarray) -> np.ndarray:
    """As if everything might show everywhere."""
    return np.ones((len(positions), len(others[-1])), bool)


def test_a_window_is_the_part_of_its_frame() -> None:
    frames = boxed(4)
    images, polyps = draw(frames)
    left, top, right, bottom = 16, 8, 80, 64
    part, which = draw(frames, (left, top, right, bottom), (right - left, bottom - top))
    inside = (slice(None), slice(4, -4), slice(4, -4))  # blurs end at a window's edge
    expected = images[:, top:bottom, left:right][inside].astype(int)
    off = np.abs(part[inside].astype(int) - expected)
    assert off.mean() < 0.5
    assert np.quantile(off, 0.99) <= 6
    assert (which != polyps[:, top:bottom, left:right]).mean() < 0.005


def test_nothing_is_recognised_in_a_blink() -> None:
    blinks = np.flatnonzero(PLAN.conditions.blink)[:3].astype(np.int64)
    assert len(blinks)
    images, polyps = draw(blinks)
    assert (polyps == -1).all()
    assert images.any()


def test_no_polyp_after_its_removal() -> None:
    removed = [(k, frame) for k, frame in enumerate(PLAN.timeline.removed) if frame is not None]
    assert removed
    for polyp, frame in removed:
        after = np.arange(frame, min(frame + 40, PLAN.spec.n_frames), 8)
        _, polyps = draw(after)
        assert (polyps != polyp).all()


def test_exposure_is_that_of_the_frame() -> None:
    """A window of the dark lumen is not brightened."""
    frames = boxed(3)
    with torch.inference_mode():
        together = renderer().gains(frames)
        alone = torch.cat([renderer().gains(frames[k : k + 1]) for k in range(3)])
    assert torch.equal(together, alone)
    assert (together > 0).all()


def test_bodies_fit_into_their_spheres() -> None:
    for lump in PLAN.lumps:
        assert body_radius(lump) > float(lump.radii.max())


def test_polyp_pixels_name_the_largest_share() -> None:
    shares = (torch.tensor([[0.9, 0.2, 0.6, 0.6]]), torch.tensor([[0.1, 0.3, 0.8, 0.4]]))
    none = torch.zeros(1, 4)
    touch = Touch(none, (none,) * 3, shares, (), (none, none), none, (none,) * 3)
    depth = torch.tensor([[1.0, 1, 1, FAR]])
    names = [torch.tensor([[name]], dtype=torch.int8) for name in (4, 2)]
    assert polyp_pixels(touch, depth, names).tolist() == [[4, -1, 2, -1]]
