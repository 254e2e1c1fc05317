"""Settings of an evaluation from names on the command line."""

from collections.abc import Mapping, Sequence
from itertools import chain

from polyplink.associate.grid_search import find_grid
from polyplink.associate.identities import Purpose
from polyplink.associate.similarity import VisualForm
from polyplink.core.errors import PolyplinkError, find_named
from polyplink.core.parts import CLUSTERERS, METRICS, USUAL_CLUSTERERS
from polyplink.evaluate.evaluation import EvaluationSettings, TimeUnit
from polyplink.evaluate.metric import TASKS, take_metrics
from polyplink.evaluate.probe_tasks import PROBES

# The tasks that options are for.
READ_BY = {
    **dict.fromkeys(
        ("--clusterer", "--grid", "--visual", "--time", "--purpose", "--choose-on", "--curve-csv"),
        ("counting", "tracking"),
    ),
    "--without-own": ("retrieval",),
}


def evaluation_settings(
    tasks: Sequence[str] = (),
    clusterers: Sequence[str] = (),
    *,
    grid: str = "paper",
    visual: VisualForm = "l2",
    time: TimeUnit = "normalised",
    purpose: Purpose = "published",
    without_own: bool = False,
    threads: int = 2,
    metrics: Sequence[str] = (),
) -> tuple[EvaluationSettings, list[str]]:
    """Settings of an evaluation, and the requested probes.

    Args:
        tasks: Names of tasks, or "all"; by default all but probes.
        clusterers: Names of clusterers, FILE.py:NAME, and "all" for those with a name.
        grid: "paper" or "demo".
        visual: Similarity to cluster.
        time: Unit of distances in time.
        purpose: Purpose for which settings are chosen.
        without_own: Also evaluate retrieval without other polyps of the query's procedure.
        threads: Number of threads of the search.
        metrics: Further metrics: names of plugins, or FILE.py:NAME.

    Raises:
        PolyplinkError: If a grid, task, clusterer or metric is unknown, or a metric or another
            setting is of a task that is not requested.
    """
    all_tasks = (*TASKS, *PROBES)
    task_names = _expand_all(tasks, all_tasks) or TASKS
    for task in task_names:
        find_named("task", task, dict.fromkeys(all_tasks))
    clusterer_names = _expand_all(clusterers, [*CLUSTERERS]) or USUAL_CLUSTERERS
    settings = EvaluationSettings(
        grid=find_grid(grid, CLUSTERERS.take(clusterer_names)),
        form=visual,
        time=time,
        threads=threads,
        tasks=tuple(task for task in TASKS if task in task_names),
        purpose=purpose,
        without_own=without_own,
        metrics=take_metrics(metrics),
    )
    for name in settings.metrics:
        task = METRICS.find(name).task
        if task not in settings.tasks:
            raise PolyplinkError(
                f"metric {name!r} is of the task {task}, which is not evaluated",
                f"add --task {task}, or leave the metric out",
            )
    refuse_unread(
        settings.tasks,
        {
            "--clusterer": clusterers,
            "--grid": grid != "paper",
            "--visual": visual != "l2",
            "--time": time != "normalised",
            "--purpose": purpose != "published",
            "--without-own": without_own,
        },
    )
    return settings, [task for task in PROBES if task in task_names]


def refuse_unread(tasks: Sequence[str], values: Mapping[str, object]) -> None:
    """Refuse options that no requested task reads.

    Args:
        tasks: The requested tasks.
        values: Options of `READ_BY` and their values, or whether they are not the default; None,
            False or empty if not given.
    """
    for name, value in values.items():
        if value and not set(READ_BY[name]) & set(tasks):
            readers = " and ".join(READ_BY[name])
            raise PolyplinkError(
                f"{name} is for {readers}, not for the tasks given",
                f"add --task {READ_BY[name][0]}, or leave {name} out",
            )


def _expand_all(names: Sequence[str], all_names: Sequence[str]) -> list[str]:
    """The names without repetition, with `all_names` in place of "all"."""
    expanded = ([*all_names] if name == "all" else [name] for name in names)
    return list(dict.fromkeys(chain.from_iterable(expanded)))
