"""Benchmarks: the hot paths, each against a stated rival."""
