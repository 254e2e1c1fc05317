"""The verb `detect`: boxes of polyps from recordings and a detector."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from typer import Argument

from polyplink.cli import options
from polyplink.cli.options import StrPath, TrackletOptions, refuse_unused
from polyplink.cli.verb import inform, verb
from polyplink.core.results import Progress, Result
from polyplink.core.runs import sole_writer
from polyplink.core.text import many
from polyplink.models.shipped import ENCODER, shipped_model

if TYPE_CHECKING:
    from polyplink.data.tables import DataSet


@verb
def detect_polyps(
    source: options.Source,
    out: Annotated[StrPath, Argument(help="Folder for the tables.")],
    *,
    detector: options.DetectorName = None,
    fps: options.Fps = None,
    seed: options.Seed = 0,
    function: options.DetectorFunction = None,
    replace: options.ReplaceBoxes = False,
    progress: Progress = inform,
    **tracklets: Unpack[TrackletOptions],
) -> "Result[DataSet]":
    """Find polyps in recordings with a detector; writes a data folder of boxes.

    Frames are decoded once: the crops that `count` needs with the shipped encoder are saved. A
    stopped run continues.

    Args:
        detector: An ONNX file, FILE.py:NAME of a function, or the name of a detector; the shipped
            one by default. With `function` a name for it, by which a calibration and a stopped run
            know it again.
        function: Your own detector: it takes an image (height, width, 3) and returns (k, 5):
            x, y, w, h in pixels, and a score from 0 to 1.
        progress: Called for frames.

    Returns:
        The data set: `value.detections` has a row for each box.

    Raises:
        PolyplinkError: If there is no recording or no detector, the detector's outputs fit no
            layout, no frame decodes, an option has no effect, or `out` holds the data of another
            source and `replace` is False.
    """
    refuse_unused(detector, seed, tracklets)
    from polyplink.data.importing import check_same_source
    from polyplink.detect.folder import detect_folder
    from polyplink.encoders.weights import read_record

    source, out = Path(source), Path(out)
    if not replace:
        check_same_source(out, source)
    with sole_writer(out):
        data, warnings = detect_folder(
            source,
            out,
            read_record(shipped_model(ENCODER).path).prepare,
            detector=detector,
            fps=fps,
            seed=seed,
            function=function,
            tracklets=tracklets,
            progress=progress,
        )
    boxes, lines = data.detections, [str(warning) for warning in warnings]
    facts: dict[str, Any] = {
        "out": str(out),
        "procedures": data.procedures.height,
        "frames": int(data.procedures["n_frames"].sum()),
        "boxes": boxes.height,
        "frames_with_a_box": boxes.select("procedure_id", "frame").n_unique(),
        "warnings": lines,
    }
    text = (
        f"{facts['out']}: {many(facts['boxes'], 'box')} in {facts['frames_with_a_box']} of "
        f"{many(facts['frames'], 'frame')}"
    )
    return Result(data, facts, [text], lines)
