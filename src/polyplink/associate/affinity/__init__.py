"""Affinity propagation with scikit-learn's results; README.md here explains the kernel."""

from polyplink.associate.affinity.propagate import propagate, tie_noise

__all__ = ["propagate", "tie_noise"]
