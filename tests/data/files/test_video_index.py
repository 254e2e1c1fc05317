from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from polyplink.data.files.video_index import VideoIndex, index_packets
from tests.data.films import write_film


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "ts"])
def test_times_are_those_of_the_decoded_frames(tmp_path: Path, suffix: str) -> None:
    path = write_film(tmp_path / f"a.{suffix}", 40, varying=True)
    with av.open(str(path)) as container:
        index = index_packets(container, container.streams.video[0])
    with av.open(str(path)) as container:
        frames = [(frame.pts, frame.key_frame) for frame in container.decode(video=0)]
    assert index.times is not None
    assert index.times.tolist() == [time for time, _ in frames]
    assert index.keys.tolist() == [time for time, key in frames if key]
    assert index.n_frames == 40


def test_frames_of_avi_are_counted(tmp_path: Path) -> None:
    path = write_film(tmp_path / "a.avi", 40)
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        index = index_packets(container, stream)
        assert index.times is None
        assert index.n_frames == 40
        assert index.fps(stream.time_base, stream.average_rate) == 25.0


def test_key_frames_and_rate() -> None:
    index = VideoIndex(4, np.array([10, 20, 40, 50]), np.array([10, 40]), np.array([0, 30]))
    assert [index.key_before(time) for time in (0, 10, 39, 40, 99)] == [0, 0, 0, 1, 1]
    assert index.fps(Fraction(1, 1000), None) == 75.0
    assert VideoIndex(1, np.array([0]), np.array([0]), np.array([0])).fps(None, None) is None
