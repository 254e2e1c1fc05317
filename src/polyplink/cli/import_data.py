"""The verb `import`: a released data set, or boxes from any source, as tables."""

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack

from typer import Argument, Option

from polyplink.cli import options
from polyplink.cli.options import StrPath
from polyplink.cli.verb import inform, verb, written_data
from polyplink.core.errors import PolyplinkError
from polyplink.core.parts import FORMATS
from polyplink.core.results import Progress, Result

if TYPE_CHECKING:
    from polyplink.data.tables import DataSet


class FormatOptions(TypedDict, total=False):
    """Options that some formats take."""

    identity: Annotated[
        str | None, Option(help="What counts as one polyp if the boxes name none: video, ...")
    ]
    boxes: Annotated[
        StrPath | None,
        Option(help="File with the boxes (polyp-size), or results of a detector (coco)."),
    ]
    cases: Annotated[StrPath | None, Option(help="Table of cases (sun) or labels (polyp-size).")]
    size: Annotated[
        str | None,
        Option(metavar="WxH", help="Frame size WIDTHxHEIGHT, if no file contains it."),
    ]
    dataset: Annotated[str | None, Option(help="Name of the data set.")]
    datasets: Annotated[
        Sequence[str], Option(help="ID=NAME: name of the data set with this id (coco).")
    ]
    first_frame: Annotated[int | None, Option(help="Number of a video's first frame.")]
    video: Annotated[
        StrPath | None,
        Option(metavar="FILE|FOLDER", help="The video, or a folder of videos named as procedures."),
    ]
    kind: Annotated[str | None, Option(help="gt or det (mot).")]
    attribute: Annotated[str | None, Option(help="Attribute that names the polyp (cvat).")]
    sixth: Annotated[str | None, Option(help="Meaning of a sixth number (yolo).")]
    image_folder: Annotated[str | None, Option(help="Folder of the images (masks).")]
    mask_folder: Annotated[str | None, Option(help="Folder of the masks (masks).")]


PATHS = ("boxes", "cases", "video")  # among these options


@verb
def import_data(
    data_format: Annotated[
        str,
        Argument(
            metavar="FORMAT",
            help=f"{', '.join(FORMATS)}, or the format of a plugin.",
            autocompletion=options.complete_formats,
        ),
    ],
    source: Annotated[StrPath, Argument(metavar="SRC", help="The data set as released.")],
    out: Annotated[StrPath, Argument(help="Folder for the tables.")],
    *,
    images: Annotated[bool, Option(help="Use the images if they exist.")] = True,
    strict: Annotated[
        bool, Option(help="Stop at the first unusable item instead of skipping it.")
    ] = False,
    histology_map: options.HistologyMap = None,
    detector: Annotated[
        str | None,
        Option(help="Name of the detector that made the boxes; leave it out for annotated ones."),
    ] = None,
    limits: Annotated[
        bool,
        Option(help="Refuse archives that unpack to many times their size, and 20 M boxes."),
    ] = True,
    fps: options.Fps = None,
    replace: options.ReplaceBoxes = False,
    workers: options.Workers = 2,
    progress: Progress = inform,
    **of_format: Unpack[FormatOptions],
) -> "Result[DataSet]":
    """Import a released data set, or boxes from any source, into tables.

    Tables of the same source that are in the folder already are replaced; nothing in the source is
    changed.

    Args:
        source: The data set as released, or the boxes.
        fps: Frames per second of every procedure, if the source does not state them.
        progress: Called for procedures.
        of_format: Options of the format.

    Raises:
        PolyplinkError: If the format or map is unknown, the format does not take an option, the
            data set is incomplete or broken, or `out` holds the data of another source and
            `replace` is False.

    Example:
        >>> import polyplink
        >>> boxes = polyplink.import_data("coco", "boxes.json", "data")  # doctest: +SKIP
        >>> boxes.value.detections.height  # doctest: +SKIP
        5120
    """
    from polyplink.data.importing import check_same_source, import_folder
    from polyplink.data.protocols import read_splits

    source, out = Path(source), Path(out)
    if not replace:
        check_same_source(out, source)
    parts_before: Sequence[str] = ()
    with suppress(PolyplinkError):  # a broken file is written anew
        parts_before = tuple(read_splits(out))
    data, warnings = import_folder(
        data_format,
        source,
        out,
        images=images,
        strict=strict,
        histology_map=histology_map,
        detector=detector,
        limits=limits,
        fps=fps,
        workers=workers,
        options=_parse_options(of_format),
        progress=partial(progress, "procedures"),
    )
    lines = [str(warning) for warning in warnings]
    if lost := [part for part in parts_before if part not in data.splits]:
        lines.append(
            f"the parts {', '.join(lost)} of splits.json are gone: divide the folder again with "
            "`polyplink split`"
        )
    return written_data(out, data, lines)


def _parse_options(of_format: FormatOptions) -> dict[str, Any]:
    """Convert the options that were set to the values that importers take."""
    parsed: dict[str, Any] = {
        name: Path(str(value)) if name in PATHS else value
        for name, value in of_format.items()
        if value not in (None, ())
    }
    if "size" in parsed:
        size = re.fullmatch(r"([1-9]\d{0,8})x([1-9]\d{0,8})", parsed["size"])
        if size is None:
            raise PolyplinkError(
                f"--size {parsed['size']} is not a size", "give WIDTHxHEIGHT, as in 1352x1080"
            )
        parsed["size"] = (int(size.group(1)), int(size.group(2)))
    if "datasets" in parsed:
        pairs = [text.partition("=") for text in parsed["datasets"]]
        for key, sign, name in pairs:
            if not (key and sign and name):
                raise PolyplinkError(f"--datasets {key}{sign}{name} is not a pair", "give ID=NAME")
        parsed["datasets"] = {key: name for key, _, name in pairs}
    return parsed
