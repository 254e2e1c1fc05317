from pathlib import Path

import av
import numpy as np
import pytest

from polyplink.data.files.video_decoding import careful, decoded, demuxed, from_key, trusted
from polyplink.data.files.video_index import VideoIndex, index_packets
from tests.data.films import number_of, spoil, write_film


def index_of(path: Path) -> VideoIndex:
    with av.open(str(path)) as container:
        return index_packets(container, container.streams.video[0])


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "ts"])
def test_decoding_begins_at_any_key_frame(tmp_path: Path, suffix: str) -> None:
    path = write_film(tmp_path / f"a.{suffix}", 90, gop=10)
    index = index_of(path)
    assert index.times is not None
    with av.open(str(path)) as container:
        careful(container, threads=True)
        for key in (5, 0, len(index.keys) - 1, 2):
            frame, sound = next(trusted(from_key(container, index, key), index))
            number = int(np.searchsorted(index.times, index.keys[key]))
            assert sound
            assert number_of(np.asarray(frame.to_ndarray(format="rgb24"))) == number


def test_damage_is_told_and_trust_comes_back_at_a_key_frame(tmp_path: Path) -> None:
    path = write_film(tmp_path / "a.mp4", 60)
    index = index_of(path)
    spoil(path, 20)
    with av.open(str(path)) as container:
        careful(container, threads=False)
        assert sum(frames is None for _, frames in decoded(demuxed(container))) >= 1
    with av.open(str(path)) as container:
        careful(container, threads=True)
        sound = [sound for _, sound in trusted(from_key(container, index, 0), index)]
    assert sound[:15] == [True] * 15
    assert False in sound
    assert sound[-10:] == [True] * 10
