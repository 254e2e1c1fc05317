"""One procedure to disk: its frames as JPEG, whole, then what is known of it."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from polyplink.core.artefacts import whole_folder, write_json
from polyplink.data import frame_stem, frames_folder, write_table
from polyplink.simulate.boxes import boxes_of
from polyplink.simulate.crops import SimulatedProcedure, one_thread, to_jpeg
from polyplink.simulate.plan import Plan, plan_procedure
from polyplink.simulate.specs import Preset, ProcedureSpec
from polyplink.simulate.truth import boxes_path, truth_of, truth_path

BATCH = 16  # frames held in memory at a time


@dataclass(frozen=True)
class Job:
    """One procedure to make.

    Attributes:
        out: Folder of the data set.
        preset: What to make; its `frames` says which are written.
        seed: Seed of the data set.
        spec: Which procedure.
        device: Where to render, as torch names it.
    """

    out: Path
    preset: Preset
    seed: int
    spec: ProcedureSpec
    device: str

    @property
    def frames(self) -> Path:
        """The folder of its frames."""
        return self.out / frames_folder(self.spec.procedure_id)

    @property
    def truth(self) -> Path:
        """The file with what is known of it, written last."""
        return truth_path(self.out, self.spec.procedure_id)

    @property
    def done(self) -> bool:
        """Whether it is there already."""
        whole = self.truth.is_file() and boxes_path(self.out, self.spec.procedure_id).is_file()
        return whole and (self.preset.frames == "none" or self.frames.is_dir())


def write_procedure(job: Job) -> str:
    """Plan a procedure and write its frames where they are asked for, its boxes, its truth.

    Returns:
        The procedure's id.
    """
    with (
        one_thread()
    ):  # processes share the cores: more threads would only stand in each other's way
        plan = plan_procedure(job.preset, job.seed, job.spec)
        boxes = boxes_of(plan)
    if job.preset.frames != "none":
        _write_frames(job, plan, boxes)
    write_table(boxes_path(job.out, job.spec.procedure_id), boxes)
    write_json(job.truth, truth_of(plan))
    return job.spec.procedure_id


def _write_frames(job: Job, plan: Plan, boxes: pl.DataFrame) -> None:
    # What a killed run left: frames whose boxes nobody wrote down, or a part of them.
    for stale in [job.frames, *job.out.glob(f".{job.frames.name}.*.part")]:
        shutil.rmtree(stale, ignore_errors=True)
    every = np.arange(job.spec.n_frames)
    wanted = every if job.preset.frames == "all" else boxes["frame"].unique().sort().to_numpy()
    pictures = SimulatedProcedure.of(plan, job.seed, job.device)
    with whole_folder(job.frames) as folder:
        for start in range(0, len(wanted), BATCH):
            frames = wanted[start : start + BATCH].astype(np.int64)
            for frame, image in zip(frames, pictures.frames(frames), strict=True):
                name = f"{frame_stem(job.spec.procedure_id, int(frame))}.jpg"
                (folder / name).write_bytes(to_jpeg(image))
