import sys
from pathlib import Path

import av
import numpy as np
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.simulate.film import write_film


def grey(value: int) -> np.ndarray:
    return np.full((32, 48, 3), value, np.uint8)


def test_a_film_has_the_frames_in_order(tmp_path: Path) -> None:
    values = list(range(20, 220, 10))
    assert write_film(tmp_path / "a.mp4", map(grey, values), 29.97) == len(values)
    with av.open(str(tmp_path / "a.mp4")) as container:
        assert float(container.streams.video[0].average_rate or 0) == pytest.approx(29.97)
        seen = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert [frame.shape for frame in seen] == [(32, 48, 3)] * len(values)
    assert [frame.mean() for frame in seen] == pytest.approx(values, abs=4)


def test_a_film_is_whole_or_absent(tmp_path: Path) -> None:
    def cut() -> object:
        yield grey(0)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_film(tmp_path / "a.mp4", cut(), 25.0)  # type: ignore[arg-type]
    with pytest.raises(PolyplinkError, match="no frames"):
        write_film(tmp_path / "a.mp4", [], 25.0)
    with pytest.raises(PolyplinkError, match="47 x 31 pixels; give even sides"):
        write_film(tmp_path / "a.mp4", [grey(0)[1:, 1:]], 25.0)
    assert not list(tmp_path.iterdir())


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(PolyplinkError, match="PyAV, which is not installed; pip install av"):
        write_film(tmp_path / "a.mp4", [grey(0)], 25.0)
