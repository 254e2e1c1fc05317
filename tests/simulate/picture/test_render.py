import dataclasses
import functools

import numpy as np
import pytest
import torch

from polyplink_lab.simulate.colon.surface import BatchSurface
from polyplink_lab.simulate.course.conditions import Conditions
from polyplink_lab.simulate.picture import rays
from polyplink_lab.simulate.picture.render import Renderer, draw_appearance, on_device
from polyplink_lab.simulate.plan import boxes_of
from tests.simulate.scenes import CountGpuWaits, mini_appearance, mini_plan

WIDTH, HEIGHT = 96, 84  # of `mini_plan`
WHOLE = (0.0, 0.0, float(WIDTH), float(HEIGHT))


@functools.cache
def renderer() -> Renderer:
    return Renderer(mini_plan(), mini_appearance(), torch.device("cpu"))


def boxed_frames(count: int) -> np.ndarray:
    """`count` frames with a box, in order."""
    frames = boxes_of(mini_plan())["frame"].unique().sort().to_numpy()
    return np.asarray(frames[np.linspace(0, len(frames) - 1, count).astype(int)], np.int64)


def draw(
    frames: np.ndarray, window: tuple[float, ...] = WHOLE, size: tuple[int, int] = (WIDTH, HEIGHT)
) -> tuple[np.ndarray, np.ndarray]:
    return renderer().windows(frames, np.tile(window, (len(frames), 1)), size)


def test_images_do_not_depend_on_their_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither on its order, nor on its other frames, nor on the tiles it is drawn in."""
    frames = boxed_frames(2)
    images, polyps = draw(frames)
    image_alone, polyps_alone = draw(frames[1:])
    assert np.array_equal(image_alone[0], images[1])
    assert np.array_equal(polyps_alone[0], polyps[1])
    monkeypatch.setattr(renderer(), "tile", 1000)
    tiled, polyps_again = draw(frames[::-1])
    assert np.array_equal(tiled[::-1], images)
    assert np.array_equal(polyps_again[::-1], polyps)


def test_the_plain_surface_of_gpus_gives_the_same_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images of plain torch equal those of compiled distances up to rounding."""
    frames = boxed_frames(6)
    images, polyps = draw(frames)
    assert len(np.unique(polyps)) > 2
    monkeypatch.setattr(BatchSurface, "distance", lambda s, at, frame: s.plain(at, frame)[0])
    plain, polyps_again = draw(frames)
    error = np.abs(plain.astype(int) - images)
    assert error.mean() < 0.05
    assert (error > 8).mean() < 1e-3
    assert (polyps != polyps_again).mean() < 1e-4


def test_the_number_of_gpu_waits_does_not_depend_on_the_number_of_frames(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rays, "SETTLE_ROUNDS", {"cpu": rays.SETTLE_ROUNDS["cuda"]})
    batch_renderer = Renderer(mini_plan(), mini_appearance(), torch.device("cpu"))
    batch_renderer.tile = batch_renderer.batch
    waits = []
    for count in (4, 16):
        frames = np.linspace(0, mini_plan().spec.n_frames - 1, count).astype(np.int64)
        frames = frames[~mini_plan().conditions.blink[frames]]
        with CountGpuWaits() as counter:
            batch_renderer.windows(frames, np.tile(WHOLE, (len(frames), 1)), (40, 32))
        waits.append(counter.count)
    # One march for the exposure and one for the images.
    assert max(waits) <= 2 * (1 + len(rays.SETTLE_ROUNDS["cpu"]))
    assert min(waits) > 1


def test_a_window_equals_its_part_of_the_frame() -> None:
    frames = boxed_frames(2)
    images, polyps = draw(frames)
    left, top, right, bottom = 16, 8, 80, 64
    part, part_polyps = draw(frames, (left, top, right, bottom), (right - left, bottom - top))
    inside = (slice(None), slice(4, -4), slice(4, -4))  # blurs differ at the edge of a window
    expected = images[:, top:bottom, left:right][inside].astype(int)
    error = np.abs(part[inside].astype(int) - expected)
    assert error.mean() < 0.5
    assert np.quantile(error, 0.99) <= 6
    assert (part_polyps != polyps[:, top:bottom, left:right]).mean() < 0.005


def test_blinks_show_no_polyp() -> None:
    blinks = np.flatnonzero(mini_plan().conditions.blink)[:3].astype(np.int64)
    assert len(blinks)
    images, polyps = draw(blinks)
    assert (polyps == -1).all()
    assert images.any()


def test_a_seed_reproduces_its_appearance() -> None:
    first, repeated, other = (
        mini_appearance(),
        *(draw_appearance(mini_plan(), seed) for seed in (0, 4)),
    )
    assert torch.equal(repeated.patient.coarse, first.patient.coarse)
    assert torch.equal(repeated.paints[1], first.paints[1])
    assert (repeated.start, repeated.blinks.tolist()) == (first.start, first.blinks.tolist())
    assert not torch.equal(other.patient.coarse, first.patient.coarse)
    assert other.start != first.start
    assert (first.blinks >= 0).tolist() == mini_plan().conditions.blink.tolist()


def test_every_removed_polyp_leaves_a_scar_at_its_foot() -> None:
    removed = [
        (k, frame) for k, frame in enumerate(mini_plan().timeline.removed) if frame is not None
    ]
    scars = mini_appearance().scars
    assert [scar.since for scar in scars] == [frame for _, frame in removed]
    for (k, _), scar in zip(removed, scars, strict=True):
        lump = mini_plan().lumps[k]
        assert (scar.place - lump.centre).norm() < float(lump.radii.max()) + lump.stalk[1] + 0.1
        assert scar.radius < 1.3 * float(lump.radii[0])


def test_moving_to_a_device_keeps_all_of_an_appearance() -> None:
    appearance = mini_appearance()
    moved = on_device(appearance, torch.device("meta"))
    assert {moved.grain.device.type, moved.patient.fine.device.type} == {"meta"}
    assert {part.device.type for part in (moved.paints[0], moved.scars[0].place)} == {"meta"}
    assert (moved.drops[1] is appearance.drops[1], moved.start) == (True, appearance.start)


# Each trouble separately, in frames of a plan without any.
TROUBLES = {
    "focus": 0.02,
    "motion": (0.06, 0.06),
    "haze": 0.6,
    "splash": 0.6,
    "instrument": (0.6, 1.6, 0.0),
    "blink": True,
}


def with_trouble(name: str | None, frames: np.ndarray, brand: str = "Olympus") -> Renderer:
    """A renderer with one trouble in all but the first of the frames."""
    parts = {key: np.zeros_like(value) for key, value in vars(mini_plan().conditions).items()}
    parts["phase"] = mini_plan().conditions.phase
    if name is not None:
        parts[name][frames[1:]] = TROUBLES.get(name, True)
    spec = dataclasses.replace(mini_plan().spec, brand=brand)
    plan = dataclasses.replace(mini_plan(), spec=spec, conditions=Conditions(**parts))
    blinks = np.where(parts["blink"], 0, -1)
    appearance = dataclasses.replace(mini_appearance(), blinks=blinks)
    return Renderer(plan, appearance, torch.device("cpu"))


@functools.cache
def images_without_trouble() -> np.ndarray:
    return windows_of(with_trouble(None, np.zeros(0, np.int64)))


def windows_of(trouble_renderer: Renderer, window: tuple[float, ...] = WHOLE) -> np.ndarray:
    frames, size = boxed_frames(3), (int(window[2] - window[0]), int(window[3] - window[1]))
    return trouble_renderer.windows(frames, np.tile(window, (3, 1)), size)[0].astype(int)


@pytest.mark.parametrize("name", sorted(TROUBLES))
def test_every_trouble_changes_only_its_frames_and_every_window(name: str) -> None:
    trouble_renderer = with_trouble(name, boxed_frames(3))
    images = windows_of(trouble_renderer)
    changed = np.abs(images - images_without_trouble()).max((1, 2, 3)) > 2
    assert changed.tolist() == [False, True, True]
    image_alone, _ = trouble_renderer.windows(
        boxed_frames(3)[2:], np.array([WHOLE]), (WIDTH, HEIGHT)
    )
    assert np.array_equal(image_alone[0], images[2])
    part = windows_of(trouble_renderer, (24.0, 20.0, 72.0, 64.0))
    expected = images[:, 20:64, 24:72]
    inner = (slice(None), slice(12, -12), slice(12, -12))  # blur reads beyond the edge of a window
    assert np.abs(part - expected)[inner].mean() < 1.5


def test_brands_and_near_focus_have_their_texts() -> None:
    corner = (slice(None), slice(0, 8), slice(0, 20))
    fujifilm = windows_of(with_trouble(None, boxed_frames(3), "Fujifilm"))
    assert (np.abs(fujifilm - images_without_trouble())[corner].max((1, 2, 3)) > 20).all()
    near_focus = np.abs(
        windows_of(with_trouble("near", boxed_frames(3))) - images_without_trouble()
    )
    assert (near_focus.max((1, 2, 3)) > 20).tolist() == [False, True, True]
