"""From recordings to a data folder: frames are decoded once, for the detector and for the crops.

A recording is worked through in pieces of `PIECE` frames; what is written of a piece stays, so
that a run that was stopped continues with the next one. While the detector finds boxes, the
tracker (`tracklets.Tracker`) follows them, so that every `stride`-th box of a track can be cropped
from the frame that is at hand: these are the crops that `prepare` will ask for.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from polyplink.core.artefacts import content_key, whole_folder
from polyplink.core.errors import PolyplinkError
from polyplink.core.text import file_name
from polyplink.data import DETECTIONS, DataSet, change_data, write_data
from polyplink.detect.recordings import Recording
from polyplink.tracklets import PrepareSettings
from polyplink.tracklets.crops import cut
from polyplink.tracklets.kept import AREA, write_kept
from polyplink.tracklets.prepare import enlarge
from polyplink.tracklets.scenes import SceneFinder, write_scenes
from polyplink.tracklets.tracks import ONE_SCENE, Tracker, tracker_input

Pixels = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]
Detector = Callable[[Pixels], Floats]
"""Finds polyps in an image (height, width, 3) RGB: (k, 5) x, y, w, h in pixels, and the score."""

PIECE = 250  # frames
_BOXES = {"frame": pl.Int32, **dict.fromkeys(("x", "y", "w", "h", "score"), pl.Float32)}
_KEPT = dict.fromkeys(("frame", *AREA), pl.Int64)


def detect(
    recordings: Sequence[Recording],
    detector: Detector,
    out: Path,
    settings: PrepareSettings,
    *,
    key: str = "",
    dataset: str = "recordings",
    progress: Callable[[str, int, int], None] = lambda name, done, total: None,
) -> DataSet:
    """Find the polyps of recordings and write them as a data folder.

    Args:
        recordings: At least one.
        detector: Finds boxes in a frame.
        out: The data folder. Pieces that an earlier run finished are used.
        settings: How tracks are built and crops cut, so that the crops can be kept.
        key: Identifies the detector: finished pieces of another one are not used.
        dataset: Name of the data set.
        progress: Callback with the procedure, frames done, and frames in all.

    Returns:
        The data set, without polyps.

    Raises:
        PolyplinkError: If no frame of a recording decodes, or the detector answers with something
            else than boxes.
    """
    tables, rows, scenes = [], [], {}
    pieces = out / "pieces"
    for recording in recordings:
        rule = content_key(key, recording.path.resolve(), recording.n_frames, settings)
        folder = pieces / f"{file_name(recording.name)}-{rule}"
        for done in _pieces(recording, detector, settings, folder):
            progress(recording.name, done, recording.n_frames)
        parts = sorted(folder.iterdir())
        boxes = pl.concat([pl.read_parquet(part / "boxes.parquet") for part in parts])
        kept = pl.concat([pl.read_parquet(part / "kept.parquet") for part in parts])
        scenes[recording.name] = np.concatenate([np.load(part / "scenes.npy") for part in parts])
        write_kept(out, recording.name, kept, [part / "crops.npy" for part in parts])
        images = pl.Series([recording.image(frame) for frame in boxes["frame"]], dtype=pl.String)
        tables.append(
            boxes.with_columns(procedure_id=pl.lit(recording.name), image=images).select(
                pl.col(name)
                if name in (*_BOXES, "procedure_id", "image")
                else pl.lit(None).alias(name)
                for name in DETECTIONS
            )
        )
        rows.append(
            {
                "procedure_id": recording.name,
                "dataset": dataset,
                "patient": recording.name,
                "n_frames": recording.n_frames,
                "fps": recording.fps,
                "width": recording.width,
                "height": recording.height,
                "source": str(recording.folder.resolve()),
            }
        )
    nothing = pl.DataFrame(schema={"polyp_id": pl.String, "procedure_id": pl.String})
    data = DataSet.of(pl.concat(tables), pl.DataFrame(rows), nothing)
    with change_data(out) as new:
        write_data(new, data)
        write_scenes(new, scenes)
    shutil.rmtree(pieces)
    return data


def _pieces(
    recording: Recording, detector: Detector, settings: PrepareSettings, folder: Path
) -> Iterator[int]:
    """Work through a recording piece by piece; yields the number of frames done.

    A piece is a folder with boxes.parquet, kept.parquet (the places of the crops), crops.npy,
    scenes.npy (first frames and numbers of scenes) and finder.npy (state of the `SceneFinder`).
    """
    tracker, finder = Tracker(recording.fps, settings.tracks), SceneFinder()
    scene = 0
    length: dict[int, int] = {}  # boxes of each track so far
    frames: Iterator[tuple[int, Pixels | None]] | None = None
    decoded = 0
    for start in range(0, recording.n_frames, PIECE):
        piece = folder / f"{start:09d}"
        if piece.is_dir():  # of an earlier run: only the tracks go on from it
            boxes = pl.read_parquet(piece / "boxes.parquet")
            scenes = np.load(piece / "scenes.npy")
            for track in tracker.update(*tracker_input(boxes), scenes).tolist():
                length[track] = length.get(track, 0) + 1
            finder = SceneFinder(np.load(piece / "finder.npy"))
            scene = int(scenes[-1, 1]) if len(scenes) else scene
            decoded += 1
            yield min(start + PIECE, recording.n_frames)
            continue
        frames = frames or recording.frames(start)
        found: list[Floats] = []
        places: list[tuple[int, ...]] = []
        crops: list[Pixels] = []
        begun: list[tuple[int, int]] = []  # first frames and numbers of scenes
        for frame, pixels in islice(frames, PIECE):
            if pixels is None:
                continue
            decoded += 1
            before, scene = scene, finder.scene(pixels)
            new = np.array([(frame, scene)] if scene != before else ONE_SCENE, np.int64)
            begun += map(tuple, new.tolist())
            boxes_here = _checked(detector(pixels), pixels)
            # Rounded as they are stored: a run that goes on from the tables finds the same tracks.
            rounded = boxes_here.astype(np.float32).astype(np.float64)  # k 5: x, y, w, h, score
            numbers = np.full(len(rounded), frame)
            found.append(np.concatenate([numbers[:, None], rounded], 1))
            at, scores = np.ascontiguousarray(rounded[:, :4]), rounded[:, 4]
            tracks = tracker.update(numbers, at, scores, new).tolist()
            areas = enlarge(
                at.astype(np.float32), settings.crop_factor, recording.width, recording.height
            )
            for track, area in zip(tracks, areas, strict=True):
                if track >= 0 and length.get(track, 0) % settings.stride == 0:
                    places.append((frame, *area.tolist()))
                    crops.append(cut(pixels, area, settings.size))
                length[track] = length.get(track, 0) + 1
        size = settings.size
        with whole_folder(piece) as target:
            rows = np.concatenate([np.zeros((0, 6)), *found])
            pl.DataFrame(rows, schema=list(_BOXES)).cast(_BOXES).write_parquet(  # type: ignore[arg-type]
                target / "boxes.parquet"
            )
            pl.DataFrame(places, schema=_KEPT, orient="row").write_parquet(target / "kept.parquet")
            stacked = np.stack(crops) if crops else np.zeros((0, size, size, 3), np.uint8)
            np.save(target / "crops.npy", stacked, allow_pickle=False)
            np.save(target / "scenes.npy", np.array(begun or ONE_SCENE, np.int64))
            np.save(target / "finder.npy", finder.state)
        yield min(start + PIECE, recording.n_frames)
    PolyplinkError.unless(
        decoded > 0, f"{recording.path}: no frame can be decoded", "copy the recording again"
    )


def _checked(found: Floats, image: Pixels) -> Floats:
    """A detector's answer, with boxes cut to the image.

    Raises:
        PolyplinkError: If it is not (k, 5) of finite numbers with scores in [0, 1].
    """
    found = np.asarray(found, np.float64)
    sound = found.ndim == 2 and found.shape[1] == 5 and bool(np.isfinite(found).all())
    PolyplinkError.unless(
        sound and bool(((found[:, 4] >= 0) & (found[:, 4] <= 1)).all()),
        f"the detector answered with an array of shape {found.shape}",
        "return (k, 5): x, y, w, h in pixels, and a score from 0 to 1",
    )
    height, width = image.shape[:2]
    low = found[:, :2].clip(0, [width, height])
    high = (found[:, :2] + found[:, 2:4]).clip(0, [width, height])
    cut_out = np.concatenate([low, high - low, found[:, 4:]], 1)
    return cut_out[(cut_out[:, 2:4] > 0).all(1)]
