"""The encoders in published tables: loaded, trained by their recipe, or reported as missing.

A workspace folder stores every recipe's run on a data set under a name derived from both, so that
tables share trained encoders.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from zlib import crc32

from polyplink import train
from polyplink.core.artefacts import content_key
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import Progress
from polyplink.data.tables import DataSet, read_data
from polyplink.encoders.build import build_encoder
from polyplink.encoders.catalogue import find_spec
from polyplink.encoders.config import FoundationConfig
from polyplink.encoders.device import pick_device, place
from polyplink.encoders.embed import NetworkEmbedder
from polyplink.encoders.load import NamedEncoder, histogram, load_named, random_encoder
from polyplink.encoders.weights import (
    WEIGHTS_FILE,
    Seen,
    guard,
    seen_by,
    seen_procedures,
    weights_path,
)
from polyplink.learn.loop import split_procedures
from polyplink.learn.train_config import LAST, TrainConfig
from polyplink.recipes.by_name import OTHER_PART, RECIPES, find_recipe, override
from polyplink.recipes.small import small_sibling
from polyplink_lab.reproduce.published_tables import published_tables
from polyplink_lab.reproduce.standing import STANDINGS, standing

NO_ENCODER = "none"  # the row of a table without any encoder
STARTS = {"mve": "sfe", "tpc": "sfe"}  # recipe -> recipe with the weights it starts from
CHOSEN = (
    "as published: its checkpoint was chosen on {} of the evaluated procedures (the part {}), so "
    "that the figure is optimistic"
)
OTHER_VALIDATION = (
    "set validation.part or part to others, or give --as-published if they only select the "
    "checkpoint, as in the papers; its cells are marked"
)
STAND_IN = "ntssl-demo"  # its untrained network replaces encoders that are not trained here


@dataclass(frozen=True)
class Workspace:
    """The sources of encoders, and how they are trained and used.

    Attributes:
        folder: The workspace folder; training runs are in its subfolder `runs`.
        data: The data folder for training.
        weights: Encoder's name -> weights to use instead of searching for them.
        stand_in: Whether to replace all encoders by small ones, which keep their crop factor unless
            a table compares crop factors.
        sets: Fields of every recipe to change, as for `--set`.
        may_train: Whether to train missing encoders.
        device: Device.
        workers: Threads and processes.
        preset: Input of published encoders: "reference", as in NTSSL's program, or "own", as in
            their pre-training.
        devices: Processes to train in.
        as_published: Whether checkpoints may have been chosen on evaluated procedures, as in the
            papers.
        precision: Precision of vectors on a GPU; tf32 in the papers' programs.
    """

    folder: Path
    data: Path
    weights: Mapping[str, Path] = field(default_factory=dict)
    stand_in: bool = False
    sets: tuple[str, ...] = ()
    may_train: bool = True
    device: str = "auto"
    workers: int = 2
    preset: Literal["reference", "own"] = "reference"
    devices: int = 1
    as_published: bool = False
    precision: Literal["tf32", "float32", "bf16"] = "tf32"

    @cached_property
    def tables(self) -> DataSet:
        """The tables of the data folder, read once."""
        return read_data(self.data)


@dataclass(frozen=True, repr=False)
class EncoderUnderTest(NamedEncoder):
    """An encoder, and what tables say of it.

    Attributes:
        remark: Remark for tables next to its figures; "" for none.
        stand_in: Network that is used in place of the one in the name; "" for none.
    """

    remark: str = ""
    stand_in: str = ""


def find_encoder(
    name: str, workspace: Workspace, part: str, progress: Progress
) -> EncoderUnderTest:
    """Load an encoder, after training it if it has a recipe.

    Args:
        name: The encoder's name in tables.
        workspace: The sources of encoders.
        part: Part to measure on, which the encoder must not have seen.
        progress: Callback of the training.

    Raises:
        PolyplinkError: If the encoder is missing, or has seen the part, or, before training, would
            see it.
    """
    if name == NO_ENCODER:  # its figures depend only on tracklets, not on vectors
        baseline = histogram(name, pick_device("cpu"), find_recipe(STAND_IN).prepare)
        return EncoderUnderTest(**vars(baseline))
    if reason := would_see(name, workspace, part):
        raise PolyplinkError(reason, OTHER_VALIDATION)
    stand_in = ""
    if workspace.stand_in and name not in workspace.weights:
        small = stand_in_recipe(name)
        if small is None:
            return untrained_stand_in(name, workspace)
        path = train_or_resume(override(small, workspace.sets), workspace, progress)
        stand_in = f"{small.name}, a small network trained by its recipe"
    elif missing := what_is_missing(name, workspace):
        raise PolyplinkError(missing, f"or give --weights {name}=FILE")
    elif name in workspace.weights:
        path = workspace.weights[name]
    else:
        try:
            path = weights_path(Path(name))
        except PolyplinkError:
            path = train_or_resume(override(find_recipe(name), workspace.sets), workspace, progress)
    exported = weights_path(path).suffix == ".onnx"
    encoder = load_named(
        path, workspace.device, name, precision=None if exported else workspace.precision
    )
    seen, data = encoder.record.seen, workspace.tables
    guard(replace(seen, validated=[]) if workspace.as_published else seen, data, part)
    seen_here = seen_procedures(seen, data, data.part(part))
    remark = CHOSEN.format(len(seen_here), part) if seen_here else ""
    fed = fed_as(encoder, workspace.preset)
    return EncoderUnderTest(**vars(fed), remark=remark, stand_in=stand_in)


def guard_training(encoder: NamedEncoder, data: DataSet, procedures: Sequence[str]) -> None:
    """Refuse procedures that an encoder was trained on, except in its published pre-training."""
    if encoder.weights_record is not None:
        seen = replace(encoder.record.seen, validated=[], datasets=[])
        guard(seen, data, list(dict.fromkeys(procedures)))


def would_see(name: str, workspace: Workspace, part: str) -> str:
    """Why the recipe of an encoder must not be measured on a part; "" if it may or has none."""
    recipe = recipe_of(name, workspace)
    if recipe is None or recipe.name == STAND_IN:
        return ""
    return recipe_would_see(recipe, workspace, part)


def recipe_would_see(recipe: TrainConfig, workspace: Workspace, part: str) -> str:
    """Why an encoder trained by a recipe must not be measured on a part; "" if it may."""
    data = workspace.tables
    try:
        trained_on, held_out = split_procedures(data, recipe)
        measured = data.part(part)
    except PolyplinkError:  # reported when it is trained or measured
        return ""
    held_out = [] if workspace.as_published else held_out
    seen_here = seen_procedures(seen_by(data, trained_on, held_out, Seen()), data, measured)
    if not seen_here:
        return ""
    return (
        f"{recipe.name} would be trained or validated on {len(seen_here)} of the procedures of the "
        f"part {part}, or see their patients ({seen_here[0][0]}: {seen_here[0][1]})"
    )


def recipe_of(name: str, workspace: Workspace) -> TrainConfig | None:
    """The recipe that trains an encoder; None for existing or published weights.

    An untrained stand-in has the recipe with its network.
    """
    if name in workspace.weights or name == NO_ENCODER:
        return None
    if workspace.stand_in:
        small = stand_in_recipe(name)
        return find_recipe(STAND_IN) if small is None else override(small, workspace.sets)
    try:
        weights_path(Path(name))
    except PolyplinkError:
        return override(find_recipe(name), workspace.sets) if has_recipe(name) else None
    return None


def fed_as(encoder: NamedEncoder, preset: Literal["reference", "own"]) -> NamedEncoder:
    """A published encoder under a preset; encoders trained by a recipe are unchanged."""
    record, embedder = encoder.record, encoder.embedder
    config = record.encoder if record else None
    if (
        not isinstance(config, FoundationConfig)
        or config.preset == preset
        or (record and "encoder" in record.recipe)
    ):
        return encoder
    assert isinstance(embedder, NetworkEmbedder)
    pooling = None if config.pooling == find_spec(config.model).pooling[0] else config.pooling
    # None selects the value of the preset.
    unset: Any = dict.fromkeys(("frame_weights", "size", "mean", "std", "clip", "positions"))
    network = build_encoder(replace(config, preset=preset, pooling=pooling, **unset))
    network.load_state_dict(embedder.encoder.state_dict())
    placed = NetworkEmbedder(place(network, encoder.device), compute=encoder.precision)
    assert isinstance(network.config, FoundationConfig)
    size = network.config.size or encoder.prepare.size
    prepare = replace(encoder.prepare, size=size)
    return replace(encoder, key=f"{encoder.key}-{preset}", embedder=placed, prepare=prepare)


def what_is_missing(name: str, workspace: Workspace | None = None) -> str:
    """Why an encoder is not available; "" if it is.

    Args:
        name: The encoder's name in tables.
        workspace: The sources of encoders; None for only the store of added weights.
    """
    if name == NO_ENCODER or (workspace and (workspace.stand_in or name in workspace.weights)):
        return ""
    try:
        weights_path(Path(name))
    except PolyplinkError as error:
        if not has_recipe(name):
            return str(error)
    else:
        return ""
    recipe = override(find_recipe(name), workspace.sets if workspace else ())
    if workspace and (run_folder(workspace, recipe) / WEIGHTS_FILE).is_file():
        return ""
    if workspace and not workspace.may_train:
        return f"{name} is not trained in {workspace.folder}; let it train: --train"
    return untrainable(recipe, workspace)


def untrainable(recipe: TrainConfig, workspace: Workspace | None) -> str:
    """Why a recipe cannot be trained: its part or its backbone is missing; "" if it can."""
    if workspace:
        try:
            workspace.tables.part(recipe.part)
        except PolyplinkError as error:
            return f"{recipe.name} trains on {recipe.part}: {error}"
    if recipe.encoder.frame_weights is not None:
        try:
            weights_path(recipe.encoder.frame_weights)
        except PolyplinkError as error:
            return (
                f"the backbone of {recipe.name}: {error}, or --set encoder.frame_weights=FILE "
                "(docs/how-to/backbone-weights.md)"
            )
    return ""


def run_folder(workspace: Workspace, recipe: TrainConfig) -> Path:
    """Folder of a recipe's run on the workspace's data, and with the user's files as they are."""
    files = [recipe.files] if recipe.files else []
    key = content_key(recipe, workspace.tables.key, *files)
    return workspace.folder / "runs" / f"{recipe.name}-{key}"


def has_recipe(name: str) -> bool:
    """Whether a recipe trains an encoder."""
    return name.removeprefix(OTHER_PART) in RECIPES


def stand_in_recipe(name: str) -> TrainConfig | None:
    """The small recipe that replaces an encoder; None if the encoder has no recipe.

    For a variant of a method it has the bags and loss of the variant.
    """
    plain = name.removeprefix(OTHER_PART)
    return small_sibling(find_recipe(plain)) if plain in RECIPES else None


def untrained_stand_in(name: str, workspace: Workspace) -> EncoderUnderTest:
    """A small network in place of a foundation encoder, with random weights seeded by its name."""
    recipe = find_recipe(STAND_IN)
    device = pick_device(workspace.device)
    network = random_encoder(recipe.encoder, device, crc32(name.encode()))
    key = f"standin-{content_key(recipe.encoder, name)}"
    stand_in = "an untrained network"
    return EncoderUnderTest(name, key, network, device, recipe.prepare, stand_in=stand_in)


def train_or_resume(recipe: TrainConfig, workspace: Workspace, progress: Progress) -> Path:
    """The folder of a recipe's run, which is trained or resumed if it is not finished.

    If the recipe starts from the weights of another recipe, that one is trained first.
    """
    run = run_folder(workspace, recipe)
    if not (run / WEIGHTS_FILE).is_file():
        if not workspace.may_train:
            raise PolyplinkError(f"no run of {recipe.name} at {run}", "let it train: --train")
        start = start_of(recipe, workspace.sets)
        train(
            recipe,
            workspace.data,
            out=run,
            init_from=None if start is None else train_or_resume(start, workspace, progress),
            resume=(run / LAST).is_file(),
            device=workspace.device,
            devices=workspace.devices,
            workers=workspace.workers,
            progress=progress,
        )
    return run


def start_of(recipe: TrainConfig, sets: Sequence[str]) -> TrainConfig | None:
    """The recipe with the weights from which another starts, as in the papers; None for none."""
    plain = recipe.name.removeprefix(OTHER_PART)
    if plain not in STARTS or recipe.init_from is not None:
        return None
    return override(find_recipe(recipe.name.removesuffix(plain) + STARTS[plain]), sets)


def list_tables() -> list[dict[str, Any]]:
    """The requirements of every published table, and which are missing, in the papers' order.

    Returns:
        name, caption, source, data (the part it was measured on), cells (number of cells), recipes
        and weights (encoders that a recipe trains, and others), missing (encoder -> reason), runs
        ("whole", "in part" or "not": whether it can be computed now), standings (numbers of exact,
        inferred and unavailable cells) and standing (of each cell, with the reason).
    """
    rows = []
    for table in published_tables().values():
        names, standings = table.subjects, [standing(cell) for cell in table.cells]
        missing = {name: reason for name in names if (reason := what_is_missing(name))}
        rows.append(
            {
                "name": table.name,
                "caption": table.caption,
                "source": table.source,
                "data": table.data,
                "cells": len(table.cells),
                "recipes": [name for name in names if has_recipe(name)],
                "weights": [n for n in names if not has_recipe(n) and n != NO_ENCODER],
                "missing": missing,
                "standings": {
                    kind: sum(cell_standing == kind for cell_standing, _ in standings)
                    for kind in STANDINGS
                },
                "standing": [
                    {
                        "group": cell.group,
                        "row": cell.row,
                        "column": cell.column,
                        "standing": kind,
                        "why": reason,
                    }
                    for cell, (kind, reason) in zip(table.cells, standings, strict=True)
                ],
                "runs": "not" if len(missing) == len(names) else "in part" if missing else "whole",
            }
        )
    return rows
