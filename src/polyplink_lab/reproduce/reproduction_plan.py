"""The plan of `reproduce --dry-run`: steps of tables, missing requirements, and costs.

Nothing is trained, cut or written. Times are estimated from multiply-accumulates and the measured
rate of matrix products on this device (`BASIS`), to a factor of two or three.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Literal

import polars as pl
import torch
from rich.table import Table
from rich.text import Text
from torch import nn

from polyplink.core.errors import PolyplinkError
from polyplink.core.text import many
from polyplink.encoders.build import build_encoder
from polyplink.encoders.catalogue import FOUNDATION
from polyplink.encoders.config import AnyEncoderConfig, FoundationConfig
from polyplink.encoders.cost import count_macs
from polyplink.encoders.device import pick_device
from polyplink.encoders.weights import WEIGHTS_FILE, read_record, weights_path
from polyplink.evaluate.probe_tasks import PAIRS, PROBES, check_labels, divide
from polyplink.learn.pairs import FramePairs
from polyplink.learn.polyp_views import PolypViews
from polyplink.learn.temporal_bags import TemporalBags
from polyplink.learn.train_config import TrainConfig
from polyplink.tracklets.box_runs import build_tracklets
from polyplink.tracklets.prepare import crops_keys, crops_path, prepared_folder
from polyplink.tracklets.sampling import sample_crops
from polyplink.tracklets.settings import PrepareSettings
from polyplink_lab.reproduce.crop_variants import Variant
from polyplink_lab.reproduce.encoders_under_test import (
    NO_ENCODER,
    OTHER_VALIDATION,
    STAND_IN,
    Workspace,
    has_recipe,
    recipe_of,
    run_folder,
    start_of,
    what_is_missing,
    would_see,
)
from polyplink_lab.reproduce.published_tables import PublishedTable, task_of

# Share of the rate of large matrix products, measured in CPU time on an AMD EPYC: 0.59 in a
# training step of NTSSL's encoder at 232 pixels, 0.52 of ntssl-demo; embedding 0.83 and 0.52.
EFFICIENCY = {"cpu": 0.55, "cuda": 0.3}  # the value for GPUs is assumed
CROPS_PER_SECOND = 115.0  # per thread; for each a JPEG of 1350 x 1080 pixels is decoded
SEARCH_SECONDS = 8.3  # per thread and procedure, for the paper's 29,274 settings: bench sweep
BASIS = (
    "times: from the rate of matrix products measured here, of which encoders reach 0.55 (measured "
    "on an AMD EPYC; 0.3 is assumed for GPUs), and from 115 crops and 0.12 searched procedures per "
    "second and thread (measured on the EPYC)"
)
SPLIT = "split of "  # prefix of a probe's name, used in place of a part in the plan
PASS = 256  # frames that are embedded together
FRAMES, SIDE = 8, 1024  # of the clip and the matrix that costs and rates are measured on
Crop = float | Literal["own"] | None  # crop factor, that of the encoder, or the full frame


@dataclass(frozen=True)
class Step:
    """A step of the plan, listed once even if several tables need it.

    Attributes:
        what: Description of the step, with its encoder.
        part: Part of the data set.
        settings: Settings of the step.
        state: "done" if its result exists, "missing" if it cannot be done, "waits" if it can be
            done once a missing requirement is available, "refused" if it must not be done.
        why: The missing requirement, or the reason of the refusal.
        seconds: Estimated time, seconds.
        memory: Estimated peak memory of the device, bytes.
        disk: Bytes to write.
    """

    what: str
    part: str
    settings: str
    state: Literal["to do", "done", "missing", "waits", "refused"] = "to do"
    why: str = ""
    seconds: float = 0.0
    memory: int = 0
    disk: int = 0


def steps_table(steps: Sequence[Step]) -> Table:
    """A table for the terminal with one row per step."""
    table = Table("step", "part", "settings", "state", "time", "memory", "disk")
    for step in steps:
        has_costs = step.state in {"to do", "waits"}
        numbers = (hours(step.seconds), gigabytes(step.memory), gigabytes(step.disk))
        state = f"{step.state}: {step.why}" if step.why else step.state
        row = (
            step.what,
            step.part,
            step.settings,
            state,
            *(numbers if has_costs else ("", "", "")),
        )
        table.add_row(*map(Text, row))
    return table


def hours(seconds: float) -> str:
    """A duration in the largest unit in which it is at least 1.

    Example:
        >>> hours(40.0), hours(600.0), hours(90000.0)
        ('40 s', '10 min', '25 h')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    number, unit = (seconds / 60, "min") if seconds < 3600 else (seconds / 3600, "h")
    return f"{number:.2g} {unit}" if number < 100 else f"{number:.0f} {unit}"


def gigabytes(size: int) -> str:
    """Bytes in GB, or MB below one; "" for none."""
    if not size:
        return ""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{max(size / 1e6, 1):.0f} MB"


@dataclass(frozen=True)
class Cost:
    """Cost of an encoder: parameters, and per frame multiply-accumulates and bytes.

    Attributes:
        parameters: Number of parameters.
        macs: Multiply-accumulates of a forward pass.
        stored: Bytes of activations stored for the backward pass.
        largest: Bytes of the largest activation.
    """

    parameters: int
    macs: int
    stored: int
    largest: int


@cache
def cost(config: AnyEncoderConfig, size: int) -> Cost:
    """Cost of an encoder in float32, on `FRAMES` crops of `size` pixels, without memory."""
    sizes: list[int] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if not isinstance(tensor, nn.Parameter):
            sizes.append(tensor.numel() * tensor.element_size())
        return tensor

    with torch.device("meta"):
        encoder = build_encoder(replace(config, frame_weights=None))
        crops = torch.empty(FRAMES, size, size, 3, dtype=torch.uint8)
        _, macs = count_macs(encoder, lambda: encoder(crops, [FRAMES]))
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            encoder(crops, [FRAMES])
    weights = sum(parameter.numel() for parameter in encoder.parameters())
    return Cost(weights, macs // FRAMES, sum(sizes) // FRAMES, max(sizes) // FRAMES)


def measured_rate(device: torch.device) -> float:
    """Estimated multiply-accumulates per second of encoders on a device, measured in 0.2 s."""
    kind = torch.bfloat16 if device.type == "cuda" else torch.float32
    matrix = torch.rand(SIDE, SIDE, dtype=kind, device=device)
    products, started, seconds = 0, time.perf_counter(), 0.0
    while seconds < 0.2:
        float((matrix @ matrix)[0, 0])  # waits for the device
        products, seconds = products + 1, time.perf_counter() - started
    return EFFICIENCY.get(device.type, 0.3) * products * SIDE**3 / seconds


@dataclass
class Planner:
    """Lists the steps of tables.

    Attributes:
        workspace: The sources of encoders.
        part: Part to measure on.
        probe_parts: Probe -> part on which it is trained and tested.
        grid: Name of the grid of settings.
        splits: Probe -> file that divides its polyps, in place of a part.
    """

    workspace: Workspace
    part: str
    probe_parts: dict[str, str]
    grid: str
    splits: Mapping[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.data = self.workspace.tables
        self.device = pick_device(self.workspace.device)
        self.rate = measured_rate(self.device)
        self._tables: dict[PrepareSettings, pl.DataFrame] = {}

    def plan(self, tables: Sequence[PublishedTable], only: Sequence[str]) -> list[Step]:
        """The steps in order of execution, without repetitions."""
        needed: dict[tuple[str, Crop, int | None], dict[str, None]] = {}
        for table in tables:
            keeps_crop = self.workspace.stand_in and not table.compares_crops
            for cell in table.cells:
                if cell.is_cost or cell.subject == NO_ENCODER:
                    continue
                if not only or cell.subject in only:
                    crop: Crop = "own" if keeps_crop else cell.crop
                    key = cell.subject, crop, cell.clip
                    needed.setdefault(key, {})[cell.measure] = None
        steps: dict[tuple[str, str], Step] = {}
        for (name, crop, clip), measures in needed.items():
            for step in self._steps(name, crop, clip, list(measures)):
                earlier = steps.get((step.what, step.part))
                if earlier is None or earlier.state == "waits":
                    steps[step.what, step.part] = step
        return list(steps.values())

    def _steps(
        self, name: str, crop: Crop, clip: int | None, measures: Sequence[str]
    ) -> Iterator[Step]:
        """The steps to measure figures of one encoder on one kind of crops."""
        if refusal := would_see(name, self.workspace, self.part):
            yield Step(
                f"encoder {name}", self.part, "", "refused", f"{refusal}; {OTHER_VALIDATION}"
            )
            return
        reason = what_is_missing(name, self.workspace)
        if not reason:
            yield from self._work(name, crop, clip, measures)
            return
        yield Step(f"encoder {name}", self.part, "", "missing", reason)
        with suppress(PolyplinkError):  # without the data there is nothing to estimate
            for step in self._work(name, crop, clip, measures):
                yield replace(step, state="waits") if step.state == "to do" else step

    def _work(
        self, name: str, crop: Crop, clip: int | None, measures: Sequence[str]
    ) -> Iterator[Step]:
        """The steps to train an encoder, or load its weights, and to use it."""
        recipe = recipe_of(name, self.workspace)
        if recipe is not None:
            config, prepare = recipe.encoder, recipe.prepare_evaluation
            yield from self._training(recipe)
        elif name in FOUNDATION and what_is_missing(name, self.workspace):
            spec = FOUNDATION[name]
            config = spec.settle(FoundationConfig(name, self.workspace.preset))
            prepare = PrepareSettings(size=config.size or spec.size)
        else:
            record = read_record(weights_path(self.workspace.weights.get(name, Path(name))))
            config, prepare = record.encoder, record.prepare
        settings = prepare if crop == "own" else replace(prepare, crop_factor=crop)
        by_part: dict[str, list[str]] = {}
        for measure in measures:
            task = task_of(measure)
            key = f"{SPLIT}{task}" if task in self.splits else self.probe_parts.get(task, self.part)
            by_part.setdefault(key, []).append(measure)
        for part in sorted(by_part):
            yield from self._measuring(
                name, config, settings, clip, part=part, measures=by_part[part]
            )

    def _training(self, recipe: TrainConfig) -> Iterator[Step]:
        """The steps to cut crops and train a recipe, after the recipe from which it starts."""
        if recipe.name == STAND_IN:  # its network is used untrained
            return
        if (start := start_of(recipe, self.workspace.sets)) is not None:
            yield from self._training(start)
        for settings in dict.fromkeys((recipe.prepare, recipe.prepare_evaluation)):
            yield self._crops(settings, recipe.part)  # evaluation crops: to fit prices of links
        encoder_cost = cost(recipe.encoder, recipe.prepare.size)
        optim, bags = recipe.optim, recipe.bags
        clip = 1 if isinstance(bags, FramePairs) else recipe.fragment_length
        views = 1 + bags.k if isinstance(bags, TemporalBags) else getattr(bags, "views", 2)
        fragments = self._count(recipe.prepare, recipe.part, recipe.fragment_length)
        # One bag per fragment; in bags of polyp views, each fragment is used once.
        frames = fragments * clip * (1 if isinstance(bags, PolypViews) else views)
        step = optim.bags_per_batch * views * clip
        trained = (run_folder(self.workspace, recipe) / WEIGHTS_FILE).is_file()
        yield Step(
            f"train {recipe.name}",
            recipe.part,
            f"{optim.epochs} epochs of {fragments} fragments, {step} frames a step"
            + (f"; {', '.join(self.workspace.sets)}" if self.workspace.sets else ""),
            "done" if trained else "to do",
            "",
            optim.epochs * frames * 3 * encoder_cost.macs / self.rate,
            16 * encoder_cost.parameters
            + step * encoder_cost.stored // (2 if self.device.type == "cuda" else 1),
            28 * encoder_cost.parameters,  # two checkpoints with both moments, and the weights
        )

    def _measuring(
        self,
        name: str,
        config: AnyEncoderConfig,
        settings: PrepareSettings,
        clip: int | None,
        *,
        part: str,
        measures: Sequence[str],
    ) -> Iterator[Step]:
        """The steps to cut the crops of a part, embed them by one encoder and measure figures."""
        for task in sorted({task_of(measure) for measure in measures} & set(PROBES)):
            try:
                self._names(part)
                if not part.startswith(SPLIT):  # whose names were read from the divided polyps
                    check_labels((task,), self.data, part)
            except PolyplinkError as error:
                yield Step(f"probe {task} of {name}", part, "", "missing", str(error))
                measures = [measure for measure in measures if task_of(measure) != task]
        if not measures:
            return
        yield self._crops(settings, part)
        encoder_cost = cost(config, settings.size)
        crops = self._count(settings, part)
        counted = self.grid == "paper" and any("temporal_ap/" in m for m in measures)
        search = SEARCH_SECONDS * len(self._names(part)) if counted else 0.0
        published = isinstance(config, FoundationConfig) and not has_recipe(name)
        fed = f"preset {self.workspace.preset}, " if published else ""
        divided = any(task_of(measure) in {"val", "test"} for measure in measures)
        yield Step(
            f"embed and measure {name}, {Variant(settings.crop_factor, clip).words}",
            part,
            f"{fed}grid {self.grid}, {many(len(set(measures)), 'figure')}"
            + (", some of them on tpc-val and tpc-test" if divided and part == "rc19" else ""),
            seconds=crops * encoder_cost.macs / self.rate + search / self.workspace.workers,
            memory=4 * encoder_cost.parameters + 3 * PASS * encoder_cost.largest,
            disk=4 * 512 * crops // max(clip or 30, 1),
        )

    def _crops(self, settings: PrepareSettings, part: str) -> Step:
        """The step to cut the missing crops of a part."""
        names = self._names(part)
        folder = prepared_folder(self.workspace.data, settings)
        keys = crops_keys(self.workspace.data, self.data, settings)
        uncut = [name for name in names if not crops_path(folder, name, keys[name]).is_file()]
        crops = self._count(settings, part, only=uncut)
        region = "full frame" if settings.crop_factor is None else f"psi {settings.crop_factor:g}"
        return Step(
            f"cut crops, {region}, {settings.size} pixels, one frame in {settings.stride}",
            part,
            f"{crops} crops of {len(uncut)} procedures",
            "to do" if uncut else "done",
            seconds=crops / CROPS_PER_SECOND / self.workspace.workers,
            disk=3 * crops * settings.size**2,
        )

    def _names(self, part: str) -> list[str]:
        """Procedures of a part; for probes, of both the training and the test side."""
        if (task := part.removeprefix(SPLIT)) != part:
            sides = divide(PROBES[task], self.data, part, split=self.splits[task])
            return list(dict.fromkeys(name for side in sides for name in side["procedure_id"]))
        parts = (f"{part}-train", f"{part}-test") if part in PAIRS else (part,)
        return [name for part_name in parts for name in self.data.part(part_name)]

    def _count(
        self,
        settings: PrepareSettings,
        part: str,
        length: int = 1,
        only: Sequence[str] | None = None,
    ) -> int:
        """Fragments of `length` crops in a part, or in some of its procedures."""
        key = replace(settings, crop_factor=None, size=1)
        if key not in self._tables:
            _, tracklets = build_tracklets(self.data.detections, settings)
            self._tables[key] = sample_crops(tracklets, settings)
        names = self._names(part) if only is None else only
        rows = self._tables[key].filter(pl.col("procedure_id").is_in(list(names)))
        return int((rows["n_crops"] // length).sum())
