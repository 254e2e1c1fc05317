"""The record of a count: what was counted, how certain that is, and what makes it doubtful."""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink.core.messages import (
        Message as Message,
        catalogue as catalogue,
        in_every_language as in_every_language,
    )
    from polyplink.counting.cover import (
        ASK_BELOW as ASK_BELOW,
        Cover as Cover,
        cover_of as cover_of,
    )
    from polyplink.counting.interval import (
        COVERED as COVERED,
        Coverage as Coverage,
        FittedInterval as FittedInterval,
        fit_interval as fit_interval,
    )
    from polyplink.counting.result import (
        Count as Count,
        CountedPolyp as CountedPolyp,
        CountedProcedure as CountedProcedure,
        CountedTracklet as CountedTracklet,
        DoubtfulLink as DoubtfulLink,
    )

hand_on(__name__)
