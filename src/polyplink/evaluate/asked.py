"""What is asked of an evaluation: which tasks, with which settings, on what facts."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from polyplink.associate.search import Grid, paper_grid
from polyplink.associate.similarity import VisualForm
from polyplink.core.errors import PolyplinkError, find_named
from polyplink.evaluate.boxes import TrackletBoxes
from polyplink.evaluate.intervals import RESAMPLES
from polyplink.evaluate.samples import Samples

TASKS = ("retrieval", "reid", "counting", "tracking")


@dataclass(frozen=True)
class EvaluationSettings:
    """How to evaluate.

    Attributes:
        grid: The clusterers' settings to search; the paper's by default.
        form: The form of the visual similarity, see `visual`.
        resamples: Resamples of the bootstrap over procedures.
        seed: Seed of the bootstrap.
        threads: Threads for the sweep; the figures do not depend on it.
        tasks: Which of `TASKS`; tracking needs boxes.
        clusterers: Those to report; none: all of the grid.
        chosen_on: Procedures to choose the clusterers' settings on. The others alone are
            evaluated. None: each procedure's setting is chosen on all others.
        without_own: Also retrieval without the other polyps of the query's own procedure.
    """

    grid: Grid = field(default_factory=paper_grid)
    form: VisualForm = "l2"
    resamples: int = RESAMPLES
    seed: int = 0
    threads: int = 1
    tasks: tuple[str, ...] = ("retrieval", "reid", "counting")
    clusterers: tuple[str, ...] = ()
    chosen_on: tuple[str, ...] = ()
    without_own: bool = False


@dataclass(frozen=True)
class Facts:
    """What some tasks need beside samples and vectors.

    Attributes:
        boxes: Boxes of all samples, in their order; for tracking.
        adenoma: Whether each sample's polyp is an adenoma (n,), None where unknown; for the
            adenoma detection rate.
    """

    boxes: TrackletBoxes | None = None
    adenoma: Sequence[bool | None] | None = None


def check_tasks(samples: Samples, settings: EvaluationSettings, facts: Facts) -> None:
    """Refuse what cannot be done before anything is computed.

    Raises:
        PolyplinkError: Naming what is unknown or missing.
    """
    for task in settings.tasks:
        find_named("task", task, dict.fromkeys(TASKS))
    PolyplinkError.unless(bool(settings.tasks), "no task", f"name some of: {', '.join(TASKS)}")
    PolyplinkError.unless(
        "tracking" not in settings.tasks or facts.boxes is not None,
        "tracking needs boxes, and none were given",
        "give Facts(boxes=...), or leave tracking out",
    )
    n = len(samples.tracklet_ids)
    given = (facts.boxes.polyp.size if facts.boxes else n, len(facts.adenoma or [None] * n))
    PolyplinkError.unless(
        given == (n, n),
        f"boxes of {given[0]} and histology of {given[1]} tracklets for {n} samples",
        "give them for all samples, in their order",
    )
    strange = sorted(set(settings.chosen_on) - set(samples.procedures))
    PolyplinkError.unless(
        not strange,
        f"procedure {strange[:1]} to choose settings on is not among the samples",
        "name procedures that have tracklets",
    )
    PolyplinkError.unless(
        not settings.chosen_on or set(settings.chosen_on) != set(samples.procedures),
        "settings are chosen on all procedures, and none is left to evaluate",
        "name other procedures to choose on",
    )
