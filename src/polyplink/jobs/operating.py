"""The operating point: with which setting to count, and how sure a link is.

It is chosen once, on procedures that validated the training and were never trained on, and
travels inside the weights.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from polyplink.associate import (
    Calibration,
    TemporalAP,
    VisualForm,
    fit_calibration,
    labelled_pairs,
    paper_grid,
    search,
    time_gaps,
)
from polyplink.core.errors import PolyplinkError
from polyplink.evaluate import choose, count_procedure
from polyplink.jobs.clustering import Scene

UNTUNED = TemporalAP(alpha=0.5, gamma=1.0, preference=0.0)  # near the middle of the reference's


@dataclass(frozen=True)
class Operating:
    """With which setting to count, and how sure a link is.

    Attributes:
        setting: Of temporal affinity propagation.
        calibration: Turns similarities into probabilities; None where there were no labels.
        origin: Where both came from, in words.
        form: Form of the visual similarity that the setting was chosen for.
    """

    setting: TemporalAP
    calibration: Calibration | None
    origin: str
    form: VisualForm = "l2"

    def as_record(self) -> dict[str, Any]:
        """Plain values, to travel with weights."""
        return asdict(self)


def untuned(why: str) -> Operating:
    """The operating point without labels: a plain setting, and no probabilities."""
    return Operating(UNTUNED, None, f"not tuned: {why}")


def from_record(record: Mapping[str, Any] | None) -> Operating:
    """The operating point that travels with weights.

    Raises:
        PolyplinkError: If it is broken.
    """
    if record is None:
        return untuned("the weights carry no operating point")
    try:
        return TypeAdapter(Operating).validate_python(dict(record))
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise PolyplinkError(f"broken operating point ({reason})", "train again") from None


def find_operating(held: Sequence[Scene], form: VisualForm = "l2", threads: int = 1) -> Operating:
    """Choose the setting by the papers' rule, and calibrate the links, on labelled procedures.

    The setting whose FPR (mean over the procedures with two polyps or more) is nearest to 0.05,
    the lowest FR among equals (methods: temporally-aware counting, section 3).

    Args:
        held: Procedures that were not trained on; those without labels are left out.
        form: Form of the visual similarity.
        threads: Threads for the search.
    """
    labelled = [scene for scene in held if any(p is not None for p in scene.polyps)]
    if not labelled:
        return untuned("no held-out procedure has known polyps")
    grid = paper_grid().only(["temporal_ap"])
    counts = [
        count_procedure(
            search(s.V, s.positions, grid, threads=threads)["temporal_ap"].labels,
            s.polyps,
            s.procedure_id,
        )
        for s in labelled
    ]
    choice = choose(counts)
    names = ", ".join(s.procedure_id for s in labelled)
    if choice.rule == "one_polyp_each":
        return untuned(f"no held-out procedure ({names}) has two polyps or more")
    fit = fit_calibration([labelled_pairs(s.V, time_gaps(s.positions), s.polyps) for s in labelled])
    origin = (
        f"chosen on the held-out procedures {names}: FPR {choice.fpr:.3f} (nearest to 0.05), "
        f"FR {choice.fr:.2f}"
    )
    if fit.calibration is None:
        origin += f"; links are not calibrated, because {fit.reason}"
    return Operating(grid.temporal_ap()[choice.row], fit.calibration, origin, form)
