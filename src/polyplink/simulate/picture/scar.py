"""The place of a polyp that was removed: it bleeds for a while, then is pale within a red rim."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from polyplink.simulate.picture.window import colour_like

BLOOD = (0.42, 0.020, 0.016)  # linear RGB
FIBRIN = (0.92, 0.60, 0.44)
RIM = (0.62, 0.085, 0.065)
REACH = 2.5  # radii from the place, beyond which nothing is stained


@dataclass(frozen=True)
class Scar:
    """One such place.

    Attributes:
        place: (3,) where the polyp's foot was, at rest.
        radius: Of the wound, units.
        since: Frame from which it is there.
        ooze: How far blood spreads at first, in radii beyond the wound.
        dries: Seconds in which the bleeding falls to a third.
        phase: (3,) of the unevenness of its edge.
    """

    place: Tensor
    radius: float
    since: int
    ooze: float
    dries: float
    phase: Tensor

    def to(self, device: torch.device) -> "Scar":
        """The same on another device."""
        place, phase = self.place.to(device), self.phase.to(device)
        return Scar(place, self.radius, self.since, self.ooze, self.dries, phase)


def draw_scar(rng: np.random.Generator, place: Tensor, radius: float, since: int) -> Scar:
    """Draw how one wound looks."""
    return Scar(
        place=place,
        radius=radius * float(rng.uniform(0.9, 1.25)),
        since=since,
        ooze=float(rng.uniform(0.1, 0.8)),
        dries=float(rng.uniform(6, 40)),
        phase=torch.from_numpy(rng.uniform(0, 6.28, 3).astype(np.float32)),
    )


def stain(colour: Tensor, points: Tensor, scar: Scar, age: Tensor) -> Tensor:
    """Colour of the surface with a wound on it.

    Args:
        colour: (3, n) linear RGB without.
        points: (3, n) surface points at rest.
        scar: The wound.
        age: (n,) seconds since the polyp was removed; below 0 there is no wound yet.

    Returns:
        (3, n) linear RGB.
    """
    x, y, z = (points - scar.place[:, None]) / scar.radius
    a, b, c = scar.phase
    uneven = torch.sin(2.1 * x + 1.3 * y + a) + torch.sin(3.4 * y - 1.7 * z + b)
    uneven = uneven + 0.6 * torch.sin(5.2 * z + 4.1 * x + c)
    # Clots and torn edges: finer waves, bent by the coarse ones so that they do not look ruled.
    torn = torch.sin(9.1 * x - 6.3 * z + 1.7 * uneven + b) * torch.sin(8.3 * y + 5.9 * z + a)
    away = (x * x + y * y + z * z + 1e-9).sqrt() + 0.11 * uneven + 0.09 * torn
    there = (age >= 0).to(colour.dtype)
    wet = torch.exp(-age.clamp_min(0) / scar.dries)

    def laid(under: Tensor, paint: tuple[float, float, float], cover: Tensor) -> Tensor:
        return torch.lerp(under, colour_like(under, paint)[:, None], cover * there)

    rim = (2.5 * (1.35 - away)).clamp(0, 1)
    colour = laid(colour, RIM, (0.45 + 0.4 * wet) * rim)
    colour = laid(colour, FIBRIN, (0.75 + 0.15 * torn) * (3.5 * (0.85 - away)).clamp(0, 1))
    blood = (2 * (1.05 + scar.ooze * wet + 0.14 * uneven - away)).clamp(0, 1)
    return laid(colour, BLOOD, (0.86 + 0.1 * torn) * wet * blood)
