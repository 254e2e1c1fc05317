"""The command line: one verb per stage, nothing else."""

from polyplink.cli import (
    answers,
    drawing,
    learning,
    probing,
    reproducing,
    weights,
)
from polyplink.cli.shell import app

__all__ = [
    "answers",
    "app",
    "drawing",
    "learning",
    "probing",
    "reproducing",
    "weights",
]
