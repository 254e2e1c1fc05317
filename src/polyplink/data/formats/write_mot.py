"""Write a data set as MOTChallenge sequences."""

from pathlib import Path

import polars as pl

from polyplink.core.artefacts import write_text
from polyplink.core.errors import PolyplinkError
from polyplink.data.formats.mot import FIRST
from polyplink.data.formats.side_tables import tracks_of, write_side_tables
from polyplink.data.tables import DataSet


def write_mot(data: DataSet, root: Path, *, kind: str = "det") -> None:
    """Write `<procedure>/det/det.txt` (or `gt/gt.txt`) and `seqinfo.ini`; `import_mot` reads them.

    Frames count from 1. A polyp is its number in its procedure (see `side_tables`),
    -1 where unknown; its name and facts, and those of the procedure, go into `polyps.csv` and
    `procedures.csv` beside the sequences. Not carried: images and splits; by "gt", scores.

    Args:
        data: The data set.
        root: Folder to write into; made if absent.
        kind: "det": with scores (-1: none), "gt": as ground truth (confidence 1).

    Raises:
        PolyplinkError: If a procedure's name has a slash.
    """
    tracks = tracks_of(data)
    boxes = data.detections.join(
        tracks, on=["procedure_id", "polyp_id"], how="left", maintain_order="left"
    )
    score = pl.lit(1, dtype=pl.Int32) if kind == "gt" else pl.col("score").fill_null(-1)
    last = (1, 1) if kind == "gt" else (-1, -1)
    lines = boxes.select(
        "procedure_id",
        pl.col("frame") + FIRST,
        pl.col("track").fill_null(-1),
        "x",
        "y",
        "w",
        "h",
        score.alias("score"),
        pl.lit(last[0]).alias("class"),
        pl.lit(last[1]).alias("visibility"),
    ).partition_by("procedure_id", as_dict=True, include_key=False)
    for row in data.procedures.iter_rows(named=True):
        PolyplinkError.unless(
            "/" not in row["procedure_id"],
            f"procedure {row['procedure_id']!r} cannot be the name of a folder",
            "give it a name without a slash",
        )
        folder = root / row["procedure_id"]
        table = lines.get((row["procedure_id"],))
        text = "" if table is None else table.write_csv(include_header=False)
        write_text(folder / kind / f"{kind}.txt", text)
        write_text(folder / "seqinfo.ini", _seqinfo(row))
    write_side_tables(data, root, tracks)


def _seqinfo(row: dict[str, object]) -> str:
    rate = "" if row["fps"] is None else f"frameRate={row['fps']}\n"
    return (
        f"[Sequence]\nname={row['procedure_id']}\nimDir=img1\n{rate}"
        f"seqLength={row['n_frames']}\nimWidth={row['width']}\nimHeight={row['height']}\n"
        "imExt=.jpg\n"
    )
