"""Videos of boxes: find the video of each procedure, and read size, frame rate and length."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import polars as pl

from polyplink.core.errors import ImportOptionError, PolyplinkError
from polyplink.core.messages import Message
from polyplink.data.faults import Faults
from polyplink.data.files.folders import check_is_there, videos_in
from polyplink.data.files.video import NOTICEABLE, Video, open_video

SCHEMA = {
    "procedure_id": pl.String,
    "video": pl.String,
    "n_frames": pl.Int32,
    "fps": pl.Float32,
    "width": pl.Int32,
    "height": pl.Int32,
}
_SUBFOLDER = "videos"


def find_videos(
    procedures: pl.DataFrame,
    folder: Path,
    video_source: Path | None,
    faults: Faults,
    *,
    single: str | None = None,
) -> pl.DataFrame:
    """Find the video of every procedure, and read its size, frame rate and length.

    A video is searched for in the folder of the boxes, in its parent folder, and in the subfolder
    `videos` of both, under the name stated in the source, the name of the procedure or, for a
    single procedure, the name of the boxes' file. The video of a single procedure may have another
    name if it is the only one, and has the stated aspect ratio.

    Args:
        procedures: procedure_id; optionally `video_folder`, another folder to search, `video_name`,
            the name of the video stated in the source, or its absolute path, and `width` and
            `height` (null if unknown).
        folder: Folder of the boxes.
        single: If the boxes are of one procedure, the name of their file, without its ending.
        video_source: A video, or a folder to search instead; each procedure must then have a
            video.
        faults: Extended by a warning if a video with another name is used, or left out because of
            its shape, or if a video is cut short, turned by a tag, or beside another in its file.

    Returns:
        Columns of `SCHEMA`, a row for each procedure with a video; `video` is its absolute path.

    Raises:
        PolyplinkError: If several videos match a procedure, `video_source` is missing or has no
            video for a procedure, or a video cannot be opened.
    """
    if video_source is not None and video_source.is_file() and single is None:
        raise PolyplinkError(
            f"{video_source} is one video, but the boxes are of several procedures",
            "give a folder of videos, each named as its procedure",
        )
    if video_source is not None:
        check_is_there(video_source, "check the path of the video")
    rows = []
    listing = cache(videos_in)  # each folder is listed once, however many procedures search it
    for row in procedures.iter_rows(named=True):
        # The folders to search, and the names that the video may have.
        procedure, further = row["procedure_id"], row.get("video_folder")
        if video_source is not None:
            folders, parents = [video_source], []
        else:
            folders = [folder] if further is None else [Path(further), folder]
            parents = [place.resolve().parent for place in folders]
        stated_video = Path(row.get("video_name") or "")
        last_part = procedure.rpartition("/")[2]
        names = [stated_video.name, stated_video.stem, procedure, last_part, single or ""]

        # A given video, the one stated in the source, or one that is found.
        if video_source is not None and video_source.is_file():
            matches: Sequence[Path] = [video_source.resolve()]
        elif video_source is None and stated_video.is_absolute():
            matches = [stated_video]
        else:
            is_single = single is not None
            places = _videos_below(folders, listing), _videos_below(parents, listing)
            matches = _choose(procedure, names, places, is_single)
        if matches:
            path = matches[0]
            is_guess = video_source is None and not {path.name, path.stem} & {*names}
            with open_video(path) as video:
                size = video.width, video.height
                has_shape = _have_one_shape((row.get("width"), row.get("height")), size)
                is_used = has_shape or not is_guess
                if is_used:
                    warn_of_video(video, str(path), faults)
                    rows.append((procedure, str(path), video.n_frames, video.fps, *size))
            if is_guess:
                kind = (
                    Message("import.video_of_other_name")
                    if is_used
                    else Message("import.video_of_other_shape")
                )
                faults.warn(kind, f"{procedure}: {path}")
        elif video_source is not None:
            raise PolyplinkError(
                f"{video_source} has no video of procedure {procedure}", f"name it {procedure}.mp4"
            )
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def warn_of_video(video: Video, place: str, faults: Faults) -> None:
    """Extend `faults` by missing or turned frames of a video, a varying rate, and other videos."""
    if video.n_missing:
        faults.warn(Message("import.short_video"), place, video.n_missing)
    if video.fps and video.drift > NOTICEABLE:
        faults.warn(Message("import.varying_rate", {"rate": video.fps}), place)
    if video.rotation:
        faults.warn(Message("import.turned_video", {"degrees": abs(video.rotation)}), place)
    if video.n_streams > 1:
        size = {"width": video.width, "height": video.height}
        faults.warn(Message("import.several_streams", size), place)


def _have_one_shape(stated_size: tuple[int | None, int | None], size: tuple[int, int]) -> bool:
    """Whether the aspect ratio of a video's (width, height) is the stated one, if it is stated."""
    width, height = stated_size
    return not (width and height) or math.isclose(width / height, size[0] / size[1], rel_tol=0.02)


def _choose(
    procedure: str,
    names: Sequence[str],
    places: tuple[Sequence[Path], Sequence[Path]],
    is_single: bool,
) -> Sequence[Path]:
    """The video of a procedure, as a sequence of one path; empty if there is none.

    Args:
        procedure: The procedure.
        names: Names that its video may have, the most likely first.
        places: Videos near the boxes, and in the parent folder.
        is_single: Whether there is no other procedure.
    """
    near_boxes, in_parent = places
    # The videos with the most likely name, those near the boxes first.
    matches: Sequence[Path] = []
    for name in filter(None, names):
        for place in places:
            matches = matches or [path for path in place if name in (path.name, path.stem)]
    if not matches and is_single:
        matches = near_boxes or (in_parent if len(in_parent) == 1 else [])
    if len(matches) > 1:
        raise ImportOptionError(
            f"the video of procedure {procedure} may be {' or '.join(map(str, matches))}",
            "choose it with --video FILE, or move the others into another folder",
        )
    return matches


def _videos_below(folders: Sequence[Path], listing: Callable[[Path], list[Path]]) -> list[Path]:
    """The videos of some folders and of their subfolders `videos`, each once."""
    videos: list[Path] = []
    for folder in folders:
        videos += [*listing(folder), *listing(folder / _SUBFOLDER)]
    return list(dict.fromkeys(path.resolve() for path in videos))
