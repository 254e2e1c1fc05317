"""Simulated colonoscopy procedures with known identities, written as any data set is."""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink_lab.simulate.data_set import simulate as simulate
    from polyplink_lab.simulate.detector import (
        DETECTORS as DETECTORS,
        detect_simulated as detect_simulated,
        detector_preset as detector_preset,
    )
    from polyplink_lab.simulate.presets import (
        PRESETS as PRESETS,
        WRITINGS as WRITINGS,
        Preset as Preset,
        SimulationSettings as SimulationSettings,
        is_simulation as is_simulation,
        preset as preset,
        real_colon_sim as real_colon_sim,
        small as small,
        smoke as smoke,
        tiny as tiny,
    )
    from polyplink_lab.simulate.preview import write_preview as write_preview
    from polyplink_lab.simulate.procedure_specs import procedure_specs as procedure_specs
    from polyplink_lab.simulate.rendering import SimulatedProcedure as SimulatedProcedure

hand_on(__name__)
