"""Commands for research: annotated functions, like those of `polyplink.cli`.

Example:
    >>> from polyplink_lab.cli.simulate import simulate
    >>> simulate("made", preset="smoke", write="tables")  # doctest: +SKIP
"""
