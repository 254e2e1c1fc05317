"""Simulated procedures as a source of crops: the plugin through which others render them."""

from pathlib import Path
from typing import TYPE_CHECKING

from polyplink_lab.simulate.presets import is_simulation

if TYPE_CHECKING:
    from polyplink_lab.simulate.rendering import SimulatedProcedure


class SimulatedCrops:
    """Renders crops of procedures that were simulated."""

    @staticmethod
    def holds(folder: Path) -> bool:
        """Whether a folder holds simulated procedures."""
        return is_simulation(folder)

    @staticmethod
    def open(folder: Path, procedure_id: str, device: str) -> "SimulatedProcedure":
        """A simulated procedure.

        Raises:
            PolyplinkError: If the folder was simulated by another version, or lacks the procedure.
        """
        from polyplink_lab.simulate.rendering import SimulatedProcedure  # noqa: PLC0415 - torch

        return SimulatedProcedure.open(folder, procedure_id, device)
