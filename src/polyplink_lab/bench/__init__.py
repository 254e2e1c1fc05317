"""Benchmarks of the hot paths, each compared with a reference implementation (the rival)."""
