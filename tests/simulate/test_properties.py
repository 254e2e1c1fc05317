"""What a written data set promises, held file by file: its boxes, identities and removals.

The boxes are those that its annotations hold; the masks are drawn with the very pictures that lie
in its folders. Each property is also held against a set that breaks it.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import simplejpeg
import torch
from numpy.typing import NDArray

from polyplink.data import DataSet, frame_stem, frames_folder, import_real_colon
from polyplink.simulate import Preset, SimulatedProcedure, simulate
from polyplink.simulate.colon.surface import to_lump
from polyplink.simulate.course.sight import MIN_AREA
from polyplink.simulate.crops import through_jpeg
from polyplink.simulate.picture.appearance import Appearance, draw_appearance
from polyplink.simulate.picture.body import make_body
from polyplink.simulate.picture.field import Field
from polyplink.simulate.picture.march import Eyes, beams_of, march_windows
from polyplink.simulate.picture.render import Renderer
from polyplink.simulate.picture.window import Windows
from polyplink.simulate.plan import Plan
from tests.simulate.plans import mini_plan

NEAR = 2  # pixels
SEEDS = (11, 12, 13)
WRITTEN = Preset(
    "written",
    (("001-001", 3),),
    width=80,
    height=70,
    long_views=(1, 2),
    long_frames=(30, 31),
    short_views=(1, 1),
    short_frames=(6, 9),
    fullest=0.75,
    insertion=(0.02, 0.06),
    return_share=0.0,
)
Masks = NDArray[np.int8]  # (s, h, w) which polyp a pixel shows, from 0; -1 for none
Edges = tuple[int, int, int, int]


@dataclass(frozen=True)
class Written:
    """A written set of one procedure as its files tell it, and the masks of all its frames."""

    out: Path
    read: DataSet
    procedure: SimulatedProcedure
    pictures: NDArray[np.uint8]
    masks: Masks

    @property
    def boxes(self) -> pl.DataFrame:
        """frame, polyp (from 0) and the edges of every annotated box: first and last pixel."""
        number = pl.col("polyp_id").str.split("_").list.last().cast(pl.Int64) - 1
        edges = (pl.col(name).cast(pl.Int64) for name in ("x", "y"))
        ends = ((pl.col("x") + pl.col("w")).cast(pl.Int64), (pl.col("y") + pl.col("h")))
        return self.read.detections.select(
            pl.col("frame").cast(pl.Int64),
            number.alias("polyp"),
            *edges,
            ends[0].alias("right"),
            ends[1].cast(pl.Int64).alias("bottom"),
        )


def draw(
    plan: Plan, appearance: Appearance, frames: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], Masks]:
    """Whole frames of a procedure, and which polyp their pixels show."""
    whole = np.tile([0.0, 0.0, plan.spec.width, plan.spec.height], (len(frames), 1))
    renderer = Renderer(plan, appearance, torch.device("cpu"))
    return renderer.windows(frames, whole, (plan.spec.width, plan.spec.height))


@pytest.fixture(scope="module", params=SEEDS)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Written:
    out = tmp_path_factory.mktemp("written") / "set"
    simulate(out, WRITTEN, request.param, workers=1)
    procedure = SimulatedProcedure.open(out, "001-001")
    every = np.arange(procedure.plan.spec.n_frames)
    pictures, masks = draw(procedure.plan, procedure.renderer.appearance, every)
    return Written(out, import_real_colon(out).data, procedure, pictures, masks)


def edges_of(mask: NDArray[np.bool_]) -> Edges | None:
    """First and last column and row of a mask: left, top, right, bottom."""
    if not mask.any():
        return None
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return int(columns[0]), int(rows[0]), int(columns[-1]), int(rows[-1])


def surely_seen(edges: Edges, frame: int) -> bool:
    """Whether a mask has a box even if it is measured 2 px too small."""
    w, h = edges[2] - edges[0] - NEAR, edges[3] - edges[1] - NEAR
    return min(w, h) > 0 and w * h >= MIN_AREA * frame


def faults(boxes: pl.DataFrame, masks: Masks) -> set[str]:
    """What is wrong with annotated boxes, frame by frame, in a word each."""
    told = {(frame, polyp): tuple(edges) for frame, polyp, *edges in boxes.iter_rows()}
    found = {"two boxes of one polyp"} if len(told) < boxes.height else set()
    for frame, mask in enumerate(masks):
        for polyp in {*np.unique(mask[mask >= 0]).tolist(), *(p for f, p in told if f == frame)}:
            drawn, box = edges_of(mask == polyp), told.get((frame, polyp))
            if box is None:
                if drawn is not None and surely_seen(drawn, mask.size):
                    found.add("no box of what is seen")
            elif drawn is None:
                found.add("a box of what is not seen")
            elif np.abs(np.subtract(drawn, box)).max() > NEAR:
                found.add("another box than the mask's")
    return found


def test_the_masks_belong_to_the_written_pictures(written: Written) -> None:
    spec = written.procedure.plan.spec
    folder = written.out / frames_folder(spec.procedure_id)
    assert len(list(folder.iterdir())) == spec.n_frames
    for frame, picture in enumerate(written.pictures):
        path = folder / f"{frame_stem(spec.procedure_id, frame)}.jpg"
        lying = simplejpeg.decode_jpeg(path.read_bytes())
        assert np.array_equal(lying, through_jpeg(picture)), frame


def test_every_box_is_the_box_of_its_mask(written: Written) -> None:
    boxes = written.boxes
    assert boxes["polyp"].n_unique() == 3
    assert boxes.height > 100
    assert faults(boxes, written.masks) == set()


def test_the_boxes_of_another_polyp_or_pose_are_found_out(written: Written) -> None:
    boxes, masks = written.boxes, written.masks
    other = boxes.with_columns(polyp=(pl.col("polyp") + 1) % 3)
    assert {"no box of what is seen", "a box of what is not seen"} <= faults(other, masks)
    later = boxes.with_columns(frame=pl.col("frame") + 4)
    assert "another box than the mask's" in faults(later, masks)
    wide = boxes.with_columns(right=pl.col("right") + NEAR + 1)
    assert "another box than the mask's" in faults(wide, masks)
    assert faults(boxes[1:], masks) | faults(boxes[:-1], masks)
    assert "two boxes of one polyp" in faults(pl.concat([boxes, boxes[:1]]), masks)


def shown_after(removed: list[int | None], frames: NDArray[np.int64], polyp: int) -> int:
    """In how many of the frames that show a polyp it is removed already."""
    gone = removed[polyp]
    return 0 if gone is None else int((frames >= gone).sum())


def test_no_frame_shows_a_polyp_after_its_removal(written: Written) -> None:
    removed = list(written.procedure.plan.timeline.removed)
    assert any(gone is not None for gone in removed)
    for polyp in range(3):
        drawn = np.flatnonzero((written.masks == polyp).any((1, 2)))
        boxed = written.boxes.filter(pl.col("polyp") == polyp)["frame"].to_numpy()
        assert len(drawn) >= len(boxed) > 0
        assert shown_after(removed, drawn, polyp) == 0
        assert shown_after(removed, boxed, polyp) == 0


def test_a_polyp_that_is_not_taken_away_is_found_out() -> None:
    """The camera does look at the place: were the polyp left there, its mask would show it."""
    plan = mini_plan(0)
    appearance = draw_appearance(plan, 0)
    left = replace(plan, timeline=replace(plan.timeline, removed=(None,) * len(plan.lumps)))
    seen = []
    for polyp, gone in enumerate(plan.timeline.removed):
        assert gone is not None
        after = np.arange(gone, min(gone + 12, plan.spec.n_frames), 2)
        assert not (draw(plan, appearance, after)[1] == polyp).any()
        shown = after[(draw(left, appearance, after)[1] == polyp).any((1, 2))]
        seen.append(shown_after(list(plan.timeline.removed), shown, polyp))
    assert sum(seen) > 0


def moved(plan: Plan, frame: int, to: int) -> Plan:
    """A plan whose camera and wall are in one frame as they are in another."""
    path = replace(
        plan.path, **{name: getattr(plan.path, name).copy() for name in plan.path.__annotations__}
    )
    path.put(np.array([frame]), plan.path.some(np.array([to])))
    phase = plan.conditions.phase.copy()
    phase[frame] = phase[to]
    return replace(plan, path=path, conditions=replace(plan.conditions, phase=phase))


def light_of(plan: Plan, frame: int) -> torch.Tensor:
    """The scene of a frame as light (3, h, w), before exposure, blur, water and noise."""
    renderer = Renderer(plan, draw_appearance(plan, 0), torch.device("cpu"))
    size = plan.spec.width, plan.spec.height
    whole = Windows(torch.tensor([[0.0, 0.0, *size]]), size, size)
    with torch.inference_mode():
        ((_, drawn),) = renderer.draw(np.array([frame]), whole)
    return drawn.linear[:, 0]


def frames_of(plan: Plan, polyp: int) -> list[int]:
    """A frame in the middle of each look at a polyp alone."""
    looks = [k for k in plan.timeline.looks if k.polyp == polyp and k.beside is None]
    middles = [look.first + look.frames // 2 for look in looks]
    return [frame for frame in middles if not plan.conditions.blink[frame]]


@pytest.mark.parametrize("seed", [0, 1])
def test_the_same_pose_shows_the_same_surface_in_every_frame(seed: int) -> None:
    plan = mini_plan(seed)
    first, second = frames_of(plan, 0)[:2]
    assert min(gone or plan.spec.n_frames for gone in plan.timeline.removed) > second
    here = light_of(plan, first)
    assert torch.equal(light_of(moved(plan, second, first), second), here)
    assert not torch.allclose(light_of(plan, second), here, rtol=0.05)  # another pose


def surface_of(
    plan: Plan, appearance: Appearance, frame: int, polyp: int
) -> tuple[torch.Tensor, ...]:
    """What a frame shows of a polyp, n points of it.

    Returns:
        Place on it (2, n), stereographic seen from its top; own colour (3, n), relative to the
        mean of the points; relative radius (n,).
    """
    spec, path = plan.spec, plan.path
    frame_size = spec.width, spec.height
    whole = Windows(torch.tensor([[0.0, 0.0, *frame_size]]), frame_size, (240, 210))
    bodies = [make_body(appearance.skins[polyp])]
    field = Field(plan.colon).near(bodies, list(plan.colon.calm))
    phase = torch.from_numpy(plan.conditions.phase[[frame]])
    position, rotation = (
        torch.from_numpy(v[[frame]].astype(np.float32)) for v in (path.positions, path.rotations)
    )
    eyes = Eyes(position, rotation, phase)
    depth = march_windows(field, eyes, whole)
    beams = beams_of(eyes, whole)
    touch = field.touch(beams.at(depth), beams.phases)
    on = touch.shares[0][0] > 0.95
    local = to_lump(plan.lumps[polyp], torch.stack([axis[0, on] for axis in touch.material]))
    radius = local.norm(dim=0)
    colour = touch.paints[0][:, 0, on]
    return local[:2] / (radius + local[2]), colour / colour.mean(1, keepdim=True), radius


def likeness(
    first: tuple[torch.Tensor, ...], second: tuple[torch.Tensor, ...]
) -> NDArray[np.float64]:
    """Correlations of colour and of shape where two views show the same places."""
    away, near = torch.cdist(first[0].T, second[0].T).min(1)
    both = away < 0.03
    assert both.sum() > 100
    colours = np.corrcoef(first[1][0, both], second[1][0, near[both]])[0, 1]
    shapes = np.corrcoef(first[2][both], second[2][near[both]])[0, 1]
    return np.array([colours, shapes])


@pytest.mark.parametrize("seed", [0, 1])
def test_a_polyp_keeps_its_surface_and_no_other_has_it(seed: int) -> None:
    plan = mini_plan(seed)
    appearance = draw_appearance(plan, seed)
    views = [
        [surface_of(plan, appearance, f, k) for f in frames_of(plan, k)[:2]] for k in (0, 1, 2)
    ]
    same = np.array([likeness(first, second) for first, second in views])
    other = np.array([likeness(views[k][0], views[k - 1][0]) for k in (0, 1, 2)])
    assert same.min() > 0.9
    assert other.max() < 0.75
