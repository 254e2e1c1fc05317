"""A whole simulated data set: with frames as REAL-Colon is released, its archives, or tables.

Procedures are made by worker processes, each written whole or not at all; a run that was cut off
goes on with the procedures that are missing.
"""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from polyplink import __version__
from polyplink.core.artefacts import RunRecord, write_text
from polyplink.core.errors import PolyplinkError
from polyplink.core.workers import HEAVY, as_done
from polyplink.data import DataSet, write_data, write_real_colon, write_tables
from polyplink.simulate.archives import write_archives
from polyplink.simulate.cast import procedure_specs
from polyplink.simulate.crops import check_device
from polyplink.simulate.origin import TRUTH, Origin
from polyplink.simulate.specs import Preset
from polyplink.simulate.truth import read_truth
from polyplink.simulate.write import Job, write_procedure

Progress = Callable[[int, int], None]


def simulate(
    out: Path,
    preset: Preset,
    seed: int,
    *,
    device: str = "cpu",
    workers: int = 2,
    progress: Progress | None = None,
) -> DataSet:
    """Make a data set of procedures with known identities.

    What `out` gets, the preset says: with annotations as folders or archives it is laid out as
    REAL-Colon's release (with two tables and a description); without, it is a data folder as
    `polyplink import` writes. Frames are rendered where the preset asks for them; all others can
    be rendered later, see `crops.SimulatedProcedure`. Beside it lie `simulation/` with all that
    is known of every procedure, and run.json. The same preset and seed give the same bytes,
    however many workers there are.

    Args:
        out: Folder to write; made if absent. One that an earlier run with the same preset, seed
            and version left unfinished is finished.
        preset: What to make, see `presets`.
        seed: Seed, from 0.
        device: Where frames are rendered, as torch names it. A GPU gives other bytes than a CPU;
            boxes and tables are the same.
        workers: Worker processes; 1 works in this process.
        progress: Called with (procedures done, procedures in all).

    Returns:
        The data set, with true identities; see `truth.read_truth`.

    Raises:
        PolyplinkError: If the seed or the workers are out of range, there is no such device, or
            `out` holds something else.
    """
    _check(seed, workers, device)
    record = RunRecord("simulate", settings=preset, seed=seed)
    renders = preset.frames != "none"
    origin = Origin(preset, seed, torch.device(device).type if renders else None)
    origin.claim(out)
    specs = procedure_specs(preset, seed)
    jobs = [Job(out, preset, seed, spec, device) for spec in specs]
    unfinished = not (out / "run.json").is_file() or not all(job.done for job in jobs)
    with record.stage("procedures"):
        _make(jobs, workers, progress)
    data = read_truth(out, origin, specs)
    if unfinished:
        with record.stage("tables"):
            _write_set(out, preset, data, workers)
        write_text(out / "dataset_description.md", _description(preset, seed))
        record.write(out)
    return data


def _write_set(out: Path, preset: Preset, data: DataSet, workers: int) -> None:
    """Write what holds all procedures: tables, or annotations and the two lists."""
    if preset.annotations == "none":
        write_data(out, data)
    elif preset.annotations == "folders":
        write_real_colon(data, out, keep=True)
    else:
        write_archives(data, out, workers=workers, keep=True)
        write_tables(data, out)


def _check(seed: int, workers: int, device: str) -> None:
    if seed < 0:
        raise PolyplinkError(f"seed {seed} is below 0", "give a whole number from 0")
    if workers < 1:
        raise PolyplinkError(f"{workers} workers cannot render", "give 1 or more")
    check_device(device)


def _make(jobs: Sequence[Job], workers: int, progress: Progress | None) -> None:
    """Write the procedures that are not there yet."""
    missing = [job for job in jobs if not job.done]
    done = len(jobs) - len(missing)
    tell = progress or (lambda done, total: None)
    tell(done, len(jobs))
    with contextlib.closing(as_done(write_procedure, missing, workers, HEAVY)) as made:
        for count, _ in enumerate(made, start=done + 1):
            tell(count, len(jobs))


_HELD = {
    "folders": "- `SSS-VVV_annotations/`: one XML for every frame, with the true identities.\n",
    "archives": "- `SSS-VVV_annotations.tar.gz`: an XML for every frame, with true identities.\n",
    "none": "- `detections`, `procedures`, `polyps` (Parquet), `splits.json`: the tables.\n",
}


def _description(preset: Preset, seed: int) -> str:
    frames = {"all": "- `SSS-VVV_frames/`: the frames, JPEG.\n", "none": ""}
    lists = "- `video_info.csv`, `lesion_info.csv`: procedures and polyps.\n"
    return (
        "# Simulated colonoscopy procedures\n\n"
        f"Every frame, box and table here was made by polyplink {__version__} (preset "
        f"{preset.name}, seed {seed}, difficulty {preset.difficulty:g}). No patient was filmed. "
        "Sizes, histologies, ages and sexes are drawn from, or are, those of REAL-Colon's "
        "released tables (Biffi et al., Scientific Data 2024, 11:539), whose layout this is.\n\n"
        + frames.get(preset.frames, "- `SSS-VVV_frames/`: the frames with a box, JPEG.\n")
        + _HELD[preset.annotations]
        + ("" if preset.annotations == "none" else lists)
        + f"- `{TRUTH}/`: what each procedure was made from.\n"
    )
