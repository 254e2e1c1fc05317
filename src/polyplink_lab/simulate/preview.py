"""A preview for people: a contact sheet of the workflow and the polyps, and a short film."""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont, ImageOps

from polyplink.core.artefacts import atomic_file
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import StageProgress, silent_stage
from polyplink_lab.simulate.plan import Plan, boxes_of, plan_procedure
from polyplink_lab.simulate.presets import Preset
from polyplink_lab.simulate.procedure_specs import ProcedureSpec, procedure_specs
from polyplink_lab.simulate.rendering import SimulatedProcedure

CELL = (180, 150)  # width and height of a picture on the contact sheet, pixels
GAP, MARGIN, LINE = 4, 150, 15  # pixels between pictures, for the names of rows, of a line of text
PAPER, INK = (250, 250, 250), (30, 30, 30)
COLUMNS = 7  # maximum number of looks at a polyp
POLYPS = 5  # maximum number of polyps of a procedure, one row each
ENLARGE = 2.0  # side of the window around a polyp, in multiples of its box's longer side
FILM_WIDTH, LEAST_WIDTH = 480, 240  # pixels; smaller frames are hard to see
FILM_BATCH = 8  # frames rendered at a time
QUALITY = "20"  # x264's constant rate factor: small files without visible loss
DRY = 0.05  # share of the view under water up to which the lens counts as dry
SEEN, SCAR_FAR = 0.85, 2.0  # cosine from the view's middle and distance within which a scar shows
# Okabe and Ito's palette, safe for colour-blind readers, without black; one colour per polyp.
COLOURS = ("#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7")

Picture = NDArray[np.uint8]  # (h, w, 3) RGB
Frames = NDArray[np.int64]
SheetRow = tuple[str, Sequence[tuple[str, Picture]]]  # title; caption and picture of each cell


def write_preview(
    folder: Path,
    preset: Preset,
    seed: int,
    *,
    device: str = "cpu",
    progress: StageProgress = silent_stage,
) -> dict[str, Path]:
    """Render a contact sheet of one procedure of each brand, and a film of the first.

    Args:
        folder: Output folder for `sheet.png` and `film.mp4`, each written atomically.
        preset: Preset to simulate.
        seed: Seed of the data set.
        device: Torch device for rendering.
        progress: Callback (frames done, total frames) of the film.

    Returns:
        Paths of the two files, under "sheet" and "film".
    """
    samples = []
    for spec in choose_procedures(procedure_specs(preset, seed)):
        plan = plan_procedure(preset, seed, spec)
        samples.append((SimulatedProcedure.of(plan, seed, device), boxes_of(plan)))
    first, boxes = samples[0]
    frames = film_frames(first.plan)
    progress(0, len(frames))
    sheet, film = folder / "sheet.png", folder / "film.mp4"
    rows = [row for sample in samples for row in sheet_rows(*sample)]
    with atomic_file(sheet) as temporary:
        contact_sheet(rows).save(temporary, format="PNG")

    def pictures() -> Iterator[Picture]:
        for done, picture in enumerate(film_pictures(first, boxes, frames), start=1):
            progress(done, len(frames))
            yield picture

    write_film(film, pictures(), first.plan.spec.fps)
    return {"sheet": sheet, "film": film}


def film_size(spec: ProcedureSpec) -> tuple[int, int]:
    """Width and height of whole frames in the preview: even, with the frame's aspect ratio."""
    width = min(FILM_WIDTH, max(spec.width, LEAST_WIDTH)) // 2 * 2
    return width, round(width * spec.height / spec.width / 2) * 2


def choose_procedures(specs: Sequence[ProcedureSpec]) -> list[ProcedureSpec]:
    """One procedure per brand, preferably with two polyps in one view and a large polyp."""
    best: dict[str, ProcedureSpec] = {}

    def rank(spec: ProcedureSpec) -> tuple[bool, bool, float]:
        largest = max((polyp.size_mm for polyp in spec.polyps), default=0.0)
        return not spec.pairs, len(spec.polyps) < 2, -largest

    for spec in sorted(specs, key=rank):
        best.setdefault(spec.brand, spec)
    return list(best.values())


# --- The contact sheet ----------------------------------------------------------------------


def sheet_rows(procedure: SimulatedProcedure, boxes: pl.DataFrame) -> list[SheetRow]:
    """Rows of one procedure: its workflow, then one row of looks per polyp."""
    plan, spec = procedure.plan, procedure.plan.spec
    moments = workflow(plan, boxes)
    pictures = procedure.frames(list(moments.values()), film_size(spec))
    title = f"{spec.procedure_id}\n{spec.brand}\n{spec.width} x {spec.height}"
    rows: list[SheetRow] = [(title, list(zip(moments, pictures, strict=True)))]
    for index, polyp in enumerate(spec.polyps[:POLYPS]):
        # The box in the middle of some looks: long looks before short ones, in order of time.
        looks = [look for look in plan.timeline.looks if look.polyp == index]
        by_length = sorted(looks, key=lambda look: -look.frames)
        picked = [look.first + look.frames // 2 for look in by_length[: 2 * COLUMNS : 2]]
        frame_boxes = boxes.filter(pl.col("polyp") == index, pl.col("frame").is_in(picked))
        frame_boxes = frame_boxes.sort("frame").head(COLUMNS)
        if frame_boxes.is_empty():
            continue
        # Square windows around the boxes, moved into the frame.
        place = (
            frame_boxes.select("x", "y").to_numpy() + frame_boxes.select("w", "h").to_numpy() / 2
        )
        side = ENLARGE * frame_boxes.select(pl.max_horizontal("w", "h")).to_numpy()
        side = np.minimum(side, min(spec.width, spec.height))
        corner = np.clip(place - side / 2, 0, np.array([spec.width, spec.height]) - side)
        windows = np.concatenate([corner, corner + side], axis=1)
        pictures = procedure.windows(frame_boxes["frame"], windows, (CELL[0], CELL[0]))
        captions = [f"frame {frame}" for frame in frame_boxes["frame"]]
        name = f"{spec.procedure_id}_{index + 1}\n{polyp.size_mm:g} mm"
        title = f"{name}, {plan.traits[index].form.paris}\n{polyp.histology_class}\n{polyp.site}"
        rows.append((title, list(zip(captions, pictures, strict=True))))
    return rows


def workflow(plan: Plan, boxes: pl.DataFrame) -> dict[str, int]:
    """One example frame for each event of a procedure (insertion, water, smoke, ...), by name."""
    conditions, n = plan.conditions, plan.timeline.n_frames
    numbers = boxes["frame"].to_numpy()
    count, area, scar = np.bincount(numbers, minlength=n), np.zeros(n), np.zeros(n)
    area[numbers] = (boxes["w"] * boxes["h"]).to_numpy()
    # How well each frame shows the place of a removed polyp, 0 to 1.
    for lump, removal in zip(plan.lumps, plan.timeline.removal_frames, strict=True):
        offset = lump.centre.double().numpy() - plan.path.positions[removal:]  # (s, 3)
        distance = np.linalg.norm(offset, axis=1)
        cosine = (offset * plan.path.rotations[removal:, :, 2]).sum(1) / distance
        closeness = np.where((cosine > SEEN) & (distance < SCAR_FAR), cosine / (1 + distance), 0.0)
        scar[removal:] = np.maximum(scar[removal:], closeness)
    boxed, clear, tool = count > 0, ~conditions.blink, conditions.instrument[:, 0]
    dry = clear & (conditions.splash < DRY)
    view = dry & boxed & (tool == 0)
    steady = 1 / (1 + 100 * np.abs(conditions.motion).sum(1))
    inserted = np.arange(n) < plan.timeline.turn
    moments = {}
    # Name of the event, score by which the best frame is chosen, and the frames to choose from.
    candidates: tuple[tuple[str, NDArray[np.floating], NDArray[np.bool_]], ...] = (
        ("insertion", steady, dry & inserted & ~boxed),
        ("inspection", area, view & ~conditions.near),
        ("near focus", area, view & conditions.near),
        ("two in view", area, view & (count > 1)),
        ("water", conditions.splash, clear & boxed),
        ("instrument", tool * area, clear & boxed),
        ("after removal", scar * steady, clear & ~boxed),
        ("smoke", conditions.haze, clear),
        ("nothing seen", np.ones(n), ~clear),
    )
    for name, score, is_candidate in candidates:
        if is_candidate.any() and score[is_candidate].max() > 0:
            moments[name] = int(np.flatnonzero(is_candidate)[np.argmax(score[is_candidate])])
    return moments


def contact_sheet(rows: Sequence[SheetRow]) -> Image.Image:
    """Lay pictures out in rows, with the row's title on the left and a caption below each."""
    columns = max((len(pictures) for _, pictures in rows), default=0)
    step = CELL[0] + GAP, CELL[1] + GAP + LINE
    image = Image.new("RGB", (MARGIN + columns * step[0] + GAP, len(rows) * step[1] + GAP), PAPER)
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(12)
    for row, (name, pictures) in enumerate(rows):
        top = GAP + row * step[1]
        draw.multiline_text((GAP, top), name, fill=INK, font=font)
        for column, (caption, picture) in enumerate(pictures):
            left = MARGIN + column * step[0]
            image.paste(ImageOps.pad(Image.fromarray(picture), CELL), (left, top))
            draw.text((left, top + CELL[1]), caption, fill=INK, font=font)
    return image


# --- The film -------------------------------------------------------------------------------


def film_frames(plan: Plan) -> Frames:
    """Frames of 12 to 16 s: insertion; a polyp seen, lost, seen again, removed; the next polyp."""
    timeline, fps = plan.timeline, plan.spec.fps
    parts = [(timeline.turn // 2, 1.5)]
    looks = [look for look in timeline.looks if look.first >= timeline.turn] or timeline.looks
    if looks:
        parts.append((looks[0].first - round(0.5 * fps), 5.0))
        polyp = looks[0].polyp
        removal = timeline.removed[polyp]
        if removal is not None:
            parts.append((removal - round(2.5 * fps), 4.0))
        other_looks = [look for look in looks if look.polyp != polyp]
        parts += [(other_looks[0].first - round(0.5 * fps), 3.0)] if other_looks else []
    frames = [np.arange(first, first + round(seconds * fps)) for first, seconds in parts]
    all_frames = np.unique(np.concatenate(frames))
    return np.asarray(all_frames[(all_frames >= 0) & (all_frames < timeline.n_frames)])


def film_pictures(
    procedure: SimulatedProcedure, boxes: pl.DataFrame, frames: Frames
) -> Iterator[Picture]:
    """Render whole frames at the film's size, with the polyps' boxes and names drawn in."""
    spec, size = procedure.plan.spec, film_size(procedure.plan.spec)
    scale, font = size[0] / spec.width, ImageFont.load_default(12)
    for start in range(0, len(frames), FILM_BATCH):
        batch = frames[start : start + FILM_BATCH]
        for frame, picture in zip(batch, procedure.frames(batch, size), strict=True):
            image = Image.fromarray(picture)
            draw = ImageDraw.Draw(image)
            frame_boxes = boxes.filter(pl.col("frame") == frame)
            for polyp, *box in frame_boxes.select("polyp", "x", "y", "w", "h").iter_rows():
                x, y, w, h = (round(value * scale) for value in box)
                colour, name = COLOURS[polyp % len(COLOURS)], f"{spec.procedure_id}_{polyp + 1}"
                draw.text((x, max(y - LINE - 2, 0)), name, fill=colour, font=font)
                draw.rectangle((x - 2, y - 2, x + w + 2, y + h + 2), outline=colour, width=2)
            yield np.array(image)


def write_film(path: Path, frames: Iterable[Picture], fps: float) -> None:
    """Write an mp4 (H.264, 4:2:0) atomically.

    Args:
        path: The file.
        frames: (h, w, 3) RGB each, all of one size; h and w even.
        fps: Frames per second.

    Raises:
        PolyplinkError: If there is no frame.
    """
    import av  # noqa: PLC0415 - 0.1 s to import, for videos alone

    stream = None
    with atomic_file(path) as temporary, av.open(str(temporary), "w", format="mp4") as container:
        for frame in frames:
            if stream is None:
                rate = Fraction(fps).limit_denominator(100_000)  # 29.97 stays 29.97
                stream = container.add_stream("libx264", rate, options={"crf": QUALITY})
                stream.height, stream.width = frame.shape[:2]
                stream.pix_fmt = "yuv420p"
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        if stream is None:
            raise PolyplinkError(f"{path}: no frames for a video", "give at least one")
        container.mux(stream.encode())
