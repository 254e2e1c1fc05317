"""Tools for research: the simulator, the reproduction of published tables, the benchmarks.

The package uses polyplink as any other program does, and polyplink does not import it: it is
registered by entry points (pyproject.toml), like any plugin. Its commands are in
`polyplink_lab.cli`.
"""
