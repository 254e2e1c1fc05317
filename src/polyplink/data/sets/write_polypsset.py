"""Write a data set as PolypsSet is released.

Source: Li et al., PLOS ONE 2021; layout as `polypsset` reads it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.write_frames import FrameSource, whole_edges, write_image
from polyplink.data.sets.origin import write_origin
from polyplink.data.sets.polypsset import DATASET, TRAIN_STEP
from polyplink.data.sets.polypsset_files import PARTS
from polyplink.data.tables import DataSet

_OBJECT = """\t<object>
\t\t<name>{name}</name>
\t\t<bndbox>
\t\t\t<xmin> {0} </xmin>
\t\t\t<ymin>{1} </ymin>
\t\t\t<xmax> {2}</xmax>
\t\t\t<ymax>
{3}
</ymax>
\t\t</bndbox>
\t</object>
"""
_FRAME = """<annotation>
\t<folder>{folder}</folder>
\t<filename>{stem}.png</filename>
\t<path>D:\\sequences\\{folder}\\{stem}.png</path>
\t<source><database>Unknown</database></source>
\t<size><width>{width}</width><height>{height}</height><depth>3</depth></size>
{objects}</annotation>
"""


def write_polypsset(
    data: DataSet, root: Path, *, frames: FrameSource | None = None, odd: bool = False
) -> None:
    """Write `<part>2019/Annotation/<folder>/<frame>.xml` for every frame, images where there are.

    As in the release numbers stand between blanks and `filename` has another ending than the
    file. The layout holds boxes of whole pixels. It has no place for polyp ids (one polyp a
    video), patients, frame rates, scores, sizes in mm, locations, and histology other than a word
    of the boxes; images of training lose their frame numbers.

    Args:
        data: Procedures named `val_<folder>`, `test_<folder>`, or `train_<W>x<H>` with frames of
            even numbers.
        root: Folder to write into; made if absent.
        frames: Gives the image of a frame.
        odd: Write also what is wrong in the release: in each folder an annotation without an
            image, and sizes that are not the images'. Only with images.

    Raises:
        PolyplinkError: If a procedure is named otherwise, a box of training lies in an odd frame,
            or a box is not of whole pixels.
    """
    boxes = whole_edges(data, "PolypsSet")
    write_origin(data, root, DATASET)
    words = dict(data.polyps.select("procedure_id", pl.col("histology").fill_null("")).iter_rows())
    first = 1  # number of the next image of training, which has no folders
    for procedure in data.procedures.iter_rows(named=True):
        part, _, folder = procedure["procedure_id"].partition("_")
        if part not in PARTS or not folder:
            raise PolyplinkError(
                f"procedure {procedure['procedure_id']!r} is in no part of PolypsSet",
                "name it val_<folder>, test_<folder> or train_<width>x<height>",
            )
        name = procedure["procedure_id"]
        found = boxes.get(name, {})
        writer = _Folder(root / f"{part}2019", folder, escape(words.get(name, "")), found)
        if part == "train":
            _refuse_odd(name, found)
            writer = _Folder(root / "train2019", "", "adenomatous", found)
            numbers = range(0, procedure["n_frames"], TRAIN_STEP)
            stems = {frame: first + i for i, frame in enumerate(numbers)}
            first += len(stems)
        else:
            stems = {frame: frame for frame in range(procedure["n_frames"])}
        writer.write(procedure, stems, frames, odd)


@dataclass(frozen=True)
class _Folder:
    """One folder of a part: its name, the class of its boxes, and the boxes by frame."""

    part: Path
    name: str
    word: str
    boxes: Mapping[int, Sequence[tuple[int, ...]]]

    def write(
        self,
        procedure: Mapping[str, Any],
        stems: Mapping[int, int],
        frames: FrameSource | None,
        odd: bool,
    ) -> None:
        """Write the frames of a procedure under their stems."""
        width, height = procedure["width"], procedure["height"]
        for frame, stem in stems.items():
            pixels = None if frames is None else frames(procedure["procedure_id"], frame)
            if pixels is not None:
                write_image(self.part / "Image" / self.name / f"{stem}.jpg", pixels)
            wrong = odd and pixels is not None
            self._write_xml(stem, width + wrong, height, self.boxes.get(frame, []))
        if odd and frames is not None and self.name:
            self._write_xml(procedure["n_frames"] + 7, width, height, [(0, 0, 1, 1)])

    def _write_xml(
        self, stem: int, width: int, height: int, boxes: Sequence[tuple[int, ...]]
    ) -> None:
        path = self.part / "Annotation" / self.name / f"{stem}.xml"
        path.parent.mkdir(parents=True, exist_ok=True)
        objects = "".join(_OBJECT.format(*box, name=self.word) for box in boxes)
        path.write_text(
            _FRAME.format(folder=self.name, stem=stem, width=width, height=height, objects=objects)
        )


def _refuse_odd(procedure_id: str, found: Mapping[int, Sequence[tuple[int, ...]]]) -> None:
    for frame in found:
        if frame % TRAIN_STEP:
            raise PolyplinkError(
                f"procedure {procedure_id}: a box in frame {frame} of training",
                "number its images 0, 2, 4, ...",
            )
