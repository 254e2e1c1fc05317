"""The verb `run`: from recordings to a count."""

import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from typer import Option

from polyplink.cli import options
from polyplink.cli.options import StrPath, TrackletOptions, check_inputs, refuse_unused
from polyplink.cli.verb import inform, verb
from polyplink.core.errors import ImportOptionError, PolyplinkError
from polyplink.core.results import Progress, Result
from polyplink.core.runs import RunRecord, sole_writer
from polyplink.models.shipped import ENCODER

if TYPE_CHECKING:
    from polyplink.pipeline.count_data import Counted


@verb
def run(
    source: options.Source,
    *,
    weights: options.WeightsOption = ENCODER,
    detector: options.DetectorName = None,
    boxes: Annotated[
        str | None,
        Option(
            help="Boxes instead of a detector: the format of SOURCE (coco, mot ...).",
            autocompletion=options.complete_formats,
        ),
    ] = None,
    recording: Annotated[
        StrPath | None,
        Option(
            metavar="FILE|FOLDER",
            help="With --boxes: their video, or a folder of videos named as procedures.",
        ),
    ] = None,
    first_frame: Annotated[
        int | None, Option(help="With --boxes: number of a video's first frame.")
    ] = None,
    out: options.OutOfSource = None,
    replace: options.Replace = False,
    fps: options.Fps = None,
    seed: options.Seed = 0,
    alarms: options.Alarms = "drop",
    purpose: options.Purpose = "count",
    device: options.Device = "auto",
    workers: options.Workers = 2,
    video: options.Video = False,
    language: options.Language = "en",
    function: options.DetectorFunction = None,
    progress: Progress = inform,
    **tracklets: Unpack[TrackletOptions],
) -> "Result[Counted]":
    """Count the polyps of recordings, from the video to the report.

    Detector and weights are those that ship with polyplink, unless others are named.

    Args:
        source: A video, or a folder of videos or images; a data folder; with `boxes`, a file or
            folder of boxes.
        detector: An ONNX file, FILE.py:NAME of a function, or the name of a detector; with
            `function` a name for it.
        recording: The video of the boxes, or a folder of videos named as procedures; by default
            the recording next to the boxes.
        out: The output folder, which gets data (a data folder of the boxes), count (see `count`),
            tracks (a MOT file per procedure with the counted polyps as identities) and, for
            imported boxes, boxes-with-tracks (the boxes, each with its track and polyp).
        function: Your own detector; see `detect_polyps`.
        progress: Called for frames, crops and tracklets.

    Returns:
        The count: `value.polyps` is the number of polyps, `value.report` the file of the report.

    Raises:
        PolyplinkError: If a recording, the detector, a box or the weights are missing or broken, or
            an option has no effect.

    Example:
        >>> import polyplink
        >>> polyplink.run("colonoscopy.mp4").value.polyps  # doctest: +SKIP
        5
    """
    source, weights = Path(source), Path(weights)
    _check_boxes(source, boxes, alone=recording is None and first_frame is None)
    check_inputs(weights, device=device)
    from polyplink.counting.count_folder import (
        RUN_PARTS,
        SOURCE,
        claim_for_count,
        file_size,
        output_folder,
    )
    from polyplink.data.tables import is_data_folder

    out = output_folder(out, "run", source)

    is_read = boxes is None and detector is None and function is None and is_data_folder(source)
    refuse_unused(detector, seed, tracklets, known_polyps=is_read)
    with sole_writer(out):
        from polyplink.detect.folder import detect_folder
        from polyplink.encoders.weights import read_record, weights_path
        from polyplink.pipeline.count_data import count_and_track

        record = RunRecord("run", settings={SOURCE: str(source.resolve())})
        size = file_size(source) if boxes is None else None  # files of boxes are edited
        claim_for_count(record, out, source, RUN_PARTS, replace=replace, size=size)
        # The boxes: imported, from a data folder, or from a detector.
        data = out / "data"
        if boxes is not None:
            # Polyps are counted, not taken over.
            import_options: dict[str, Any] = {"identity": "none"}
            if first_frame is not None:
                import_options["first_frame"] = first_frame
            if recording is not None:
                import_options["video"] = Path(recording)
            _import(boxes, source, data, detector, import_options, fps, workers, progress)
        elif is_read:
            if fps is not None:
                raise PolyplinkError(
                    f"{source} is a data folder, with its boxes already read",
                    "give --fps where they are read (`polyplink import` or `detect`)",
                )
            data = source
        else:
            detect_folder(
                source,
                data,
                read_record(weights_path(weights)).prepare,
                detector=detector,
                fps=fps,
                seed=seed,
                function=function,
                tracklets=tracklets,
                progress=progress,
                begin=partial(record.write, out),
            )
        record.write(out)
        return count_and_track(
            weights,
            data,
            out,
            video=video,
            alarms=alarms,
            purpose=purpose,
            device=device,
            workers=workers,
            tracklets=tracklets,
            language=language,
            progress=progress,
        )


def _import(
    boxes: str,
    source: Path,
    data: Path,
    detector: str | None,
    import_options: Mapping[str, Any],
    fps: float | None,
    workers: int,
    progress: Progress,
) -> None:
    """Import boxes with options of their format."""
    from polyplink.data.importing import import_folder

    try:
        import_folder(
            boxes,
            source,
            data,
            detector=detector,
            fps=fps,
            workers=workers,
            options=import_options,
            progress=partial(progress, "procedures"),
        )
    except ImportOptionError as error:
        hint = error.hint.replace("--video", "--recording")
        line = f"`polyplink import {boxes} {source} DATA`, and then `polyplink run DATA`"
        raise PolyplinkError(error.what, f"{hint}; with options that `run` lacks: {line}") from None


def _check_boxes(source: Path, boxes: str | None, *, alone: bool) -> None:
    """Refuse a missing recording, or boxes, a video, a format or options in the wrong place.

    Args:
        source: Recordings or boxes to count.
        boxes: Format of the boxes.
        alone: Whether no other option of boxes is set.
    """
    from polyplink.core.parts import FORMATS
    from polyplink.data.files.folders import BOX_FORMATS, check_is_there, is_video, other_format

    typed = shlex.quote(str(source))
    # No boxes: the source is a recording.
    if boxes is None:
        if not alone:
            raise PolyplinkError(
                "--recording and --first-frame are for boxes", "add --boxes FORMAT"
            )
        from polyplink.detect.recordings import check_exists

        check_exists(source)  # before torch is imported, which takes seconds
        form = BOX_FORMATS.get(source.suffix.lower())
        if form is not None and source.is_file():
            raise PolyplinkError(
                f"{source} is not a recording",
                f"if it holds boxes, count them with `polyplink run {typed} --boxes {form}`",
            )
        return
    # Boxes: the source is neither a data folder nor a video, and the format is its own.
    from polyplink.data.tables import is_data_folder

    if is_data_folder(source):
        raise PolyplinkError(
            f"{source} is a data folder, with its boxes already read",
            f"`polyplink run {typed}` counts it, without --boxes",
        )
    if Path(boxes).is_file():
        raise PolyplinkError(
            f"--boxes takes the format of the boxes, and {boxes} is a file",
            f"`polyplink run {boxes} --boxes FORMAT` counts it, for example coco or csv",
        )
    check_is_there(source)  # before torch is imported, too
    FORMATS.find(boxes)  # refuses a name that no format has
    if is_video(source.name):
        raise PolyplinkError(
            f"{source} is a video, and --boxes {boxes} counts a file or folder of boxes",
            f"`polyplink run BOXES --boxes {boxes} --recording {typed}`",
        )
    other = other_format(source, boxes)
    if other is not None:
        raise PolyplinkError(
            f"{source} is not a file of boxes in the format {boxes}",
            f"`polyplink run {typed} --boxes {other}`",
        )
