"""The verbs of polyplink, and the command line built from them.

`core.parts.SECTIONS` lists them. Every verb is an annotated function, in Python as on the command
line; `import polyplink` offers them all:

Example:
    >>> import polyplink
    >>> polyplink.run("colonoscopy.mp4")  # doctest: +SKIP
"""
