from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import numpy as np

from polyplink.evaluate.intervals import Figure
from polyplink.report.plots import (
    inline_svg,
    plot_epochs,
    plot_methods,
    plot_similarity,
    write_figure,
)
from polyplink.report.polyps import HUES, look
from tests.report.sample import comparison


def test_written_figures_are_reproducible(tmp_path: Path) -> None:
    def write(folder: Path) -> list[bytes]:
        axes = plot_epochs({"a": (0.2, 0.7)}, "share")
        figure = axes.get_figure(root=True)
        assert figure is not None
        return [path.read_bytes() for path in write_figure(folder, "epochs", figure)]

    svg, png = write(tmp_path / "a")
    assert svg.lstrip().startswith(b"<?xml")
    assert png.startswith(b"\x89PNG")
    assert write(tmp_path / "b") == [svg, png]
    assert not plt.get_fignums()  # every figure is closed


def test_colours_of_a_matrix_span_its_finite_off_diagonal_values() -> None:
    S = np.array([[1.0, 0.2, np.nan], [0.2, 1.0, 0.7], [np.nan, 0.7, 1.0]])
    axes = plot_similarity(S, [2, 1], ["1", "2"], [look(0), look(8)])
    assert axes.images[0].get_clim() == (0.2, 0.7)
    scale = axes.images[1].get_array()
    assert scale is not None
    assert (scale.min(), scale.max()) == (0.2, 0.7)
    text = inline_svg(axes.figure, "Similarities")
    for words in (">0.20<", ">0.70<", ">similarity<", ">2<", HUES[0], HUES[1]):
        assert words in text
    for constant in (np.ones((1, 1)), np.full((2, 2), np.nan), np.full((2, 2), 0.5)):
        low, high = (
            plot_similarity(constant, [len(constant)], ["1"], [look(0)]).images[0].get_clim()
        )
        assert low < high


def test_methods_are_dots_on_their_intervals() -> None:
    table = comparison()
    mean_ap, fpr = plot_methods(table)
    drawn = [np.asarray(line.get_xdata()).tolist() for line in mean_ap.lines]
    assert drawn == [[0.4, 0.6], [0.5], [0.6, 0.8], [0.7]]
    assert [np.asarray(line.get_xdata()).tolist() for line in fpr.lines] == [[0.1], [0.05]]
    first = [{"mAP": Figure(0.45)}, {"mAP": Figure(0.55)}]
    runs: dict[str, list[dict[str, Figure]]] = {"first": first, "second": [{}]}
    assert np.asarray(plot_methods(table, runs)[0].lines[1].get_xdata()).tolist() == [0.45, 0.55]
    methods = [replace(method, name=f"$$ {method.name} $$") for method in table.methods]
    odd_names = plot_methods(replace(table, methods=tuple(methods)))[0].figure
    assert ">$$ first $$<" in inline_svg(odd_names, "Methods")


def test_curves_have_hover_texts_gaps_and_the_best_epoch() -> None:
    axes = plot_epochs({"train": (3.0, None, 1.0), "other": (2.0,)}, "loss", best_epoch=2)
    assert len(axes.lines) == 3  # the best epoch is marked
    assert len(plot_epochs({"a": (1.0, 2.0)}, "y", best_epoch=7).lines) == 1
    text = inline_svg(axes.figure, "Loss <over> epochs", {"train": ["first & low", "last"]})
    root = ElementTree.fromstring(text)
    titles = [e.text for e in root.iter() if e.tag.endswith("title")]
    assert titles == ["first & low", "last"]
    assert root.get("aria-label") == "Loss <over> epochs"
    assert "var(--soft)" in text  # follows the theme of the page
    assert "<style" not in text
