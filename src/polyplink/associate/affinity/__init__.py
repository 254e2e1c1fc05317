"""Affinity propagation with scikit-learn's results; README.md here explains the kernel."""
