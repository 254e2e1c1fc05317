"""The encoders in published tables: loaded, trained by their recipe, or reported as missing.

A workspace folder stores every recipe's run on a data set under a name made from both, so that
tables reuse each other's trained encoders.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from zlib import crc32

from polyplink import train
from polyplink.cli.verb import inform
from polyplink.core.artefacts import content_key
from polyplink.core.errors import PolyplinkError
from polyplink.core.progress import Progress
from polyplink.data.tables import DataSet, read_data
from polyplink.encoders.build import build_encoder
from polyplink.encoders.catalogue import find_spec
from polyplink.encoders.config import FoundationConfig
from polyplink.encoders.device import pick_device, place
from polyplink.encoders.embed import NetworkEmbedder
from polyplink.encoders.leakage import guard, seen_by, seen_procedures
from polyplink.encoders.load import NamedEncoder, histogram, load_named, untrained
from polyplink.encoders.weights import WEIGHTS_FILE, Seen, weights_path
from polyplink.learn.loop import split_procedures
from polyplink.learn.train_config import LAST, TrainConfig
from polyplink.recipes.by_name import OTHER_PART, RECIPES, find_recipe, override
from polyplink.recipes.small import small_sibling
from polyplink_lab.reproduce.published_tables import published
from polyplink_lab.reproduce.standing import STANDINGS, standing

NO_ENCODER = "none"  # the row of a table without any encoder
STARTS = {"mve": "sfe", "tpc": "sfe"}  # by recipe, that whose weights it starts from
CHOSEN = (
    "as published: its checkpoint was chosen on {} of the evaluated procedures (the part {}), so "
    "that the figure is too good"
)
OTHER_VALIDATION = (
    "set validation.part or part to others, or give --as-published if the checkpoint alone is "
    "chosen on them, as in the papers; its cells are marked"
)
STAND_IN = "ntssl-demo"  # its network, untrained, replaces those that are not trained here


@dataclass(frozen=True)
class Workspace:
    """Where encoders come from.

    Attributes:
        folder: Runs are in its folder `runs`.
        data: The data folder that recipes train on.
        given: Weights by the encoder's name, used instead of looking for them.
        stand_in: Replace all encoders by small ones.
        sets: Fields of every recipe to change, as `--set` takes them.
        may_train: Whether to train missing encoders.
        device: Device.
        workers: Threads and processes.
        preset: How published encoders are fed: "reference", as NTSSL's program feeds them all, or
            "own", as in their pre-training.
        devices: Processes to train in.
        as_published: Whether a checkpoint may have been chosen on procedures that it is measured
            on, as in the papers.
        precision: What a GPU embeds in; the papers' programs in tf32.
    """

    folder: Path
    data: Path
    given: Mapping[str, Path] = field(default_factory=dict)
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
        """The data's tables, read once."""
        return read_data(self.data)


def find_encoder(
    name: str, workspace: Workspace, part: str, progress: Progress = inform
) -> NamedEncoder:
    """An encoder, trained first where a recipe makes it.

    Args:
        name: The encoder's name in tables.
        workspace: Where encoders come from.
        part: Part it will be measured on, which it must not have seen.
        progress: Callback of the training.

    Raises:
        PolyplinkError: If it is missing, or has seen the part; before it is trained, if it would.
    """
    if name == NO_ENCODER:  # its figures depend only on tracklets, so that any vectors will do
        return histogram(name, pick_device("cpu"), find_recipe(STAND_IN).prepare)
    if reason := would_see(name, workspace, part):
        raise PolyplinkError(reason, OTHER_VALIDATION)
    stand_in = ""
    if workspace.stand_in and name not in workspace.given:
        small = stand_in_recipe(name)
        if small is None:
            return untrained_stand_in(name, workspace)
        path = trained(override(small, workspace.sets), workspace, progress)
        stand_in = f"{small.name}, a small network that its recipe trains"
    elif missing := what_is_missing(name, workspace):
        raise PolyplinkError(missing, f"or give --weights {name}=FILE")
    elif name in workspace.given:
        path = workspace.given[name]
    else:
        try:
            path = weights_path(Path(name))
        except PolyplinkError:
            path = trained(override(find_recipe(name), workspace.sets), workspace, progress)
    exported = weights_path(path).suffix == ".onnx"
    encoder = load_named(
        path, workspace.device, name, precision=None if exported else workspace.precision
    )
    assert encoder.record is not None
    seen, data = encoder.record.seen, workspace.tables
    guard(replace(seen, validated=[]) if workspace.as_published else seen, data, part)
    seen_here = seen_procedures(seen, data, data.part(part))
    remark = CHOSEN.format(len(seen_here), part) if seen_here else ""
    return replace(fed_as(encoder, workspace.preset), remark=remark, stand_in=stand_in)


def guard_training(encoder: NamedEncoder, data: DataSet, procedures: Sequence[str]) -> None:
    """Refuse procedures that an encoder was trained on; what its pre-training saw is published."""
    if encoder.record is not None:
        seen = replace(encoder.record.seen, validated=[], datasets=[])
        guard(seen, data, list(dict.fromkeys(procedures)))


def would_see(name: str, workspace: Workspace, part: str) -> str:
    """Why the recipe of an encoder may not be measured on a part; "" if it may, or has none."""
    recipe, data = recipe_of(name, workspace), workspace.tables
    if recipe is None or recipe.name == STAND_IN:
        return ""
    try:
        trained_on, held_out = split_procedures(data, recipe)
        measured = data.part(part)
    except PolyplinkError:  # said where it is trained or measured
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
    """The recipe that makes an encoder; None for weights that are there or published.

    A stand-in that is not trained has the recipe whose network it is.
    """
    if name in workspace.given or name == NO_ENCODER:
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
    """A published encoder under a preset; encoders that a recipe trained stay as they are."""
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
    # What the preset sets is None, which asks for its value.
    unset: Any = dict.fromkeys(("frame_weights", "size", "mean", "std", "clip", "positions"))
    network = build_encoder(replace(config, preset=preset, pooling=pooling, **unset))
    network.load_state_dict(embedder.encoder.state_dict())
    placed = NetworkEmbedder(place(network, encoder.device), compute=encoder.precision)
    assert isinstance(network.config, FoundationConfig)
    size = network.config.size or encoder.prepare.size
    prepare = replace(encoder.prepare, size=size)
    return replace(encoder, key=f"{encoder.key}-{preset}", embedder=placed, prepare=prepare)


def what_is_missing(name: str, workspace: Workspace | None = None) -> str:
    """Why an encoder is not available now; "" if it is.

    Args:
        name: The encoder's name in tables.
        workspace: Where encoders come from; None for the store of added weights alone.
    """
    if name == NO_ENCODER or (workspace and (workspace.stand_in or name in workspace.given)):
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


def untrainable(recipe: TrainConfig, workspace: Workspace | None = None) -> str:
    """Why a recipe cannot be trained: its part or its backbone is missing; "" if it can."""
    message = "{name} trains on {part}: {error}"
    try:
        if workspace:
            workspace.tables.part(recipe.part)
        message = (
            "the backbone of {name}: {error}, or --set encoder.frame_weights=FILE "
            "(docs/how-to/backbone-weights.md)"
        )
        if recipe.encoder.frame_weights is not None:
            weights_path(recipe.encoder.frame_weights)
    except PolyplinkError as error:
        return message.format(name=recipe.name, part=recipe.part, error=error)
    return ""


def run_folder(workspace: Workspace, recipe: TrainConfig) -> Path:
    """Folder of a recipe's run on the workspace's data."""
    key = content_key(recipe, workspace.tables.key)
    return workspace.folder / "runs" / f"{recipe.name}-{key}"


def has_recipe(name: str) -> bool:
    """Whether a recipe trains an encoder."""
    return name.removeprefix(OTHER_PART) in RECIPES


def stand_in_recipe(name: str) -> TrainConfig | None:
    """The small recipe that replaces an encoder; None if the encoder is not trained.

    A variant of a method keeps its own bags and loss: it is that variant, at another size.
    """
    plain = name.removeprefix(OTHER_PART)
    return small_sibling(find_recipe(plain)) if plain in RECIPES else None


def untrained_stand_in(name: str, workspace: Workspace) -> NamedEncoder:
    """A small network instead of a foundation encoder; random weights, seeded by its name."""
    recipe = find_recipe(STAND_IN)
    device = pick_device(workspace.device)
    network = untrained(recipe.encoder, device, crc32(name.encode()))
    key = f"standin-{content_key(recipe.encoder, name)}"
    stand_in = "an untrained network"
    return NamedEncoder(name, key, network, device, recipe.prepare, stand_in=stand_in)


def trained(recipe: TrainConfig, workspace: Workspace, progress: Progress) -> Path:
    """The folder of a recipe's run, trained or resumed if it is not finished.

    A recipe that starts from another's weights has that one trained first.
    """
    run = run_folder(workspace, recipe)
    if not (run / WEIGHTS_FILE).is_file():
        PolyplinkError.unless(
            workspace.may_train, f"no run of {recipe.name} at {run}", "let it train: --train"
        )
        start = start_of(recipe, workspace.sets)
        train(
            recipe,
            workspace.data,
            out=run,
            init_from=None if start is None else trained(start, workspace, progress),
            resume=(run / LAST).is_file(),
            device=workspace.device,
            devices=workspace.devices,
            workers=workspace.workers,
            progress=progress,
        )
    return run


def start_of(recipe: TrainConfig, sets: Sequence[str] = ()) -> TrainConfig | None:
    """The recipe that another takes its first weights from, as in the papers; None for none."""
    plain = recipe.name.removeprefix(OTHER_PART)
    if plain not in STARTS or recipe.init_from is not None:
        return None
    return override(find_recipe(recipe.name.removesuffix(plain) + STARTS[plain]), sets)


def list_tables() -> list[dict[str, Any]]:
    """What every published table needs, and what of it is missing, in the papers' order.

    Returns:
        name, caption, source, data (the part it was measured on), cells (how many numbers it has),
        recipes and weights (encoders that a recipe trains, and those from elsewhere), missing (why,
        by encoder), runs ("whole", "in part" or "not", what can be run now), standings (how many
        cells are exact, inferred and unavailable) and standing (of each cell, and why).
    """
    rows = []
    for table in published().values():
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
