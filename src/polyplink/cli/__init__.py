"""The command line: one verb per stage, nothing else."""

from polyplink.cli import (
    answers,
    data,
    drawing,
    learning,
    measuring,
    probing,
    reproducing,
    weights,
)
from polyplink.cli.shell import app

__all__ = [
    "answers",
    "app",
    "data",
    "drawing",
    "learning",
    "measuring",
    "probing",
    "reproducing",
    "weights",
]
