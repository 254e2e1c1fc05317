"""Read the SUN colonoscopy video database: 100 polyps of 99 patients, and videos without polyp.

Source: Misawa et al., Gastrointestinal Endoscopy 2021; sundatabase.org, on request; its terms
forbid to hand on what is made of it. Read in both packagings in use: `case1` .. `case100` with
`annotation_txt/case1.txt`, and `imgs/case1/*.jpg` with `annotation_xml/case1/*.xml`. Folders are
the only link between an image and its polyp.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.files.trees import Tree, open_tree
from polyplink.data.formats.edge_boxes import EdgeBox, PolypRow, ProcedureRow, join_edges
from polyplink.data.sets.origin import Origin, read_origin
from polyplink.data.sets.recognise import nothing_found
from polyplink.data.sets.sun_cases import SunCase, read_cases
from polyplink.data.sets.sun_files import CaseFiles, find_cases, read_case_boxes
from polyplink.data.sets.sun_names import SunName, number_frames
from polyplink.data.tables import Imported

DATASET = "sun"
FPS = 30.0  # of every video, by the site


def import_sun(
    source: Path,
    *,
    images: bool = True,
    strict: bool = False,
    progress: Callable[[int, int], None] | None = None,
    workers: int = 1,
    size: tuple[int, int] | None = None,
    cases: Path | None = None,
) -> Imported:
    """Read the SUN database into the three tables.

    Procedures and polyps are `case1` .. `case100`; videos without polyp, whose path says
    `negative`, are `negative1` .. `negative13`. The parts are `positive` and `negative`. Frame
    numbers follow from the image names (see `number_frames`): every segment of a case is cut from
    the next by one number that is left out, so no tracklet crosses it.

    Args:
        source: A folder above the case folders, plain or in archives (which must have been opened
            with their password first).
        images: Name each box's image, where the case has any.
        strict: Raise at the first fault instead of leaving it out and counting it.
        progress: Called after every case with how many are read and how many there are.
        workers: Taken so that all importers are called alike; one process reads this set.
        size: Width and height of the frames, for cases without an image.
        cases: CSV table of the cases (see `sun_cases`); without it size, histology, location and
            shape are null, and each case is its own patient.

    Returns:
        The data set and its warnings.

    Raises:
        PolyplinkError: If the folder is not of this set, an archive is broken, or no case has a
            size; if strict, at the first fault.
    """
    del workers
    faults = Faults(strict)
    tree = open_tree(source, faults)
    found = find_cases(tree, source.name, faults)
    if not found:
        wanted = "folders case1, case2, ... or annotation_txt/case1.txt"
        raise nothing_found(tree, str(source), wanted, DATASET)
    read_case_boxes(tree, found, faults)
    table = {} if cases is None else read_cases(cases, faults)
    sizes = _sizes(tree, found, size, faults)
    sized = [case for case in found if case.name in sizes]
    if not sized:
        raise PolyplinkError(
            f"{source} has no image to take the frames' size from", "give their width and height"
        )
    origin = read_origin(tree, DATASET)
    procedures, polyps, boxes = [], [], []
    for done, case in enumerate(sized, 1):
        frames = number_frames({*case.images, *case.boxes})
        row = table.get(case.number, SunCase()) if case.positive else SunCase()
        n_frames = max(frames.values()) + 1
        procedures.append(_procedure(origin, case, row, n_frames, sizes[case.name]))
        polyps += [_polyp(case, row)] if any(case.boxes.values()) else []
        boxes += list(_boxes(case, frames, images, faults))
        if progress is not None:
            progress(done, len(sized))
    _warn_of_table(sized, table, cases, faults)
    splits = {
        part: [case.name for case in sized if case.positive is positive]
        for part, positive in (("positive", True), ("negative", False))
    }
    return Imported(join_edges(boxes, procedures, polyps, splits, faults), faults.lines())


def _sizes(
    tree: Tree, cases: list[CaseFiles], size: tuple[int, int] | None, faults: Faults
) -> dict[str, tuple[int, int]]:
    """Size of each case's frames: of its first image that can be read, else the given one."""
    first = {min(case.images.items())[1]: case.name for case in cases if case.images}
    sizes = {first[m]: found for m, found in tree.image_sizes(list(first), faults).items()}
    for case in cases:
        if case.name not in sizes and not {*case.images, *case.boxes}:
            faults.fault(
                "case without an image or a line that can be read", case.name, "restore it"
            )
        elif case.name not in sizes and size is not None:
            sizes[case.name] = size
        elif case.name not in sizes:
            mend = "give the frames' width and height, or unpack the images"
            faults.fault("case without an image to take its size from", case.name, mend)
    return sizes


def _procedure(
    origin: Origin,
    case: CaseFiles,
    row: SunCase,
    n_frames: int,
    size: tuple[int, int],
) -> ProcedureRow:
    return ProcedureRow(
        procedure_id=case.name,
        dataset=origin.dataset,
        patient=row.patient or case.name,
        n_frames=n_frames,
        width=size[0],
        height=size[1],
        source=origin.source,
        fps=FPS,
    )


def _polyp(case: CaseFiles, row: SunCase) -> PolypRow:
    return PolypRow(
        polyp_id=case.name,
        procedure_id=case.name,
        size_mm=row.size_mm,
        histology=row.pathology,
        histology_class=row.histology_class,
        location=row.location,
        morphology=row.shape,
    )


def _boxes(
    case: CaseFiles, frames: dict[SunName, int], images: bool, faults: Faults
) -> Iterator[EdgeBox]:
    for name, frame in frames.items():
        boxes, image, where = case.boxes.get(name, []), case.images.get(name), case.where.get(name)
        if boxes and images and case.images and image is None:
            mend = "unpack the images again, import without images"
            faults.fault("frame with a box without an image", str(where), mend)
            continue
        if case.positive and name not in case.boxes and image is not None:
            faults.warn(
                "image of a case without an annotation, taken as without polyp", image.image
            )
        for edges in boxes:
            shown = image.image if images and image is not None else None
            yield EdgeBox(case.name, frame, case.name, shown, str(where), *edges)


def _warn_of_table(
    found: list[CaseFiles], table: dict[int, SunCase], path: Path | None, faults: Faults
) -> None:
    positive = [case for case in found if case.positive]
    for case in positive:
        if case.number not in table:
            faults.warn(
                "case without size, histology, location and shape, "
                f"{'no table of cases given' if path is None else f'no row in {path.name}'}",
                case.name,
            )
        if table.get(case.number, SunCase()).patient is None:
            faults.warn("case whose patient is not known, taken as its own patient", case.name)
    for number in sorted(set(table) - {case.number for case in positive}):
        faults.warn("row of the table of cases without a case", f"case{number}")
