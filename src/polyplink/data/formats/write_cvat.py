"""Write a data set as CVAT for video 1.1, one file for each procedure."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

import polars as pl

from polyplink.core.artefacts import write_text
from polyplink.data.formats.cvat import POLYP, SCORE
from polyplink.data.formats.side_tables import write_side_tables
from polyplink.data.tables import DataSet

_LABEL = "polyp"


def write_cvat(data: DataSet, root: Path) -> None:
    """Write `<procedure>.xml`; `import_cvat` reads them, and so does CVAT (upload annotations).

    A track holds the boxes of one polyp; a further box of it in a frame is of a further track. It
    is closed by `outside="1"` in every frame after which it is not seen. Polyp and score are
    attributes of a box, empty where unknown. Facts go into `polyps.csv` and `procedures.csv`. Not
    carried: the order of boxes in a frame, images, splits.

    Args:
        data: The data set.
        root: Folder to write into; made if absent.
    """
    boxes = _tracked(data.detections)
    tables = boxes.partition_by("procedure_id", as_dict=True)
    for number, row in enumerate(data.procedures.iter_rows(named=True)):
        table = tables.get((row["procedure_id"],), boxes.clear())
        text = "".join(_document(number, row, table))
        # Quoted, because a name may hold a slash; the task's own name is inside.
        write_text(root / f"{quote(row['procedure_id'], safe=' ')}.xml", text)
    write_side_tables(data, root)


def _tracked(detections: pl.DataFrame) -> pl.DataFrame:
    """Boxes with the number of their track, sorted by it, edges as Float64."""
    nth = pl.int_range(pl.len()).over("procedure_id", "frame", "polyp_id")
    x, y, w, h = (pl.col(side).cast(pl.Float64) for side in "xywh")
    return (
        detections.with_columns(nth=nth, xbr=x + w, ybr=y + h, xtl=x, ytl=y)
        .with_columns(
            track=pl.struct("polyp_id", "nth").rank("dense").over("procedure_id").cast(pl.Int64) - 1
        )
        .sort("procedure_id", "track", "frame", maintain_order=True)
    )


def _document(number: int, row: dict[str, object], boxes: pl.DataFrame) -> Iterator[str]:
    last = int(str(row["n_frames"])) - 1
    yield (
        '<?xml version="1.0" encoding="utf-8"?>\n<annotations>\n<version>1.1</version>\n<meta>'
        f"<task>\n<id>{number}</id>\n<name>{escape(str(row['procedure_id']))}</name>\n"
        f"<size>{last + 1}</size>\n<mode>interpolation</mode>\n<overlap>0</overlap>\n"
        f"<start_frame>0</start_frame>\n<stop_frame>{last}</stop_frame>\n<frame_filter/>\n"
        f"<labels><label><name>{_LABEL}</name><attributes>"
        f"{_declared(POLYP)}{_declared(SCORE)}</attributes></label></labels>\n"
        f"<original_size><width>{row['width']}</width><height>{row['height']}</height>"
        "</original_size>\n</task></meta>\n"
    )
    for track, rows in boxes.partition_by("track", as_dict=True, maintain_order=True).items():
        yield f'<track id="{track[0]}" label="{_LABEL}" source="manual">\n'
        yield from _boxes(rows, last)
        yield "</track>\n"
    yield "</annotations>\n"


def _declared(name: str) -> str:
    return (
        f"<attribute><name>{name}</name><mutable>True</mutable><input_type>text</input_type>"
        "<default_value/><values/></attribute>"
    )


def _boxes(rows: pl.DataFrame, last: int) -> Iterator[str]:
    following = rows["frame"].shift(-1)
    columns = rows.select(
        "frame",
        "xtl",
        "ytl",
        "xbr",
        "ybr",
        pl.col("polyp_id").fill_null(""),
        pl.col("score").cast(pl.String).fill_null(""),
    )
    for (frame, *edges, polyp_id, score), after in zip(columns.iter_rows(), following, strict=True):
        told = (
            f'<attribute name="{POLYP}">{escape(polyp_id)}</attribute>'
            f'<attribute name="{SCORE}">{score}</attribute></box>\n'
        )
        corners = " ".join(
            f"{name}={quoteattr(repr(edge))}"
            for name, edge in zip(("xtl", "ytl", "xbr", "ybr"), edges, strict=True)
        )
        yield f'<box frame="{frame}" keyframe="1" outside="0" occluded="0" {corners}>{told}'
        if after != frame + 1 and frame < last:
            yield f'<box frame="{frame + 1}" keyframe="1" outside="1" occluded="0" {corners}>{told}'
