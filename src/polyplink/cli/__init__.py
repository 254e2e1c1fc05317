"""The verbs of polyplink: one module per verb, and the command line built from them.

`core.parts.SECTIONS` lists them. Every verb is an annotated function, in Python as on the command
line; `import polyplink` offers them all:

Example:
    >>> import polyplink
    >>> polyplink.run("colonoscopy.mp4")  # doctest: +SKIP
"""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink.cli.verb import Result as Result
    from polyplink.core.progress import Progress as Progress

hand_on(__name__)
