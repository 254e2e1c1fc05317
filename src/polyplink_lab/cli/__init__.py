"""The verbs of research, annotated functions as those of `polyplink.cli` are.

Example:
    >>> from polyplink_lab.cli.simulate import simulate
    >>> simulate("made", preset="smoke", write="tables")  # doctest: +SKIP
"""
