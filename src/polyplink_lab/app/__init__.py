"""The verbs of research, each a function of its request as those of `polyplink.app` are.

Example:
    >>> from pathlib import Path
    >>> from polyplink_lab.app import SimulateRequest, simulate
    >>> simulate(SimulateRequest(Path("made"), preset="smoke", write="tables"))  # doctest: +SKIP
"""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink_lab.app.bench import BenchRequest as BenchRequest, bench as bench
    from polyplink_lab.app.demo import DemoRequest as DemoRequest, demo as demo
    from polyplink_lab.app.reproduce import (
        ReproduceRequest as ReproduceRequest,
        reproduce as reproduce,
    )
    from polyplink_lab.app.simulate import SimulateRequest as SimulateRequest, simulate as simulate
    from polyplink_lab.app.study import (
        Studied as Studied,
        StudyRequest as StudyRequest,
        study as study,
    )

hand_on(__name__)
