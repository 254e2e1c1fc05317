"""What do poor recordings cost a detector and an encoder? Run by `make study-degraded`.

    make study-degraded DATA="FOLDER --detector NAME --weights NAME"

FOLDER is a data folder of annotated images with polyp ids. The detector sees them compressed,
blurred, darker, with other pixels or with borders, the encoder all but the last two. Each row of
the first table is measured as by `evaluate-detector`, of the second as by `evaluate`: every run of
images of a polyp without a gap of more than 40 frames is a query. 95 % intervals are over
procedures.
"""

import argparse
import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import av
import numpy as np
import polars as pl
from PIL import Image, ImageEnhance, ImageFilter

import polyplink
from polyplink.cli.evaluate_detector import SIDE
from polyplink.data.files.images import Pixels
from polyplink.data.tables import DataSet, read_data, write_data
from polyplink.detect.folder import open_detector, record_of
from polyplink.detect.onnx import OnnxDetector
from polyplink.evaluate.detections import LEAST_SCORE, measure_detector
from polyplink.evaluate.intervals import Figure
from polyplink.learn.detector.frames import read_frames, true_boxes, unstretch
from polyplink.models.shipped import DETECTOR, ENCODER
from polyplink.report.formats import figure_text


def jpeg(image: Image.Image, quality: int) -> Image.Image:
    """The image after JPEG compression."""
    buffer = BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return Image.open(buffer).convert("RGB")


def write_h264(target: Path | BytesIO, images: Iterable[Image.Image], fps: float, crf: int) -> None:
    """Write images of one size as an mp4 video in H.264 with a constant rate factor.

    H.264 has even sides: images with odd ones are scaled.
    """
    with av.open(target, "w", format="mp4") as container:
        stream: Any = container.add_stream("libx264", rate=Fraction(fps), options={"crf": str(crf)})
        for number, image in enumerate(images):
            if number == 0:
                stream.width, stream.height = (side // 2 * 2 for side in image.size)
                stream.pix_fmt = "yuv420p"
            frame = av.VideoFrame.from_ndarray(np.asarray(image.convert("RGB")), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def h264(image: Image.Image, crf: int) -> Image.Image:
    """The image after H.264 compression with a constant rate factor."""
    buffer = BytesIO()
    write_h264(buffer, [image], 25, crf)
    buffer.seek(0)
    with av.open(buffer, "r") as compressed:
        pixels = next(compressed.decode(video=0)).to_ndarray(format="rgb24")
    return Image.fromarray(pixels).resize(image.size)


def moved(image: Image.Image, pixels: int) -> Image.Image:
    """The image blurred by a horizontal movement."""
    shifted = [np.roll(np.asarray(image, float), x - pixels // 2, 1) for x in range(pixels)]
    return Image.fromarray(np.mean(shifted, 0).round().astype(np.uint8))


CHANGED: dict[str, Callable[[Image.Image], Image.Image]] = {
    "as they are": lambda image: image,
    "H.264, CRF 30": partial(h264, crf=30),
    "H.264, CRF 35": partial(h264, crf=35),
    "H.264, CRF 40": partial(h264, crf=40),
    "JPEG, quality 10": partial(jpeg, quality=10),
    "blurred by 4 pixels of 640": lambda image: image.filter(ImageFilter.GaussianBlur(4)),
    "moved by 30 pixels of 640": partial(moved, pixels=30),
    "a third as bright": lambda image: ImageEnhance.Brightness(image).enhance(1 / 3),
    "1.4 times as bright": lambda image: ImageEnhance.Brightness(image).enhance(1.4),
    "hazy: half of the contrast, brighter": lambda image: image.point(lambda x: 0.5 * x + 77),
    "grey": lambda image: image.convert("L").convert("RGB"),
}
"""Changes of the pixels."""

SHAPED = {
    "0.7 times as wide (anamorphic)": (0.7, 0.0, 0.0),
    "half as wide": (0.5, 0.0, 0.0),
    "black borders left and right, a quarter of the width each": (1.0, 0.25, 0.0),
    "black borders on all sides, half of the width and height each": (1.0, 0.5, 0.5),
}
"""Factor of the width; width of the left and the right border, and height of the upper and the
lower one, as shares of the image."""


def shaped(
    image: Pixels, boxes: np.ndarray, squeeze: float, side: float, top: float
) -> tuple[Pixels, np.ndarray]:
    """An image squeezed and with borders, and its boxes (k, 4): x, y, w, h."""
    height, width = image.shape[0], round(squeeze * image.shape[1])
    x, y = round(side * width), round(top * height)
    squeezed = np.asarray(Image.fromarray(image).resize((width, height)))
    placed = boxes * [squeeze, 1, squeeze, 1] + np.array([x, y, 0, 0])
    return np.pad(squeezed, ((y, y), (x, x), (0, 0))), placed


def retrieval(
    folder: Path, data: DataSet, weights: str, change: Callable[[Image.Image], Image.Image]
) -> Figure:
    """The retrieval mAP of an encoder on the images of a data folder, all changed alike."""
    source_of = dict(data.procedures.select("procedure_id", "source").iter_rows())
    names = data.detections.select("procedure_id", "image").drop_nulls().unique()
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary)
        for procedure, name in names.iter_rows():
            place = out / "data" / procedure / name
            place.parent.mkdir(parents=True, exist_ok=True)
            image = Image.open(folder / source_of[procedure] / name).convert("RGB")
            change(image).save(place, "PNG")
        procedures = data.procedures.with_columns(source=pl.col("procedure_id"))
        write_data(out / "data", DataSet.of(data.detections, procedures, data.polyps, data.splits))
        evaluated = polyplink.evaluate_weights(
            weights,
            out / "data",
            out=out / "evaluation",
            part="all",
            tasks=["retrieval"],
            baselines=False,
            min_length=1,
            max_gap=40,
            min_iou=0,
            stride=1,
        ).value
        (encoder,) = evaluated.evaluation.encoders.values()
        return encoder.figures["mAP"]


def main() -> None:
    """Measure a detector and an encoder on changed frames, and print a table of each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="a data folder of annotated frames")
    parser.add_argument("--detector", default=DETECTOR, help="a detector, as for `run`")
    parser.add_argument("--weights", default=ENCODER, help="an encoder, as for `run`")
    arguments = parser.parse_args()
    data = read_data(arguments.folder)
    find = open_detector(arguments.detector, at_once=1).find
    score = record_of(find).begins_track
    if isinstance(find, OnnxDetector):
        find.record = replace(find.record, threshold=LEAST_SCORE)
    frames = read_frames(
        arguments.folder, data, data.part(None), SIDE, 1000, workers=os.cpu_count() or 1
    )
    whole = [unstretch(frames, row) for row in range(len(frames.pixels))]
    truth = true_boxes(frames)

    def measure(name: str, images: list[Pixels], boxes: list[np.ndarray]) -> None:
        """Print a row: the detector's figures in these images, with these true boxes."""
        sizes = np.array([image.shape[1::-1] for image in images], float)
        detected = [find(np.ascontiguousarray(image)) for image in images]
        figures = measure_detector(detected, boxes, sizes, frames.procedures, score=score)
        cells = (figure_text(figure, 3) for figure in (figures.ap50, figures.recall))
        print(f"| {name} | {' | '.join(cells)} | {figures.precision.value:.3f} |", flush=True)

    print(f"| frames | AP50 | recall from score {score:.2f} | precision |\n|---|---|---|---|")
    for name, change in CHANGED.items():
        measure(name, [np.asarray(change(Image.fromarray(image))) for image in whole], truth)
    for name, shape in SHAPED.items():
        pairs = [shaped(*pair, *shape) for pair in zip(whole, truth, strict=True)]
        measure(name, [image for image, _ in pairs], [boxes for _, boxes in pairs])
    print("\n| frames | retrieval mAP |\n|---|---|")
    for name, change in CHANGED.items():
        figure = retrieval(arguments.folder, data, arguments.weights, change)
        print(f"| {name} | {figure_text(figure, 3)} |", flush=True)


if __name__ == "__main__":
    main()
