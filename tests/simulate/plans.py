"""Small planned procedures that several tests look at."""

import dataclasses
import functools

from polyplink.simulate.plan import Plan, plan_procedure
from polyplink.simulate.presets import Preset
from polyplink.simulate.procedure_specs import PairSpec, PolypSpec, ProcedureSpec

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
    """A procedure of a few hundred frames; the first two polyps in one view now and then."""
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


def enlarged(plan: Plan, width: int, height: int) -> Plan:
    """The same plan with larger frames of the same shape."""
    spec = dataclasses.replace(plan.spec, width=width, height=height)
    return dataclasses.replace(plan, spec=spec)
