"""The verbs of research, annotated functions as those of `polyplink.cli` are.

Example:
    >>> from polyplink_lab.cli import simulate
    >>> simulate("made", preset="smoke", write="tables")  # doctest: +SKIP
"""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink_lab.cli.bench import bench as bench
    from polyplink_lab.cli.demo import demo as demo
    from polyplink_lab.cli.reproduce import reproduce as reproduce
    from polyplink_lab.cli.simulate import simulate as simulate
    from polyplink_lab.cli.study import Studied as Studied, study as study

hand_on(__name__)
