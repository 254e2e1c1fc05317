from pathlib import Path
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import numpy as np

from polyplink.report.plots import inline_svg, plot_epochs, plot_similarity, write_figure
from polyplink.report.polyps import HUES, look


def test_a_file_is_the_same_every_time(tmp_path: Path) -> None:
    def written(folder: Path) -> list[bytes]:
        axes = plot_epochs({"a": (0.2, 0.7)}, "share")
        figure = axes.get_figure(root=True)
        assert figure is not None
        return [path.read_bytes() for path in write_figure(folder, "epochs", figure)]

    svg, png = written(tmp_path / "a")
    assert svg.lstrip().startswith(b"<?xml")
    assert png.startswith(b"\x89PNG")
    assert written(tmp_path / "b") == [svg, png]
    assert not plt.get_fignums()  # no window, nothing kept


def test_a_matrix_spans_its_finite_values_off_the_diagonal() -> None:
    S = np.array([[1.0, 0.2, np.nan], [0.2, 1.0, 0.7], [np.nan, 0.7, 1.0]])
    axes = plot_similarity(S, [2, 1], ["1", "2"], [look(0), look(8)])
    assert axes.images[0].get_clim() == (0.2, 0.7)
    text = inline_svg(axes.figure, "Similarities")
    for words in (">0.20<", ">0.70<", ">similarity<", ">2<", HUES[0], HUES[1]):
        assert words in text
    for flat in (np.ones((1, 1)), np.full((2, 2), np.nan), np.full((2, 2), 0.5)):
        low, high = plot_similarity(flat, [len(flat)], ["1"], [look(0)]).images[0].get_clim()
        assert low < high


def test_hover_texts_and_gaps_of_a_curve() -> None:
    axes = plot_epochs({"train": (3.0, None, 1.0), "other": (2.0,)}, "loss", best_epoch=2)
    assert len(axes.lines) == 3  # the best epoch is marked
    assert len(plot_epochs({"a": (1.0, 2.0)}, "y", best_epoch=7).lines) == 1
    assert plot_epochs({"b": (1.0, 2.0)}, "y", axes=axes) is axes
    text = inline_svg(axes.figure, "Loss <over> epochs", {"train": ["first & low", "last"]})
    root = ElementTree.fromstring(text)
    titles = [e.text for e in root.iter() if e.tag.endswith("title")]
    assert titles == ["first & low", "last"]
    assert root.get("aria-label") == "Loss <over> epochs"
    assert "var(--soft)" in text  # follows the page's theme
    assert "<style" not in text
