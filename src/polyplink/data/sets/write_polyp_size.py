"""Write a data set as Polyp-Size is released: videos, a label table, and a side file of boxes.

Source: Song et al., Scientific Data 2025, 12:918; layout as `polyp_size` reads it.
"""

from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from polyplink.core.artefacts import write_text
from polyplink.core.errors import PolyplinkError
from polyplink.data.files.write_frames import FrameSource, short_number
from polyplink.data.files.xlsx import write_xlsx
from polyplink.data.sets.origin import write_origin
from polyplink.data.sets.polyp_size import DATASET
from polyplink.data.tables import DataSet

HEADER = (
    "Video_ID",
    "Polyp_Size",
    "Paris_Classification",
    "Age",
    "Gender",
    "Endoscope_Model",
    "Pathology",
)
FPS = 30  # where the data set names no frame rate


def write_polyp_size(
    data: DataSet,
    root: Path,
    *,
    frames: FrameSource | None = None,
    table: Literal["xlsx", "csv"] = "xlsx",
) -> None:
    """Write the label table, `boxes.csv` and, where an image function is given, the videos.

    The layout has no place for polyp ids (one polyp a video), patients, scores, histology classes,
    locations, and splits. Without the videos nothing tells frames and their size.

    Args:
        data: Procedures named by two digits (`01`).
        root: Folder to write into; made if absent.
        frames: Gives every image of a procedure that is written as a video; sides must be even.
        table: Kind of the label table.

    Raises:
        PolyplinkError: If a procedure is named otherwise, or an image is missing or odd-sided.
    """
    write_origin(data, root, DATASET)
    labels = {row["procedure_id"]: row for row in data.polyps.iter_rows(named=True)}
    rows = [list(HEADER)]
    for procedure in data.procedures.iter_rows(named=True):
        name = procedure["procedure_id"]
        if not name.isdecimal() or f"{int(name):02d}" != name:
            raise PolyplinkError(
                f"procedure {name!r} is no video of Polyp-Size", "name it by two digits, 01"
            )
        rows.append(_label(procedure, labels.get(name, {})))
        if frames is not None:
            _write_video(root / f"Video{name}.mp4", procedure, frames)
    root.mkdir(parents=True, exist_ok=True)
    if table == "xlsx":
        write_xlsx(root / "labels.xlsx", rows)
    else:
        write_text(root / "labels.csv", "".join(",".join(map(_quoted, row)) + "\n" for row in rows))
    boxes = data.detections.select("procedure_id", "frame", "x", "y", "w", "h")
    write_text(root / "boxes.csv", boxes.write_csv())


def _label(procedure: dict[str, Any], polyp: dict[str, Any]) -> list[str]:
    size, age = polyp.get("size_mm"), procedure["age"]
    return [
        f"Video{procedure['procedure_id']}",
        "" if size is None else f"{short_number(size)}mm",
        polyp.get("morphology") or "",
        "" if age is None else str(age),
        procedure["sex"] or "",
        procedure["brand"] or "",
        polyp.get("histology") or "",
    ]


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _write_video(path: Path, procedure: dict[str, Any], frames: FrameSource) -> None:
    import av  # noqa: PLC0415 - heavy, and only videos need it

    path.parent.mkdir(parents=True, exist_ok=True)
    rate = Fraction(procedure["fps"] or FPS).limit_denominator(1001)
    if procedure["width"] % 2 or procedure["height"] % 2:
        raise PolyplinkError(
            f"procedure {procedure['procedure_id']}: {procedure['width']} x {procedure['height']} "
            "cannot be a video",
            "give it even sides",
        )
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=rate)
        stream.width, stream.height = procedure["width"], procedure["height"]
        stream.pix_fmt = "yuv420p"
        for number in range(procedure["n_frames"]):
            pixels = frames(procedure["procedure_id"], number)
            if pixels is None:
                raise PolyplinkError(
                    f"procedure {procedure['procedure_id']}, frame {number}: no image",
                    "give every frame of a video",
                )
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
