"""Simulated colonoscopy procedures with known identities, written as any data set is."""

from polyplink.simulate.data_set import WRITINGS, Simulated, simulate, simulate_data
from polyplink.simulate.presets import PRESETS, Preset, preset, real_colon_sim, small, smoke, tiny
from polyplink.simulate.procedure_specs import procedure_specs
from polyplink.simulate.rendering import SimulatedProcedure
from polyplink.simulate.settings import is_simulation

__all__ = [
    "PRESETS",
    "WRITINGS",
    "Preset",
    "Simulated",
    "SimulatedProcedure",
    "is_simulation",
    "preset",
    "procedure_specs",
    "real_colon_sim",
    "simulate",
    "simulate_data",
    "small",
    "smoke",
    "tiny",
]
