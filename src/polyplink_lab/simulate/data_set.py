"""Simulate a whole data set: with frames like REAL-Colon's release, as archives, or as tables.

Procedures are simulated by worker processes and written atomically; an interrupted run continues
with the missing procedures.
"""

import contextlib
import gzip
import io
import shutil
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from polyplink import __version__
from polyplink.core.artefacts import atomic_file, atomic_folder, to_plain, write_json, write_text
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import StageProgress, silent_stage
from polyplink.core.runs import RunRecord
from polyplink.core.workers import HEAVY, as_done
from polyplink.data.protocols import split_by_rule
from polyplink.data.sets.real_colon import (
    annotations_folder,
    format_annotations,
    frame_stem,
    frames_folder,
    simulated_name,
    write_real_colon,
    write_tables,
)
from polyplink.data.tables import DataSet, read_table, write_data, write_table
from polyplink_lab.simulate.plan import boxes_of, plan_procedure
from polyplink_lab.simulate.presets import FOLDER, Preset, SimulationSettings
from polyplink_lab.simulate.procedure_specs import (
    FIELDS,
    POLYP_FIELDS,
    ProcedureSpec,
    procedure_specs,
)
from polyplink_lab.simulate.rendering import SimulatedProcedure, check_device, one_thread, to_jpeg

BATCH = 16  # frames held in memory at a time
RELEASED_AT = 1_677_542_400  # 2023-02-28, the date in the release's name, for identical archives
WITH_POINT = frozenset({"001-012"})  # procedures with frames named `_0.0` in the release

ArchiveJob = tuple[Path, dict[str, Any], pl.DataFrame]
"""The file, the procedure's row of the table, and its boxes."""


def simulate(
    out: Path,
    preset: Preset,
    seed: int,
    *,
    device: str = "cpu",
    workers: int = 2,
    progress: StageProgress = silent_stage,
) -> DataSet:
    """Simulate a data set of procedures with known identities.

    The preset determines the layout: with annotations as folders or archives, `out` is laid out
    like REAL-Colon's release (with two tables and a description); without annotations, it is a data
    folder as `polyplink import` writes. The preset also determines which frames are rendered; all
    others can be rendered later, see `SimulatedProcedure`. In addition, `simulation/` describes
    every procedure, and run.json the run. The same preset and seed give the same bytes with any
    number of workers.

    Args:
        out: Folder to write; created if absent. The unfinished folder of an earlier run with the
            same preset, seed and version is completed.
        preset: The preset, see `presets`.
        seed: Seed, from 0.
        device: Torch device that renders frames. A GPU gives other bytes than a CPU; boxes and
            tables are the same.
        workers: Worker processes; 1 for this process only.
        progress: Callback (procedures done, procedures in all).

    Returns:
        The data set, with true identities.

    Raises:
        PolyplinkError: If the seed or the workers are out of range, there is no such device, or
            `out` holds something else.

    Example:
        >>> from tempfile import mkdtemp
        >>> from dataclasses import replace
        >>> from polyplink_lab.simulate.presets import smoke
        >>> tables = replace(smoke(), frames="none", annotations="none")
        >>> data = simulate(Path(mkdtemp()), tables, seed=0, workers=1)
        >>> data.procedures.height, data.polyps.height
        (4, 8)
    """
    if seed < 0:
        raise PolyplinkError(f"--seed {seed} is below 0", "give 0 or more")
    if workers < 1:
        raise PolyplinkError(f"{workers} workers cannot render", "give --workers 1 or more")
    check_device(device)
    record = RunRecord("simulate", settings=preset, seed=seed)
    settings = SimulationSettings.of(preset, seed, device)
    settings.claim(out)
    specs = procedure_specs(preset, seed)
    jobs = [Job(out, preset, seed, spec, device) for spec in specs]
    missing = [job for job in jobs if not job.done]
    finished = not missing and (out / "run.json").is_file()
    with record.stage("procedures"):
        done = len(jobs) - len(missing)
        progress(done, len(jobs))
        with contextlib.closing(as_done(write_procedure, missing, workers, HEAVY)) as written_jobs:
            for count, _ in enumerate(written_jobs, start=done + 1):
                progress(count, len(jobs))
    data = _read_boxes(out, settings, specs)
    if finished:
        return data
    with record.stage("tables"):
        if preset.annotations == "none":
            write_data(out, data)
        elif preset.annotations == "folders":
            write_real_colon(data, out, keep=True)
        else:
            # Archives of an earlier run are kept. The longest procedures come first, so that the
            # workers end at about the same time.
            boxes = data.detections.partition_by("procedure_id", as_dict=True)
            rows = data.procedures.sort("n_frames", descending=True, maintain_order=True)
            archives: list[ArchiveJob] = []
            for row in rows.iter_rows(named=True):
                name = row["procedure_id"]
                path = out / f"{annotations_folder(name)}.tar.gz"
                if not path.exists():
                    archives.append((path, row, boxes.get((name,), data.detections.clear())))
            for _ in as_done(write_archive, archives, workers, HEAVY):
                pass
            write_tables(data, out)
    write_text(out / "dataset_description.md", _description(preset, seed))
    record.write(out)
    return data


@dataclass(frozen=True)
class Job:
    """A procedure to simulate in a worker process.

    Attributes:
        out: Folder of the data set.
        preset: The preset; its `frames` determines which frames are written.
        seed: Seed of the data set.
        spec: The procedure.
        device: Torch device that renders.
    """

    out: Path
    preset: Preset
    seed: int
    spec: ProcedureSpec
    device: str

    @property
    def frames(self) -> Path:
        """The folder of the procedure's frames."""
        return self.out / frames_folder(self.spec.procedure_id)

    @property
    def truth(self) -> Path:
        """The file that describes the procedure, written last."""
        return self.out / FOLDER / f"{self.spec.procedure_id}.json"

    @property
    def done(self) -> bool:
        """Whether the procedure has already been simulated."""
        complete = self.truth.is_file() and _boxes_path(self.out, self.spec).is_file()
        return complete and (self.preset.frames == "none" or self.frames.is_dir())


def _boxes_path(out: Path, spec: ProcedureSpec) -> Path:
    """The table of one procedure's boxes."""
    return out / FOLDER / f"{spec.procedure_id}.parquet"


def write_procedure(job: Job) -> None:
    """Plan a procedure; write its frames (if the preset has any), its boxes and its description."""
    name = job.spec.procedure_id
    with one_thread():  # processes share the cores, so more threads would compete
        plan = plan_procedure(job.preset, job.seed, job.spec)
        boxes = boxes_of(plan)
    if job.preset.frames != "none":
        # Remains of a killed run: frames without boxes, or some of the frames.
        for stale in [job.frames, *job.out.glob(f".{job.frames.name}.*.part")]:
            shutil.rmtree(stale, ignore_errors=True)
        all_frames = np.arange(job.spec.n_frames)
        needed = (
            all_frames if job.preset.frames == "all" else boxes["frame"].unique().sort().to_numpy()
        )
        procedure = SimulatedProcedure.of(plan, job.seed, job.device)
        with atomic_folder(job.frames) as folder:
            for start in range(0, len(needed), BATCH):
                frames = needed[start : start + BATCH].astype(np.int64)
                for frame, image in zip(frames, procedure.frames(frames), strict=True):
                    (folder / f"{frame_stem(name, int(frame))}.jpg").write_bytes(to_jpeg(image))
    write_table(_boxes_path(job.out, job.spec), boxes)
    parts = {"procedure": plan.spec, "timeline": plan.timeline, "traits": plan.traits}
    write_json(job.truth, {name: to_plain(part) for name, part in parts.items()})


def _read_boxes(out: Path, settings: SimulationSettings, specs: Sequence[ProcedureSpec]) -> DataSet:
    """The boxes of all procedures of a folder, as the data set that an import would give.

    Its parts are those of `data.split_by_rule`. Polyps are numbered from 1, as in REAL-Colon.
    """
    tables = []
    for spec in specs:
        path = _boxes_path(out, spec)
        if not path.is_file():
            raise PolyplinkError(f"{path} is missing", "give the same `polyplink simulate` again")
        table = read_table(path, f"remove {path} and simulate again")
        tables.append(table.with_columns(procedure_id=pl.lit(spec.procedure_id)))
    procedure, frame = pl.col("procedure_id"), pl.col("frame")
    folder, stem = frames_folder("{}"), frame_stem("{}", 0).replace("0", "{}")
    image = pl.format(f"{folder}/{stem}.jpg", procedure, procedure, frame)
    detections = pl.concat(tables).with_columns(
        polyp_id=pl.format("{}_{}", procedure, pl.col("polyp") + 1),
        image=image if settings.preset.frames != "none" else pl.lit(None, pl.String),
    )
    # A folder with only tables is a data folder, which may be moved.
    source = "." if settings.preset.annotations == "none" else str(out.resolve())
    names = [spec.procedure_id for spec in specs]
    return DataSet.of(
        detections.drop("polyp"),
        *tables_of(specs, simulated_name(settings.preset.name, settings.seed), source),
        split_by_rule(names, {spec.procedure_id for spec in specs if spec.polyps}),
    )


def tables_of(
    specs: Sequence[ProcedureSpec], dataset: str, source: str
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The procedures and polyps of a simulation, as tables of a data set."""
    fields = ("n_frames", *FIELDS)
    procedures = pl.DataFrame([{name: getattr(s, name) for name in fields} for s in specs])
    polyps = [
        {"polyp_id": f"{spec.procedure_id}_{number}", "procedure_id": spec.procedure_id}
        | {name: getattr(polyp, name) for name in POLYP_FIELDS}
        for spec in specs
        for number, polyp in enumerate(spec.polyps, start=1)
    ]
    procedures = procedures.with_columns(
        dataset=pl.lit(dataset), patient="procedure_id", source=pl.lit(source)
    )
    schema = None if polyps else ["polyp_id", "procedure_id", "site"]
    return procedures, pl.DataFrame(polyps, schema=schema).rename({"site": "location"})


_LISTS = "- `video_info.csv`, `lesion_info.csv`: procedures and polyps.\n"
_WRITTEN = {
    "all": "- `SSS-VVV_frames/`: the frames, JPEG.\n",
    "boxed": "- `SSS-VVV_frames/`: the frames with a box, JPEG.\n",
    "folders": "- `SSS-VVV_annotations/`: one XML for every frame, with the true identities.\n"
    + _LISTS,
    "archives": "- `SSS-VVV_annotations.tar.gz`: an XML for every frame, with true identities.\n"
    + _LISTS,
    "tables": "- `detections`, `procedures`, `polyps` (Parquet), `splits.json`: the tables.\n",
}


def _description(preset: Preset, seed: int) -> str:
    annotations = "tables" if preset.annotations == "none" else preset.annotations
    return (
        "# Simulated colonoscopy procedures\n\n"
        f"Every frame, box and table here was generated by polyplink {__version__} (preset "
        f"{preset.name}, seed {seed}, difficulty {preset.difficulty:g}). No patient was filmed. "
        "Sizes, histologies, ages and sexes are those of REAL-Colon's released tables or drawn "
        "from them (Biffi et al., Scientific Data 2024, 11:539).\n\n"
        + _WRITTEN.get(preset.frames, "")
        + _WRITTEN[annotations]
        + f"- `{FOLDER}/`: the description of each procedure.\n"
    )


def write_archive(job: ArchiveJob) -> None:
    """Write an archive of annotations atomically, with members in the order of the frames.

    The same annotations give the same bytes (with the same version of zlib).
    """
    path, procedure, detections = job
    name = procedure["procedure_id"]
    suffix = ".0" if name in WITH_POINT else ""
    # Level 1, because the text is repetitive and higher levels save only another tenth.
    with (
        atomic_file(path) as temporary,
        temporary.open("wb") as file,
        gzip.GzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for stem, text in format_annotations(procedure, detections, suffix=suffix):
            content = text.encode()
            member = tarfile.TarInfo(f"{annotations_folder(name)}/{stem}.xml")
            member.size, member.mtime = len(content), RELEASED_AT
            archive.addfile(member, io.BytesIO(content))
