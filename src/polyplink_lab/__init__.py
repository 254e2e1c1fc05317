"""What only research needs: the simulator, the reproduction of published tables, the benchmarks.

It uses polyplink as any program does, and polyplink does not import it: it joins by entry points
(pyproject.toml), as a package of yours would. Its verbs are in `polyplink_lab.cli`.
"""
