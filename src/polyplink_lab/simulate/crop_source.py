"""The plugin that renders crops of simulated procedures for polyplink."""

from pathlib import Path
from typing import TYPE_CHECKING

from polyplink_lab.simulate.presets import is_simulation

if TYPE_CHECKING:
    from polyplink_lab.simulate.rendering import SimulatedProcedure


class SimulatedCrops:
    """Renders crops of simulated procedures."""

    @staticmethod
    def holds(folder: Path) -> bool:
        """Whether a folder holds simulated procedures."""
        return is_simulation(folder)

    @staticmethod
    def open(folder: Path, procedure_id: str, device: str) -> "SimulatedProcedure":
        """Open a simulated procedure.

        Raises:
            PolyplinkError: If the folder was simulated by another version, or lacks the procedure.
        """
        from polyplink_lab.simulate.rendering import SimulatedProcedure  # noqa: PLC0415 - torch

        return SimulatedProcedure.open(folder, procedure_id, device)
