"""A stretch of colon with two polyps, small planned procedures, and what tests measure of both."""

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np
import torch
from scipy.spatial.transform import Rotation
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from polyplink_lab.simulate.colon.surface import (
    BatchSurface,
    Colon,
    Lump,
    at_rest,
    centre_line,
    join,
    lump_distance,
    stack_maps,
    to_material,
    wall_distance,
)
from polyplink_lab.simulate.picture.render import Appearance, draw_appearance
from polyplink_lab.simulate.plan import Plan, plan_procedure
from polyplink_lab.simulate.presets import Preset
from polyplink_lab.simulate.procedure_specs import PairSpec, PolypSpec, ProcedureSpec

COLON = Colon(
    bend=(0.9, 0.7),
    bend_rate=(0.5, 0.6),
    bend_phase=(0.4, 1.0),
    fold_rate=5.0,
    fold_phase=0.3,
    fold_depth=0.25,
    fold_tilt=0.6,
    corner_depth=0.06,
    corner_phase=0.5,
    wave=0.05,
    wave_rate=2.0,
)
PLACES = ((0.2, 0.9), (0.9, 1.6))  # z, angle
PHASES = np.array([0.3, 2.0])


def wall_point(z: float, angle: float) -> tuple[float, float, float]:
    x, y = (float(line) for line in centre_line(COLON, torch.tensor(z)))
    return x + math.cos(angle), y + math.sin(angle), z


CALM = dataclasses.replace(COLON, calm=tuple(wall_point(*place) for place in PLACES))


def lump(z: float, angle: float, stalk: tuple[float, float] = (0.0, 0.0)) -> Lump:
    """A polyp on the wall with maps (4, 65, 65) of radius and colours that vary smoothly."""
    edge = torch.linspace(-1.7, 1.7, 65)
    rows, columns = torch.meshgrid(edge, edge, indexing="ij")
    inside = (1 - rows**2 / 2.9).clamp_min(0) * (1 - columns**2 / 2.9).clamp_min(0)
    radius = 1 + 0.2 * inside * torch.sin(2 * columns + rows)
    maps = [radius, *(0.5 + 0.2 * torch.sin(k + rows - columns) for k in range(3))]
    inward = torch.tensor([-math.cos(angle), -math.sin(angle), 0.0])
    along = torch.tensor([0.0, 0.0, 1.0])
    axes = torch.stack([along, torch.linalg.cross(inward, along), inward], dim=1)
    centre = torch.tensor(wall_point(z, angle)) + 0.15 * inward
    return Lump(centre, axes, torch.tensor([0.3, 0.2, 0.25]), 0.08, torch.stack(maps), stalk)


LUMPS = (lump(*PLACES[0]), lump(*PLACES[1], stalk=(0.08, 0.3)))


@functools.cache
def batch(visible: tuple[tuple[bool, bool], ...] = ((True, True), (True, True))) -> BatchSurface:
    """The surface in frames, each with none, one or both of the polyps visible."""
    polyps = np.array(visible, np.bool_)
    stack = stack_maps([polyp_lump.maps for polyp_lump in LUMPS])
    return BatchSurface(CALM, LUMPS, stack, (polyps, polyps), np.resize(PHASES, len(polyps)))


def points(n: int = 120) -> Tensor:
    """Points (3, 2, n) around the two polyps."""
    around = np.random.default_rng(0).normal(0, 0.25, (3, 2, n)).astype(np.float32)
    return (
        torch.from_numpy(around)
        + torch.stack([polyp_lump.centre for polyp_lump in LUMPS], 1)[:, :, None]
    )


def surface(
    colon: Colon, lumps: Sequence[Lump], at: Tensor, phase: Tensor | float = 0.0
) -> tuple[Tensor, Tensor]:
    """Distances (n,) of points (3, n) and shares (k, n) of polyps, which are joined in turn."""
    material, wider = to_material(colon, at, phase), at_rest(colon, at, phase)[4]
    distance = wall_distance(dataclasses.replace(colon, wave=0.0), material)
    shares = []
    for polyp_lump in lumps:
        distance, share = join(distance, lump_distance(polyp_lump, material), polyp_lump.blend)
        shares.append(share)
    return distance * wider, torch.stack(shares) if shares else at.new_zeros(0, at.shape[1])


MINI = Preset(
    "mini",
    (("001-001", 3),),
    width=96,
    height=84,
    long_views=(2, 2),
    long_frames=(30, 34),
    short_views=(1, 1),
    short_frames=(6, 9),
    insertion=(0.05, 0.1),
    return_share=0.0,
)


def mini_spec(
    sizes: tuple[float, ...] = (3.0, 2.0, 8.0), *, pair: bool = True, brand: str = "Olympus"
) -> ProcedureSpec:
    """A procedure of a few hundred frames; with `pair` some views show the first two polyps."""
    frames = 90
    pairs = (PairSpec(0, 1, 30),) if pair and len(sizes) > 1 else ()
    return ProcedureSpec(
        procedure_id="001-001",
        n_frames=240 + 150 * len(sizes),
        fps=25.0,
        width=96,
        height=84,
        brand=brand,
        age=60,
        sex="female",
        bbps=8.0,
        polyps=tuple(PolypSpec(size, "sigma", "adenoma", "AD", frames) for size in sizes),
        pairs=pairs,
    )


@functools.cache
def mini_plan(seed: int = 0, sizes: tuple[float, ...] = (3.0, 2.0, 8.0)) -> Plan:
    """The plan of `mini_spec`."""
    return plan_procedure(MINI, seed, mini_spec(sizes))


@functools.cache
def mini_appearance(seed: int = 0) -> Appearance:
    """The appearance of `mini_plan(seed)`; the size of frames does not change it."""
    return draw_appearance(mini_plan(seed), 0)


def with_larger_frames(plan: Plan, width: int, height: int) -> Plan:
    """The same plan with larger frames of the same shape."""
    spec = dataclasses.replace(plan.spec, width=width, height=height)
    return dataclasses.replace(plan, spec=spec)


def angles_between(rotations: np.ndarray) -> np.ndarray:
    """Angles (s - 1,) from each rotation (s, 3, 3) to the next."""
    return np.asarray(
        Rotation.from_matrix(rotations[1:] @ rotations[:-1].swapaxes(1, 2)).magnitude()
    )


class CountGpuWaits(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations that would wait for a GPU."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        name = func.__name__.split(".")[0]
        masked = name.startswith("index") and any(
            isinstance(argument, torch.Tensor) and argument.dtype == torch.bool
            for argument in (args[1] if len(args) > 1 and isinstance(args[1], list) else [])
        )
        self.count += masked or name in {"nonzero", "_local_scalar_dense", "masked_select"}
        return func(*args, **(kwargs or {}))
