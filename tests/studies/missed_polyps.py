"""How many polyps does a review reach that the count misses?

    make study-missed DATA="COUNT TRUTH"

COUNT is a folder that `polyplink count` or `run` wrote, TRUTH a data folder with the annotated
boxes of the same procedures. A polyp is reached by a box that overlaps one of its boxes (IoU 0.3):
a box of a counted view, of a view that was left out as a false alarm, or of a place where the
review says that a polyp may have been missed.
"""

import argparse
from collections.abc import Iterable
from pathlib import Path
from unittest.mock import patch

import numpy as np

from polyplink.data.tables import read_data
from polyplink.evaluate.samples import box_iou
from polyplink.serve import possible_misses
from polyplink.serve.desk import Desk
from polyplink.tracklets.box_runs import BOX, box_rows
from tests.studies.sequences_in_a_row import IOU

PLACES = (1, 3, 5, 10)

Truth = dict[tuple[str, int], list[tuple[str, np.ndarray]]]
"""By procedure and frame, its polyps and their boxes."""


def main() -> None:
    """Print a table with one row for each number of places."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("count", type=Path, help="folder of a count")
    parser.add_argument("truth", type=Path, help="data folder with annotated boxes")
    arguments = parser.parse_args()
    desk = Desk(arguments.count)
    truth: Truth = {}
    for name, frame, polyp, *box in (
        read_data(arguments.truth)
        .detections.select("procedure_id", "frame", "polyp_id", *BOX)
        .iter_rows()
    ):
        if name in desk.names:
            truth.setdefault((name, frame), []).append((polyp, np.array(box, float)))
    polyps = {(name, polyp) for (name, _), boxes in truth.items() for polyp, _ in boxes}

    def reached(boxes: Iterable[tuple[str, int, np.ndarray]]) -> set[tuple[str, str]]:
        return {
            (name, polyp)
            for name, frame, box in boxes
            for polyp, true_box in truth.get((name, frame), [])
            if box_iou(box, true_box) >= IOU
        }

    def of_views(rows: np.ndarray) -> set[tuple[str, str]]:
        table = desk.prepared.detections[rows].select("procedure_id", "frame", *BOX)
        return reached((name, frame, np.array(box)) for name, frame, *box in table.iter_rows())

    counted, with_left_out = set(), set()
    for index in range(len(desk.names)):
        solved = desk.solve(index)
        counted |= of_views(box_rows(solved.table[solved.counted])[0])
        with_left_out |= of_views(box_rows(solved.table)[0])
    print(f"{len(polyps)} polyps; in counted views {len(counted)}", end="; ")
    print(f"with views left out {len(with_left_out)}")
    for most in PLACES:
        with patch.object(possible_misses, "MOST", most):
            desk = Desk(arguments.count)
            places = {
                (name, place.frame, place.box)
                for index, name in enumerate(desk.names)
                for place in desk.possible_misses(index)
            }
        with_misses = reached((name, frame, np.array(box)) for name, frame, box in places)
        print(f"and {most} places a procedure at most: {len(with_left_out | with_misses)}")


if __name__ == "__main__":
    main()
