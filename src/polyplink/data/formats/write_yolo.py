"""Write a data set as YOLO labels."""

from pathlib import Path

import polars as pl

from polyplink.core.artefacts import whole_folder, write_text
from polyplink.core.errors import PolyplinkError
from polyplink.data.formats.frame_names import PARTS
from polyplink.data.formats.side_tables import tracks_of, write_side_tables
from polyplink.data.tables import DataSet


def write_yolo(data: DataSet, root: Path) -> None:
    """Write `labels/<procedure>/<frame>.txt` and `data.yaml`; `import_yolo` reads them.

    A line is `0 cx cy w h`, with score and track where any box has one (-1: none). A procedure in
    the part train, val or test lies below it. Names and facts of polyps and procedures go into
    `polyps.csv` and `procedures.csv`; `data.yaml` has width and height where all procedures have
    the same. Boxes come back to a thousandth of a pixel. Not carried: images and other splits.

    Args:
        data: The data set.
        root: Folder to write into; made if absent.

    Raises:
        PolyplinkError: If there are labels already, or a procedure is called as a part is.
    """
    tracks = tracks_of(data)
    parts = {i: part for part in PARTS for i in data.splits.get(part, ())}
    lines = _lines(data, tracks)
    with whole_folder(root / "labels") as labels:
        homes: dict[str, str] = {}
        for procedure_id, frame, text in lines.iter_rows():
            if procedure_id not in homes:
                homes[procedure_id] = _home(procedure_id, labels / parts.get(procedure_id, ""))
            with open(f"{homes[procedure_id]}/{frame:06d}.txt", "w", encoding="utf-8") as file:  # noqa: PTH123 - no path object for each frame
                file.write(text)
    write_text(root / "data.yaml", _yaml(data))
    write_side_tables(data, root, tracks)


def _home(procedure_id: str, folder: Path) -> str:
    """Make the folder of a procedure's labels."""
    PolyplinkError.unless(
        procedure_id.split("/", maxsplit=1)[0] not in PARTS,
        f"procedure {procedure_id!r} is called as a part is",
        "give it another name",
    )
    home = folder / procedure_id
    home.mkdir(parents=True)
    return str(home)


def _lines(data: DataSet, tracks: pl.DataFrame) -> pl.DataFrame:
    """procedure_id, frame, and the text of its file."""
    size = data.procedures.select("procedure_id", "width", "height")
    boxes = data.detections.join(size, on="procedure_id", how="left", maintain_order="left").join(
        tracks, on=["procedure_id", "polyp_id"], how="left", maintain_order="left"
    )
    x, y, w, h = (pl.col(side).cast(pl.Float64) for side in "xywh")
    values = [
        (x + w / 2) / pl.col("width"),
        (y + h / 2) / pl.col("height"),
        w / pl.col("width"),
        h / pl.col("height"),
    ]
    if boxes["score"].null_count() + boxes["track"].null_count() < 2 * boxes.height:
        values += [pl.col("score").fill_null(-1), pl.col("track").fill_null(-1)]
    line = pl.concat_str(pl.lit("0"), *(v.cast(pl.String) for v in values), separator=" ")
    return (
        boxes.select("procedure_id", "frame", line=line + "\n")
        .group_by("procedure_id", "frame", maintain_order=True)
        .agg(pl.col("line").str.join(""))
    )


def _yaml(data: DataSet) -> str:
    sizes = data.procedures.select("width", "height").unique()
    size = (
        f"width: {sizes['width'][0]}\nheight: {sizes['height'][0]}\n" if sizes.height == 1 else ""
    )
    have = [part for part in PARTS if data.splits.get(part)]
    parts = "".join(f"{part}: images/{part}\n" for part in have) or "train: images\nval: images\n"
    return f"path: .\n{parts}nc: 1\nnames: [polyp]\n{size}"
