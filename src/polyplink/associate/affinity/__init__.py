"""Affinity propagation with scikit-learn's results; README.md here explains the kernel."""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink.associate.affinity.propagate import (
        propagate as propagate,
        tie_noise as tie_noise,
    )

hand_on(__name__)
