"""Write a data set as LDPolypVideo is released.

Source: Ma et al., MICCAI 2021; layout as `ldpolyp` reads it.
"""

from pathlib import Path

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.write_frames import FrameSource, whole_edges, write_image
from polyplink.data.sets.ldpolyp import DATASET, PARTS
from polyplink.data.sets.origin import write_origin
from polyplink.data.tables import DataSet


def write_ldpolyp(data: DataSet, root: Path, *, frames: FrameSource | None = None) -> None:
    """Write `<part>/Annotations/<id>/0001.txt` for every frame, and images where there are.

    The layout holds boxes of whole pixels. It has no place for polyps (whose number, identity,
    size and histology are lost), patients, frame rates, scores, image sizes (without images), and
    procedures that are in neither part.

    Args:
        data: Procedures named `TrainValid_<id>` or `Test_<id>`.
        root: Folder to write into; made if absent.
        frames: Gives the image of a frame.

    Raises:
        PolyplinkError: If a procedure is named otherwise, or a box is not of whole pixels.
    """
    boxes = whole_edges(data, "LDPolypVideo")
    write_origin(data, root, DATASET)
    for procedure_id, n_frames in data.procedures.select("procedure_id", "n_frames").iter_rows():
        part, _, folder = procedure_id.partition("_")
        if part not in PARTS or not folder:
            raise PolyplinkError(
                f"procedure {procedure_id!r} is in no part of LDPolypVideo",
                "name it TrainValid_<id> or Test_<id>",
            )
        texts = root / part / "Annotations" / folder
        texts.mkdir(parents=True, exist_ok=True)
        for frame in range(n_frames):
            found = boxes.get(procedure_id, {}).get(frame, [])
            lines = [str(len(found)), *(" ".join(map(str, box)) for box in found)]
            (texts / f"{frame + 1:04d}.txt").write_text("\n".join(lines) + "\n")
            pixels = None if frames is None else frames(procedure_id, frame)
            if pixels is not None:
                image = root / part / "Images" / folder / f"{frame + 1:04d}.jpg"
                write_image(image, pixels)
