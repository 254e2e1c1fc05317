"""Finishing a review."""

from pathlib import Path

from polyplink.data.tables import read_data
from polyplink.serve.desk import Desk


def finish_review(count_folder: Path, data: Path) -> Desk:
    """Review every procedure with the polyps of `data` as the truth."""
    desk = Desk(count_folder, reviewer="me")
    truth = read_data(data).detections
    for index, name in enumerate(desk.names):
        procedure = desk.procedure(index)
        boxes = truth.filter(procedure_id=name)
        polyp_of = dict(boxes.select("frame", "polyp_id").rows())
        for polyp_id in sorted(set(polyp_of.values())):
            rows = [
                t["row"] for t in procedure["tracklets"] if polyp_of[t["first_frame"]] == polyp_id
            ]
            others = [t["row"] for t in procedure["tracklets"] if t["row"] not in rows]
            desk.correct(index, {"kind": "merge", "rows": rows})
            desk.correct(index, {"kind": "split", "rows": rows, "others": others})
        desk.correct(index, {"kind": "done"})
    return desk
