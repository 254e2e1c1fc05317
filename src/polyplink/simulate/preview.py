"""What a person looks at first: a contact sheet of polyps and workflow, and a short film."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from PIL import Image

from polyplink.core.artefacts import whole_file
from polyplink.simulate.boxes import boxes_of
from polyplink.simulate.cast import procedure_specs
from polyplink.simulate.crops import SimulatedProcedure
from polyplink.simulate.drawing import Box, Picture, contact_sheet, mark
from polyplink.simulate.film import write_film
from polyplink.simulate.plan import Plan, plan_procedure
from polyplink.simulate.specs import Preset, ProcedureSpec
from polyplink.simulate.truth import polyp_id

CELL = (180, 150)  # of the sheet, pixels
LOOKS = 7  # columns of the sheet
POLYPS = 5  # rows of polyps of one procedure, at most
ENLARGE = 2.0  # window around a polyp, times its box's longer side
FILM_WIDTH, LEAST_WIDTH = 480, 240  # pixels: smaller frames would hardly be seen
DRY = 0.05  # share of the view under water up to which a lens is dry
SEEN, SCAR_FAR = 0.85, 2.0  # cosine from the view's middle and distance within which a scar shows
FILM_BATCH = 8  # frames rendered at a time

Frames = NDArray[np.int64]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Scene:
    """A procedure to show: its plan, its boxes, and a renderer of its pictures."""

    plan: Plan
    boxes: pl.DataFrame
    pictures: SimulatedProcedure


def write_preview(
    folder: Path,
    preset: Preset,
    seed: int,
    *,
    device: str = "cpu",
    marked: bool = True,
    progress: Progress | None = None,
) -> tuple[Path, Path]:
    """Render a contact sheet of one procedure of each brand, and a film of the first.

    Args:
        folder: Gets `sheet.png` and `film.mp4`, each whole or not at all.
        preset: What is simulated.
        seed: Of the data set.
        device: Where to render, as torch names it.
        marked: Draw boxes and identities into the film.
        progress: Called with (pictures done, pictures in all).

    Returns:
        The two files.

    Raises:
        PolyplinkError: If PyAV is not installed.
    """
    scenes = []
    for spec in chosen(procedure_specs(preset, seed)):
        plan = plan_procedure(preset, seed, spec)
        pictures = SimulatedProcedure.of(plan, seed, device)
        scenes.append(Scene(plan, boxes_of(plan), pictures))
    tell = progress or (lambda done, total: None)
    frames = film_frames(scenes[0])
    tell(0, len(frames))
    sheet, film = folder / "sheet.png", folder / "film.mp4"
    rows = [row for scene in scenes for row in sheet_rows(scene)]
    with whole_file(sheet) as temporary:
        Image.fromarray(contact_sheet(rows, CELL)).save(temporary, format="PNG")

    def shown() -> Iterator[Picture]:
        for done, picture in enumerate(film_pictures(scenes[0], frames, marked=marked), start=1):
            tell(done, len(frames))
            yield picture

    write_film(film, shown(), scenes[0].plan.spec.fps)
    return sheet, film


def chosen(specs: Sequence[ProcedureSpec]) -> list[ProcedureSpec]:
    """The procedure of each brand to show: two polyps in a view and a large one, if there are."""
    best: dict[str, ProcedureSpec] = {}

    def rank(spec: ProcedureSpec) -> tuple[bool, bool, float]:
        largest = max((polyp.size_mm for polyp in spec.polyps), default=0.0)
        return not spec.pairs, len(spec.polyps) < 2, -largest

    for spec in sorted(specs, key=rank):
        best.setdefault(spec.brand, spec)
    return list(best.values())


def sheet_rows(scene: Scene) -> list[tuple[str, list[tuple[str, Picture]]]]:
    """The workflow of a procedure, then its polyps, each in several looks."""
    spec = scene.plan.spec
    moments = workflow(scene)
    frames = np.array(list(moments.values()), np.int64)
    size = _film_size(spec)
    pictures = scene.pictures.frames(frames, size)
    shown = list(zip(moments, pictures, strict=True))
    rows = [(f"{spec.procedure_id}\n{spec.brand}\n{spec.width} x {spec.height}", shown)]
    for polyp in range(min(len(spec.polyps), POLYPS)):
        own = look_boxes(scene, polyp)
        if own.is_empty():
            continue
        windows = np.stack([_around(box, spec) for box in own.select("x", "y", "w", "h").rows()])
        frames = own["frame"].to_numpy().astype(np.int64)
        pictures = scene.pictures.windows(frames, windows, (CELL[0], CELL[0]))
        captions = [f"frame {frame}" for frame in frames]
        rows.append((_caption(scene.plan, polyp), list(zip(captions, pictures, strict=True))))
    return rows


def _caption(plan: Plan, polyp: int) -> str:
    spec, traits = plan.spec.polyps[polyp], plan.traits[polyp]
    name = polyp_id(plan.spec.procedure_id, polyp)
    return f"{name}\n{spec.size_mm:g} mm, {traits.form.paris}\n{spec.histology_class}\n{spec.site}"


def look_boxes(scene: Scene, polyp: int) -> pl.DataFrame:
    """The box in the middle of some looks at a polyp, in order: long looks before short ones."""
    looks = [look for look in scene.plan.timeline.looks if look.polyp == polyp]
    kept = sorted(looks, key=lambda look: -look.frames)
    picked = sorted(look.first + look.frames // 2 for look in kept[: 2 * LOOKS : 2] or kept)
    own = scene.boxes.filter(pl.col("polyp") == polyp)
    return own.filter(pl.col("frame").is_in(picked)).sort("frame").head(LOOKS)


def _around(box: Box, spec: ProcedureSpec) -> NDArray[np.float64]:
    """A square window around a box, moved into the frame: left, top, right, bottom."""
    x, y, w, h = box
    side = min(ENLARGE * max(w, h), spec.width, spec.height)
    left = min(max(x + w / 2 - side / 2, 0), spec.width - side)
    top = min(max(y + h / 2 - side / 2, 0), spec.height - side)
    return np.array([left, top, left + side, top + side])


def workflow(scene: Scene) -> dict[str, int]:
    """Frames that show what happens in a procedure, by what they show."""
    plan, conditions = scene.plan, scene.plan.conditions
    boxes = np.bincount(scene.boxes["frame"].to_numpy(), minlength=plan.timeline.n_frames)
    boxed = boxes > 0
    clear, tool = ~conditions.blink, conditions.instrument[:, 0]
    dry = clear & (conditions.splash < DRY)
    before = np.arange(len(boxed)) < plan.timeline.turn
    area = np.zeros(len(boxed))
    area[scene.boxes["frame"].to_numpy()] = (scene.boxes["w"] * scene.boxes["h"]).to_numpy()
    moments: dict[str, int] = {}

    def add(name: str, score: NDArray[np.floating], where: NDArray[np.bool_]) -> None:
        if where.any() and score[where].max() > 0:
            moments[name] = int(np.flatnonzero(where)[np.argmax(score[where])])

    steady = 1 / (1 + 100 * np.abs(conditions.motion).sum(1))
    add("insertion", steady, dry & before & ~boxed)
    add("inspection", area, dry & boxed & (tool == 0) & ~conditions.near)
    add("near focus", area, dry & boxed & (tool == 0) & conditions.near)
    add("two in view", area, dry & (boxes > 1) & (tool == 0))
    add("water", conditions.splash, clear & boxed)
    add("instrument", tool * area, clear & boxed)
    add("after removal", _scar_in_view(plan) * steady, clear & ~boxed)
    add("smoke", conditions.haze, clear)
    add("nothing seen", np.ones(len(boxed)), ~clear)
    return moments


def _scar_in_view(plan: Plan) -> NDArray[np.float64]:
    """How well each frame shows the place of a removed polyp, 0 to 1."""
    shown = np.zeros(plan.timeline.n_frames)
    for lump, gone in zip(plan.lumps, plan.timeline.removed, strict=True):
        if gone is None:
            continue
        way = lump.centre.double().numpy() - plan.path.positions[gone:]  # (s, 3)
        far = np.linalg.norm(way, axis=1)
        cosine = (way * plan.path.rotations[gone:, :, 2]).sum(1) / far
        here = np.where((cosine > SEEN) & (far < SCAR_FAR), cosine / (1 + far), 0.0)
        shown[gone:] = np.maximum(shown[gone:], here)
    return shown


def film_frames(scene: Scene) -> Frames:
    """Some 12 to 16 seconds: insertion, a polyp seen, lost, found and removed, the next one."""
    timeline, fps = scene.plan.timeline, scene.plan.spec.fps
    parts = [(timeline.turn // 2, 1.5)]
    looks = [look for look in timeline.looks if look.first >= timeline.turn] or timeline.looks
    if looks:
        parts.append((looks[0].first - round(0.5 * fps), 5.0))
        polyp = looks[0].polyp
        gone = timeline.removed[polyp]
        if gone is not None:
            parts.append((gone - round(2.5 * fps), 4.0))
        others = [look for look in looks if look.polyp != polyp]
        parts += [(others[0].first - round(0.5 * fps), 3.0)] if others else []
    frames = [np.arange(first, first + round(seconds * fps)) for first, seconds in parts]
    every = np.unique(np.concatenate(frames))
    return np.asarray(every[(every >= 0) & (every < timeline.n_frames)])


def film_pictures(scene: Scene, frames: Frames, *, marked: bool) -> Iterator[Picture]:
    """Whole frames at the film's size, boxes and identities drawn in if asked for."""
    spec, size = scene.plan.spec, _film_size(scene.plan.spec)
    scale = size[0] / spec.width
    by_frame = scene.boxes.filter(pl.col("frame").is_in(frames.tolist())).partition_by(
        "frame", as_dict=True
    )
    for start in range(0, len(frames), FILM_BATCH):
        batch = frames[start : start + FILM_BATCH]
        for frame, picture in zip(batch, scene.pictures.frames(batch, size), strict=True):
            boxes = by_frame.get((int(frame),))
            if not marked or boxes is None:
                yield picture
                continue
            drawn = []
            for polyp, *box in boxes.select("polyp", "x", "y", "w", "h").iter_rows():
                x, y, w, h = (round(value * scale) for value in box)
                drawn.append((polyp_id(spec.procedure_id, polyp), (x, y, w, h)))
            yield mark(picture, drawn)


def _film_size(spec: ProcedureSpec) -> tuple[int, int]:
    """Width and height that frames are shown at: even, the frame's shape."""
    width = min(FILM_WIDTH, max(spec.width, LEAST_WIDTH)) // 2 * 2
    return width, round(width * spec.height / spec.width / 2) * 2
