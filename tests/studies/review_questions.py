"""How many answers does a review take, and how often are other decisions wrong?

    make study-questions DATA="COUNT TRUTH"

COUNT is a folder that `polyplink count` or `run` wrote, TRUTH a data folder with the annotated
boxes of the same procedures. A view shows the polyp that at least half of its boxes overlap
(IoU 0.3), or is a false alarm. How many counted polyps are asked about, how many of those without
such a view, and how many false alarms, is printed first. Then false alarms are left out, as a
reviewer would dismiss them, and every open question about a link is answered with the truth, the
first one first, until none is open.
"""

import argparse
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
import polars as pl

from polyplink.associate import identities as identities_module
from polyplink.associate.clusterers import LearnedLinks
from polyplink.associate.identities import Constraints, OperatingPoint, identify, possible_questions
from polyplink.associate.links import Views
from polyplink.data.tables import read_data
from polyplink.serve.desk import Desk
from polyplink.tracklets.box_runs import BOX, box_rows
from tests.studies.sequences_in_a_row import NONE, polyp_of_view

NEGLIGIBLE = (0.0, 0.01, 0.02, 0.05)  # probabilities of an error
EDGES = (0.0, 0.01, 0.05, 0.1, 0.2, 1.0)


def polyps_of_views(desk: Desk, annotated: pl.DataFrame, index: int) -> list[str]:
    """The polyp that each view of a procedure shows, or `NONE`."""
    solved = desk.solve(index)
    of_procedure = annotated.filter(procedure_id=desk.names[index])
    true_boxes = {
        frame: (polyp, np.array(box, float))
        for frame, polyp, *box in of_procedure.select("frame", "polyp_id", *BOX).iter_rows()
    }
    rows, view = box_rows(solved.table)
    boxes = desk.prepared.detections[rows].select("frame", *BOX).to_numpy().astype(float)
    return [polyp_of_view(boxes[view == k], true_boxes) for k in range(solved.table.height)]


def doubts(desk: Desk, annotated: pl.DataFrame, index: int) -> np.ndarray:
    """Questions about the polyps and the false alarms of a procedure.

    Returns:
        (7,): counted polyps, and false ones; those asked about of each; polyps that no counted view
        shows; false alarms asked about; those of these polyps that they show.
    """
    solved = desk.solve(index)
    polyp_of_row = polyps_of_views(desk, annotated, index)
    real = {solved.polyps[row] for row in solved.counted if polyp_of_row[row] != NONE}
    counted = {solved.polyps[row] for row in solved.counted}
    doubtful = {solved.polyps[doubt.rows[0]] for doubt in solved.doubtful if doubt.counted}
    of_procedure = annotated.filter(procedure_id=desk.names[index])
    missing = {*of_procedure["polyp_id"]} - {polyp_of_row[row] for row in solved.counted}
    alarms = [doubt.rows[0] for doubt in solved.doubtful if not doubt.counted]
    reached = missing & {polyp_of_row[row] for row in alarms}
    numbers = counted, counted - real, doubtful, doubtful - real, missing, alarms, reached
    return np.array([len(things) for things in numbers])


def views_of_polyps(
    desk: Desk, annotated: pl.DataFrame, index: int
) -> tuple[Views, np.ndarray, list[str]]:
    """The counted views of a procedure that show a polyp, their positions, and their polyps."""
    solved, polyp_of_row = desk.solve(index), polyps_of_views(desk, annotated, index)
    polyps = [polyp_of_row[row] for row in solved.counted]
    real = [k for k, polyp in enumerate(polyps) if polyp != NONE]
    views = solved.views
    assert views is not None
    positions = solved.table[solved.counted]["position"].to_numpy()
    return views.take(np.array(real, int)), positions[real], [polyps[k] for k in real]


def count_errors(
    views: Views, positions: np.ndarray, polyps: list[str], point: OperatingPoint
) -> list[int]:
    """Count minus number of polyps after 0, 1, ... true answers, until no question is open."""
    must: list[tuple[int, int]] = []
    cannot: list[tuple[int, int]] = []
    errors = []
    while True:
        counted = identify(views, positions, point, Constraints(tuple(must), tuple(cannot)))
        errors.append(len(counted.names) - len(set(polyps)))
        open_pairs = [question.pair for question in counted.questions if question.close]
        if not open_pairs:
            return errors
        a, b = open_pairs[0]
        (must if polyps[a] == polyps[b] else cannot).append((a, b))


def main() -> None:
    """Print how often decisions are wrong, and the answers of each procedure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("count", type=Path, help="folder of a count")
    parser.add_argument("truth", type=Path, help="data folder with annotated boxes")
    arguments = parser.parse_args()
    desk = Desk(arguments.count)
    assert isinstance(desk.point.setting, LearnedLinks)
    annotated = read_data(arguments.truth).detections
    all_procedures = [
        views_of_polyps(desk, annotated, index)
        for index in range(len(desk.names))
        if desk.solve(index).views is not None
    ]
    procedures = [procedure for procedure in all_procedures if procedure[2]]

    counted, false, doubtful, false_doubtful, missing, alarms, reached = np.sum(
        [doubts(desk, annotated, index) for index in range(len(desk.names))], axis=0
    )
    print(
        f"asked whether they are one: {doubtful} of {counted} counted polyps, {false_doubtful} of "
        f"the {false} false ones; {alarms} false alarms, which show {reached} of the {missing} "
        "polyps that no counted view shows"
    )

    # Decisions by the probability of an error that the links state.
    decisions: dict[bool, list[tuple[float, bool]]] = {False: [], True: []}  # by joined
    for views, positions, polyps in procedures:
        counted = identify(views, positions, desk.point)
        for question in possible_questions(counted.labels, counted.similarity, desk.point.setting):
            a, b = question.pair
            wrong = (polyps[a] == polyps[b]) != question.joined
            decisions[question.joined].append((question.probability_wrong, wrong))
    print("probability of an error: wrong decisions of all")
    for joined, label in ((False, "counted as two polyps"), (True, "counted as one polyp")):
        doubt_and_wrong = np.array(decisions[joined]).reshape(-1, 2)
        bins = np.digitize(doubt_and_wrong[:, 0], EDGES[1:-1])
        cells = [
            f"{low} to {high}: {int(doubt_and_wrong[bins == k, 1].sum())} of {(bins == k).sum()}"
            for k, (low, high) in enumerate(pairwise(EDGES))
        ]
        print(f"{label}: {'; '.join(cells)}")

    # True answers until no question is open.
    for negligible in NEGLIGIBLE:
        with patch.object(identities_module, "NEGLIGIBLE", negligible):
            errors = [count_errors(*procedure, desk.point) for procedure in procedures]
        answers = [len(of_procedure) - 1 for of_procedure in errors]
        wrong_before = sum(of_procedure[0] != 0 for of_procedure in errors)
        wrong_after = sum(of_procedure[-1] != 0 for of_procedure in errors)
        print(
            f"open from {negligible}: {np.mean(answers):.1f} answers, at most {max(answers)}; "
            f"wrong counts of {len(procedures)}: {wrong_before} before, {wrong_after} after"
        )


if __name__ == "__main__":
    main()
