"""From recordings to a data folder: frames are decoded once, for the detector and for the crops.

A recording is processed in pieces of `PIECE` frames. Finished pieces are kept on disk, so that a
run that was stopped continues with the next piece. The tracker (`tracklets.Tracker`) runs along
with the detector, so that every `stride`-th box of a track can be cropped from the frame just
decoded: these are the crops that `prepare` needs.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from polyplink.core.arrays import Floats, Ints
from polyplink.core.artefacts import atomic_folder, content_key
from polyplink.core.errors import PolyplinkError, first_line, warn_remade
from polyplink.core.messages import Message
from polyplink.core.results import Progress, silent
from polyplink.core.text import file_name
from polyplink.core.workers import prefetch
from polyplink.data.boxes import FAR, SEVERAL
from polyplink.data.files.images import Picture, Pixels, resize
from polyplink.data.tables import (
    DETECTIONS,
    DataSet,
    change_data,
    read_table,
    write_data,
    write_table,
)
from polyplink.data.vocabulary import RECORDINGS
from polyplink.detect.onnx import OnnxDetector
from polyplink.detect.recordings import Recording
from polyplink.tracklets.crops import cut, enlarge, read_array
from polyplink.tracklets.detection_crops import PLACES, read_saved_crops, write_saved_crops
from polyplink.tracklets.scenes import SceneFinder, are_counts, is_state, write_scenes
from polyplink.tracklets.settings import PrepareSettings
from polyplink.tracklets.tracks import ONE_SCENE, make_tracker, tracker_input, update_tracks

Detector = Callable[[Pixels], Floats]
"""Detects polyps in an image (height, width, 3) RGB: (k, 5) x, y, w, h in pixels, and score."""

PIECE = 250  # frames
PIECES = "pieces"  # folder of finished pieces in a data folder
AHEAD = 2  # frames per thread that are processed or wait: each takes megabytes
AGAIN = "remove the output folder, and run the detector again"
_BOXES = pl.Schema({"frame": pl.Int32, **dict.fromkeys(("x", "y", "w", "h", "score"), pl.Float32)})


def detect(
    recordings: Sequence[Recording],
    detector: Detector,
    out: Path,
    settings: PrepareSettings,
    *,
    key: str = "",
    dataset: str = RECORDINGS,
    workers: int = 1,
    progress: Progress = silent,
) -> "Detected":
    """Detect polyps in recordings, and store the crops of their tracks in a data folder.

    The finished pieces stay in the folder: `remove_pieces` when the boxes are written.

    Args:
        recordings: The recordings, at least one.
        detector: The detector.
        out: The data folder, see `write_detections`. Pieces that an earlier run finished are used.
        settings: Settings of tracks and crops, with which the crops are stored.
        key: Identifies the detector: finished pieces of another detector are not used.
        dataset: Name of the data set.
        workers: Threads that call the detector, each with a frame; 1 for a detector that is not
            thread-safe.
        progress: Called with the procedure, frames done, and total frames.

    Raises:
        PolyplinkError: If no frame of a recording decodes, or the detector does not return boxes.
    """
    tables, rows, scenes, left_out = [], [], {}, {}
    for recording in recordings:
        rule = content_key(
            key, recording.path.resolve(), recording.state(), recording.n_frames, settings
        )
        folder = out / PIECES / f"{file_name(recording.name)}-{rule}"
        for done in _pieces(recording, detector, settings, folder, workers):
            progress(recording.name, done, recording.n_frames)
        boxes, scenes[recording.name], left_out[recording.name] = join_pieces(
            folder, out, recording.name, recording
        )
        tables.append(boxes)
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
    return Detected(detected_data(pl.concat(tables), rows), scenes, left_out)


def remove_pieces(out: Path) -> None:
    """Remove the pieces of a detection; its boxes are written."""
    if (out / PIECES).exists():
        shutil.rmtree(out / PIECES)


@dataclass(frozen=True)
class Detected:
    """What a detector detected in recordings.

    Attributes:
        data: The data set of the boxes, without polyps.
        scenes: First frames and numbers (s, 2) of the scenes of each procedure.
        left_out: What was left out of each procedure.
    """

    data: DataSet
    scenes: Mapping[str, Ints]
    left_out: Mapping[str, "LeftOut"]


@dataclass(frozen=True)
class LeftOut:
    """What of a procedure a detector did not see, or returned in vain.

    Attributes:
        frames: Number of frames that did not decode.
        boxes: Number of boxes without an area inside the frame.
    """

    frames: int
    boxes: int

    def messages(self, name: str, n_frames: int) -> list[Message]:
        """Warnings about it.

        Args:
            name: The procedure.
            n_frames: Number of its frames.
        """
        of_frames = Message("not_decoded", {"n": self.frames, "frames": n_frames, "name": name})
        of_boxes = Message("boxes_outside", {"n": self.boxes, "name": name})
        return [message for message in (of_frames, of_boxes) if message.values["n"]]


def detected_data(boxes: pl.DataFrame, rows: Sequence[Mapping[str, object]]) -> DataSet:
    """The data set of detected boxes, without polyps.

    Args:
        boxes: The detections of all procedures, see `join_pieces`.
        rows: The rows of the table of procedures.
    """
    table = boxes.select(
        pl.col(name) if name in boxes.columns else pl.lit(None).alias(name) for name in DETECTIONS
    )
    nothing = pl.DataFrame(schema={"polyp_id": pl.String, "procedure_id": pl.String})
    return DataSet.of(table, pl.DataFrame(rows), nothing)


def write_detections(out: Path, data: DataSet, scenes: Mapping[str, Ints]) -> None:
    """Write a data folder of detected boxes and the scenes (s, 2) of each procedure."""
    with change_data(out) as new:
        write_data(new, data)
        write_scenes(new, scenes)


def join_pieces(
    folder: Path, out: Path, name: str, recording: Recording | None
) -> tuple[pl.DataFrame, Ints, LeftOut]:
    """Join the pieces of a procedure, and store its crops in a data folder.

    Returns:
        procedure_id, frame, x, y, w, h, score and image of its boxes; first frames and numbers
        (s, 2) of its scenes; what was left out.

    Raises:
        FileNotFoundError: If a file of a piece is missing.
        PolyplinkError: If a file of a piece is broken.
    """
    parts = sorted(folder.glob("[0-9]*"))  # without incomplete pieces of a killed process
    pieces = [read_piece(part) for part in parts]
    boxes = pl.concat([piece.boxes for piece in pieces])
    places = pl.concat([piece.places for piece in pieces])
    scenes = np.concatenate([piece.scenes for piece in pieces])
    write_saved_crops(out, name, places, [part / "crops.npy" for part in parts])
    images = [None if recording is None else recording.image(n) for n in boxes["frame"]]
    column = pl.Series("image", images, pl.String)
    left_out = LeftOut(sum(piece.lost for piece in pieces), sum(piece.outside for piece in pieces))
    return boxes.with_columns(column, procedure_id=pl.lit(name)), scenes, left_out


@dataclass(frozen=True)
class Piece:
    """The results for some frames of a recording, without the crops.

    Attributes:
        boxes: Columns frame, x, y, w, h and score.
        places: Columns frame, left, top, right, bottom of the crops.
        scenes: (s, 2) first frames and numbers of the scenes that begin.
        finder: State of the `SceneFinder` after the piece.
        lost: Number of frames that did not decode.
        outside: Number of boxes without an area inside the frame.
    """

    boxes: pl.DataFrame
    places: pl.DataFrame
    scenes: Ints
    finder: Floats
    lost: int
    outside: int


def read_piece(folder: Path) -> Piece:
    """Read a piece that a `FrameTracker` wrote.

    Raises:
        FileNotFoundError: If a file is missing.
        PolyplinkError: If a file is broken.
    """
    boxes = read_table(folder / "boxes.parquet", AGAIN, _BOXES)
    places = read_saved_crops(folder / "crops.npy", folder / "kept.parquet")[1].drop("row")
    scenes, finder, lost = (
        np.array(read_array(folder / f"{name}.npy", AGAIN)) for name in ("scenes", "finder", "lost")
    )
    outside_path = folder / "outside.npy"  # not by earlier builds
    outside = np.array(read_array(outside_path, AGAIN)) if outside_path.exists() else np.array(0)
    is_valid = (scenes.ndim, scenes.dtype.kind) == (2, "i")
    is_valid &= {(number.ndim, number.dtype.kind) for number in (lost, outside)} == {(0, "i")}
    is_valid &= scenes.shape[-1:] == (2,) and is_state(finder)
    is_valid = is_valid and all(are_counts(numbers) for numbers in (scenes, lost, outside))
    if not is_valid:  # these files have no checksum
        raise PolyplinkError(f"{folder} is damaged", AGAIN)
    return Piece(boxes, places, scenes, finder, int(lost), int(outside))


@dataclass(frozen=True)
class TrackedFrame:
    """The boxes of one frame.

    Attributes:
        boxes: (k, 5) x, y, w, h and score, rounded as they are stored.
        tracks: (k,) track of each box, -1 for none.
        areas: (k, 4) left, top, right, bottom of the crop of each box.
        crops: Row of a box -> its crop (size, size, 3), for every stride-th box of a track.
    """

    boxes: Floats
    tracks: Ints
    areas: Ints
    crops: Mapping[int, Pixels]


class FrameTracker:
    """Track the boxes of a recording frame by frame, and write the results in pieces.

    A piece is a folder with boxes.parquet, kept.parquet (the places of the crops), crops.npy,
    scenes.npy (first frames and numbers of scenes), finder.npy (state of the `SceneFinder`),
    lost.npy (frames that did not decode) and outside.npy (boxes without an area inside the frame).

    Attributes:
        tracker: The tracker.
        lost: Number of frames since the last piece that did not decode.
    """

    def __init__(self, fps: float, width: int, height: int, settings: PrepareSettings) -> None:
        self.tracker = make_tracker(fps, settings.tracks)
        self._finder = SceneFinder()
        self._size, self._settings = (width, height), settings
        self._scene = 0  # the newest scene
        self._length: dict[int, int] = {}  # boxes of each track so far
        self._checked = self._like_edges = 0  # boxes, and those that may be edges
        self._clear()

    def _clear(self) -> None:
        self.lost = self._outside = 0
        self._found: list[Floats] = []
        self._places: list[tuple[int, ...]] = []
        self._crops: list[Pixels] = []
        self._begun: list[tuple[int, int]] = []  # first frames and numbers of scenes

    def track(
        self,
        frame: int,
        picture: Picture | None,
        boxes: Floats,
        box_crops: Sequence[Pixels] = (),
    ) -> TrackedFrame:
        """Track the boxes of the next frame, and crop those that will be embedded.

        Args:
            frame: Number of the frame.
            picture: The frame; None without pixels.
            boxes: (k, 5) x, y, w, h in pixels, and score; clipped to the frame.
            box_crops: A crop (h, w, 3) of each box, to be used without a picture; empty for none.
                Without a picture, every box has an area inside the frame.
        """
        settings = self._settings
        n_returned = len(boxes)
        self._check_sides(boxes)
        boxes = clip_boxes(boxes, self._size)
        self._outside += n_returned - len(boxes)
        before = self._scene
        if picture is not None:
            self._scene = self._finder.scene(picture.points)
        new = np.array([(frame, self._scene)] if self._scene != before else ONE_SCENE, np.int64)
        self._begun += map(tuple, new.tolist())
        # Rounded as they are stored, so that a run resumed from the tables gives the same tracks.
        rounded = boxes.astype(np.float32).astype(np.float64)  # k 5: x, y, w, h, score
        numbers = np.full(len(rounded), frame)
        self._found.append(np.concatenate([numbers[:, None], rounded], 1))
        at, scores = np.ascontiguousarray(rounded[:, :4]), rounded[:, 4]
        tracks = update_tracks(self.tracker, settings.tracks, (numbers, at, scores), new)
        areas = enlarge(at.astype(np.float32), settings.crop_factor, *self._size)
        crops: dict[int, Pixels] = {}
        for row, track in enumerate(tracks.tolist()):
            if track >= 0 and self._length.get(track, 0) % settings.stride == 0:
                if picture is not None:
                    crops[row] = cut(picture.rgb(), areas[row], settings.size)
                elif box_crops:
                    crops[row] = resize(box_crops[row], settings.size, settings.size)
            self._length[track] = self._length.get(track, 0) + 1
        self._places += [(frame, *areas[row].tolist()) for row in crops]
        self._crops += crops.values()
        return TrackedFrame(rounded, tracks, areas, crops)

    def _check_sides(self, boxes: Floats) -> None:
        """Refuse a detector that returns right and bottom edges in place of widths and heights."""
        sides, size = boxes[:, 2:4], np.asarray(self._size)
        fit_as_edges = ((sides > boxes[:, :2]) & (sides <= size)).all(1)
        reach_beyond = (boxes[:, :2] + sides > FAR * size).any(1)
        self._checked += len(boxes)
        self._like_edges += int((fit_as_edges & reach_beyond).sum())
        if self._checked >= SEVERAL and self._like_edges > self._checked / 2:
            raise PolyplinkError(
                "most boxes of the detector reach beyond the frame, and would fit with their third "
                "and fourth number as the right and bottom edge",
                "return left, top, width and height",
            )

    def write(self, piece: Path) -> None:
        """Write the results since the last piece."""
        size = self._settings.size
        with atomic_folder(piece) as target:
            rows = np.concatenate([np.zeros((0, 6)), *self._found])
            boxes = pl.DataFrame(rows, schema=list(_BOXES)).cast(_BOXES)
            write_table(target / "boxes.parquet", boxes)
            places = pl.DataFrame(self._places, schema=PLACES, orient="row")
            write_table(target / "kept.parquet", places)
            none = np.zeros((0, size, size, 3), np.uint8)
            stacked = np.stack(self._crops) if self._crops else none
            np.save(target / "crops.npy", stacked, allow_pickle=False)
            np.save(target / "scenes.npy", np.array(self._begun or ONE_SCENE, np.int64))
            np.save(target / "finder.npy", self._finder.state)
            np.save(target / "lost.npy", self.lost)
            np.save(target / "outside.npy", self._outside)
        self._clear()

    def resume(self, piece: Path) -> None:
        """Continue after a piece that an earlier run wrote.

        Raises:
            FileNotFoundError: If a file of the piece is missing.
            PolyplinkError: If a file of the piece is broken.
        """
        read = read_piece(piece)
        boxes = tracker_input(read.boxes)
        tracks = update_tracks(self.tracker, self._settings.tracks, boxes, read.scenes)
        for track in tracks.tolist():
            self._length[track] = self._length.get(track, 0) + 1
        self._finder = SceneFinder(read.finder)
        self._scene = int(read.scenes[-1, 1]) if len(read.scenes) else self._scene


def _detect_from(
    recording: Recording, detector: Detector, start: int, workers: int
) -> Iterator[tuple[int, Picture | None, Floats]]:
    """Number, picture and boxes of the frames from `start` on; None for an undecodable picture."""

    def find(item: tuple[int, Picture | None]) -> tuple[int, Picture | None, Floats]:
        frame, picture = item
        return frame, picture, np.zeros((0, 5)) if picture is None else look(detector, picture)

    frames = recording.frames(start, all_pixels=not isinstance(detector, OnnxDetector))
    # Not a map, which a detector's StopIteration would end as if the recording were over.
    plain = (find(item) for item in frames)
    return plain if workers == 1 else prefetch(find, frames, workers, AHEAD)


def _resumes(frame_tracker: FrameTracker, piece: Path) -> bool:
    """Continue after a piece if it exists and is intact; return whether it does."""
    try:
        frame_tracker.resume(piece)
    except FileNotFoundError:
        if not piece.exists():
            return False
    except PolyplinkError:
        pass
    else:
        return True
    warn_remade(piece)
    return False


def _pieces(
    recording: Recording,
    detector: Detector,
    settings: PrepareSettings,
    folder: Path,
    workers: int,
) -> Iterator[int]:
    """Process a recording piece by piece; yield the number of frames done."""
    frame_tracker = FrameTracker(recording.rate, recording.width, recording.height, settings)
    frames: Iterator[tuple[int, Picture | None, Floats]] | None = None
    n_decoded = 0
    for start in range(0, recording.n_frames, PIECE):
        piece = folder / f"{start:09d}"
        if frames is None and _resumes(frame_tracker, piece):
            n_decoded += 1
            yield min(start + PIECE, recording.n_frames)
            continue
        if piece.exists():  # damaged, or later than a damaged one
            shutil.rmtree(piece)
        frames = frames or _detect_from(recording, detector, start, workers)
        for frame, picture, boxes in islice(frames, PIECE):
            if picture is None:
                frame_tracker.lost += 1
            else:
                n_decoded += 1
                frame_tracker.track(frame, picture, boxes)
        frame_tracker.write(piece)
        yield min(start + PIECE, recording.n_frames)
    if n_decoded == 0:
        raise PolyplinkError(
            f"{recording.path}: no frame can be decoded", "copy the recording again"
        )


def look(detector: Detector, picture: Picture) -> Floats:
    """Run a detector on a frame: its boxes (k, 5), which may lie outside the frame.

    Raises:
        PolyplinkError: If the detector does not return boxes.
    """
    # An OnnxDetector resizes the frame before the conversion to RGB, which is quicker.
    if isinstance(detector, OnnxDetector):
        return check_output(detector(picture))
    return check_output(detector(picture.rgb()))


def check_output(output: npt.ArrayLike) -> Floats:
    """Check a detector's boxes (k, 5), or an empty list.

    Raises:
        PolyplinkError: If they are not (k, 5) finite numbers with scores in [0, 1], or are relative
            to the frame.
    """
    expected = "return (k, 5): x, y, w, h in pixels, and a score from 0 to 1"
    try:
        boxes = np.asarray(output, np.float64)
    except (TypeError, ValueError, RuntimeError) as error:  # a tensor with a gradient, on a GPU
        returned = f"the detector returned {type(output).__name__}, which is not an array"
        raise PolyplinkError(f"{returned} ({first_line(error)})", expected) from error
    boxes = boxes if boxes.size else np.empty((0, 5))
    if boxes.ndim != 2 or boxes.shape[1] != 5:
        raise PolyplinkError(
            f"the detector returned an array of shape {boxes.shape} that holds no valid boxes",
            expected,
        )
    sound = np.isfinite(boxes).all(1) & (boxes[:, 4] >= 0) & (boxes[:, 4] <= 1)  # k
    if not sound.all():
        *box, score = (f"{value:g}" for value in boxes[int(sound.argmin())])
        raise PolyplinkError(
            f"the detector returned the box {', '.join(box)} with the score {score}", expected
        )
    ends = boxes[:, :2] + boxes[:, 2:4]  # k 2
    if boxes.size and (boxes[:, :2] > 0).all() and (ends < 1).all():
        *box, _ = (f"{value:g}" for value in boxes[0])
        raise PolyplinkError(
            f"the detector returned the box {', '.join(box)}, which lies within one pixel",
            "multiply x and w by the width of the frame, and y and h by its height",
        )
    return boxes


def clip_boxes(boxes: Floats, size: tuple[int, ...]) -> Floats:
    """Boxes (k, 5) clipped to an image's size, without those that have no area in it."""
    low = boxes[:, :2].clip(0, size)
    high = (boxes[:, :2] + boxes[:, 2:4]).clip(0, size)
    cut_out = np.concatenate([low, high - low, boxes[:, 4:]], 1)
    return cut_out[(cut_out[:, 2:4] > 0).all(1)]
