"""How does a count depend on the frame rate and on the pictures? Run by `make study-rates`.

    make study-rates DATA="PROCEDURES ... --every 1 3 12 --crf 35"
    make study-rates DATA="PROCEDURES ... --every 1 --change 'a third as bright' --weights FILE"

PROCEDURES are data folders of annotated procedures with images, such as `OUT/stills/test` of
`polyplink calibrate --stills`. Of each, every k-th frame is kept, as an image or, with --crf, in a
video that is compressed as H.264. With --change, each image is changed as in `degraded_frames` and
stored as JPEG. The shipped detector finds polyps in these frames, and the shipped encoder or that
of --weights counts them. Everything else is as in `polyplink run`.
"""

import argparse
import os
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
from PIL import Image

import polyplink
from polyplink.data.files.trees import image_files
from polyplink.data.tables import read_data
from polyplink.evaluate.intervals import draw_weights, resampled_mean
from polyplink.models.shipped import ENCODER
from polyplink.report.formats import figure_text
from tests.studies.degraded_frames import CHANGED, write_h264

QUALITY = 97  # of the JPEG images of changed frames


def counted(
    folder: Path,
    every: int,
    crf: int | None,
    out: Path,
    *,
    change: Callable[[Image.Image], Image.Image] | None = None,
    weights: str = ENCODER,
) -> pl.DataFrame:
    """Count the procedures of a folder from every `every`-th of their frames.

    Args:
        folder: A data folder with its images in frames/PROCEDURE.
        every: Step between frames.
        crf: Rate factor of the video that is made of the frames; None for the images themselves.
        out: An output folder.
        change: Change of each image; None for the images as they are.
        weights: The encoder that counts.

    Returns:
        A row for each procedure: fps, polyps, low, high, and true, the true number of polyps.
    """
    data = read_data(folder)
    (fps,) = data.procedures["fps"].unique() / every
    for procedure in data.procedures["procedure_id"]:
        images = image_files(folder / "frames" / procedure)[::every]
        frames = out / "frames" / procedure
        if crf is not None:
            frames.parent.mkdir(parents=True, exist_ok=True)
            write_h264(frames.with_suffix(".mp4"), map(Image.open, images), fps, crf)
            continue
        frames.mkdir(parents=True, exist_ok=True)
        for number, image in enumerate(images):
            frame = frames / f"{number:06d}.jpg"
            if frame.exists():
                continue
            if change is None:
                os.link(image, frame)
            else:
                change(Image.open(image).convert("RGB")).save(frame, quality=QUALITY)
    polyplink.detect_polyps(out / "frames", out / "boxes", fps=fps)
    counts = polyplink.count(weights, out / "boxes", out=out / "count").value.counts
    true = data.polyps.group_by("procedure_id").len("true")
    return counts.join(true, on="procedure_id").with_columns(fps=pl.lit(fps))


def comparison(table: pl.DataFrame) -> list[str]:
    """Cells of a table: count error with its interval, mean difference, intervals that hold.

    Args:
        table: Columns polyps, low, high, and true, the true number of polyps.
    """
    off = table.select(pl.col("polyps", "true").cast(pl.Int64)).to_numpy() @ [1, -1]
    error = resampled_mean(np.abs(off), np.ones(len(off)), draw_weights(len(off))).figure()
    with_interval = table.drop_nulls("low")
    held = with_interval.filter(pl.col("true").is_between("low", "high")).height
    intervals = f"{held} of {with_interval.height}" if with_interval.height else "none given"
    return [figure_text(error, 2), f"{off.mean():+.2f}", intervals]


def main() -> None:
    """Count from fewer and from compressed frames, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", type=Path, nargs="+", help="data folders with images")
    parser.add_argument("--every", type=int, nargs="+", default=[1, 2, 4], help="frames kept")
    parser.add_argument("--crf", type=int, nargs="+", help="H.264 rate factors; none for images")
    parser.add_argument("--change", choices=CHANGED, help="change of the images, without --crf")
    parser.add_argument("--weights", default=ENCODER, help="the encoder that counts")
    parser.add_argument("--out", type=Path, default=Path("rates"), help="folder for the results")
    arguments = parser.parse_args()
    if arguments.change and arguments.crf:
        parser.error("--change is not for --crf: leave one out")
    print(
        "| frames a second | H.264 CRF | count error | counted minus true | intervals that hold |\n"
        "|---|---|---|---|---|"
    )
    changed = "" if arguments.change is None else f"-{[*CHANGED].index(arguments.change)}"
    for every, crf in product(arguments.every, arguments.crf or [None]):
        table = pl.concat(
            counted(
                folder,
                every,
                crf,
                arguments.out / f"{folder.name}-{place}-every{every}-crf{crf}{changed}",
                change=CHANGED.get(arguments.change),
                weights=arguments.weights,
            )
            for place, folder in enumerate(arguments.folders)
        )
        cells = [f"{table['fps'][0]:g}", "" if crf is None else str(crf), *comparison(table)]
        print("|", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
