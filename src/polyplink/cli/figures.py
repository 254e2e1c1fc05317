"""The verb `figures`: plots of encoders on a data set, in the style of the papers."""

import base64
from collections.abc import Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from typer import Option

from polyplink.cli import options
from polyplink.cli.options import TrackletOptions, check_inputs, named_files, names_of
from polyplink.cli.verb import inform, verb
from polyplink.core.errors import PolyplinkError
from polyplink.core.parts import CLUSTERERS, FIGURES
from polyplink.core.results import Progress, Result
from polyplink.core.runs import RunRecord
from polyplink.core.text import many

if TYPE_CHECKING:
    from polyplink.data.tables import DataSet

_OF_CLUSTERERS = ("counting", "clusterers")  # built-in figures that compare clusterers


class FigureFiles(list[Path]):
    """Paths of figure files; a notebook shows the pictures."""

    def _repr_html_(self) -> str:
        return "\n".join(
            '<img style="max-width: 45rem; width: 100%; background: #fff" '
            f'alt="{escape(path.stem)}" src="data:image/png;base64,'
            f'{base64.b64encode(path.read_bytes()).decode()}">'
            for path in self
            if path.suffix == ".png"
        )


@verb
def draw_figures(
    weights: options.Weights,
    data: options.Data,
    *,
    out: options.Out = Path("figures"),
    beside: Annotated[
        Sequence[str], Option(help="NAME=WEIGHTS: another encoder to compare with.")
    ] = (),
    only: Annotated[
        Sequence[str],
        Option(
            help=f"{', '.join(FIGURES)}, a plugin's, or FILE.py:NAME for your own; all "
            "built-in ones by default.",
            autocompletion=names_of("polyplink.core.parts:FIGURES.names"),
        ),
    ] = (),
    clusterers: Annotated[
        Sequence[str],
        Option(
            "--clusterer",
            help=f"In the figures counting and clusterers: {', '.join(CLUSTERERS)}, a "
            "plugin's, or FILE.py:NAME for your own; all built-in ones by default; may be "
            "repeated.",
            autocompletion=options.complete_clusterers,
        ),
    ] = (),
    part: Annotated[str, Option(help="Part of the data set.")] = "eval",
    grid: Annotated[str, Option(help="Settings searched: paper or demo.")] = "demo",
    device: options.Device = "auto",
    workers: options.Workers = 2,
    progress: Progress = inform,
    **tracklets: Unpack[TrackletOptions],
) -> Result[list[Path]]:
    """Plot ranks and purity, similarities, FR against FPR, clusterers, recall at k, ROC, t-SNE.

    A figure for which the data lack labels is left out with a warning, unless `only` names it. On
    procedures that an encoder was trained on, a warning says that its figures are too good.

    Args:
        out: The output folder, which gets SVG and PNG files.
        progress: Called for crops, tracklets and figures.

    Raises:
        PolyplinkError: If a figure is unknown, a figure in `only` (or every figure) cannot be
            drawn, none of `only` uses `clusterers`, polyps are unknown, the encoders need different
            crops, or weights, data folder or an image is missing or broken.
    """
    from polyplink.associate.grid_search import find_grid

    weights, data, out = Path(weights), Path(data), Path(out)
    chosen = FIGURES.take(only)
    others_files = named_files("--beside", beside)
    # A figure that is not built in may use them, too.
    if clusterers and chosen and {*chosen} <= {*FIGURES}.difference(_OF_CLUSTERERS):
        raise PolyplinkError(
            f"--clusterer is for the figures {' and '.join(_OF_CLUSTERERS)}, and --only names "
            "neither",
            f"leave it out, or add --only {_OF_CLUSTERERS[-1]}",
        )
    clusterers = CLUSTERERS.take(clusterers or [*CLUSTERERS])
    find_grid(grid, clusterers)  # refuses unknown grids, and clusterers without a setting
    files = (weights, *others_files.values())
    for file in files:
        check_inputs(file, data, [part], device)
    from matplotlib.figure import Figure

    from polyplink.data.origin import read_origin
    from polyplink.encoders.encode import encode
    from polyplink.encoders.load import load_named
    from polyplink.evaluate.truth import samples_of
    from polyplink.report.figures import FigureData
    from polyplink.report.plots import write_figure

    figures = {name: FIGURES.find(name) for name in chosen or FIGURES}
    settings = {"weights": weights, "part": part, "only": only}
    record = RunRecord("figures", settings=settings)
    record.claim(out)
    with record.stage("embed"):
        load = partial(load_named, device=device, tracklets=tracklets, origin=read_origin(data))
        first = load(weights)
        if first.name in others_files:
            raise PolyplinkError(
                f"--beside {first.name}=... has the name of {weights}", "give it another name"
            )
        encoded = encode([first], data, part, workers=workers, progress=progress)
        # Refuse data without polyp ids before other encoders embed them.
        samples = samples_of(encoded.prepared)
        encoders = [load(path, name=name) for name, path in others_files.items()]
        encoded = encoded.add(encoders, workers, progress)
    prepared = encoded.prepared
    warnings = _warnings_of_seen(files, prepared.data, samples.procedures)
    record.inputs |= {"data": prepared.data.key, "crops": prepared.key}
    record.settings = {**settings, "tracklets": prepared.settings}
    names = ", ".join(sorted(set(prepared.data.procedures["dataset"])))
    subtitle = f"{names}, part {part}: {many(len(samples.procedures), 'procedure')}"
    figure_data = FigureData(encoded, subtitle, grid, workers, progress, files, clusterers)
    pictures = FigureFiles()
    for done, (name, call) in enumerate(figures.items(), start=1):
        try:
            with record.stage(name):
                with FIGURES.running(name):
                    figure = call(figure_data)
                pictures += write_figure(out, name, FIGURES.check_returned(name, figure, Figure))
        except PolyplinkError as error:  # one polyp, for example, has no nearest other one
            if only or (not pictures and done == len(figures)):
                raise
            warnings.append(f"{name} is left out: {error}")
        progress("figures", done, len(figures))
    record.write(out)
    return Result(pictures, printed=[str(path) for path in pictures], warnings=warnings)


def _warnings_of_seen(
    files: Sequence[Path], data: "DataSet", procedures: Sequence[str]
) -> list[str]:
    """A warning for each weights file that was trained or validated on some of the procedures."""
    from polyplink.encoders.weights import read_record, seen_procedures, weights_path

    warnings = []
    for file in files:
        seen = seen_procedures(read_record(weights_path(file)).seen, data, procedures)
        if seen:
            warnings.append(
                f"{file} was trained or validated on {len(seen)} of these procedures: its "
                "figures are too good, name another --part"
            )
    return warnings
