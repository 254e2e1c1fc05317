from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.tracklets.crops import Unreadable
from polyplink.tracklets.video_frames import VideoFrames
from tests.data.films import HEIGHT, WIDTH, number_of, spoil, write_film
from tests.tracklets.frames import cut_all, whole_frame


@pytest.mark.parametrize("suffix", ["mp4", "avi"])
def test_crops_are_of_the_frames_named(tmp_path: Path, suffix: str) -> None:
    write_film(tmp_path / f"a.{suffix}", 60)
    frames = [whole_frame(f"a.{suffix}#{k}", k, WIDTH, HEIGHT) for k in (3, 4, 17, 58, 60)]
    got = cut_all(VideoFrames(tmp_path), frames, WIDTH)
    assert isinstance(got.pop(60), Unreadable)
    assert {k: number_of(p) for k, p in got.items() if not isinstance(p, Unreadable)} == {
        k: k for k in (3, 4, 17, 58)
    }


def test_a_broken_frame_is_told(tmp_path: Path) -> None:
    spoil(write_film(tmp_path / "a.mp4", 40), 20)
    frames = [whole_frame(f"a.mp4#{k}", k, WIDTH, HEIGHT) for k in range(0, 40, 4)]
    got = cut_all(VideoFrames(tmp_path), frames, WIDTH)
    assert isinstance(got[20], Unreadable)
    assert not isinstance(got[4], Unreadable)


def test_what_it_takes(tmp_path: Path) -> None:
    source = VideoFrames(tmp_path)
    assert source.takes(whole_frame("d/A.MKV#0", 0, 1, 1))
    assert not source.takes(whole_frame("a.mp4", 0, 1, 1))
    assert not source.takes(whole_frame(None, 0, 1, 1))
    with pytest.raises(PolyplinkError, match=r"video .*none\.mp4 is missing"):
        cut_all(source, [whole_frame("none.mp4#0", 0, 1, 1)])
