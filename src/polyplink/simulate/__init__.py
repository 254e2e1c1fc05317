"""Simulated colonoscopy procedures with known identities, written as any data set is."""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink.simulate.data_set import WRITINGS, simulate
    from polyplink.simulate.detector import DETECTORS, detect_simulated, detector_preset
    from polyplink.simulate.presets import (
        PRESETS,
        Preset,
        is_simulation,
        preset,
        real_colon_sim,
        small,
        smoke,
        tiny,
    )
    from polyplink.simulate.preview import write_preview
    from polyplink.simulate.procedure_specs import procedure_specs
    from polyplink.simulate.rendering import SimulatedProcedure

__all__ = [
    "DETECTORS",
    "PRESETS",
    "WRITINGS",
    "Preset",
    "SimulatedProcedure",
    "detect_simulated",
    "detector_preset",
    "is_simulation",
    "preset",
    "procedure_specs",
    "real_colon_sim",
    "simulate",
    "small",
    "smoke",
    "tiny",
    "write_preview",
]

hand_on(__name__)
