"""The verbs of research, each a function of its request as those of `polyplink.cli` are.

Example:
    >>> from pathlib import Path
    >>> from polyplink_lab.cli import SimulateRequest, simulate
    >>> simulate(SimulateRequest(Path("made"), preset="smoke", write="tables"))  # doctest: +SKIP
"""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink_lab.cli.bench import BenchRequest as BenchRequest, bench as bench
    from polyplink_lab.cli.demo import DemoRequest as DemoRequest, demo as demo
    from polyplink_lab.cli.reproduce import (
        ReproduceRequest as ReproduceRequest,
        reproduce as reproduce,
    )
    from polyplink_lab.cli.simulate import SimulateRequest as SimulateRequest, simulate as simulate
    from polyplink_lab.cli.study import (
        Studied as Studied,
        StudyRequest as StudyRequest,
        study as study,
    )

hand_on(__name__)
