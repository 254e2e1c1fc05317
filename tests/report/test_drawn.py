from pathlib import Path

import matplotlib.pyplot as plt

from polyplink.report.drawn import hue, look, marker, sheet, write_figure
from polyplink.report.palette import HUES


def test_a_figure_is_written_twice_and_always_the_same(tmp_path: Path) -> None:
    def drawn(folder: Path) -> list[bytes]:
        with look():
            figure, (axis,) = sheet(2, 2)
            axis.plot([0, 1], [1, 0], color=hue(0))
        return [path.read_bytes() for path in write_figure(folder, "line", figure)]

    svg, png = drawn(tmp_path / "a")
    assert svg.lstrip().startswith(b"<?xml")
    assert png.startswith(b"\x89PNG")
    assert drawn(tmp_path / "b") == [svg, png]
    assert not plt.get_fignums()  # no window, nothing kept


def test_hue_and_marker_together_tell_many_apart() -> None:
    looks = {(hue(i), marker(i)) for i in range(40)}
    assert len(looks) == 40
    assert hue(len(HUES)) == hue(0)
    assert marker(len(HUES)) != marker(0)
