"""Render whole frames, and windows of frames, of a planned procedure by the same code.

Light from the surface is developed into an image, to which defocus, motion blur, smoke, water and
instruments are added in this order; in a blink, the image is replaced. The mask of the lens, the
processor's text and sensor noise follow. A frame's pixels depend only on the frame and the window,
not on the batch.
"""

import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyplink_lab.simulate.colon.polyp import lump_foot
from polyplink_lab.simulate.colon.surface import CALM_RADIUS, BatchSurface, in_places, stack_maps
from polyplink_lab.simulate.colon.tissue import paint_map
from polyplink_lab.simulate.picture import effects, overlays, rays, shading
from polyplink_lab.simulate.picture.rays import FAR, Cameras, Windows, onto, tiles
from polyplink_lab.simulate.plan import Plan
from polyplink_lab.simulate.procedure_specs import stream

Frames = NDArray[np.int64]
March = Callable[[BatchSurface, Cameras, Windows, int], Tensor]
Record = TypeVar("Record")

METER = (16, 14)  # columns and rows of the light meter's rays
CALM_REACH = CALM_RADIUS + 1.3  # radius of a calm place with bends and the depth of the lumen
LEAST_MOTION = 0.8  # pixels; slower motion is not blurred
DRIFT = np.array([0.0041, -0.0027])  # motion of the clouds per frame, frame widths
RUN = np.array([0.0003, 0.0021])  # motion of the drops on the lens per frame, frame widths
# BATCH: pixels marched together, many so that coarse cells fill a call. TILE: pixels shaded
# together, few enough for their temporaries to fit a CPU's cache. A GPU takes one large batch: 311
# crops of 232 pixels need 7 GB at about 400 bytes a pixel.
BATCH = {"cpu": 1 << 20, "cuda": 1 << 24}
TILE = {"cpu": 1 << 16, "cuda": 1 << 24}


@dataclass(frozen=True)
class Appearance:
    """The appearance of a procedure: textures, colours and noise that its plan does not include.

    Attributes:
        patient: Textures and colours of the mucosa.
        paints: (3, m, m) linear RGB over the surface of each polyp, in the plan's order.
        scars: Wounds of the removed polyps.
        blinks: (s,) kind of blink in every frame, -1 for none; see `effects.BLINKS`.
        clouds: Tile of clouds, see `effects.draw_clouds`.
        drops: Water on the lens.
        grain: Tile of sensor noise, see `overlays.draw_grain`.
        start: Time on the processor's clock in the first frame; fictitious.
    """

    patient: shading.Patient
    paints: tuple[Tensor, ...]
    scars: tuple[shading.Scar, ...]
    blinks: NDArray[np.int8]
    clouds: Tensor
    drops: effects.Drops
    grain: Tensor
    start: datetime.datetime


def draw_appearance(plan: Plan, seed: int) -> Appearance:
    """Draw the appearance of a planned procedure; plan and seed of the data set determine it."""
    spec = plan.spec
    patients, look, scar, drops = (
        stream(seed, spec.procedure_id, concern) for concern in ("patient", "look", "scar", "drops")
    )
    patient = shading.draw_patient(patients, spec.bbps)
    polyps = list(zip(plan.traits, plan.lumps, plan.timeline.removed, strict=True))
    paints = tuple(paint_map(t.tissue, t.cap, lump.maps, patient.tissue) for t, lump, _ in polyps)
    scars = tuple(
        shading.draw_scar(scar, *lump_foot(traits, lump), removed)
        for traits, lump, removed in polyps
        if removed is not None
    )
    return Appearance(
        patient=patient,
        paints=paints,
        scars=scars,
        blinks=effects.draw_blinks(look, plan.conditions.blink),
        clouds=effects.draw_clouds(look),
        drops=effects.draw_drops(drops),
        grain=overlays.draw_grain(look),
        start=datetime.datetime(2001, 1, 1)
        + datetime.timedelta(
            days=int(look.integers(0, 9000)), seconds=int(look.integers(8 * 3600, 15 * 3600))
        ),
    )


def on_device(record: Record, device: torch.device) -> Record:
    """Move all tensors of a dataclass or tuple to a device."""
    moved: object = record
    if isinstance(record, Tensor):
        moved = record.to(device)
    elif isinstance(record, tuple):
        moved = tuple(on_device(part, device) for part in record)
    elif is_dataclass(record) and not isinstance(record, type):
        parts = {f.name: on_device(getattr(record, f.name), device) for f in fields(record)}
        moved = replace(record, **parts)
    return cast("Record", moved)


class Renderer:
    """Renders the frames of one procedure.

    Args:
        plan: The plan of the procedure.
        appearance: Its textures, colours and noise.
        device: Device for rendering. GPU and CPU differ in rounding.
        march: Function that computes depths, with the signature of `march_windows`.
    """

    def __init__(
        self,
        plan: Plan,
        appearance: Appearance,
        device: torch.device,
        *,
        march: March = rays.march_windows,
    ) -> None:
        self.plan, self.device, self._march = plan, device, march
        self.appearance = on_device(appearance, device)
        self.batch, self.tile = BATCH[device.type], TILE[device.type]
        paints = zip(plan.lumps, appearance.paints, strict=True)
        self._stack = stack_maps([torch.cat([a.maps[:1], b]) for a, b in paints]).to(device)
        # Bounding spheres of polyps with their joints, calm places and wounds. The peristaltic
        # wave displaces the wall by up to the margin.
        margin = 1.3 * plan.colon.wave
        spheres: list[tuple[list[float], float]] = []
        for lump in plan.lumps:
            head = float(lump.radii.max()) * float(lump.maps[0].max())
            radius = max(head, sum(lump.stalk)) + lump.blend
            spheres.append((lump.centre.tolist(), radius + margin))
        spheres += [(list(place), CALM_REACH) for place in plan.colon.calm]
        spheres += [
            (s.place.tolist(), shading.WOUND_REACH * s.radius + margin) for s in appearance.scars
        ]
        self._centres = np.array([centre for centre, _ in spheres], float).reshape(-1, 3)
        self._radii = np.array([radius for _, radius in spheres], float)
        self._since = np.array([scar.since for scar in appearance.scars], np.int64)

    def windows(
        self, frames: Frames, windows: NDArray[np.float64], size: tuple[int, int]
    ) -> tuple[NDArray[np.uint8], NDArray[np.int8]]:
        """Render one window in each of s frames.

        Args:
            frames: (s,) frame numbers.
            windows: (s, 4) left, top, right, bottom in pixels of the frame, not necessarily
                integers; a whole frame is 0, 0, width, height.
            size: Width and height of the rendered windows, pixels.

        Returns:
            Images (s, h, w, 3) uint8, and polyp maps (s, h, w) int8: for each pixel the index of
            the polyp in the plan, or -1; -1 everywhere in blinks.
        """
        width, height = size
        images = np.empty((len(frames), height, width, 3), np.uint8)
        polyps = np.empty((len(frames), height, width), np.int8)
        frame = self.plan.spec.width, self.plan.spec.height
        edges = torch.from_numpy(np.ascontiguousarray(windows, np.float32))
        full_frame = torch.tensor([[0.0, 0.0, *frame]]).expand(len(frames), 4)
        with torch.inference_mode():
            gains = self._tensor(self.plan.path.exposures[frames])
            # Automatic exposure, from a coarse rendering of the whole frame.
            for rows, linear, _ in self.draw(
                frames, Windows(full_frame, frame, METER, self.device)
            ):
                gains[onto(rows, self.device)] *= shading.automatic_gains(linear.flatten(2))
            all_windows = Windows(edges, frame, size, self.device)
            for rows, linear, polyp_map in self.draw(frames, all_windows):
                batch_frames, batch_windows = frames[rows], all_windows.some(rows)
                whites = self._tensor(self.plan.path.whites[batch_frames])
                picture = shading.develop(linear, gains[onto(rows, self.device)], whites)
                self._disturb(picture, batch_frames, batch_windows)
                through, inside = rays.lens_mask(self.plan.lens, batch_windows)
                picture = picture.mul_(through)
                self._write(picture, batch_frames, batch_windows)
                picture += overlays.read_grain(self.appearance.grain, batch_frames, batch_windows)
                pixels = picture.mul_(255).add_(0.5).clamp_(0, 255).to(torch.uint8)
                images[rows] = pixels.permute(1, 2, 3, 0).contiguous().cpu().numpy()
                polyps[rows] = torch.where(inside, polyp_map, -1).cpu().numpy()
        return images, polyps

    def _disturb(self, images: Tensor, frames: Frames, windows: Windows) -> None:
        """Apply defocus, motion blur, smoke, water, instruments and blinks, in place.

        Each effect is computed only for the frames that have it.
        """
        look, scale, blurs = self.appearance, windows.host_scale, self.plan.conditions
        sigma, motion = blurs.focus[frames] * scale, blurs.motion[frames] * scale[:, None]
        haze, splash, tools = blurs.haze[frames], blurs.splash[frames], blurs.instrument[frames]
        blink = blurs.blink[frames]

        def tensor(values: NDArray[Any]) -> Tensor:
            return onto(values, self.device)

        def drift(k: Frames, step: NDArray[np.float64]) -> Tensor:
            return self._tensor(frames[k, None] * step)

        def cloud(k: Frames, step: NDArray[np.float64], zoom: float) -> Tensor:
            return effects.read_clouds(look.clouds, windows.some(k), drift(k, step), zoom)

        def change(chosen: NDArray[np.bool_], draw: Callable[[Tensor, Frames], Tensor]) -> None:
            """Replace the images (3, k, h, w) of the chosen frames by those that `draw` returns."""
            rows = np.flatnonzero(chosen)
            if len(rows):
                index = tensor(rows)
                images[:, index] = draw(images[:, index], rows)

        def hazy(shots: Tensor, k: Frames) -> Tensor:
            return effects.smoke(shots, tensor(haze[k]), cloud(k, DRIFT, 1.0)[0])

        def wet(shots: Tensor, k: Frames) -> Tensor:
            return effects.water(shots, splash[k], look.drops, drift(k, RUN), windows.some(k))

        def with_tools(shots: Tensor, k: Frames) -> Tensor:
            return overlays.draw_instruments(shots, windows.some(k), tensor(tools[k].T))

        def blinded(_: Tensor, k: Frames) -> Tensor:
            clouds = cloud(k, 3 * DRIFT, effects.BLINK_ZOOM)
            return effects.blinded(tensor(look.blinks[frames[k]]), clouds, look.patient.wall)

        change(sigma >= effects.LEAST_BLUR, lambda shots, k: effects.defocus(shots, sigma[k]))
        change(
            np.hypot(*motion.T) >= LEAST_MOTION,
            lambda shots, k: effects.smear(shots, motion[k]),
        )
        change(haze > 0, hazy)
        change(splash > 0, wet)
        change((tools[:, 0] > 0) & ~blink, with_tools)
        change(blink, blinded)

    def _write(self, images: Tensor, frames: Frames, windows: Windows) -> None:
        """Write the processor's text into the corners, in place."""
        edges, spec = (windows.edges / windows.frame[0]).tolist(), self.plan.spec
        for index, frame in enumerate(frames.tolist()):
            if spec.brand == "Fujifilm":
                label = overlays.clock(self.appearance.start, int(frame / spec.fps))
            elif self.plan.conditions.near[frame]:
                label = overlays.badge(windows.tall)
            else:
                continue
            overlays.write_label(images[:, index], edges[index], label)

    def draw(self, frames: Frames, windows: Windows) -> Iterator[tuple[Frames, Tensor, Tensor]]:
        """Render the light from the surface alone; frames of blinks stay black.

        Yields:
            Indices of k frames, in any order; their light (3, k, h, w) in linear RGB; and their
            polyp maps (k, h, w) int8, -1 for no polyp.
        """
        path, blink = self.plan.path, self.plan.conditions.blink[frames]
        # Whether polyps, calm places and scars may be visible in each frame: (s, k).
        in_view = rays.in_windows(
            windows, path.positions[frames], path.rotations[frames], self._centres, self._radii
        )
        in_view[:, : len(self.plan.lumps)] &= frames[:, None] < self.plan.timeline.removal_frames
        scars = in_view.shape[1] - len(self._since)
        in_view[:, scars:] &= frames[:, None] >= self._since
        width, height = windows.size
        pixels = width * height
        for batch in _cut(np.argsort(blink, kind="stable"), max(1, self.batch // pixels)):
            shape = len(batch), height, width
            linear = torch.zeros((3, *shape), device=self.device)
            polyp_map = torch.full(shape, -1, dtype=torch.int8, device=self.device)
            lit = batch[~blink[batch]]
            if len(lit):
                out = linear.flatten(2)[:, : len(lit)], polyp_map.flatten(1)[: len(lit)]
                self._light(frames[lit], windows.some(lit), in_view[lit], *out)
            for rows in _cut(np.arange(len(batch)), max(1, self.tile // pixels)):
                part = slice(rows[0], rows[-1] + 1)
                yield batch[part], linear[:, part], polyp_map[part]

    def _light(
        self,
        frames: Frames,
        windows: Windows,
        in_view: NDArray[np.bool_],
        linear: Tensor,
        polyp_map: Tensor,
    ) -> None:
        """Render frames into `linear` (3, s, n) and `polyp_map` (s, n), see `draw`."""
        plan, look = self.plan, self.appearance
        polyps, calm, scars = np.split(
            in_view, [len(plan.lumps), in_view.shape[1] - len(self._since)], axis=1
        )
        phases = plan.conditions.phase[frames]
        surface = BatchSurface(plan.colon, plan.lumps, self._stack, (polyps, calm), phases)
        cameras = Cameras(
            self._tensor(plan.path.positions[frames]),
            self._tensor(plan.path.rotations[frames]),
            onto(np.arange(len(frames)), self.device),
        )
        names = onto(in_places(polyps).astype(np.int8), self.device).T[..., None]  # (k, s, 1)
        depths, beams = (
            self._march(surface, cameras, windows, self.tile),
            rays.beams_of(cameras, windows),
        )
        # Wounds that may be visible, and the seconds (s, 1) since each polyp's removal.
        open_scars = np.flatnonzero(scars.any(0)).tolist()
        ages = [self._tensor((frames - self._since[k]) / plan.spec.fps) for k in open_scars]
        for rows, cut in tiles(len(frames), polyp_map.shape[1], self.tile):
            depth, tile = depths[rows, cut], beams.part(rows, cut)  # (s, n)
            sample = surface.sample(tile.at(depth), tile.frame)
            wounds = [
                (look.scars[k], age[rows, None]) for k, age in zip(open_scars, ages, strict=True)
            ]
            colour, relief = shading.surface_colour(
                look.patient, sample, wounds, depth * tile.width
            )
            normal = shading.normals(sample, relief)
            linear[:, rows, cut] = shading.light(
                look.patient, colour, normal, tile.directions, depth
            )
            body, largest = polyp_map[rows, cut], torch.full_like(depth, 0.5)
            for name, share in zip(names[:, rows], sample.shares, strict=True):
                body = torch.where((share > largest) & (depth < FAR), name, body)
                largest = torch.maximum(largest, share)
            polyp_map[rows, cut] = body

    def _tensor(self, values: NDArray[Any]) -> Tensor:
        return onto(np.asarray(values, np.float32), self.device)


def _cut(indices: Frames, size: int) -> list[Frames]:
    """Split indices into runs of at most `size`."""
    return [indices[start : start + size] for start in range(0, len(indices), size)]
