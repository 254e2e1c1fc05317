"""The verb `figures`: plots of encoders on a data set, as the papers draw them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from polyplink.cli import options
from polyplink.cli.options import Request, names_of, option
from polyplink.cli.verb import Result, check_given, inform, named_files
from polyplink.core.artefacts import RunRecord
from polyplink.core.errors import PolyplinkError
from polyplink.core.parts import CLUSTERERS, FIGURES
from polyplink.core.progress import Progress


@dataclass(frozen=True)
class FiguresRequest(Request):
    """Which figures, and of which encoders."""

    weights: options.Weights
    data: options.Data
    out: options.Out = Path("figures")
    beside: Sequence[str] = option("NAME=WEIGHTS: another encoder to compare with.", ())
    only: Sequence[str] = option(
        f"{', '.join(FIGURES)}, or FILE.py:NAME of one of your own; all built-in ones by default.",
        (),
        autocompletion=names_of("polyplink.core.parts", "FIGURES"),
    )
    clusterers: Sequence[str] = option(
        "Of the figures counting and clusterers, as of `polyplink evaluate`; all built-in ones by "
        "default. May be repeated.",
        (),
        "--clusterer",
    )
    part: str = option("Part of the data set.", "eval")
    grid: str = option("Settings searched: paper or demo.", "demo")
    device: options.Device = "auto"
    workers: options.Workers = 2


def draw(request: FiguresRequest, progress: Progress = inform) -> Result[list[Path]]:
    """Plot ranks and purity, similarities, FR against FPR, clusterers, recall at k, ROC, t-SNE.

    A figure that the data cannot fill is left out with a warning, unless it was asked for.

    Raises:
        PolyplinkError: If a figure is unknown, one that was asked for (or every one) cannot be
            drawn, polyps are unknown, the encoders have crops of different kinds, or weights, data
            folder or an image is at fault.
    """
    from polyplink.associate.search import find_grid

    only = FIGURES.take(request.only)
    others_files = named_files("--beside", request.beside)
    grid = find_grid(request.grid)
    clusterers = CLUSTERERS.take(request.clusterers or [*CLUSTERERS])
    grid.only(clusterers)  # refuses those that it has no setting for
    for weights in (request.weights, *others_files.values()):
        check_given(weights, request.data, [request.part], request.device)
    from polyplink.cli.drawings import Shown
    from polyplink.core.notebook import Pictures
    from polyplink.encoders.encode import encode
    from polyplink.encoders.load import load_named
    from polyplink.evaluate.truth import samples_of
    from polyplink.report.plots import write_figure

    figures = {name: FIGURES.find(name) for name in only or FIGURES}
    settings = {"weights": request.weights, "part": request.part, "only": request.only}
    record = RunRecord("figures", settings=settings)
    record.claim(request.out)
    with record.stage("embed"):
        first = load_named(request.weights, request.device)
        encoded = encode(
            [first], request.data, request.part, workers=request.workers, progress=progress
        )
        # Unknown polyps are refused before other encoders embed.
        samples = samples_of(encoded.prepared)
        encoders = [load_named(path, request.device, name) for name, path in others_files.items()]
        encoded = encoded.add(encoders, request.workers, progress)
    prepared = encoded.prepared
    record.inputs |= {"data": prepared.data.key, "crops": prepared.key}
    names = ", ".join(sorted(set(prepared.data.procedures["dataset"])))
    subtitle = f"{names}, part {request.part}: {len(samples.procedures)} procedures"
    files = (request.weights, *others_files.values())
    shown = Shown(encoded, subtitle, request.grid, request.workers, progress, files, clusterers)
    pictures, left_out = Pictures(), list[str]()
    for done, (name, call) in enumerate(figures.items(), start=1):
        try:
            with record.stage(name):
                pictures += write_figure(request.out, name, call(shown))
        except PolyplinkError as error:  # one polyp, for example, has no nearest other one
            if request.only or (not pictures and done == len(figures)):
                raise
            left_out.append(f"{name} is left out: {error}")
        progress("figures", done, len(figures))
    record.write(request.out)
    return Result(pictures, shown=[str(path) for path in pictures], warnings=left_out)
