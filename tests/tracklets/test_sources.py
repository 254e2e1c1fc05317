import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from polyplink.tracklets.ahead import Threads, threads
from polyplink.tracklets.crops import FrameCrops, Pixels, Unreadable
from polyplink.tracklets.sources import CropSource, crop_sources, cut_crops, without_source
from tests.data.films import frame_of, write_film
from tests.tracklets.frames import whole_frame


class Drawn:
    """A source that draws frames that have no image, as a simulation may."""

    def takes(self, frame: FrameCrops) -> bool:
        return frame.image is None

    def crops(
        self, frames: Sequence[FrameCrops], size: int, threads: Threads
    ) -> Iterator[tuple[FrameCrops, Pixels | Unreadable]]:
        for frame in frames:
            yield frame, np.full((1, size, size, 3), frame.frame, np.uint8)


def test_files_archives_videos_and_a_drawing_in_one_procedure(tmp_path: Path) -> None:
    for number in (0, 1):
        Image.fromarray(frame_of(number)).save(tmp_path / f"{number}.png")
    with tarfile.open(tmp_path / "p.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "1.png", "p/1.png")
    write_film(tmp_path / "a.mp4", 10)
    names = ["0.png", "p.tar.gz!/p/1.png", "a.mp4#2", None]
    frames = [whole_frame(name, k, 64, 48) for k, name in enumerate(names)]
    plain = crop_sources(tmp_path, "p")
    sources: list[CropSource] = [*plain, Drawn()]
    assert without_source(sources, frames) is None
    assert without_source(plain, frames) is frames[3]
    with threads(1) as pool:
        got = {frame.frame: pixels for frame, pixels in cut_crops(sources, frames, 8, pool)}
    assert sorted(got) == [0, 1, 2, 3]
    means = {k: np.asarray(p)[0].mean(axis=(0, 2)) for k, p in got.items()}
    for k in (0, 1, 2):
        expected = frame_of(k)[0, :, 0].reshape(8, 8).mean(axis=1)
        assert ((means[k] > 128) == (expected > 128)).all()
    assert means[3].tolist() == [3.0] * 8
