"""Procedures rendered from stills: order and length of visits, frames, and true boxes.

A procedure has a few polyps, each from one still. A polyp is visited one or more times, the later
visits soon after the first; every visit has a new camera path over the still. Between visits the
camera wanders over images without a polyp. Visits last a few seconds. How often polyps are visited
differs widely between procedures, as in recordings: links fitted on few views per polyp split
polyps with many, and links fitted on many merge polyps with few.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl
import simplejpeg

from polyplink.core.arrays import Floats
from polyplink.core.artefacts import atomic_file, content_key, file_key, read_json, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.core.ranges import AT_LEAST_ONE, POSITIVE, Range, Ranged
from polyplink.core.results import StageProgress, silent_stage
from polyplink.core.text import many
from polyplink.data.files.images import Pixels, decoded_image
from polyplink.data.tables import DataSet, write_data
from polyplink.data.vocabulary import STILLS
from polyplink.stills.annotated_stills import Still
from polyplink.stills.moving_camera import CameraPath, boxes_in_view, draw_path, render

LEAST_VISIBLE = 0.35  # share of a polyp that must be in view to be annotated
LEAST_SIDE = 10.0  # pixels
MADE_OF = "made_of.json"  # identifies the stills and settings of the frames in a folder
QUALITY = 88  # of the JPEG files
SPREAD = 2.25  # polyps that are first seen while one is visited, about, if it has more visits


@dataclass(frozen=True)
class StillsConfig(Ranged):
    """Settings of the rendered procedures.

    Attributes:
        procedures: Number of procedures.
        least: Smallest number of polyps of a procedure.
        most: Largest number of polyps of a procedure.
        fps: Frames per second.
        fewest_visits: Mean number of visits per polyp in the procedure with fewest. The mean of a
            procedure is drawn log-uniformly; REAL-Colon has 16 tracklets per polyp on average.
        most_visits: The same in the procedure with most.
        visit: Median length of a visit, seconds.
        between: Mean time without a polyp between visits, seconds.
        width: Width of the frames, pixels.
        height: Height of the frames, pixels.
        patients: Number of patients among whom the stills and the images without a polyp are
            divided; None for one patient per procedure, who may share them with others.
        seed: Seed of all random numbers.
    """

    procedures: Annotated[int, AT_LEAST_ONE] = 60
    least: Annotated[int, AT_LEAST_ONE] = 3
    most: Annotated[int, AT_LEAST_ONE] = 6
    fps: Annotated[float, POSITIVE] = 8.0
    fewest_visits: Annotated[float, AT_LEAST_ONE] = 1.5
    most_visits: Annotated[float, AT_LEAST_ONE] = 16.0
    visit: Annotated[float, POSITIVE] = 3.0
    between: Annotated[float, POSITIVE] = 1.0
    width: Annotated[int, Range(64)] = 400
    height: Annotated[int, Range(64)] = 320
    patients: Annotated[int | None, AT_LEAST_ONE] = None
    seed: Annotated[int, Range(0)] = 0


def draw_course(rng: np.random.Generator, polyps: int, visits: float) -> list[int]:
    """Draw the order of visits to polyps.

    First visits are in the order of the polyps; after each visit a polyp may be visited again soon.

    Args:
        rng: Source of randomness.
        polyps: Number of polyps.
        visits: Mean number of visits to a polyp; the number is geometrically distributed.

    Example:
        >>> draw_course(np.random.default_rng(0), 3, visits=2.2)
        [0, 1, 1, 2, 1]
    """
    at: list[tuple[float, int]] = []
    for polyp in range(polyps):
        time = float(polyp)
        at.append((time, polyp))
        while rng.random() < 1 - 1 / visits:
            time += float(rng.uniform(0.2, 1.6)) * min(1, SPREAD / visits)
            at.append((time, polyp))
    return [polyp for _, polyp in sorted(at)]


def write_procedures(
    out: Path,
    stills: Sequence[Still],
    empty: Sequence[Path],
    config: StillsConfig,
    *,
    name: str,
    progress: StageProgress = silent_stage,
) -> DataSet:
    """Write procedures as a data folder: frames as JPEG files, and the true boxes.

    With `config.patients`, no image is shown in procedures of two patients, so that a model fitted
    on some patients can be tested on others.

    Existing frames are not rendered again, so that an interrupted run can be continued, also with
    more procedures.

    Args:
        out: The data folder; frames are in `out/frames/PROCEDURE`.
        stills: Images with polyps.
        empty: Images without a polyp, shown between visits; may be empty.
        config: Settings of the procedures.
        name: Name of the stills: the data set is called "stills in motion, NAME".
        progress: Callback (procedures done, procedures in all).

    Raises:
        PolyplinkError: If there are too few stills of different groups, an image is broken, or
            `out` has frames of other stills or settings, or of more procedures.
    """
    groups: dict[str, list[Still]] = {}
    for still in stills:
        groups.setdefault(still.group, []).append(still)
    patients = config.patients or 1
    if len(groups) < config.most * patients:
        raise PolyplinkError(
            f"{many(len(groups), 'group')} of stills: too few for {config.most} polyps a procedure",
            "give more stills, or fewer --polyps",
        )
    _claim(out, stills, empty, config)
    names = sorted(groups)
    rows: list[dict[str, object]] = []
    lengths = []
    # Every group of a patient is used before one is used again.
    order = np.random.default_rng([config.seed, 0])
    queues: list[list[str]] = [[] for _ in range(patients)]
    for place in range(config.procedures):
        patient = place % patients
        queue = queues[patient]
        of_patient = names[patient::patients]
        rng = np.random.default_rng([config.seed, 1, place])
        count = int(rng.integers(config.least, config.most + 1))
        if len(queue) < count:
            shuffled = order.permutation(of_patient).tolist()
            queue += [group for group in shuffled if group not in queue]
        chosen = [groups[queue.pop(0)] for _ in range(count)]
        stills_of_procedure = [
            group_stills[int(rng.integers(len(group_stills)))] for group_stills in chosen
        ]
        no_polyp = empty[patient::patients]
        boxes, length = _write_procedure(
            out, f"s{place:04d}", stills_of_procedure, no_polyp, config, rng=rng
        )
        rows += boxes
        lengths.append(length)
        progress(place + 1, config.procedures)
    ids = [f"s{place:04d}" for place in range(config.procedures)]
    patient_ids = ids
    if config.patients is not None:
        patient_ids = [f"patient{place % patients}" for place in range(config.procedures)]
    procedures = pl.DataFrame(
        {"procedure_id": ids, "patient": patient_ids, "n_frames": lengths}
    ).with_columns(
        dataset=pl.lit(f"{STILLS}, {name}"),
        fps=pl.lit(config.fps),
        width=pl.lit(config.width),
        height=pl.lit(config.height),
        source=pl.lit("."),
    )
    if not rows:
        raise PolyplinkError(
            "no polyp of these stills is visible in a frame",
            f"give stills with larger boxes: at least {LEAST_SIDE:g} pixels in a frame",
        )
    detections = pl.DataFrame(rows)
    polyps = detections.select("polyp_id", "procedure_id").unique(maintain_order=True)
    data = DataSet.of(detections, procedures, polyps)
    write_data(out, data)
    return data


def _claim(out: Path, stills: Sequence[Still], empty: Sequence[Path], config: StillsConfig) -> None:
    """Record the stills and settings of `out`; refused if its frames are made from others."""
    settings = {**asdict(config), "procedures": None}  # more procedures may be added later
    boxes = [[_content(still.path), still.group, still.boxes.tolist()] for still in stills]
    key = content_key(settings, boxes, list(map(_content, empty)))
    note = out / MADE_OF
    if not (read_json(note) == {"key": key} if note.is_file() else not (out / "frames").exists()):
        raise PolyplinkError(
            f"{out} has frames of other stills or of other settings",
            "choose another --out, or remove that folder",
        )
    n_existing = len(list((out / "frames").glob("*")))
    if n_existing > config.procedures:
        raise PolyplinkError(
            f"{out} already has {many(n_existing, 'procedure')}, more than the {config.procedures} "
            "to make",
            "give more --procedures, or choose another --out",
        )
    write_json(note, {"key": key})


def _content(path: Path) -> str:
    """Key of an image file; empty for a missing one, which its reader reports if it is drawn."""
    return file_key(path) if path.is_file() else ""


def draw_visit(
    rng: np.random.Generator, picture: Pixels, target: Floats | None, config: StillsConfig
) -> CameraPath:
    """Draw the camera's path of a visit to a polyp, or over an image without one.

    Args:
        rng: Source of randomness.
        picture: The image (height, width, 3).
        target: Box (4,) x, y, w, h of the polyp in the image; None for none.
        config: Settings of the procedures.
    """
    seconds = (
        rng.exponential(config.between) + 0.6
        if target is None
        else np.clip(config.visit * np.exp(rng.normal(0, 0.5)), 1.5, 12)
    )
    n_frames = max(4, round(float(seconds) * config.fps))
    size = picture.shape[1], picture.shape[0]
    frame = config.width, config.height
    return draw_path(rng, n_frames, config.fps, size, frame, target=target)


def frame_file(folder: Path, number: int) -> Path:
    """File of a frame of a procedure."""
    return folder / f"{number:06d}.jpg"


def write_frames(
    folder: Path, first: int, picture: Pixels, path: CameraPath, frame: tuple[int, int]
) -> None:
    """Write the frames of a path, numbered from `first`; existing ones are not rendered again."""
    for k in range(len(path.maps)):
        file = frame_file(folder, first + k)
        if not file.is_file():
            pixels = render(picture, path, k, frame, np.random.default_rng([first + k]))
            with atomic_file(file) as temporary:
                temporary.write_bytes(simplejpeg.encode_jpeg(pixels, quality=QUALITY))


def _write_procedure(
    out: Path,
    name: str,
    stills: Sequence[Still],
    empty: Sequence[Path],
    config: StillsConfig,
    *,
    rng: np.random.Generator,
) -> tuple[list[dict[str, object]], int]:
    """Write the frames of a procedure; returns the rows of its boxes and the number of frames."""
    frame = (config.width, config.height)
    folder = out / "frames" / name
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, object]] = []
    number = 0
    visits = config.fewest_visits
    if config.most_visits > visits:
        visits = float(np.exp(rng.uniform(np.log(visits), np.log(config.most_visits))))
    course = draw_course(rng, len(stills), visits)
    for picture, boxes, polyp_ids, target in _visits(name, stills, empty, course, rng):
        path = draw_visit(rng, picture, None if target is None else boxes[target], config)
        write_frames(folder, number, picture, path, frame)

        # The boxes that are in view.
        for to_frame in path.maps:
            projected_boxes, shares = boxes_in_view(boxes, to_frame, frame)
            for polyp_id, box, share in zip(polyp_ids, projected_boxes, shares, strict=True):
                if share >= LEAST_VISIBLE and box[2:].min() >= LEAST_SIDE:
                    x, y, w, h = (float(side) for side in box)
                    rows.append(
                        {
                            "procedure_id": name,
                            "frame": number,
                            "x": x,
                            "y": y,
                            "w": w,
                            "h": h,
                            "polyp_id": polyp_id,
                            "image": f"frames/{name}/{frame_file(folder, number).name}",
                        }
                    )
            number += 1
    return rows, number


def _visits(
    name: str,
    stills: Sequence[Still],
    empty: Sequence[Path],
    course: Sequence[int],
    rng: np.random.Generator,
) -> Iterator[tuple[Pixels, np.ndarray, Sequence[str], int | None]]:
    """The stills that a procedure shows, each after an image without a polyp if there are any.

    Yields:
        The picture, its boxes (k, 4) and their polyps, and the row of the box that is looked at.
    """
    pictures = [decoded_image(still.path) for still in stills]
    for polyp in course:
        if empty:
            picture = decoded_image(empty[int(rng.integers(len(empty)))])
            yield picture, np.empty((0, 4)), (), None
        still = stills[polyp]
        largest = int(still.boxes[:, 2:].prod(1).argmax())
        polyp_ids = [
            f"{name}_p{polyp}" + ("" if k == largest else f"_{k}") for k in range(len(still.boxes))
        ]
        yield pictures[polyp], still.boxes, polyp_ids, largest
