"""How many false polyps are counted where there is none? Run by `make study-empty`.

    make study-empty DATA="FOLDER"
    make study-empty DATA="FOLDER --procedures PROCEDURES --weights NAME ..."

FOLDER holds images without a polyp, best such that no model was trained on. As between the visits
of procedures made of stills, a simulated camera wanders over them, for five minutes in each of four
recordings, and the shipped models, or encoders of --weights, count. With --procedures, a data
folder of annotated procedures with images, such as `OUT/stills/test` of `polyplink calibrate
--stills`, each procedure is followed by one of these recordings, and its count is compared with
the true number.
"""

import argparse
import os
from pathlib import Path

import numpy as np
import polars as pl

import polyplink
from polyplink.data.files.images import decoded_image
from polyplink.data.files.trees import image_files
from polyplink.data.tables import read_data
from polyplink.models.shipped import ENCODER
from polyplink.stills.procedures import StillsConfig, draw_visit, write_frames
from tests.studies.frame_rates import comparison

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


def link_frames(sources: list[Path], out: Path) -> None:
    """Link the images of folders into one folder, as the frames of one recording."""
    out.mkdir(parents=True)
    images = [image for source in sources for image in image_files(source)]
    for number, image in enumerate(images):
        os.link(image, out / f"{number:06d}.jpg")


def main() -> None:
    """Count recordings without a polyp, or procedures followed by them, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="images without a polyp")
    parser.add_argument("--procedures", type=Path, help="data folder of annotated procedures")
    parser.add_argument("--most", type=int, help="number of procedures; all by default")
    parser.add_argument("--weights", nargs="+", default=[ENCODER], help="encoders that count")
    parser.add_argument("--out", type=Path, default=Path("study-empty"), help="a new folder")
    arguments = parser.parse_args()
    frames, out = arguments.out / "frames", arguments.out
    for number in range(RECORDINGS):
        write_recording(image_files(arguments.folder), frames / f"r{number}", number)
    true = None
    if arguments.procedures is not None:
        data, empty, frames = read_data(arguments.procedures), frames, out / "followed"
        for i, name in enumerate(data.procedures["procedure_id"].head(arguments.most)):
            procedure = arguments.procedures / "frames" / name
            link_frames([procedure, empty / f"r{i % RECORDINGS}"], frames / name)
        true = data.polyps.group_by("procedure_id").len("true")

    # The boxes once, counted with each encoder.
    polyplink.detect_polyps(frames, out / "boxes", fps=StillsConfig.fps)
    if true is not None:
        print("| encoder | procedures | count error | counted minus true | intervals that hold |")
        print("|---|---|---|---|---|")
    for i, weights in enumerate(arguments.weights):
        counts = polyplink.count(weights, out / "boxes", out=out / f"count{i}").value.counts
        if true is not None:
            table = counts.join(true, on="procedure_id")
            cells = [weights, str(table.height), *comparison(table)]
            print("|", " | ".join(cells), "|", flush=True)
            continue
        with pl.Config(tbl_formatting="ASCII_MARKDOWN", tbl_hide_dataframe_shape=True):
            print(weights, counts.select("procedure_id", "polyps", "low", "high"))


if __name__ == "__main__":
    main()
