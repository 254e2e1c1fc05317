"""A review desk with made-up procedures and pictures, for tests of the server and the page."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from polyplink.core.errors import PolyplinkError

Json = dict[str, Any]
FPS, SECONDS, SIZE = 25.0, 4, (320, 256)  # of a recording; seconds of a view
ALARM = -1


class MadeDesk:
    """Procedures with four polyps seen `views` times in turns, and one false alarm each.

    A polyp is what the log of corrections makes of it, entry by entry: no links, no solving.

    Args:
        out: Folder that hand-off writes into.
        procedures: Number of procedures.
        views: Views of each, false alarm included.
        recording: Whether frames can be shown.
    """

    def __init__(
        self, out: Path, *, procedures: int = 2, views: int = 13, recording: bool = True
    ) -> None:
        self.out, self.views, self.recording = out, views, recording
        self.names = [f"00{1 + k // 20}-{1 + k % 20:03d}" for k in range(procedures)]
        self.logs: list[list[Json]] = [[] for _ in self.names]

    def version(self) -> int:
        return sum(len(log) for log in self.logs)

    def known(self, index: int, row: int = 0) -> None:
        if not (0 <= index < len(self.names) and 0 <= row < self.views):
            raise PolyplinkError(f"no procedure {index} or view {row}", "see the overview")

    def overview(self, reviewer: str) -> Json:
        states = [self.procedure(index) for index in range(len(self.names))]
        rows = [
            {
                key: state[key]
                for key in ("index", "id", "polyps", "low", "high", "duration_s", "done")
            }
            | {
                "tracklets": self.views,
                "alarms": sum(t["alarm"] for t in state["tracklets"]),
                "questions": len(state["questions"]),
                "corrections": sum(not e["undone"] for e in state["log"]),
                "conflicts": len(state["conflicts"]),
            }
            for state in states
        ]
        return {
            "title": "count",
            "version": self.version(),
            "simulated": True,
            "warnings": ["the operating point is not tuned; run `polyplink calibrate`"],
            "reviewer": reviewer,
            "purpose": "count",
            "polyps": sum(state["polyps"] for state in states),
            "done": sum(state["done"] for state in states),
            "procedures": rows,
        }

    def start(self, row: int) -> float:
        return 12.0 + 31.0 * row

    def entries(self, index: int) -> tuple[list[Json], list[Json]]:
        """The corrections of a procedure that stand, and those that were undone."""
        stand: list[Json] = []
        undone: list[Json] = []
        by = {entry["id"]: entry for entry in self.logs[index]}
        for entry in self.logs[index]:
            if entry["kind"] == "undo":
                stand.remove(by[entry["of"]])
                undone.append(by[entry["of"]])
            elif entry["kind"] == "redo":
                undone.remove(by[entry["of"]])
                stand.append(by[entry["of"]])
            else:
                stand.append(entry)
                undone = []
        return stand, undone

    def labels(self, index: int) -> list[int]:
        """The polyp of every view, by the corrections that stand."""
        labels = [row * 4 // self.views for row in range(self.views)]
        labels[5] = ALARM
        for n, entry in enumerate(self.entries(index)[0], start=100):
            kind, rows, others = entry["kind"], entry["rows"], entry["others"]
            if kind in {"same", "merge"}:
                joined = {labels[row] for row in rows + others}
                labels = [labels[rows[0]] if label in joined else label for label in labels]
            elif kind == "not_polyp":
                labels = [ALARM if row in rows else label for row, label in enumerate(labels)]
            elif kind in {"polyp", "split"} or (kind == "move" and not others):
                labels = [n if row in rows else label for row, label in enumerate(labels)]
            elif kind == "move":
                labels[rows[0]] = labels[others[0]]
            elif kind == "different" and labels[rows[0]] == labels[others[0]]:
                labels[others[0]] = n
        return labels

    def procedure(self, index: int) -> Json:
        self.known(index)
        labels = self.labels(index)
        stand, undone = self.entries(index)
        shown = list(dict.fromkeys(label for label in labels if label != ALARM))
        members = [[r for r, label in enumerate(labels) if label == one] for one in shown]
        decided = {row for e in stand for row in e["rows"] + e["others"]}
        asked = [(2, 3), (6, 7), (1, 2), (9, 10)]
        pairs: dict[str, list[tuple[tuple[int, ...], str]]] = {
            kind: [] for kind in ("same", "different", "unsure")
        }
        for entry in stand:
            if entry["kind"] in pairs:
                pairs[entry["kind"]].append(((*entry["rows"], *entry["others"]), entry["id"]))
        answered = {pair for kind in pairs.values() for pair, _ in kind}
        conflicts = [
            {"correction": late, "with": [early], "why": "same_different"}
            for pair, early in pairs["same"]
            for other, late in pairs["different"]
            if pair == other
        ]
        aside = {one["correction"] for one in conflicts}
        return {
            "index": index,
            "id": self.names[index],
            "version": self.version(),
            "duration_s": self.start(self.views) + 20,
            "fps": FPS,
            "n_frames": int((self.start(self.views) + 20) * FPS),
            "recording": self.recording,
            "polyps": len(members),
            "low": max(1, len(members) - 1),
            "high": len(members) + 1,
            "done": [e["kind"] for e in stand if e["kind"] in {"done", "reopen"}][-1:] == ["done"],
            "groups": [
                {
                    "name": f"P{place + 1}",
                    "rows": rows,
                    "first_s": self.start(rows[0]),
                    "last_s": self.start(rows[-1]) + SECONDS,
                    "probability": 0.9,
                    "best": rows[0],
                }
                for place, rows in enumerate(members)
            ],
            "tracklets": [
                {
                    "row": row,
                    "id": f"{self.names[index]}:{row:05d}",
                    "polyp": None if label == ALARM else shown.index(label),
                    "start_s": self.start(row),
                    "end_s": self.start(row) + SECONDS,
                    "first_frame": int(self.start(row) * FPS),
                    "last_frame": int((self.start(row) + SECONDS) * FPS) - 1,
                    "boxes": int(SECONDS * FPS),
                    "bridged": 0.0,
                    "probability": 0.8,
                    "shows_polyp": None,
                    "pictures": 6,
                    "best": 2,
                    "alarm": row == 5,
                    "removed": label == ALARM and row != 5,
                    "decided": row in decided,
                }
                for row, label in enumerate(labels)
            ],
            "questions": [
                {
                    "a": a,
                    "b": b,
                    "members": [r for r in range(self.views) if labels[r] == labels[a] and r <= a],
                    "others": [r for r in range(self.views) if labels[r] == labels[b] and r >= b],
                    "joined": labels[a] == labels[b],
                    "probability": 0.6,
                    "change": 1 if labels[a] == labels[b] else -1,
                }
                for a, b in asked
                if (a, b) not in answered and ALARM not in {labels[a], labels[b]}
            ],
            "conflicts": conflicts,
            "log": [
                {key: entry[key] for key in ("id", "at", "reviewer", "kind", "rows", "others")}
                | {"undone": entry not in stand, "set_aside": entry["id"] in aside}
                for entry in self.logs[index]
                if entry["kind"] not in {"undo", "redo"}
            ],
            "undo": stand[-1]["id"] if stand else None,
            "redo": undone[-1]["id"] if undone else None,
        }

    def correct(self, index: int, correction: Json, reviewer: str) -> Json:
        self.known(index)
        kind = correction.get("kind")
        if kind in {"same", "different", "unsure"}:
            rows, others = [correction["a"]], [correction["b"]]
        elif kind == "move":
            rows, others = [correction["row"]], correction["others"]
        elif kind in {"not_polyp", "polyp", "merge", "split", "done", "reopen", "undo", "redo"}:
            rows, others = correction.get("rows", []), correction.get("others", [])
        else:
            raise PolyplinkError(f"no correction {kind!r}", "see the documentation")
        entry = {
            "id": f"c{self.version()}", "at": "2026-11-22T10:31:00+00:00", "reviewer": reviewer,
            "kind": kind, "rows": rows, "others": others, "of": correction.get("of"),
        }  # fmt: skip
        self.logs[index].append(entry)
        return self.procedure(index)

    def picture(self, index: int, row: int, k: int, size: int) -> bytes:
        self.known(index, row)
        frame = int(self.start(row) * FPS) + 15 * k
        x, y, w, h = self.box(row, frame)
        scene = self.scene(index, row, frame).crop((x, y, x + w, y + h))
        return as_jpeg(scene.resize((size, size)))

    def frame(self, index: int, frame: int) -> bytes:
        self.known(index)
        if not self.recording:
            raise PolyplinkError("there is no recording", "give its folder as --recordings")
        row = min(range(self.views), key=lambda r: abs(self.start(r) * FPS + 50 - frame))
        return as_jpeg(self.scene(index, row, frame))

    def box(self, row: int, frame: int) -> tuple[int, int, int, int]:
        drift = (frame - int(self.start(row) * FPS)) // 3
        return 70 + drift + 7 * (row % 5), 60 + 5 * (row % 7), 96, 96

    def scene(self, index: int, row: int, frame: int) -> Image.Image:
        """A round thing on a folded wall."""
        x, y, w, h = self.box(row, frame)
        at = np.mgrid[: SIZE[1], : SIZE[0]]
        folds = 14 * np.sin(at[1] / 21 + at[0] / 47 + row + index)
        wall = np.stack([176 + folds, 92 + folds, 78 + folds], axis=2).astype(np.uint8)
        image = Image.fromarray(wall)
        pen = ImageDraw.Draw(image)
        tone = 20 * (row * 4 // self.views)
        pen.ellipse((x + 14, y + 18, x + w - 14, y + h - 14), fill=(214, 110 + tone, 96 + tone))
        pen.ellipse((x + 34, y + 30, x + 46, y + 40), fill=(255, 240, 232))
        return image

    def boxes(self, index: int, row: int) -> Json:
        self.known(index, row)
        first = int(self.start(row) * FPS)
        frames = range(first, first + int(SECONDS * FPS))
        boxes = [[frame, *self.box(row, frame)] for frame in frames]
        return {"width": SIZE[0], "height": SIZE[1], "boxes": boxes}

    def similar(self, index: int, row: int, k: int = 12) -> list[Json]:
        self.known(index, row)
        near = [
            (i, r)
            for i in (index, *range(len(self.names)))
            for r in (row - 1, row + 1)
            if 0 <= r < self.views
        ]
        return [
            {
                "index": i,
                "id": self.names[i],
                "row": r,
                "k": 2,
                "start_s": self.start(r),
                "end_s": self.start(r) + SECONDS,
                "polyp": 0,
                "similarity": 0.9,
            }
            for i, r in dict.fromkeys(near)
        ][:k]

    def hand_off(self) -> list[Json]:
        folder = self.out / "reviewed"
        (folder / "mot").mkdir(parents=True, exist_ok=True)
        texts = {
            "polyps.csv": "procedure,polyp\n",
            "report.html": "<!doctype html><title>Report</title><p>4 polyps",
            "mot/001-001.txt": "1,1,0,0,5,5,1,-1,-1,-1\n",
        }
        for name, text in texts.items():
            (folder / name).write_text(text)
        return [{"name": name, "bytes": len(text)} for name, text in texts.items()]


def as_jpeg(image: Image.Image) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=80)
    return stream.getvalue()
