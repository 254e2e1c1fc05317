"""One procedure to disk: its frames as JPEG, whole, then what is known of it."""

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import simplejpeg
import torch

from polyplink.artefacts import whole_folder, write_json
from polyplink.data import frame_stem, frames_folder
from polyplink.simulate.first_plan import plan_procedure
from polyplink.simulate.presets import Preset
from polyplink.simulate.procedure import render_procedure, tight_boxes
from polyplink.simulate.truth import draw_record, truth_path

QUALITY = 92


@dataclass(frozen=True)
class Job:
    """One procedure to make.

    Attributes:
        out: Folder of the data set.
        preset: Sizes and numbers.
        seed: Seed of the data set.
        procedure_id: Which procedure.
        polyps: Its number of polyps.
        device: Where to render, as torch names it.
    """

    out: Path
    preset: Preset
    seed: int
    procedure_id: str
    polyps: int
    device: str

    @property
    def frames(self) -> Path:
        """The folder of its frames."""
        return self.out / frames_folder(self.procedure_id)

    @property
    def truth(self) -> Path:
        """The file with what is known of it, written last."""
        return truth_path(self.out, self.procedure_id)

    @property
    def done(self) -> bool:
        """Whether it is there already."""
        return self.truth.is_file() and self.frames.is_dir()


def generator(seed: int, procedure_id: str) -> np.random.Generator:
    """A procedure's own generator: from the seed and its name, not from its place in a list."""
    return np.random.default_rng(np.random.SeedSequence([seed, *procedure_id.encode()]))


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Give torch one thread: processes share the cores, and no sum depends on their number."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def write_procedure(job: Job) -> str:
    """Render a procedure and write its frames, then its truth.

    Returns:
        The procedure's id.
    """
    # What a killed run left: frames whose boxes nobody wrote down, or a part of them.
    for stale in [job.frames, *job.out.glob(f".{job.frames.name}.*.part")]:
        shutil.rmtree(stale, ignore_errors=True)
    rng = generator(job.seed, job.procedure_id)
    boxes, frame = [], 0
    with one_thread(), whole_folder(job.frames) as folder:
        plan = plan_procedure(rng, job.preset, job.polyps)
        for images, which in render_procedure(plan, job.preset, torch.device(job.device)):
            boxes += [(frame + box[0], *box[1:]) for box in tight_boxes(which, job.polyps)]
            for image in images:
                name = f"{frame_stem(job.procedure_id, frame)}.jpg"
                (folder / name).write_bytes(simplejpeg.encode_jpeg(image, quality=QUALITY))
                frame += 1
    write_json(job.truth, draw_record(rng, plan) | {"n_frames": frame, "boxes": boxes})
    return job.procedure_id
