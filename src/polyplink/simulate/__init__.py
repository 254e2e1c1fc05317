"""A colon, a camera, polyps: procedures with known identities, written as REAL-Colon is."""

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
from polyplink.simulate.suite import simulate

__all__ = [
    "PRESETS",
    "Preset",
    "preset",
    "procedure_specs",
    "real_colon_sim",
    "simulate",
    "small",
    "smoke",
    "tiny",
]
