"""Clips out of tracklets of any length."""

from hypothesis import given
from hypothesis import strategies as st

from polyplink.encoders.foundation.windows import clip_starts


@given(st.integers(1, 300), st.integers(0, 70))
def test_every_frame_is_in_a_clip_and_no_clip_leaves_the_tracklet(frames: int, clip: int) -> None:
    starts = clip_starts(frames, clip)
    size = min(clip or frames, frames)
    assert starts == sorted(set(starts))
    assert starts[0] == 0
    assert starts[-1] + size == frames
    assert set(range(frames)) == {start + i for start in starts for i in range(size)}
    assert len(starts) == -(-frames // size)  # as few as possible
