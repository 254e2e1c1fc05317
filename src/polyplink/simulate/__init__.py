"""A colon, a camera, polyps: procedures with known identities, written as any data set is."""

from polyplink.simulate.asked import WRITINGS, Simulated, simulate_data
from polyplink.simulate.crops import SimulatedProcedure
from polyplink.simulate.film import check_film
from polyplink.simulate.origin import Origin, at_difficulty, is_simulation, read_origin
from polyplink.simulate.presets import (
    PRESETS,
    Preset,
    preset,
    procedure_specs,
    real_colon_sim,
    small,
    smoke,
    tiny,
)
from polyplink.simulate.preview import write_preview
from polyplink.simulate.suite import simulate

__all__ = [
    "PRESETS",
    "WRITINGS",
    "Origin",
    "Preset",
    "Simulated",
    "SimulatedProcedure",
    "at_difficulty",
    "check_film",
    "is_simulation",
    "preset",
    "procedure_specs",
    "read_origin",
    "real_colon_sim",
    "simulate",
    "simulate_data",
    "small",
    "smoke",
    "tiny",
    "write_preview",
]
