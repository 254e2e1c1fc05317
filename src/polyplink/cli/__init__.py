"""The command line: one verb per stage, nothing else."""

from polyplink.cli import answers, data, learning, measuring, probing, weights
from polyplink.cli.shell import app

__all__ = ["answers", "app", "data", "learning", "measuring", "probing", "weights"]
