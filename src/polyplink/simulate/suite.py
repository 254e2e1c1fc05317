"""A whole simulated data set, written as REAL-Colon is released.

Procedures are rendered by worker processes, each written whole or not at all; a run that was cut
off goes on with the procedures that are missing.
"""

import contextlib
import itertools
import re
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from pathlib import Path

import torch

from polyplink import __version__
from polyplink.artefacts import RunRecord, content_key, read_json, write_json, write_text
from polyplink.data import DataSet, write_real_colon
from polyplink.errors import PolyplinkError
from polyplink.simulate.presets import Preset
from polyplink.simulate.truth import TRUTH, read_truth
from polyplink.simulate.write import Job, write_procedure
from polyplink.workers import worker_pool

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
    """Render a data set of procedures with known identities.

    `out` gets what REAL-Colon's release has (frames, annotations, two tables, a description) and
    beside it `simulation/` with the traits of every polyp, and run.json. The same preset and seed
    give the same bytes, however many workers there are.

    Args:
        out: Folder to write; made if absent. One that an earlier run with the same preset, seed
            and version left unfinished is finished.
        preset: What to make, see `presets`.
        seed: Seed, from 0.
        device: Where frames are rendered, as torch names it. A GPU gives other bytes than a CPU.
        workers: Worker processes; 1 renders in this process.
        progress: Called with (procedures done, procedures in all).

    Returns:
        The data set, with true identities; see `truth.read_truth`.

    Raises:
        PolyplinkError: If the seed or the workers are out of range, there is no such device, or
            `out` holds something else.
    """
    _check(seed, workers, device)
    record = RunRecord("simulate", settings=preset, seed=seed)
    _claim(out, preset, seed, device)
    jobs = [Job(out, preset, seed, name, polyps, device) for name, polyps in preset.polyps]
    unfinished = not (out / "run.json").is_file() or not all(job.done for job in jobs)
    with record.stage("render"):
        _render(jobs, workers, progress)
    data = read_truth(out, preset, seed)
    with record.stage("annotations"):
        write_real_colon(data, out, keep=True)
    write_text(out / "dataset_description.md", _description(preset, seed))
    if unfinished:
        record.write(out)
    return data


def _check(seed: int, workers: int, device: str) -> None:
    if seed < 0:
        raise PolyplinkError(f"seed {seed} is below 0", "give a whole number from 0")
    if workers < 1:
        raise PolyplinkError(f"{workers} workers cannot render", "give 1 or more")
    mend = "use cpu, cuda or cuda:N"
    PolyplinkError.unless(
        re.fullmatch(r"cpu|cuda(:\d+)?", device) is not None, f"no device {device!r} here", mend
    )
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        raise PolyplinkError(f"no device {device!r} here", mend) from None


def _claim(out: Path, preset: Preset, seed: int, device: str) -> None:
    """Make sure that `out` is empty or belongs to this very simulation."""
    # Devices round differently, so that their frames do not belong into one set.
    made = {
        "preset": preset.name,
        "seed": seed,
        "device": torch.device(device).type,
        "polyplink": __version__,
    }
    key = made | {"key": content_key(made, preset)}
    path = out / TRUTH / "key.json"
    if not path.is_file():
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise PolyplinkError(f"{out} holds something else", "choose an empty folder")
        write_json(path, key)
        return
    there = read_json(path)
    if there != key:
        holds = ", ".join(f"{name} {there.get(name)}" for name in key if name != "key")
        raise PolyplinkError(f"{out} holds {holds}", "choose another folder, or remove it")


def _render(jobs: Sequence[Job], workers: int, progress: Progress | None) -> None:
    """Write the procedures that are not there yet."""
    missing = [job for job in jobs if not job.done]
    done = len(jobs) - len(missing)
    tell = progress or (lambda done, total: None)
    tell(done, len(jobs))
    with contextlib.closing(_rendered(missing, workers)) as rendered:
        for count, _ in enumerate(rendered, start=done + 1):
            tell(count, len(jobs))


def _rendered(jobs: Sequence[Job], workers: int) -> Generator[str, None, None]:
    """Ids of procedures as they are done."""
    if workers == 1 or len(jobs) < 2:
        yield from (write_procedure(job) for job in jobs)
        return
    waiting = iter(jobs)
    with worker_pool(min(workers, len(jobs))) as pool:
        # No more jobs than workers are handed out, so that none begins after an interruption.
        running = {pool.submit(write_procedure, job) for job in itertools.islice(waiting, workers)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            running |= {
                pool.submit(write_procedure, job) for job in itertools.islice(waiting, len(done))
            }
            yield from [future.result() for future in done]


def _description(preset: Preset, seed: int) -> str:
    return (
        "# Simulated colonoscopy procedures\n\n"
        f"Every frame, box and table here was made by polyplink {__version__} (preset "
        f"{preset.name}, seed {seed}). No patient was filmed: ages, sexes, sizes and histologies "
        "are drawn at random. Files are laid out as REAL-Colon is released (Biffi et al., "
        "Scientific Data 2024, 11:539).\n\n"
        "- `SSS-VVV_frames/`: the frames, JPEG.\n"
        "- `SSS-VVV_annotations/`: one XML for every frame, with the true identity of every box.\n"
        "- `video_info.csv`, `lesion_info.csv`: procedures and polyps.\n"
        f"- `{TRUTH}/`: what each polyp was drawn with.\n"
    )
