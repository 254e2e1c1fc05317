"""The command `study`: train recipes with several seeds, and compare them on a held-out part."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import stdev
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from polyplink.cli import options
from polyplink.cli.options import check_inputs
from polyplink.cli.verb import UNMEASURED, inform, prints_lines, verb
from polyplink.core.artefacts import to_plain, write_json, write_text
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import Progress, Result, ShownFields, silent
from polyplink.core.runs import RunRecord
from polyplink.core.text import many

if TYPE_CHECKING:
    from polyplink.encoders.encode import Encoded
    from polyplink.evaluate.evaluation import EncoderFigures, EvaluationSettings
    from polyplink.evaluate.intervals import Figure, Resampled
    from polyplink.learn.train_config import TrainConfig
    from polyplink.report.comparison import Comparison
    from polyplink_lab.reproduce.encoders_under_test import Workspace


@dataclass(frozen=True)
class Run:
    """A training run with its evaluation.

    Attributes:
        recipe: Name of the recipe.
        seed: Seed of the run.
        weights: Folder of the training run.
        figures: All figures with intervals.
    """

    recipe: str
    seed: int
    weights: Path
    figures: "dict[str, Figure]" = field(repr=False)


@dataclass(frozen=True)
class Studied(ShownFields):
    """A finished study.

    Attributes:
        comparison: Recipes by figures: mean over seeds with its interval over procedures, standard
            deviation over seeds, paired difference to the first recipe.
        minus_clusterer: Differences by recipe, clusterer and figure, see
            `evaluate.minus_first_clusterer`.
        runs: All training runs.
        failed: Trainings that failed, with the error.
    """

    comparison: "Comparison" = field(repr=False)
    minus_clusterer: "dict[str, dict[str, dict[str, Figure]]]" = field(repr=False)
    runs: tuple[Run, ...]
    failed: tuple[str, ...]

    def _tables(self) -> list[Any]:
        from polyplink.report.printed_tables import comparison_table

        return [comparison_table(self.comparison)]


Measured = dict[str, dict[int, "dict[str, Resampled]"]]  # by recipe, seed and figure


@verb
def study(
    recipes: Annotated[
        Sequence[str], Argument(help=f"{options.RECIPE_HELP} Compared with the first.")
    ],
    data: options.Data,
    *,
    out: options.Out = "study",
    seeds: Annotated[
        int, Option(min=1, help="Number of seeds per recipe, from the recipe's seed up.")
    ] = 3,
    part: Annotated[str, Option(help="Part to evaluate on, which no recipe trains on.")] = "eval",
    sets: options.Sets = (),
    tasks: Annotated[
        Sequence[str],
        Option("--task", help="As in `polyplink evaluate`, without size and histology."),
    ] = (),
    clusterers: Annotated[
        Sequence[str], Option("--clusterer", help="As in `polyplink evaluate`.")
    ] = (),
    grid: Annotated[str, Option(help="Settings searched for counting: paper or demo.")] = "paper",
    purpose: options.Purpose = "published",
    columns: Annotated[
        Sequence[str],
        Option(
            help="Figures of table.tex, of the first table of report.html and of study.svg, by "
            "name (mAP) or key; may be repeated."
        ),
    ] = (),
    device: options.Device = "auto",
    devices: Annotated[
        int, Option(min=1, help="Processes to train in, as in `polyplink train`.")
    ] = 1,
    workers: options.Workers = 2,
    progress: Progress = inform,
) -> Result[Studied]:
    """Train recipes with several seeds, and compare them in pairs on the held-out part.

    Every training is stored in `out`/runs under a name derived from recipe, seed and data: the same
    command continues where it stopped, and only recipes that were changed are trained again. The
    exit code is 1 if no figure could be measured.

    Args:
        out: The output folder, for study.json, figures.csv, table.tex, report.html, runs.csv (one
            row per training and figure), clusterers.csv, study.svg and .png, and run.json.
        progress: Called for crops, epochs and tracklets.

    Raises:
        PolyplinkError: If a recipe, part or field is unknown, a recipe would see the part, the part
            has no known polyp, or no training could be evaluated.
    """
    out, data = Path(out), Path(data)
    check_inputs(None, data, [part], device)
    settings = _settings(tasks, clusterers, columns, grid=grid, purpose=purpose, threads=workers)
    configs = _configure(recipes, sets, data, part)
    from polyplink.evaluate.evaluation import evaluate_encoder
    from polyplink.evaluate.truth import samples_of, tracklet_boxes
    from polyplink.tracklets.prepare import prepare
    from polyplink_lab.reproduce.encoders_under_test import Workspace

    workspace = Workspace(
        out, data, sets=tuple(sets), device=device, devices=devices, workers=workers
    )
    _refuse_seen(configs, workspace, part)
    choices = {"workspace": workspace, "recipes": tuple(recipes), "seeds": seeds, "part": part}
    record = RunRecord("study", settings=choices | {"settings": settings})
    record.claim(out)
    samples_of(  # a part without known polyps is refused before hours of training
        prepare(data, configs[0].prepare, procedures=part, with_crops=False),
        options="--set prepare.min_length=N, prepare.max_gap=N or prepare.min_iou=SHARE",
    )

    # Each training is evaluated as soon as it is finished; the others continue if one fails.
    encoded: Encoded | None = None
    measured: Measured = {}
    runs, failed, first = list[Run](), list[str](), None
    planned = [
        replace(config, seed=seed)
        for config in configs
        for seed in range(config.seed, config.seed + seeds)
    ]
    for i, config in enumerate(planned, start=1):
        name, seed = config.name, config.seed
        label = f"{name}, seed {seed}"
        if prints_lines(progress):
            print(f"{label} ({i} of {len(planned)})", file=sys.stderr, flush=True)
        try:
            with record.stage(label):
                folder, encoded = _train_and_encode(workspace, part, config, encoded, progress)
                vectors, samples = encoded.vectors[label], samples_of(encoded.prepared)
                figures, resampled = evaluate_encoder(
                    vectors, samples, settings, tracklet_boxes(encoded.prepared, samples)
                )
        except PolyplinkError as error:
            failed.append(f"{label}: {error}")
            continue
        if first is None:
            first = figures
            _check_measured(columns, first)  # before the other trainings
        measured.setdefault(name, {})[seed] = resampled
        runs.append(Run(name, seed, folder, figures.figures))
    if first is None or encoded is None:
        raise PolyplinkError(
            failed[0], f"{many(len(failed), 'training')} failed; this is the first error"
        )

    # The comparison.
    record.inputs |= {"data": encoded.prepared.data.key}
    comparison, gaps = compare_runs(measured, first)
    result = Studied(comparison.with_headline(columns), gaps, tuple(runs), tuple(failed))
    is_complete = all(len(of_recipe) == seeds for of_recipe in measured.values())
    at_most = "" if is_complete else "up to "
    mean = f"mean of {at_most}{seeds} seeds ± standard deviation over seeds"
    procedures = many(len(samples_of(encoded.prepared).procedures), "procedure")
    basis = f"{'one seed' if seeds == 1 else mean}; {procedures} of the part {part!r}"
    _write(out, result)
    _write_page(out, result, encoded, basis, record.seconds)
    record.write(out)
    code = int(not result.comparison.measured)
    return Result(
        result,
        printed=[*_printed_tables(result), basis, f"files: {out}"],
        warnings=[*failed, *code * [UNMEASURED]],
        code=code,
    )


def _settings(
    tasks: Sequence[str], clusterers: Sequence[str], columns: Sequence[str], **choices: Any
) -> "EvaluationSettings":
    """The settings of all evaluations; refuses columns that no figure can have."""
    from polyplink.evaluate.settings import evaluation_settings
    from polyplink.report.evaluation_table import check_columns

    settings, probes = evaluation_settings(tasks, clusterers, **choices)
    if probes:
        raise PolyplinkError(f"a study has no task {probes[0]}", "use `polyplink probe`")
    check_columns(columns, settings, probes)
    return settings


def _check_measured(names: Sequence[str], figures: "EncoderFigures") -> None:
    """Refuse columns of figures that the first evaluation has not measured."""
    from polyplink.report.comparison import Comparison
    from polyplink.report.evaluation_table import columns

    Comparison(tuple(columns(figures)), (), {}).with_headline(names)


def _configure(
    recipes: Sequence[str], sets: Sequence[str], data: Path, part: str
) -> "list[TrainConfig]":
    """The recipes with fields changed; errors are reported before hours of work."""
    from polyplink.data.tables import read_data
    from polyplink.recipes.by_name import find_recipe, override

    tables = read_data(data)
    configs = [override(find_recipe(name), sets) for name in recipes]
    for config in configs:
        hint = "evaluate on procedures that no recipe trains on: --part, or --set part=NAME"
        tables.disjoint_parts(part, config.part, hint)
    names = [config.name for config in configs]
    if len(set(names)) != len(names):
        raise PolyplinkError(f"two of the recipes {names} have one name", "rename one")
    return configs


def _refuse_seen(configs: "Sequence[TrainConfig]", workspace: "Workspace", part: str) -> None:
    """Refuse a part that a recipe validates on, or that shows patients of its training."""
    from polyplink_lab.reproduce.encoders_under_test import recipe_would_see

    for config in configs:
        if reason := recipe_would_see(config, workspace, part):
            raise PolyplinkError(reason, "name another part: --part, or --set validation.part=NAME")


def _train_and_encode(
    workspace: "Workspace",
    part: str,
    config: "TrainConfig",
    encoded: "Encoded | None",
    progress: Progress,
) -> "tuple[Path, Encoded]":
    """The folder of a training, which is run if missing, and the vectors including earlier runs."""
    from polyplink.encoders.encode import encode
    from polyplink.encoders.load import load_named
    from polyplink.encoders.weights import guard
    from polyplink_lab.reproduce.encoders_under_test import train_or_resume

    label = f"{config.name}, seed {config.seed}"

    def labelled_progress(stage: str, done: int, total: int) -> None:
        progress(f"{label}: {stage}", done, total)

    quiet = progress if progress in (silent, inform) else labelled_progress
    of_seed = replace(workspace, sets=(*workspace.sets, f"seed={config.seed}"))
    folder = train_or_resume(config, of_seed, quiet)
    encoder = load_named(folder, workspace.device, label)
    guard(encoder.record.seen, workspace.tables, part)
    if encoded is not None:
        return folder, encoded.add([encoder], workspace.workers, quiet)
    embedded = encode([encoder], workspace.data, part, workers=workspace.workers, progress=quiet)
    return folder, embedded


def compare_runs(
    measured: Measured, first: "EncoderFigures"
) -> "tuple[Comparison, dict[str, dict[str, dict[str, Figure]]]]":
    """Compare recipes by their means over seeds, paired over procedures.

    Args:
        measured: Recipe -> seed -> figures with resamples, all from the same draws.
        first: Figures of any run, which determine the columns of the table.

    Returns:
        Recipes by figures, and for each recipe the clusterers minus the first.
    """
    from polyplink.evaluate.evaluation import minus_first_clusterer
    from polyplink.evaluate.intervals import Resampled, no_different
    from polyplink.report.comparison import Comparison, Method
    from polyplink.report.evaluation_table import columns, headline

    means: dict[str, dict[str, Resampled]] = {}
    methods = []
    for name, runs in measured.items():
        by_figure = {
            key: [run_figures[key] for run_figures in runs.values()]
            for key in first.figures
            if all(key in run_figures for run_figures in runs.values())
        }
        means[name] = {key: Resampled.mean(run_figures) for key, run_figures in by_figure.items()}
        base, figures = next(iter(means.values())), {}
        for key, mean in means[name].items():
            values = [
                seed_figure.value for seed_figure in by_figure[key] if seed_figure.value is not None
            ]
            figures[key] = replace(mean.figure(), sd=stdev(values) if len(values) > 1 else None)
        compared = means[name] if means[name] is not base else {}
        gaps = {key: mean.minus(base[key]) for key, mean in compared.items() if key in base}
        methods.append(Method(name, figures, gaps))
    metrics, bold = columns(first), {}
    for metric in metrics if len(means) > 1 else ():
        by_recipe = {
            name: run_figures[metric.key]
            for name, run_figures in means.items()
            if metric.key in run_figures
        }
        bold[metric.key] = no_different(by_recipe, metric.ideal)
    table = Comparison(tuple(metrics), tuple(methods), bold, headline(first))
    return table, {name: minus_first_clusterer(run_figures) for name, run_figures in means.items()}


def _printed_tables(result: Studied) -> list[Any]:
    """Tables for the terminal."""
    from polyplink.report.printed_tables import comparison_table, difference_tables

    tables = difference_tables(result.comparison, result.minus_clusterer)
    return [comparison_table(result.comparison), *tables]


def _write_page(
    out: Path, result: Studied, encoded: "Encoded", basis: str, seconds: Mapping[str, float]
) -> None:
    from polyplink.report.contents import Report, named_stages, provenance
    from polyplink.report.page import write_report

    page = Report(
        title="Study",
        crops=encoded.prepared.key,
        comparison=replace(result.comparison, note=f"Figures: {basis}."),
        seconds=named_stages(seconds),
        warnings=tuple(result.failed),
        **provenance(encoded.prepared),
    )
    write_report(out / "report.html", page)


def _write(out: Path, result: Studied) -> None:
    from polyplink.report.latex import comparison_latex
    from polyplink.report.plots import plot_methods, write_figure
    from polyplink.report.printed_tables import write_clusterers, write_csv, write_rows

    write_json(out / "study.json", to_plain(result))
    write_csv(out / "figures.csv", result.comparison)
    write_text(out / "table.tex", comparison_latex(result.comparison))
    write_clusterers(out / "clusterers.csv", result.minus_clusterer)
    rows = [
        {"recipe": run.recipe, "seed": run.seed, "weights": str(run.weights), "figure": key}
        | {"value": value.value, "low": value.low, "high": value.high, "units": value.n}
        for run in result.runs
        for key, value in run.figures.items()
    ]
    write_rows(out / "runs.csv", rows)
    values: Mapping[str, list[Mapping[str, Figure]]] = {
        method.name: [run.figures for run in result.runs if run.recipe == method.name]
        for method in result.comparison.methods
    }
    figure = plot_methods(result.comparison, values)[0].get_figure(root=True)
    assert figure is not None
    write_figure(out, "study", figure)
