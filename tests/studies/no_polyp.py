"""How many false polyps are counted where there is none? Run by `make study-empty`.

    make study-empty DATA="FOLDER"

FOLDER holds images without a polyp, best such that no model was trained on. As between the visits
of procedures made of stills, a simulated camera wanders over them, for five minutes in each of four
recordings, and the shipped models count.
"""

import argparse
from pathlib import Path

import numpy as np
import polars as pl

import polyplink
from polyplink.data.files.images import decoded_image
from polyplink.data.files.trees import image_files
from polyplink.stills.procedures import StillsConfig, draw_visit, write_frames

RECORDINGS, SECONDS = 4, 300.0


def write_recording(images: list[Path], out: Path, seed: int) -> None:
    """Write the frames of a recording over images in random order."""
    config, rng = StillsConfig(), np.random.default_rng([5, seed])
    frame = config.width, config.height
    out.mkdir(parents=True)
    number = 0
    while number < SECONDS * config.fps:
        picture = decoded_image(images[int(rng.integers(len(images)))])
        path = draw_visit(rng, picture, None, config)
        write_frames(out, number, picture, path, frame)
        number += len(path.maps)


def main() -> None:
    """Count recordings without a polyp, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="images without a polyp")
    parser.add_argument("--out", type=Path, default=Path("study-empty"), help="a new folder")
    arguments = parser.parse_args()
    for number in range(RECORDINGS):
        write_recording(
            image_files(arguments.folder), arguments.out / "frames" / f"r{number}", number
        )
    counted = polyplink.run(
        arguments.out / "frames", out=arguments.out / "run", fps=StillsConfig.fps
    )
    counts = counted.value.counts.select("procedure_id", "polyps", "low", "high")
    with pl.Config(tbl_formatting="ASCII_MARKDOWN", tbl_hide_dataframe_shape=True):
        print(counts)


if __name__ == "__main__":
    main()
