"""Count a running procedure: from frames and boxes to events and, at the end, a data folder."""

import json
import shlex
import shutil
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

from polyplink.associate.alarms import box_features
from polyplink.associate.identities import OperatingPoint
from polyplink.associate.online import Decision, OnlineLinker, OnlineSettings
from polyplink.associate.similarity import unit_rows
from polyplink.core.artefacts import atomic_file, read_json, to_plain, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import BROKE_OFF, Message, in_every_language
from polyplink.core.text import rounded_probability
from polyplink.counting.count_folder import LIVE_SOURCE
from polyplink.counting.interval import Cover
from polyplink.counting.result import Count
from polyplink.data.files.images import Picture, encode_jpeg
from polyplink.detect.first_pass import (
    PIECE,
    FrameTracker,
    TrackedFrame,
    detected_data,
    join_pieces,
    write_detections,
)
from polyplink.detect.recordings import find_recordings, size_messages
from polyplink.encoders.embed import NetworkEmbedder
from polyplink.encoders.encode import Embeddings, vectors_folder, write_embeddings
from polyplink.encoders.encoder import ClipWise
from polyplink.encoders.export import ExportedEncoder
from polyplink.encoders.load import NamedEncoder
from polyplink.report.formats import clock
from polyplink.streaming.sources import LiveFrame, LiveSource
from polyplink.tracklets.crops import cut
from polyplink.tracklets.prepare import prepare

Event = Mapping[str, Any]
LIVE = "live"  # folder of events.jsonl and pictures
DATASET = "live"  # name of the data set that is counted
PIECES = "live/pieces"  # boxes and crops, until the report is written
TIMES = ("drift", "replaced_fps")  # fields of `Recording` for warnings about its times
MOST_CROPS, MOST_CLIPS = 4096, 256  # kept per open tracklet, as features or as pictures
THUMBNAIL = 320  # width and height of a view's picture, pixels
TRIALS = 3  # timed runs per number of threads
SEEN_FROM = 0.8  # least confidence with which a view is reported as new or as seen before
POLYPS_SHOWN = 60  # the latest polyps, on the page


def choose_threads(run: Callable[[], object], max_threads: int) -> int:
    """Make torch use 1 or `max_threads` threads, whichever makes `run` faster.

    A crop is little work for many threads: synchronisation may take longer than the computation,
    especially on a busy machine.

    Returns:
        The number of threads.
    """
    best = (np.inf, 1)
    for threads in sorted({1, max_threads}):
        torch.set_num_threads(threads)
        times = []
        for _ in range(TRIALS + 1):  # the first run is a warm-up
            begun = time.perf_counter()
            run()
            times.append(time.perf_counter() - begun)
        best = min(best, (max(times[1:]), threads))
    torch.set_num_threads(best[1])
    return best[1]


@dataclass
class OpenTracklet:
    """A tracklet that may still continue."""

    name: str
    number: int
    first: int
    last: int
    boxes: "array[float]" = field(default_factory=lambda: array("f"))  # x, y, w, h, score of each
    frames: "array[int]" = field(default_factory=lambda: array("l"))
    features: list[np.ndarray] = field(default_factory=list)  # of crops, see `NetworkEmbedder`
    step: int = 1  # every `step`-th crop is kept
    n_crops: int = 0
    score: float = -1.0  # of the box in the picture
    picture: np.ndarray | None = None
    announced: bool = False

    def keep(self, crop_features: np.ndarray, max_crops: int) -> None:
        """Keep the features of a crop; above `max_crops` every second one is dropped."""
        if self.n_crops % self.step == 0:
            self.features.append(crop_features)
        self.n_crops += 1
        if len(self.features) > max_crops:
            self.features, self.step = self.features[::2], 2 * self.step


class LiveCount:
    """Tracks boxes, embeds their crops, links tracklets, and emits events.

    Attributes:
        latencies: Processing time of each counted frame without the detector, seconds.
        frames: Number of frames so far, dropped ones included.
        closings: Time to embed and link each closed tracklet, seconds.
        state: The contents of the page, as JSON; a new object whenever something has changed.
        late: Number of dropped frames.
        warnings: Reasons to doubt the count.
    """

    def __init__(
        self,
        source: LiveSource,
        encoder: NamedEncoder,
        point: OperatingPoint,
        out: Path,
        emit: Callable[[Event], None],
        *,
        cover: Cover,
        keep_alarms: bool = False,
        settings: OnlineSettings | None = None,
    ) -> None:
        """Prepare to count.

        Args:
            source: The procedure; the caller passes its frames to `frame`.
            encoder: Embeds crops.
            point: The operating point for linking.
            out: The output folder.
            emit: Called with each event.
            cover: Whether the count has intervals, and on what they were calibrated.
            keep_alarms: Whether tracklets below the threshold of false alarms are counted.
            settings: Limits on the views that the linker keeps.

        Raises:
            PolyplinkError: If the operating point has no learned links, or the tracker does not
                report which tracks are open.
        """
        assert isinstance(encoder.embedder, NetworkEmbedder | ExportedEncoder)
        self._embedder, self._encoder, self._out = encoder.embedder, encoder, out
        network = getattr(encoder.embedder, "encoder", None)
        self._max_crops = MOST_CLIPS if isinstance(network, ClipWise) else MOST_CROPS
        self._source, self._emit = source, emit
        self._linker = OnlineLinker(point, settings)
        self._alarms, self._keep_alarms = point.alarms, keep_alarms
        self._chances = array("d")  # of closed tracklets, before `of_procedure`
        self._frame_tracker = FrameTracker(source.fps, source.width, source.height, encoder.prepare)
        if not hasattr(self._frame_tracker.tracker, "open"):
            raise PolyplinkError(
                f"the tracker {encoder.prepare.tracks.tracker} does not show which tracks are open",
                "leave out --tracker, or give it the method `open` of `Tracker`",
            )
        self._open: dict[int, OpenTracklet] = {}
        self._n_begun = 0  # tracklets so far, with too short ones and untracked boxes
        self._vectors: dict[str, np.ndarray] = {}  # of closed tracklets, by their names
        self._thinned = False
        self._piece, self._second, self.frames = 0, -1, 0
        self._decision: Decision | None = None
        self._card: Event | None = None
        self._revised: list[Event] = []
        self._polyps: Sequence[Event] = []
        self.latencies, self.closings = array("f"), array("f")
        self.late = self.backwards = 0
        self.warnings: list[Message] = []
        self._cover = cover
        self._basis = [cover.basis] if cover.basis else []
        self.state = b"{}"
        self._finished: dict[str, Any] | None = None
        (out / LIVE).mkdir(parents=True, exist_ok=True)
        names = ("name", "fps", "width", "height", "rate_known")
        facts = {name: getattr(source, name) for name in names} | {"recording": None}
        facts["counted_with"] = _counted_with(encoder)
        for recording in source.recordings:
            facts["recording"] = str(recording.path.resolve())
            facts["times"] = {name: getattr(recording, name) for name in TIMES}
        write_json(out / LIVE_SOURCE, facts)
        self.show()

    def warm_up(self, cores: int) -> int:
        """Compile and load everything before the first frame; returns torch's thread count."""
        side = self._encoder.prepare.size
        crop = np.zeros((1, side, side, 3), np.uint8)
        threads = choose_threads(lambda: self._embedder.frames(crop), cores)
        vector = self._embedder.tracklets(self._embedder.frames(crop), [1])[0]
        trial = OnlineLinker(self._linker.point)
        rng = np.random.default_rng(0)
        for i in range(3):
            trial.add(str(i), vector + rng.normal(size=vector.shape), i, i + 0.5)
        size = (self._source.fps, self._source.width, self._source.height)
        frame_tracker = FrameTracker(*size, self._encoder.prepare)
        pixels = np.zeros((size[2], size[1], 3), np.uint8)
        frame_tracker.track(0, Picture(pixels), np.array([[0.0, 0.0, 8.0, 8.0, 1.0]]))
        return threads

    def _facts(self) -> dict[str, Any]:
        """The time and the count at the latest frame, which every event has."""
        count, interval = 0, None
        if self._decision is not None:
            count = self._decision.count
            interval = self._decision.interval if self._covers_rate() else None
        low, high = interval or (None, None)
        last = max(self.frames - 1, 0)
        moment = {"frame": last, "time": round(last / self._source.fps, 2)}
        return moment | {"count": count, "low": low, "high": high, "late": self.late}

    def _covers_rate(self) -> bool:
        """Whether the frames that were not dropped are enough for an interval."""
        share = 1 - self.late / max(self.frames, 1)
        return self._cover.covers_rate(self._source.fps * share)

    def emit(self, event: str, **facts: Any) -> Event:
        """Emit an event with the current time and count; returns it."""
        event_facts = {"event": event} | self._facts() | facts
        self._emit(event_facts)
        return event_facts

    def warn(self, *messages: Message) -> None:
        """Record reasons to doubt the count, and emit each as an event."""
        for message in messages:
            self.warnings.append(message)
            self.emit("warning", message=str(message), kind=message.kind)
            self.show()

    def finish(self, counted: Count, report: Path, review: str | None = None) -> None:
        """Show the final count, and where its report and its review are.

        Args:
            counted: The count of the report.
            report: The report's file, shown once the page is no longer served.
            review: Address of the review, if it is served.
        """
        (procedure,) = counted.procedures
        self.warnings = [*counted.all_messages]
        self._basis = [counted.basis] if counted.basis else []
        final = {"count": procedure.polyps, "low": procedure.low, "high": procedure.high}
        self._finished = final | {
            "review": review,
            "report": str(report.resolve()),
            "folder": shlex.quote(str(self._out.resolve())),  # of a command to copy
        }
        self.show()

    def frame(self, frame: LiveFrame, boxes: np.ndarray) -> bool:
        """Take the next frame.

        Args:
            frame: The frame.
            boxes: (k, 5) x, y, w, h and score; clipped to the frame.

        Returns:
            Whether the frame was counted; frames that do not decode, or are out of order, are not.
        """
        start_time = time.perf_counter()
        if frame.number < self.frames:
            self.backwards += 1
            if self.backwards == 1:
                numbers = {"frame": frame.number, "last": self.frames - 1}
                self.warn(Message("live.backwards", numbers))
            return False
        if frame.number // PIECE != self._piece:
            self._frame_tracker.write(self._out / PIECES / f"{self._piece:09d}")
            self._piece = frame.number // PIECE
        self.frames = frame.number + 1
        if not frame.decodes:
            self._frame_tracker.lost += 1
            return False
        tracked = self._frame_tracker.track(frame.number, frame.picture, boxes, frame.crops)
        self._extend(frame, tracked)
        open_tracks = set(self._frame_tracker.tracker.open(frame.number + 1).tolist())
        for track in [track for track in self._open if track not in open_tracks]:
            self._close(self._open.pop(track))
        second = int(frame.number / self._source.fps)
        if second != self._second:
            self._second = second
            self.emit(
                "count",
                open=[tracklet.name for tracklet in self._open.values() if tracklet.announced],
            )
            self.show()
        self.latencies.append(time.perf_counter() - start_time)
        return True

    def _extend(self, frame: LiveFrame, tracked: TrackedFrame) -> None:
        """Add the boxes of a frame to their tracklets."""
        crops = list(tracked.crops.values())
        features = self._embedder.frames(np.stack(crops)) if crops else ()
        features_of_row = dict(zip(tracked.crops, features, strict=True))
        shortest = self._encoder.prepare.shortest_track(self._source.fps)
        for row, track in enumerate(tracked.tracks.tolist()):
            # The same names as in `prepare`, which also numbers untracked boxes.
            if track < 0 or track not in self._open:
                name = f"{self._source.name}:{self._n_begun:05d}"
                self._n_begun += 1
                if track < 0:
                    continue
                number = self._n_begun - 1
                self._open[track] = OpenTracklet(name, number, frame.number, frame.number)
            tracklet = self._open[track]
            tracklet.last = frame.number
            tracklet.boxes.extend(tracked.boxes[row])
            tracklet.frames.append(frame.number)
            if row in features_of_row:
                tracklet.keep(features_of_row[row], self._max_crops)
                self._thinned |= tracklet.step > 1
                if tracked.boxes[row, 4] > tracklet.score:
                    picture = tracked.crops[row]
                    if frame.picture is not None:
                        picture = cut(frame.picture.rgb(), tracked.areas[row], THUMBNAIL)
                    tracklet.score, tracklet.picture = tracked.boxes[row, 4], picture
            if not tracklet.announced and tracklet.last - tracklet.first + 1 >= shortest:
                tracklet.announced = True
                self.emit("opened", tracklet=tracklet.name, start=tracklet.first / self._source.fps)
                self.show()

    def _close(self, tracklet: OpenTracklet) -> None:
        """Link a tracklet that has ended, unless it was too short."""
        shortest = self._encoder.prepare.shortest_track(self._source.fps)
        if tracklet.last - tracklet.first + 1 < shortest or not tracklet.features:
            return
        start_time = time.perf_counter()
        fps = self._source.fps
        vector = self._embedder.tracklets(np.stack(tracklet.features), [len(tracklet.features)])[0]
        self._vectors[tracklet.name] = vector
        place = f"{LIVE}/{tracklet.number:05d}.jpg"
        if tracklet.picture is not None:
            with atomic_file(self._out / place) as temporary:  # the page may load it at any time
                temporary.write_bytes(encode_jpeg(tracklet.picture))
        chance = self._shows_polyp(tracklet, vector)
        facts: dict[str, Any] = {
            "tracklet": tracklet.name,
            "start": round(tracklet.first / fps, 2),
            "end": round((tracklet.last + 1) / fps, 2),
            "boxes": len(tracklet.frames),
            "thumbnail": place,
            "shows_polyp": chance,
        }
        is_alarm = (
            self._alarms is not None and chance is not None and chance < self._alarms.threshold
        )
        if is_alarm and not self._keep_alarms:
            self.emit("alarm", **facts)
            return
        before = self._linker.numbers
        decision = self._linker.add(
            tracklet.name, vector, tracklet.first / fps, tracklet.last / fps, tracklet.frames
        )
        self._decision, numbers = decision, self._linker.numbers
        certain, earlier = decision.probability >= SEEN_FROM, None
        if certain and decision.earlier is not None:
            name, start = decision.earlier
            number = int(name.rpartition(":")[2])
            earlier = {
                "tracklet": name,
                "time": round(start, 2),
                "clock": clock(start),
                "thumbnail": f"{LIVE}/{number:05d}.jpg",
            }
        self._card = self.emit(
            "closed",
            **facts,
            polyp=decision.polyp,
            number=numbers[decision.polyp],
            probability=rounded_probability(decision.probability),
            certain=certain,
            new=decision.polyp not in before,
            seen_before=earlier,
        )
        for revision in decision.revisions:
            revised = self.emit(
                "revised",
                tracklet=revision.tracklet,
                before=revision.before,
                now=revision.now,
                number_before=before[revision.before],
                number=numbers[revision.now],
            )
            self._revised.append(revised)
        del self._revised[:-5]
        self._polyps = self._list_polyps()
        self.show()
        self.closings.append(time.perf_counter() - start_time)

    def _shows_polyp(self, tracklet: OpenTracklet, vector: np.ndarray) -> float | None:
        """Probability that a tracklet shows a polyp, given the earlier ones; None if unknown."""
        if self._alarms is None:
            return None
        boxes = np.array(tracklet.boxes, np.float32).reshape(-1, 5)
        table = pl.DataFrame(boxes, schema=["x", "y", "w", "h", "score"]).with_columns(
            tracklet=pl.lit(0),
            frame=pl.Series(np.array(tracklet.frames)),
            polyp_id=pl.lit(None, pl.String),
            fps=pl.lit(self._source.fps),
            width=pl.lit(self._source.width),
            height=pl.lit(self._source.height),
        )
        chance = self._alarms.probability(box_features(table), unit_rows(vector[None]))
        self._chances.append(float(chance[0]))
        return rounded_probability(float(self._alarms.of_procedure(np.array(self._chances))[-1]))

    def _list_polyps(self) -> Sequence[Event]:
        """The polyps among the views that the linker keeps, the latest first."""
        linked = self._linker.stored
        assert linked is not None
        listed: list[dict[str, Any]] = []
        numbers = self._linker.numbers
        for polyp in np.unique(linked.polyp).tolist():
            rows = np.flatnonzero(linked.polyp == polyp)
            number = int(str(linked.name[rows[-1]]).rpartition(":")[2])
            first, last = float(linked.start[rows].min()), float(linked.end[rows].max())
            listed.append(
                {
                    "polyp": numbers[polyp],
                    "views": int(linked.weight[rows].sum()),
                    "picture": number,
                    "first": round(first, 1),
                    "last": round(last, 1),
                }
            )
        return sorted(listed, key=lambda facts: -facts["last"])[:POLYPS_SHOWN]

    def show(self) -> None:
        """Update `state`, the contents of the page."""
        is_warned = any(message.kind == "live.late" for message in self.warnings)
        late = [] if is_warned else late_messages(self.late, self.frames)
        warnings = [message for message in self.warnings if message.kind not in BROKE_OFF]
        broke_off = [message for message in self.warnings if message.kind in BROKE_OFF]
        state = self._facts() | {
            "procedure": self._source.name,
            "open": [
                {"tracklet": tracklet.name, "since": round(tracklet.first / self._source.fps, 1)}
                for tracklet in self._open.values()
                if tracklet.announced
            ],
            "card": self._card,
            "revised": self._revised,
            "polyps": self._polyps,
            "broke_off": in_every_language(broke_off),
            "warnings": in_every_language([*warnings, *late]),
            "basis": in_every_language(self._basis if self._covers_rate() else []),
            "seen_from": SEEN_FROM,
            "finished": self._finished,
        }
        self.state = json.dumps(state).encode()

    def end(self) -> None:
        """Close all tracklets after the last frame and write the data folder `data`.

        The vectors are written to the cache that `count` reads.
        """
        for track in list(self._open):
            self._close(self._open.pop(track))
        self._frame_tracker.write(self._out / PIECES / f"{self._piece:09d}")
        source_file = self._out / LIVE_SOURCE
        write_json(source_file, read_json(source_file) | {"counted_frames": self.frames})
        self.warn(*write_pieces(self._out, self._source, self.frames))
        prepared = prepare(self._out / "data", self._encoder.prepare, with_crops=False)
        ids = prepared.tracklets["tracklet_id"].to_list()
        if ids and not self._thinned and self._vectors.keys() == {*ids}:
            rows = np.stack([self._vectors[name] for name in ids])
            (name,), key = prepared.procedures, self._encoder.key
            target = vectors_folder(self._encoder, prepared) / f"{prepared.stem(name)}.parquet"
            write_embeddings(target, Embeddings(ids, rows, key, prepared.keys[name]))


def write_pieces(out: Path, source: LiveSource, frames: int) -> list[Message]:
    """Write the boxes and crops of the pieces as the data folder `data`.

    Returns:
        Warnings about what was left out.
    """
    boxes, scenes, left_out = join_pieces(out / PIECES, out / "data", source.name, source.recording)
    row = {
        "procedure_id": source.name,
        "dataset": DATASET,
        "patient": source.name,
        "n_frames": frames,
        "fps": source.fps if source.rate_known else None,
        "width": source.width,
        "height": source.height,
        "source": "." if source.recording is None else str(source.recording.folder.resolve()),
    }
    write_detections(out / "data", detected_data(boxes, [row]), {source.name: scenes})
    sizes = size_messages(source.recordings) if left_out.frames else []
    return [*sizes, *left_out.messages(source.name, frames)]


def written_pieces(out: Path) -> list[Path]:
    """The pieces of a count without a report yet."""
    return [*(out / PIECES).glob("[0-9]*")]


def remove_pieces(out: Path) -> None:
    """Remove the files from which a killed count is reported."""
    (out / PIECES).rename(out / f"{PIECES}.part")  # the folder disappears atomically
    shutil.rmtree(out / f"{PIECES}.part")


def other_settings(out: Path, encoder: NamedEncoder) -> list[Message]:
    """The warning that a killed count is reported with other weights or options, if it is.

    Args:
        out: The folder of the count.
        encoder: The encoder of the report, with its settings of tracklets.

    Raises:
        PolyplinkError: If the tracklets differ, and there is no recording to cut their crops from.
    """
    facts, now = read_json(out / LIVE_SOURCE), to_plain(_counted_with(encoder))
    before = facts.get("counted_with", now)  # older counts have none
    if before == now:
        return []
    if before["tracklets"] != now["tracklets"] and facts["recording"] is None:
        raise PolyplinkError(
            f"{out} was counted with other weights or options of tracklets, and holds crops for "
            "these alone",
            "give the same --weights and options",
        )
    return [Message("live.other_settings")]


def _counted_with(encoder: NamedEncoder) -> dict[str, Any]:
    """What a report must share with its live count."""
    return {"weights": encoder.key, "tracklets": encoder.prepare}


def killed_source(out: Path) -> tuple[LiveSource, int]:
    """The source of a count that was killed, and the number of frames that were written.

    Raises:
        PolyplinkError: If the recording no longer exists.
    """
    facts = read_json(out / LIVE_SOURCE)
    path, counted = facts.pop("recording"), facts.pop("counted_frames", None)
    facts.pop("counted_with", None)
    times = facts.pop("times", {})  # older counts have none
    recording = replace(find_recordings(Path(path), facts["fps"])[0], **times) if path else None
    frames = PIECE * (1 + max(int(piece.name) for piece in written_pieces(out)))
    if recording is not None:
        frames = min(frames, recording.n_frames)
    if counted is not None:  # the last piece is shorter
        frames = counted
    return LiveSource(**facts, frames=iter(()), recording=recording), frames


def late_messages(late: int, frames: int) -> list[Message]:
    """The warning about dropped frames, if there are any among a number of frames."""
    return [Message("live.late", {"n": late, "frames": frames})] if late else []


def percentiles(seconds: Sequence[float]) -> dict[str, float | None]:
    """Median and 99th percentile of durations, in milliseconds; None if there are none.

    Example:
        >>> percentiles([0.01, 0.01, 0.01])
        {'p50': 10.0, 'p99': 10.0}
    """
    if not len(seconds):
        return {"p50": None, "p99": None}
    p50, p99 = np.percentile(np.asarray(seconds, np.float64), [50, 99]) * 1e3
    return {"p50": round(float(p50), 2), "p99": round(float(p99), 2)}
