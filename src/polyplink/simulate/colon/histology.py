"""What histology does to a polyp's surface: distributions of colour and pattern that overlap.

Endoscopists tell the classes apart by pit pattern, colour and vessels, and are often wrong. Kinds
of pit: Kudo et al., Gastrointestinal Endoscopy 44 (1996); colour and vessels: the NICE
classification, Hewett et al., Gastroenterology 143 (2012); open wide pits and mucus of sessile
serrated lesions: Kimura et al., American Journal of Gastroenterology 107 (2012). The numbers are
ours: they are set so that a classifier of clean pictures does clearly better than chance and
clearly worse than perfectly.
"""

from collections.abc import Mapping
from dataclasses import astuple, dataclass

import numpy as np

from polyplink.core.errors import find_named


@dataclass(frozen=True)
class Habit:
    """How the polyps of a class tend to look.

    Attributes:
        stripes: Weight of tubular and gyrus-like grooves (Kudo IIIL, IV).
        pits: Weight of small, stellar pits (II).
        rounds: Weight of wide open pits (II-O).
        bumps: Weight of a fine mosaic, as normal mucosa has (I).
        contrast: Mean strength of the pattern's shade.
        hue: Mean log factor from green and blue to red: above 0 is browner and redder.
        value: Mean log brightness.
        vessels: Mean strength of the vessels on it.
        mucus: Mean strength of a cap of mucus.
        flat: How much oftener than others it is flat.
    """

    stripes: float
    pits: float
    rounds: float
    bumps: float
    contrast: float
    hue: float
    value: float
    vessels: float
    mucus: float
    flat: float


HABITS: Mapping[str, Habit] = {
    "AD": Habit(0.85, 0.45, 0.30, 0.50, 0.38, 0.085, -0.035, 0.40, 0.12, 1.0),
    "HP": Habit(0.45, 0.80, 0.40, 0.50, 0.32, -0.06, 0.04, 0.22, 0.16, 1.3),
    "SSL": Habit(0.30, 0.50, 0.95, 0.40, 0.32, -0.03, 0.01, 0.22, 0.45, 2.5),
    "TSA": Habit(0.70, 0.45, 0.40, 0.50, 0.38, 0.05, -0.01, 0.33, 0.2, 0.7),
    "NO POLYP": Habit(0.35, 0.40, 0.30, 0.90, 0.28, -0.02, 0.02, 0.26, 0.12, 1.3),
    "OTHER": Habit(0.50, 0.50, 0.40, 0.50, 0.35, 0.0, 0.0, 0.3, 0.2, 1.0),
}
EVENNESS = 0.9  # of the four pattern weights: small means one of them rules a polyp


@dataclass(frozen=True)
class Tissue:
    """The look of one polyp's tissue.

    Attributes:
        pattern: Shares of stripes, pits, rounds and bumps.
        contrast: Strength of the pattern's shade, 0 to 1.
        hue: Log factor from green and blue to red.
        value: Log brightness.
        vessels: Strength of its vessels, 0 to 1.
        mucus: Strength of its mucus, 0 to 1.
    """

    pattern: tuple[float, float, float, float]
    contrast: float
    hue: float
    value: float
    vessels: float
    mucus: float


def habit_of(histology_class: str) -> Habit:
    """The habit of a class.

    Raises:
        PolyplinkError: If there is no such class, naming the nearest.
    """
    return find_named("histology class", histology_class, HABITS)


def _spread_out(habit: Habit, spread: float) -> Habit:
    """A habit that lies `spread` times as far from the middle one as it does."""
    middle = astuple(HABITS["OTHER"])
    return Habit(*(m + spread * (own - m) for own, m in zip(astuple(habit), middle, strict=True)))


def draw_tissue(rng: np.random.Generator, histology_class: str, spread: float) -> Tissue:
    """Draw one polyp's tissue.

    Args:
        rng: Where it comes from.
        histology_class: A key of `HABITS`.
        spread: How far polyps lie from each other, within classes and between them; 1 as a rule.

    Raises:
        PolyplinkError: If there is no such class.
    """
    habit = _spread_out(habit_of(histology_class), spread)
    weights = np.array([habit.stripes, habit.pits, habit.rounds, habit.bumps])
    pattern = rng.dirichlet(EVENNESS * np.maximum(weights, 0.1) / spread)
    hue, value, contrast = rng.normal(0, spread, 3) * (0.15, 0.11, 0.25)
    vessels, mucus = rng.gamma(1.5, 1 / 1.5, 2)
    return Tissue(
        pattern=(float(pattern[0]), float(pattern[1]), float(pattern[2]), float(pattern[3])),
        contrast=float(np.clip(habit.contrast * np.exp(contrast), 0, 0.7)),
        hue=habit.hue + float(hue),
        value=habit.value + float(value),
        vessels=float(np.clip(habit.vessels * vessels, 0, 1)),
        mucus=float(np.clip(habit.mucus * mucus, 0, 1)),
    )
