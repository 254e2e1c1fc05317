"""Pictures of a planned procedure: whole frames and windows of them, by one path.

A frame's pixels depend on the frame and the window alone, not on what is drawn with it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyplink.simulate.colon.surface import CALM_RADIUS, Lump
from polyplink.simulate.picture.appearance import Appearance
from polyplink.simulate.picture.body import make_body
from polyplink.simulate.picture.crowd import Crowd, in_places
from polyplink.simulate.picture.develop import automatic_gains, develop
from polyplink.simulate.picture.effects import apply_effects, write_overlays
from polyplink.simulate.picture.field import Field, Scene, Touch
from polyplink.simulate.picture.grain import read_grain
from polyplink.simulate.picture.lens import lens_mask
from polyplink.simulate.picture.light import Wound, light, normals, surface_colour
from polyplink.simulate.picture.march import FAR, Beams, Eyes, beams_of, march_windows, tiles
from polyplink.simulate.picture.scar import REACH
from polyplink.simulate.picture.visible import groups, in_windows
from polyplink.simulate.picture.window import Windows, onto
from polyplink.simulate.plan import Plan

Frames = NDArray[np.int64]
March = Callable[[Scene, Eyes, Windows, int], Tensor]

METER = (16, 14)  # rays of the light meter
CALM_REACH = CALM_RADIUS + 1.3  # of a calm place, bends and the depth of the lumen included
# Pixels marched together, so that a call has much to do where cells are coarse; and pixels whose
# temporaries are held together, so that they stay in a CPU's cache. A GPU wants one large batch,
# whatever its frames show: 311 crops of 232 pixels, at some 400 bytes a pixel 7 GB of its memory.
BATCH = {"cpu": 1 << 20, "cuda": 1 << 24}
TILE = {"cpu": 1 << 16, "cuda": 1 << 24}
MIXED = {"cpu": False, "cuda": True}  # whether frames that show different polyps are drawn together


@dataclass(frozen=True)
class Drawn:
    """Windows as light.

    Attributes:
        linear: (3, s, h, w) linear RGB.
        polyps: (s, h, w) int8: which polyp a pixel shows, -1 for none.
    """

    linear: Tensor
    polyps: Tensor


def body_radius(lump: Lump) -> float:
    """Radius of a sphere about a lump's centre that holds it and its joint with the wall."""
    head = float(lump.radii.max()) * float(lump.maps[0].max())
    return max(head, sum(lump.stalk)) + lump.blend


class Renderer:
    """Draws the frames of one procedure.

    Args:
        plan: What is where and when.
        appearance: What it looks like.
        device: Where to draw. A GPU gives other bytes than a CPU.
        march: Finds depths, as `march_windows` does.
    """

    def __init__(
        self,
        plan: Plan,
        appearance: Appearance,
        device: torch.device,
        *,
        march: March = march_windows,
    ) -> None:
        self.plan, self.device, self._march = plan, device, march
        self.appearance = appearance.to(device)
        self.batch, self.tile = BATCH[device.type], TILE[device.type]
        self.mixed = MIXED[device.type]
        self._field = Field(plan.colon)
        self._bodies = [make_body(skin) for skin in self.appearance.skins]
        self._crowd = Crowd(plan.colon, self._bodies, device)
        # The wave moves what is on the wall by as much as this.
        margin = 1.3 * plan.colon.wave
        spheres = [(lump.centre.tolist(), body_radius(lump) + margin) for lump in plan.lumps]
        spheres += [(list(place), CALM_REACH) for place in plan.colon.calm]
        spheres += [
            (scar.place.tolist(), REACH * scar.radius + margin) for scar in appearance.scars
        ]
        self._centres = np.array([centre for centre, _ in spheres], float).reshape(-1, 3)
        self._radii = np.array([radius for _, radius in spheres], float)
        self._removed = np.array(
            [plan.spec.n_frames if r is None else r for r in plan.timeline.removed], np.int64
        )
        self._since = np.array([scar.since for scar in appearance.scars], np.int64)

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
            gains = self.gains(frames) * self._tensor(self.plan.path.exposures[frames])
            every = self._windows(windows, size)
            for some, drawn in self.draw(frames, every):
                own = gains[onto(some, self.device)]
                picture, which = self._picture(frames[some], every.some(some), drawn, own)
                images[some] = picture.cpu().numpy()
                polyps[some] = which.cpu().numpy()
        return images, polyps

    def _windows(self, edges: NDArray[np.float64], size: tuple[int, int]) -> Windows:
        spec = self.plan.spec
        host = torch.from_numpy(np.ascontiguousarray(edges, np.float32))
        return Windows(host, (spec.width, spec.height), size, self.device)

    def _picture(
        self, frames: Frames, windows: Windows, drawn: Drawn, gains: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Images (s, h, w, 3) uint8 and polyps (s, h, w) int8."""
        conditions, appearance = self.plan.conditions, self.appearance
        images = develop(drawn.linear, gains, self._tensor(self.plan.path.whites[frames]))
        images = apply_effects(images, frames, windows, conditions, appearance)
        through, inside = lens_mask(appearance.brand, windows)
        images = images.mul_(through)
        write_overlays(images, frames, windows, conditions, appearance)
        images += read_grain(appearance.grain, frames, windows)
        pixels = images.mul_(255).add_(0.5).clamp_(0, 255).to(torch.uint8)
        return pixels.permute(1, 2, 3, 0).contiguous(), torch.where(inside, drawn.polyps, -1)

    def gains(self, frames: Frames) -> Tensor:
        """Automatic exposure of frames (s,), from a coarse drawing of the whole frame."""
        spec = self.plan.spec
        whole = np.tile([0.0, 0.0, spec.width, spec.height], (len(frames), 1))
        gains = torch.ones(len(frames), device=self.device)
        for some, drawn in self.draw(frames, self._windows(whole, METER)):
            gains[onto(some, self.device)] = automatic_gains(drawn.linear.flatten(2))
        return gains

    def draw(self, frames: Frames, windows: Windows) -> Iterator[tuple[Frames, Drawn]]:
        """Draw the scene alone, as light; blinks, in which it is not seen, stay black.

        Yields:
            Indices into the frames, a few at a time and in any order, and what they show.
        """
        blink = self.plan.conditions.blink[frames]
        pixels = windows.size[0] * windows.size[1]
        few = max(1, self.tile // pixels)
        for some in _cut(np.flatnonzero(blink), few):
            yield some, self._dark(len(some), windows.size)
        seen = self._seen(frames, windows)
        lit = np.flatnonzero(~blink)
        kinds = seen[lit, : 0 if self.mixed else len(self._bodies)]
        for index, _ in groups(kinds):
            for batch in _cut(lit[index], max(1, self.batch // pixels)):
                yield from self._lit(batch, frames, windows, seen[batch])

    def _dark(self, count: int, size: tuple[int, int]) -> Drawn:
        shape = (count, size[1], size[0])
        linear = torch.zeros((3, *shape), device=self.device)
        return Drawn(linear, torch.full(shape, -1, dtype=torch.int8, device=self.device))

    def _seen(self, frames: Frames, windows: Windows) -> NDArray[np.bool_]:
        """Which bodies, calm places and scars may show in which frame: (s, k)."""
        path = self.plan.path
        seen = in_windows(
            windows, path.positions[frames], path.rotations[frames], self._centres, self._radii
        )
        seen[:, : len(self._bodies)] &= frames[:, None] < self._removed
        scars = seen.shape[1] - len(self._since)
        seen[:, scars:] &= frames[:, None] >= self._since
        return seen

    def _near(self, frames: Frames, seen: NDArray[np.bool_]) -> tuple[Scene, Eyes, list[Tensor]]:
        """The scene of frames and their cameras; the polyp (s, 1) that each of its shares is of.

        Args:
            frames: (s,) which frames.
            seen: (s, k) what may show in them, as `_seen` gives; all alike where not `mixed`.
        """
        n, path = len(self._bodies), self.plan.path
        bodies, calm = seen[:, :n], seen[:, n : n + len(self.plan.colon.calm)]
        states = self.plan.conditions.phase[frames]
        scene: Scene
        if self.mixed:
            scene, numbers = self._crowd.crew(bodies, calm)
            states = np.concatenate([states[None], numbers])
        else:
            places = [self.plan.colon.calm[k] for k in np.flatnonzero(calm.any(0))]
            scene = self._field.near([self._bodies[k] for k in np.flatnonzero(bodies[0])], places)
        eyes = Eyes(
            self._tensor(path.positions[frames]),
            self._tensor(path.rotations[frames]),
            self._tensor(states),
        )
        names = onto(in_places(bodies).astype(np.int8), self.device)
        return scene, eyes, [name[:, None] for name in names.T]

    def _lit(
        self, batch: Frames, frames: Frames, windows: Windows, seen: NDArray[np.bool_]
    ) -> Iterator[tuple[Frames, Drawn]]:
        """Draw the frames of a batch, whose rows of `_seen` these are."""
        scars = np.flatnonzero(seen[:, seen.shape[1] - len(self._since) :].any(0))
        field, eyes, names = self._near(frames[batch], seen)
        whole = windows.some(batch)
        depths = self._march(field, eyes, whole, self.tile)
        width, height = windows.size
        for rows in _cut(np.arange(len(batch)), max(1, self.tile // (width * height))):
            some, part = batch[rows], slice(rows[0], rows[-1] + 1)
            beams = beams_of(eyes.some(part), whole.some(rows))
            drawn = self._dark(len(some), windows.size)
            linear, polyps = drawn.linear.flatten(2), drawn.polyps.flatten(1)
            for _, pixels in tiles(1, width * height, self.tile):
                depth = depths[part, pixels]
                tile = beams.tile(slice(None), pixels)
                touch = field.touch(tile.at(depth), tile.phases)
                wounds = [self._wound(int(k), frames[some]) for k in scars]
                linear[:, :, pixels] = self._light(tile, depth, touch, wounds)
                polyps[:, pixels] = polyp_pixels(touch, depth, [name[part] for name in names])
            yield some, drawn

    def _light(self, beams: Beams, depth: Tensor, touch: Touch, wounds: Sequence[Wound]) -> Tensor:
        patient = self.appearance.patient
        colour, relief = surface_colour(patient, touch, wounds, depth * beams.width)
        return light(patient, colour, normals(touch, relief), beams.directions, depth)

    def _wound(self, index: int, frames: Frames) -> Wound:
        scar = self.appearance.scars[index]
        since = (frames - scar.since) / self.appearance.fps
        return Wound(scar, self._tensor(since)[:, None])

    def _tensor(self, values: NDArray[np.floating]) -> Tensor:
        return onto(np.asarray(values, np.float32), self.device)


def _cut(indices: Frames, most: int) -> list[Frames]:
    """Indices in runs of at most `most`."""
    return [indices[start : start + most] for start in range(0, len(indices), most)]


def polyp_pixels(touch: Touch, depth: Tensor, names: Sequence[Tensor]) -> Tensor:
    """Which polyp a pixel shows: (s, n) int8, -1 for none.

    Args:
        touch: Surface points.
        depth: (s, n) along the rays.
        names: Index (s, 1), int8, of the polyp of every share in the touch.
    """
    which = torch.full(depth.shape, -1, dtype=torch.int8, device=depth.device)
    largest = torch.full_like(depth, 0.5)
    for name, share in zip(names, touch.shares, strict=True):
        which = torch.where((share > largest) & (depth < FAR), name, which)
        largest = torch.maximum(largest, share)
    return which
