"""Some YOLO label files as columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from PIL import Image, UnidentifiedImageError

from polyplink.data.faults import Faults, leave_out
from polyplink.data.formats.yolo_files import LabelFile

_VALUES = ("class", "cx", "cy", "w", "h", "sixth", "seventh")


@dataclass(frozen=True)
class YoloRead:
    """What some files hold.

    Attributes:
        boxes: at, file (its number), class, cx, cy, w, h (of the image's size), sixth, seventh;
            null where a line has fewer values.
        sizes: file, width, height: of the images that were opened.
        faults: What was left out.
    """

    boxes: pl.DataFrame
    sizes: pl.DataFrame
    faults: Faults


def read_labels(
    job: tuple[int, Sequence[LabelFile]], root: Path, open_images: bool, strict: bool
) -> YoloRead:
    """Read label files.

    Args:
        job: Number of the first file, and the files.
        root: Folder that images are relative to.
        open_images: Look into each image for its size.
        strict: Raise at the first fault.

    Raises:
        PolyplinkError: If strict, at the first file that cannot be read, line that is no box, or
            image that cannot be opened.
    """
    first, files = job
    faults = Faults(strict)
    lines: list[str] = []
    owners: list[int] = []
    numbers: list[int] = []
    for i, file in enumerate(files, first):
        text = _text(file, faults)
        for number, line in enumerate(text.splitlines(), 1):
            if line and not line.isspace():
                lines.append(line)
                owners.append(i)
                numbers.append(number)
    table = pl.DataFrame(
        {"text": lines, "file": owners, "line": numbers},
        schema={"text": pl.String, "file": pl.Int64, "line": pl.Int64},
    )
    return YoloRead(
        _boxes(table, files, first, faults), _sizes(job, root, open_images, faults), faults
    )


def _text(file: LabelFile, faults: Faults) -> str:
    try:
        return Path(file.path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        faults.fault("label file that is not UTF-8 text", file.name, "write it again")
        return ""


def _boxes(
    table: pl.DataFrame, files: Sequence[LabelFile], first: int, faults: Faults
) -> pl.DataFrame:
    names = pl.DataFrame(
        {"name": [file.name for file in files]}, schema={"name": pl.String}
    ).with_row_index("file", first)
    table = table.join(
        names.with_columns(pl.col("file").cast(pl.Int64)),
        on="file",
        how="left",
        maintain_order="left",
    ).with_columns(
        at=pl.format("{}, line {}", "name", "line"),
        values=pl.col("text").str.extract_all(r"\S+"),
    )
    count = pl.col("values").list.len()
    table = leave_out(
        table,
        (count < 5) | (count > 7),
        "line that is no box (class, 4 numbers, score, track)",
        "write 5 to 7 values; outlines are not read",
        faults,
    )
    texts = [pl.col("values").list.get(i, null_on_oob=True) for i in range(len(_VALUES))]
    table = table.select(
        "at",
        "file",
        *(
            text.cast(pl.Float64, strict=False).alias(n)
            for text, n in zip(texts, _VALUES, strict=True)
        ),
        given=count,
    )
    lost = [
        pl.col(n).is_null() & (pl.col("given") > i)
        for i, n in enumerate(_VALUES)
        if i not in (1, 2, 3, 4)
    ]
    return leave_out(
        table,
        pl.any_horizontal(lost),
        "line with text instead of a number",
        "write numbers",
        faults,
    ).drop("given")


def _sizes(
    job: tuple[int, Sequence[LabelFile]], root: Path, open_images: bool, faults: Faults
) -> pl.DataFrame:
    rows = []
    for i, file in enumerate(job[1] if open_images else (), job[0]):
        if file.image is None:
            continue
        try:
            with Image.open(root / file.image) as image:
                rows.append((i, *image.size))
        except (OSError, UnidentifiedImageError, Image.DecompressionBombError):
            faults.fault("image that cannot be opened", file.image, "replace it, or say the size")
    return pl.DataFrame(
        rows, schema={"file": pl.Int64, "width": pl.Int64, "height": pl.Int64}, orient="row"
    )
