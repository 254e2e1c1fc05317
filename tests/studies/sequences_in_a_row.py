"""Does `polyplink run` count the polyps of real sequences that are played in a row?

    make study-sequences DATA="MIX --empty FOLDER"

MIX is a data folder of real sequences with polyp ids (`polyplink import`). The images of each
procedure are played in order. Images of FOLDER, which show no polyp, are played before and after
them and wherever the polyp changes, scaled to the size of the sequences. The study uses the shipped
models, or those of --detector and --weights. A view shows the polyp that at least half of its boxes
overlap (IoU 0.3), or none.
"""

import argparse
import csv
import itertools
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from polyplink.data.tables import DataSet, read_data
from polyplink.evaluate.samples import box_iou

IOU = 0.3
NONE = "-"


@dataclass(frozen=True)
class PlayedProcedure:
    """A procedure as a folder of images.

    Attributes:
        folder: Links to the images, in order.
        truth: For each frame with a polyp, the polyp and its box x, y, w, h.
    """

    folder: Path
    truth: dict[int, tuple[str, np.ndarray]]

    @property
    def polyps(self) -> int:
        """The number of polyps."""
        return len({polyp for polyp, _ in self.truth.values()})


def play(
    data: DataSet, root: Path, empty: list[Path], between: int, out: Path
) -> list[PlayedProcedure]:
    """Place the images of every procedure in order, with `between` empty images around polyps."""
    empty_images = itertools.cycle(empty)
    played_procedures = []
    rows = data.detections.join(data.procedures, "procedure_id").sort("procedure_id", "frame")
    for (name,), boxes in rows.group_by("procedure_id", maintain_order=True):
        folder = out / str(name)
        folder.mkdir(parents=True, exist_ok=True)
        images: list[Path] = []
        truth, last = {}, None
        size = (boxes["width"][0], boxes["height"][0])
        for box in boxes.iter_rows(named=True):
            if box["polyp_id"] != last:
                images += [next(empty_images) for _ in range(between)]
            last = box["polyp_id"]
            truth[len(images)] = (last, np.array([box[side] for side in "xywh"], float))
            images.append(root / box["source"] / box["image"])
        images += [next(empty_images) for _ in range(between)]
        for k, image in enumerate(images):
            frame = folder / f"{k:05}{image.suffix}"
            frame.unlink(missing_ok=True)
            if k in truth:
                os.link(image.resolve(), frame)
            else:
                with Image.open(image) as picture:
                    picture.convert("RGB").resize(size).save(frame, quality=95)
        played_procedures.append(PlayedProcedure(folder, truth))
    return played_procedures


def polyp_of_view(boxes: np.ndarray, truth: dict[int, tuple[str, np.ndarray]]) -> str:
    """The polyp that at least half of the boxes (k, 5) of a view overlap: frame x y w h."""
    hits = Counter(
        truth[int(frame)][0]
        for frame, *box in boxes
        if int(frame) in truth and box_iou(np.array(box), truth[int(frame)][1]) >= IOU
    )
    polyp, times = hits.most_common(1)[0] if hits else (NONE, 0)
    return polyp if 2 * times >= len(boxes) else NONE


def compare_count(played: PlayedProcedure, run: Path) -> dict[str, float | str]:
    """The count of a procedure, compared with the truth."""
    name = played.folder.name
    count = json.loads((run / "count" / "count.json").read_text(encoding="utf-8"))
    (counted_procedure,) = [
        procedure for procedure in count["procedures"] if procedure["procedure_id"] == name
    ]
    tracks = np.loadtxt(run / "tracks" / f"{name}.txt", delimiter=",", usecols=range(6), ndmin=2)
    with (run / "count" / "views.csv").open(encoding="utf-8") as file:
        views = [view for view in csv.DictReader(file) if view["procedure"] == name]
    shows: dict[str, list[str]] = {}  # counted polyp -> true polyps of its views
    for view in views:
        if not view["polyp"]:
            continue
        first, last = int(view["start_frame"]), int(view["end_frame"])
        frames = tracks[:, 0] - 1  # MOT counts from 1
        of_view = (tracks[:, 1] == int(view["polyp"][1:])) & (first <= frames) & (frames <= last)
        boxes = np.column_stack([frames, tracks[:, 2:6]])[of_view]
        shows.setdefault(view["polyp"], []).append(polyp_of_view(boxes, played.truth))
    pure = sum(len(set(polyps)) == 1 and NONE not in polyps for polyps in shows.values())
    return {
        "procedure": name,
        "polyps": played.polyps,
        "counted": counted_procedure["polyps"],
        "low": counted_procedure["low"],
        "high": counted_procedure["high"],
        "without a polyp": sum(set(polyps) == {NONE} for polyps in shows.values()),
        "of one polyp": pure,
        "never seen": played.polyps - len({p for ps in shows.values() for p in ps} - {NONE}),
    }


def main() -> None:
    """Play the sequences, run polyplink, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path, help="data folder of sequences with polyp ids")
    parser.add_argument("--empty", type=Path, required=True, help="folder of images, no polyp")
    parser.add_argument("--between", type=int, default=8, help="images without a polyp in a row")
    parser.add_argument("--fps", default="5", help="of the images")
    parser.add_argument("--detector")
    parser.add_argument("--weights")
    parser.add_argument("--out", type=Path, default=Path("study-sequences"))
    arguments = parser.parse_args()
    empty = sorted(path for path in arguments.empty.iterdir() if path.is_file())
    frames, run = arguments.out / "frames", arguments.out / "run"
    played_procedures = play(
        read_data(arguments.data), arguments.data, empty, arguments.between, frames
    )
    command = [sys.executable, "-m", "polyplink", "run", str(frames), "--fps", arguments.fps]
    for option in ("detector", "weights"):
        if value := getattr(arguments, option):
            command += [f"--{option}", value]
    subprocess.run([*command, "--out", str(run)], check=True)
    rows = [compare_count(result_row, run) for result_row in played_procedures]
    print("| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0]))
    for result_row in rows:
        print("| " + " | ".join(str(value) for value in result_row.values()) + " |")
    mean_error = np.mean(
        [
            abs(result_row.polyps - float(r["counted"]))
            for result_row, r in zip(played_procedures, rows, strict=True)
        ]
    )
    print(f"count off by {mean_error:.2f} on average")


if __name__ == "__main__":
    main()
