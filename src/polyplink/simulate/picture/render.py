"""Pictures of a planned procedure: whole frames and windows of them, by one path.

A frame's pixels depend on the frame and the window alone, not on what is drawn with it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyplink.simulate.picture.cones import Beams, Eyes, march_windows
from polyplink.simulate.picture.develop import automatic_gains, develop
from polyplink.simulate.picture.dress import Scenery
from polyplink.simulate.picture.effects import apply_effects, write_overlays
from polyplink.simulate.picture.field import Field, Touch, make_body
from polyplink.simulate.picture.grain import read_grain
from polyplink.simulate.picture.lens import lens_mask
from polyplink.simulate.picture.light import Wound, light, normals, surface_colour
from polyplink.simulate.picture.march import FAR
from polyplink.simulate.picture.scar import REACH
from polyplink.simulate.picture.scene import CALM_RADIUS, Lump
from polyplink.simulate.picture.visible import groups, in_windows
from polyplink.simulate.picture.window import Windows
from polyplink.simulate.plan import Plan

Frames = NDArray[np.int64]

METER = (16, 14)  # rays of the light meter
METERED = 64  # frames at a time
BAND = 8  # rows of pixels; bands of a frame are drawn one after the other
CALM_REACH = CALM_RADIUS + 1.3  # of a calm place, bends and the depth of the lumen included
CHUNK = {"cpu": 1 << 17, "cuda": 1 << 22}  # pixels at a time


@dataclass(frozen=True)
class Drawn:
    """Windows as light.

    Attributes:
        linear: (3, s, h, w) linear RGB.
        polyps: (s, h, w) int8: which polyp a pixel shows, -1 for none.
        depth: (s, h, w) from the camera, units.
    """

    linear: Tensor
    polyps: Tensor
    depth: Tensor


def body_radius(lump: Lump) -> float:
    """Radius of a sphere about a lump's centre that holds it and its joint with the wall."""
    head = float(lump.radii.max()) * float(lump.maps[0].max())
    return max(head, sum(lump.stalk)) + lump.blend


class Renderer:
    """Draws the frames of one procedure.

    Args:
        plan: What is where and when.
        scenery: What it looks like.
        device: Where to draw. A GPU gives other bytes than a CPU.
    """

    def __init__(self, plan: Plan, scenery: Scenery, device: torch.device) -> None:
        self.plan, self.device = plan, device
        self.scenery = scenery.to(device)
        self.chunk = CHUNK[device.type]
        self._field = Field(plan.colon)
        self._bodies = [make_body(s.lump, s.paint) for s in self.scenery.skins]
        # The wave moves what is on the wall by as much as this.
        margin = 1.3 * plan.colon.wave
        spheres = [(lump.centre.tolist(), body_radius(lump) + margin) for lump in plan.lumps]
        spheres += [(place, CALM_REACH) for place in plan.colon.calm]
        spheres += [
            (scar.place.tolist(), REACH * scar.radius + margin) for scar in scenery.scars
        ]
        self._centres = np.array([centre for centre, _ in spheres], float).reshape(-1, 3)
        self._radii = np.array([radius for _, radius in spheres], float)
        self._removed = np.array(
            [plan.spec.n_frames if r is None else r for r in plan.timeline.removed], np.int64
        )

    def windows(
        self, frames: Frames, windows: NDArray[np.float64], size: tuple[int, int]
    ) -> tuple[NDArray[np.uint8], NDArray[np.int8]]:
        """Draw a window of each of s frames.

        Args:
            frames: (s,) which frames.
            windows: (s, 4) left, top, right, bottom in pixels of the frame, which may be cut
                anywhere; a whole frame is 0, 0, width, height.
            size: Width and height to draw them at.

        Returns:
            Images (s, h, w, 3) uint8, and which polyp a pixel shows (s, h, w), int8: an index
            into the plan's polyps, or -1; in blinks -1 all over.
        """
        width, height = size
        images = np.empty((len(frames), height, width, 3), np.uint8)
        polyps = np.empty((len(frames), height, width), np.int8)
        with torch.inference_mode():
            for part in self._parts(len(frames), size):
                whole = self._windows(windows[part], size)
                picture, which = self._picture(frames[part], whole)
                images[part] = picture.cpu().numpy()
                polyps[part] = which.cpu().numpy()
        return images, polyps

    def _parts(self, count: int, size: tuple[int, int]) -> Iterator[slice]:
        step = max(1, self.chunk // (size[0] * size[1]))
        return (slice(start, start + step) for start in range(0, count, step))

    def _windows(self, edges: NDArray[np.float64], size: tuple[int, int]) -> Windows:
        spec = self.plan.spec
        host = torch.from_numpy(np.ascontiguousarray(edges, np.float32))
        return Windows(host, (spec.width, spec.height), size, self.device)

    def _picture(self, frames: Frames, windows: Windows) -> tuple[Tensor, Tensor]:
        """Images (s, h, w, 3) uint8 and polyps (s, h, w) int8 of a part."""
        path, conditions, scenery = self.plan.path, self.plan.conditions, self.scenery
        drawn = self.draw(frames, windows)
        gains = self.gains(frames) * self._tensor(path.exposures[frames])
        images = develop(drawn.linear, gains, self._tensor(path.whites[frames]))
        images = apply_effects(images, frames, windows, conditions, scenery)
        through, inside = lens_mask(scenery.brand, windows)
        images = images.mul_(through)
        write_overlays(images, frames, windows, conditions, scenery)
        images += read_grain(scenery.grain, frames, windows)
        pixels = images.mul_(255).add_(0.5).clamp_(0, 255).to(torch.uint8)
        seen = inside & ~torch.from_numpy(conditions.blink[frames]).to(self.device)[:, None, None]
        polyps = torch.where(seen, drawn.polyps, -1)
        return pixels.permute(1, 2, 3, 0).contiguous(), polyps

    def gains(self, frames: Frames) -> Tensor:
        """Automatic exposure of frames (s,), from a coarse drawing of the whole frame."""
        spec = self.plan.spec
        whole = np.tile([0.0, 0.0, spec.width, spec.height], (len(frames), 1))
        gains = []
        for start in range(0, len(frames), METERED):
            part = slice(start, start + METERED)
            drawn = self.draw(frames[part], self._windows(whole[part], METER))
            gains.append(automatic_gains(drawn.linear.flatten(2)))
        return torch.cat(gains)

    def draw(self, frames: Frames, windows: Windows) -> Drawn:
        """Draw the scene alone, as light; blinks, in which it is not seen, stay black."""
        count, (width, height) = len(frames), windows.size
        shape = (count, height, width)
        linear = torch.zeros((3, *shape), device=self.device)
        polyps = torch.full(shape, -1, dtype=torch.int8, device=self.device)
        depth = torch.full(shape, FAR, device=self.device)
        band = max(1, self.chunk // (width * BAND)) * BAND
        awake = np.flatnonzero(~self.plan.conditions.blink[frames])
        for top in range(0, height, band):
            rows = slice(top, min(top + band, height))
            cut = _band(windows, rows)
            for index, shown in self._groups(frames[awake], cut.some(awake)):
                some = awake[index]
                where = torch.from_numpy(some).to(self.device)
                part = self._light(frames[some], cut.some(some), shown)
                linear[:, where, rows] = part.linear
                polyps[where, rows] = part.polyps
                depth[where, rows] = part.depth
        return Drawn(linear, polyps, depth)

    def _groups(self, frames: Frames, windows: Windows) -> list[tuple[Frames, Frames]]:
        """Frames that show the same bodies, calm places and scars."""
        path = self.plan.path
        shown = in_windows(
            windows, path.positions[frames], path.rotations[frames], self._centres, self._radii
        )
        shown[:, : len(self._bodies)] &= frames[:, None] < self._removed
        for index, scar in enumerate(self.scenery.scars, start=-len(self.scenery.scars)):
            shown[:, index] &= frames >= scar.since
        return groups(shown)

    def _light(self, frames: Frames, windows: Windows, shown: Frames) -> Drawn:
        """Draw frames that show the same things."""
        bodies, calm = len(self._bodies), len(self.plan.colon.calm)
        seen = [int(k) for k in shown if k < bodies]
        places = [self.plan.colon.calm[k - bodies] for k in shown if bodies <= k < bodies + calm]
        wounds = [self._wound(int(k) - bodies - calm, frames) for k in shown if k >= bodies + calm]
        field = self._field.near([self._bodies[k] for k in seen], places)
        depth, beams, touch = march_windows(field, self._eyes(frames), windows)
        patient = self.scenery.patient
        colour, relief = surface_colour(patient, touch, wounds, depth * beams.width)
        linear = light(patient, colour, normals(touch, relief), beams.directions, depth)
        shape = (len(frames), windows.size[1], windows.size[0])
        polyps = polyp_pixels(touch, depth, seen)
        return Drawn(linear.view(3, *shape), polyps.view(shape), depth.view(shape))

    def _wound(self, index: int, frames: Frames) -> Wound:
        scar = self.scenery.scars[index]
        since = (frames - scar.since) / self.scenery.fps
        return Wound(scar, self._tensor(since)[:, None])

    def _eyes(self, frames: Frames) -> Eyes:
        path = self.plan.path
        return Eyes(
            self._tensor(path.positions[frames]),
            self._tensor(path.rotations[frames]),
            self._tensor(self.plan.conditions.phase[frames]),
        )

    def _tensor(self, values: NDArray[np.floating]) -> Tensor:
        return torch.from_numpy(np.asarray(values, np.float32)).to(self.device)


def _band(windows: Windows, rows: slice) -> Windows:
    """Some rows of windows."""
    if (rows.start, rows.stop) == (0, windows.size[1]):
        return windows
    edges = windows.edges.clone()
    step = (edges[:, 3] - edges[:, 1]) / windows.size[1]
    edges[:, 3] = edges[:, 1] + rows.stop * step
    edges[:, 1] = edges[:, 1] + rows.start * step
    return Windows(edges, windows.frame, (windows.size[0], rows.stop - rows.start), windows.device)


def polyp_pixels(touch: Touch, depth: Tensor, names: list[int]) -> Tensor:
    """Which polyp a pixel shows: (s, n) int8, -1 for none.

    Args:
        touch: Surface points.
        depth: (s, n) along the rays.
        names: Index of every polyp in the touch.
    """
    which = torch.full(depth.shape, -1, dtype=torch.int8, device=depth.device)
    largest = torch.full_like(depth, 0.5)
    for name, share in zip(names, touch.shares, strict=True):
        which.masked_fill_((share > largest) & (depth < FAR), name)
        largest = torch.maximum(largest, share)
    return which
