"""Pictures of a planned procedure: whole frames and windows of them, by one path.

The order is that of the light: what the surface sends is developed into a picture; a lens out of
focus and movement blur it; smoke and water lie before it; an instrument stands in the way; in a
blink nothing of this is seen. Then come the lens' mask, the processor's text and the sensor's
noise.
A frame's pixels depend on the frame and the window alone, not on what is drawn with it.
"""

import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyplink.simulate.colon.batch_surface import BatchSurface, Touch, in_places, stack_maps
from polyplink.simulate.colon.polyp import lump_foot
from polyplink.simulate.colon.surface import CALM_RADIUS, Lump
from polyplink.simulate.colon.tissue import paint_map
from polyplink.simulate.picture.effects import (
    BLINK_ZOOM,
    LEAST_BLUR,
    Drops,
    blinded,
    defocus,
    draw_blinks,
    draw_clouds,
    draw_drops,
    read_clouds,
    smear,
    smoke,
    water,
)
from polyplink.simulate.picture.overlays import (
    badge,
    clock,
    draw_grain,
    draw_instruments,
    read_grain,
    write_label,
)
from polyplink.simulate.picture.rays import (
    FAR,
    Eyes,
    Windows,
    beams_of,
    in_windows,
    lens_mask,
    march_windows,
    onto,
    tiles,
)
from polyplink.simulate.picture.shading import (
    WOUND_REACH,
    Patient,
    Scar,
    automatic_gains,
    develop,
    draw_patient,
    draw_scar,
    light,
    normals,
    surface_colour,
)
from polyplink.simulate.plan import Plan
from polyplink.simulate.procedure_specs import stream

Frames = NDArray[np.int64]
# Light of windows, (3, s, h, w) linear RGB; which polyp a pixel shows, (s, h, w) int8, -1 for none.
Drawn = tuple[Tensor, Tensor]
March = Callable[[BatchSurface, Eyes, Windows, int], Tensor]
Record = TypeVar("Record")

METER = (16, 14)  # rays of the light meter
CALM_REACH = CALM_RADIUS + 1.3  # of a calm place, bends and the depth of the lumen included
LEAST_MOTION = 0.8  # pixels
DRIFT = np.array([0.0041, -0.0027])  # of the clouds from frame to frame, frame widths
RUN = np.array([0.0003, 0.0021])  # of the drops on the lens
# Pixels marched together, so that a call has much to do where cells are coarse; and pixels whose
# temporaries are held together, so that they stay in a CPU's cache. A GPU wants one large batch:
# 311 crops of 232 pixels, at some 400 bytes a pixel 7 GB of its memory.
BATCH = {"cpu": 1 << 20, "cuda": 1 << 24}
TILE = {"cpu": 1 << 16, "cuda": 1 << 24}


@dataclass(frozen=True)
class Appearance:
    """The appearance of a procedure: everything that its images need in addition to its boxes.

    Attributes:
        patient: The patient.
        paints: (3, m, m) linear RGB over the surface of each polyp, in the plan's order.
        scars: The places of those that are removed.
        brand: Of the endoscope, see `projection.LENS_CORNERS`.
        blinks: (s,) kind of blink in every frame, -1 for none; see `effects.BLINKS`.
        clouds: Tile of clouds, see `effects.draw_clouds`.
        drops: Water on the lens.
        grain: Tile of sensor noise, see `overlays.draw_grain`.
        start: What the processor's clock shows in the first frame; made up.
        fps: Frames per second.
    """

    patient: Patient
    paints: tuple[Tensor, ...]
    scars: tuple[Scar, ...]
    brand: str
    blinks: NDArray[np.int8]
    clouds: Tensor
    drops: Drops
    grain: Tensor
    start: datetime.datetime
    fps: float


def draw_appearance(plan: Plan, seed: int) -> Appearance:
    """Draw the look of a planned procedure: the same plan and seed give the same look.

    Args:
        plan: The procedure.
        seed: Seed of the data set.
    """
    spec = plan.spec
    patients, look, scar, drops = (
        stream(seed, spec.procedure_id, concern) for concern in ("patient", "look", "scar", "drops")
    )
    patient = draw_patient(patients, spec.bbps)
    polyps = list(zip(plan.traits, plan.lumps, plan.timeline.removed, strict=True))
    return Appearance(
        patient=patient,
        paints=tuple(
            paint_map(traits.tissue, traits.cap, lump.maps, patient.tissue)
            for traits, lump, _ in polyps
        ),
        scars=tuple(
            draw_scar(scar, *lump_foot(traits, lump), removed)
            for traits, lump, removed in polyps
            if removed is not None
        ),
        brand=spec.brand,
        blinks=draw_blinks(look, plan.conditions.blink),
        clouds=draw_clouds(look),
        drops=draw_drops(drops),
        grain=draw_grain(look),
        start=_draw_clock(look),
        fps=spec.fps,
    )


def _draw_clock(rng: np.random.Generator) -> datetime.datetime:
    """A made-up time of day on a made-up day."""
    day = datetime.datetime(2001, 1, 1) + datetime.timedelta(days=int(rng.integers(0, 9000)))
    return day + datetime.timedelta(seconds=int(rng.integers(8 * 3600, 15 * 3600)))


def on_device(record: Record, device: torch.device) -> Record:
    """A record, or a tuple, with the tensors in it moved to a device."""
    moved: object = record
    if isinstance(record, Tensor):
        moved = record.to(device)
    elif isinstance(record, tuple):
        moved = tuple(on_device(part, device) for part in record)
    elif is_dataclass(record) and not isinstance(record, type):
        parts = {f.name: on_device(getattr(record, f.name), device) for f in fields(record)}
        moved = replace(record, **parts)
    return cast("Record", moved)


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
        self.appearance = on_device(appearance, device)
        self.batch, self.tile = BATCH[device.type], TILE[device.type]
        paints = zip(plan.lumps, appearance.paints, strict=True)
        self._stack = stack_maps([torch.cat([a.maps[:1], b]) for a, b in paints]).to(device)
        # The wave moves what is on the wall by as much as this.
        margin = 1.3 * plan.colon.wave
        spheres = [(lump.centre.tolist(), body_radius(lump) + margin) for lump in plan.lumps]
        spheres += [(list(place), CALM_REACH) for place in plan.colon.calm]
        spheres += [(s.place.tolist(), WOUND_REACH * s.radius + margin) for s in appearance.scars]
        self._centres = np.array([centre for centre, _ in spheres], float).reshape(-1, 3)
        self._radii = np.array([radius for _, radius in spheres], float)
        self._removed = plan.timeline.gone
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
        images = develop(drawn[0], gains, self._tensor(self.plan.path.whites[frames]))
        self._blur(images, frames, windows)
        self._veil(images, frames, windows)
        through, inside = lens_mask(self.appearance.brand, windows)
        images = images.mul_(through)
        self._write(images, frames, windows)
        images += read_grain(self.appearance.grain, frames, windows)
        pixels = images.mul_(255).add_(0.5).clamp_(0, 255).to(torch.uint8)
        return pixels.permute(1, 2, 3, 0).contiguous(), torch.where(inside, drawn[1], -1)

    def _blur(self, images: Tensor, frames: Frames, windows: Windows) -> None:
        """Defocus and movement, in place; frames without are not touched and cost nothing."""
        conditions, scale = self.plan.conditions, windows.host_scale
        sigma = conditions.focus[frames] * scale
        _change(images, sigma >= LEAST_BLUR, lambda some, which: defocus(some, sigma[which]))
        motion = conditions.motion[frames] * scale[:, None]
        moved = np.hypot(motion[:, 0], motion[:, 1]) >= LEAST_MOTION
        _change(images, moved, lambda some, which: smear(some, motion[which]))

    def _veil(self, images: Tensor, frames: Frames, windows: Windows) -> None:
        """Smoke, water, instruments and blinks, in place."""
        look, conditions, device = self.appearance, self.plan.conditions, self.device
        haze, splash = conditions.haze[frames], conditions.splash[frames]
        blink, tools = conditions.blink[frames], conditions.instrument[frames]

        def drift(which: Frames, step: NDArray[np.float64] = DRIFT) -> Tensor:
            return onto((frames[which, None] * step).astype(np.float32), device)

        def smoky(some: Tensor, which: Frames) -> Tensor:
            cloud = read_clouds(look.clouds, windows.some(which), drift(which))[0]
            return smoke(some, onto(haze[which], device), cloud)

        def wet(some: Tensor, which: Frames) -> Tensor:
            return water(some, splash[which], look.drops, drift(which, RUN), windows.some(which))

        def armed(some: Tensor, which: Frames) -> Tensor:
            return draw_instruments(some, windows.some(which), onto(tools[which].T, device))

        def blinking(_: Tensor, which: Frames) -> Tensor:
            fast = drift(which, 3 * DRIFT)
            cloud = read_clouds(look.clouds, windows.some(which), fast, BLINK_ZOOM)
            return blinded(onto(look.blinks[frames[which]], device), cloud, look.patient.wall)

        _change(images, haze > 0, smoky)
        _change(images, splash > 0, wet)
        _change(images, (tools[:, 0] > 0) & ~blink, armed)
        _change(images, blink, blinking)

    def _write(self, images: Tensor, frames: Frames, windows: Windows) -> None:
        """The processor's text in the corners, in place."""
        edges = (windows.edges / windows.frame[0]).tolist()
        for index, frame in enumerate(frames.tolist()):
            if self.appearance.brand == "Fujifilm":
                label = clock(self.appearance.start, int(frame / self.appearance.fps))
            elif self.plan.conditions.near[frame]:
                label = badge(windows.tall)
            else:
                continue
            write_label(images[:, index], edges[index], label)

    def gains(self, frames: Frames) -> Tensor:
        """Automatic exposure of frames (s,), from a coarse drawing of the whole frame."""
        spec = self.plan.spec
        whole = np.tile([0.0, 0.0, spec.width, spec.height], (len(frames), 1))
        gains = torch.ones(len(frames), device=self.device)
        for some, (linear, _) in self.draw(frames, self._windows(whole, METER)):
            gains[onto(some, self.device)] = automatic_gains(linear.flatten(2))
        return gains

    def draw(self, frames: Frames, windows: Windows) -> Iterator[tuple[Frames, Drawn]]:
        """Draw the surface alone, as light; blinks, in which it is not seen, stay black.

        Yields:
            Indices into the frames, a few at a time and in any order, and what they show.
        """
        blink = self.plan.conditions.blink[frames]
        pixels = windows.size[0] * windows.size[1]
        for some in _cut(np.flatnonzero(blink), max(1, self.tile // pixels)):
            yield some, self._dark(len(some), windows.size)
        seen = self._seen(frames, windows)
        for batch in _cut(np.flatnonzero(~blink), max(1, self.batch // pixels)):
            yield from self._lit(batch, frames, windows, seen[batch])

    def _dark(self, count: int, size: tuple[int, int]) -> Drawn:
        shape = (count, size[1], size[0])
        linear = torch.zeros((3, *shape), device=self.device)
        return linear, torch.full(shape, -1, dtype=torch.int8, device=self.device)

    def _seen(self, frames: Frames, windows: Windows) -> NDArray[np.bool_]:
        """Which polyps, calm places and scars may show in which frame: (s, k)."""
        path = self.plan.path
        seen = in_windows(
            windows, path.positions[frames], path.rotations[frames], self._centres, self._radii
        )
        seen[:, : len(self._removed)] &= frames[:, None] < self._removed
        scars = seen.shape[1] - len(self._since)
        seen[:, scars:] &= frames[:, None] >= self._since
        return seen

    def _lit(
        self, batch: Frames, frames: Frames, windows: Windows, seen: NDArray[np.bool_]
    ) -> Iterator[tuple[Frames, Drawn]]:
        """Draw the frames of a batch, whose rows of `_seen` these are."""
        plan, look, every = self.plan, self.appearance, frames[batch]
        polyps, calm, scars = np.split(
            seen, [len(plan.lumps), seen.shape[1] - len(self._since)], axis=1
        )
        open_scars, phases = np.flatnonzero(scars.any(0)).tolist(), plan.conditions.phase[every]
        surface = BatchSurface(plan.colon, plan.lumps, self._stack, (polyps, calm), phases)
        eyes = Eyes(
            self._tensor(plan.path.positions[every]),
            self._tensor(plan.path.rotations[every]),
            onto(np.arange(len(batch)), self.device),
        )
        names = onto(in_places(polyps).astype(np.int8), self.device).T[..., None]  # (k, s, 1)
        whole = windows.some(batch)
        depths = self._march(surface, eyes, whole, self.tile)  # (s, h * w)
        pixels = windows.size[0] * windows.size[1]
        for rows in _cut(np.arange(len(batch)), max(1, self.tile // pixels)):
            some, part = batch[rows], slice(rows[0], rows[-1] + 1)
            beams = beams_of(eyes.some(part), whole.some(rows))
            # Wounds that may show, and the seconds (s, 1) since each polyp's removal.
            old = [(look.scars[k], frames[some] - self._since[k]) for k in open_scars]
            wounds = [(scar, self._tensor(age / look.fps)[:, None]) for scar, age in old]
            drawn = self._dark(len(some), windows.size)
            linear, shown = drawn[0].flatten(2), drawn[1].flatten(1)
            for _, cut in tiles(1, pixels, self.tile):
                depth, tile = depths[part, cut], beams.tile(slice(None), cut)
                touch = surface.touch(tile.at(depth), tile.frame)
                colour, relief = surface_colour(look.patient, touch, wounds, depth * tile.width)
                normal = normals(touch, relief)
                linear[:, :, cut] = light(look.patient, colour, normal, tile.directions, depth)
                shown[:, cut] = polyp_pixels(touch, depth, names[:, part])
            yield some, drawn

    def _tensor(self, values: NDArray[np.floating]) -> Tensor:
        return onto(np.asarray(values, np.float32), self.device)


def _cut(indices: Frames, most: int) -> list[Frames]:
    """Indices in runs of at most `most`."""
    return [indices[start : start + most] for start in range(0, len(indices), most)]


def _change(
    images: Tensor, chosen: NDArray[np.bool_], change: Callable[[Tensor, Frames], Tensor]
) -> None:
    """Replace the chosen frames of images, in place, by what `change` makes of them.

    It is called with the images (3, k, h, w) and their indices.
    """
    which = np.flatnonzero(chosen)
    if len(which):
        index = onto(which, images.device)
        images[:, index] = change(images[:, index], which)


def polyp_pixels(touch: Touch, depth: Tensor, names: Tensor) -> Tensor:
    """Which polyp a pixel shows: (s, n) int8, -1 for none.

    Args:
        touch: Surface points.
        depth: (s, n) along the rays.
        names: (k, s, 1) int8, index of the polyp of every share in the touch.
    """
    which = torch.full(depth.shape, -1, dtype=torch.int8, device=depth.device)
    largest = torch.full_like(depth, 0.5)
    for name, share in zip(names, touch.shares, strict=True):
        which = torch.where((share > largest) & (depth < FAR), name, which)
        largest = torch.maximum(largest, share)
    return which
