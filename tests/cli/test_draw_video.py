"""Videos with boxes: frames in order, and lines at the boxes."""

from pathlib import Path

import av
import numpy as np
import polars as pl
import pytest
from PIL import Image

from polyplink.core.errors import PolyplinkError
from polyplink.core.results import silent
from polyplink.data.files.images import Picture
from polyplink.pipeline.draw_video import Drawing, _pictures, draw_video, draw_videos
from tests.data.videos import HEIGHT, WIDTH, frame_of, number_of, write_video

BLUE = np.array([0x00, 0x72, 0xB2])


def drawing(*rows: tuple[int, float, float, float, float, int | None, bool]) -> Drawing:
    names = ("frame", "x", "y", "w", "h", "polyp", "interpolated")
    kinds = (pl.Int64, *[pl.Float64] * 4, pl.Int64, pl.Boolean)
    schema = dict(zip(names, kinds, strict=True))
    return Drawing.of(pl.DataFrame(rows, schema=schema, orient="row"), 25.0, 9)


def frames_of(path: Path) -> dict[int, np.ndarray]:
    """Frame number, from the time at 25 frames per second -> pixels."""
    with av.open(str(path)) as container:
        return {
            round((frame.time or 0) * 25): frame.to_ndarray(format="rgb24")
            for frame in container.decode(video=0)
        }


@pytest.mark.parametrize("codec", ["libx264", "mpeg4"])
def test_boxes_are_drawn_on_the_frames_of_a_video(
    codec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(av, "codecs_available", {codec})
    write_video(tmp_path / "film.mp4", 9)
    # The last rows stay free for the stripes with the frame number.
    lines = drawing((4, 20, 22, 30, 12, 1, False), (6, 20.0, 22.0, 30.0, 12.0, 1, True))
    steps: list[tuple[int, int]] = []
    pictures = _pictures(tmp_path, {0: "film.mp4#0"}, 9)
    n = draw_video(tmp_path / "drawn.mp4", pictures, lines, lambda *done: steps.append(done))
    with av.open(str(tmp_path / "drawn.mp4")) as container:
        assert container.streams.video[0].codec_context.name in (codec, "h264")
        assert not container.streams.audio
    frames = frames_of(tmp_path / "drawn.mp4")
    assert (n, steps, list(frames)) == (9, [(k, 9) for k in range(1, 10)], list(range(9)))
    for number, pixels in frames.items():
        assert pixels.shape == (HEIGHT, WIDTH, 3)
        assert number_of(np.tile(pixels[-8:], (6, 1, 1))) == number
        blue = np.abs(pixels[32:34, 22:48].astype(int) - BLUE).max(axis=2) < 60  # the lower line
        share = blue.mean()
        assert share > 0.9 if number == 4 else 0.3 < share < 0.8 if number == 6 else share == 0
    corner = {number: pixels[:12, :60].astype(int) for number, pixels in frames.items()}
    same, other = (np.abs(corner[k] - corner[3]).mean() for k in (2, 4))
    assert other > 5 * same  # "0 polyps" becomes "1 polyp"


def test_missing_frames_repeat_the_previous_frame(tmp_path: Path) -> None:
    folder = tmp_path / "case7"
    folder.mkdir()
    for number in (3, 4, 7, 8):
        Image.fromarray(frame_of(number)[:-1, :-1]).save(folder / f"img_{number:03d}.png")
    (folder / "img_008.png").write_bytes(b"damaged")
    images = {1: "case7/img_004.png"}  # frame 0 is number 3; frames 2 and 3 are missing
    n = draw_video(tmp_path / "a.mp4", _pictures(tmp_path, images, 99), drawing())
    frames = frames_of(tmp_path / "a.mp4")
    assert (n, list(frames)) == (3, [0, 1, 4])
    assert [pixels.shape[:2] for pixels in frames.values()] == [(HEIGHT - 2, WIDTH - 2)] * 3
    # Sorted names are consecutive frames, independent of their numbers.
    images = {0: "case7/img_003.png", 2: "case7/img_007.png"}
    draw_video(tmp_path / "b.mp4", _pictures(tmp_path, images, 4), drawing())
    assert list(frames_of(tmp_path / "b.mp4")) == [0, 1, 2]
    # A picture of another size than the first is left out.
    small = Picture(frame_of(1)[:16, :16].copy())
    pictures = [(0, Picture(frame_of(0))), (1, small), (2, Picture(frame_of(2)))]
    assert draw_video(tmp_path / "d.mp4", iter(pictures), drawing()) == 2
    assert list(frames_of(tmp_path / "d.mp4")) == [0, 2]
    for missing, message in (
        ({}, "no box has a picture"),
        ({0: "x/1.png"}, "no picture can be read"),
    ):
        with pytest.raises(PolyplinkError, match=message):
            draw_video(tmp_path / "c.mp4", _pictures(tmp_path, missing, 4), drawing())
    assert not list(tmp_path.glob("*c.mp4*"))


def test_videos_of_an_earlier_count_are_removed(tmp_path: Path) -> None:
    out, (drawn, *earlier) = tmp_path / "videos", ["case7", "empty", "gone", "left"]
    out.mkdir()
    for name in earlier:
        (out / f"{name}.mp4").touch()
    Image.fromarray(frame_of(0)).save(tmp_path / "0.png")
    procedures = pl.DataFrame(
        [(name, 25.0, 1, ".") for name in (drawn, *earlier[:2])],
        ["procedure_id", "fps", "n_frames", "source"],
        orient="row",
    )
    images = {drawn: "0.png", "gone": "1.png"}
    boxes = pl.DataFrame({"procedure_id": [*images], "image": [*images.values()]}).with_columns(
        frame=0, x=0.0, y=0.0, w=9.0, h=9.0, polyp=1, interpolated=False
    )
    files, lines = draw_videos(procedures, boxes, boxes, tmp_path, out, progress=silent)
    assert files == [*out.iterdir()] == [out / "case7.mp4"]
    assert lines[0] == "no video of empty: there is no box to draw"
    assert lines[1].startswith("no video of gone: no picture can be read")
    assert draw_videos(procedures[1:2], boxes, boxes, tmp_path, out, progress=silent)[0] == []
    assert not out.exists()  # else a count without --video would say that it shows an earlier one
