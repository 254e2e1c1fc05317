"""The review desk: a local page on which a person checks and corrects a count."""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink.serve.corrections import counted_folder as counted_folder
    from polyplink.serve.desk import Desk as Desk

hand_on(__name__)
