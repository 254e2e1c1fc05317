"""The encoders that published tables are of: found, trained by a recipe, or said to be missing.

In a workspace folder every recipe's run on a data set is kept under a name of both, so that a table
uses what another one made.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from zlib import crc32

import torch

from polyplink.core.artefacts import content_key
from polyplink.core.errors import PolyplinkError
from polyplink.data import read_data
from polyplink.encoders import (
    WEIGHTS_FILE,
    Embedder,
    NetworkEmbedder,
    build_encoder,
    colour_histogram,
    load_encoder,
    pick_device,
    place,
    weights_path,
)
from polyplink.jobs.leakage import guard
from polyplink.jobs.progress import Progress, silent
from polyplink.jobs.training import train
from polyplink.jobs.variants import Subject
from polyplink.learn import TrainConfig
from polyplink.learn.loop import LAST
from polyplink.recipes import RECIPES, find_recipe, override, small_sibling

NO_ENCODER = "none"  # the row of a table without any encoder
OTHER_PART = "ta384-"  # begins the name of a recipe trained on that part
STAND_IN = "ntssl-demo"  # its encoder, untrained, stands in for those that are not trained here


@dataclass(frozen=True)
class Workspace:
    """Where encoders come from.

    Attributes:
        folder: Runs lie in its `runs`.
        data: The data folder that recipes train on.
        given: Weights by the name of a subject, instead of looking for them.
        stand_in: Small encoders in every subject's place.
        sets: Fields of every recipe to change, as `--set` takes them.
        may_train: Whether to train what is not there.
        device: Where to compute.
        workers: Threads and processes.
    """

    folder: Path
    data: Path
    given: Mapping[str, Path] = field(default_factory=dict)
    stand_in: bool = False
    sets: tuple[str, ...] = ()
    may_train: bool = True
    device: str = "auto"
    workers: int = 2


def run_folder(workspace: Workspace, recipe: TrainConfig) -> Path:
    """Where a recipe's run on the workspace's data lies."""
    key = content_key(recipe, read_data(workspace.data).key)
    return workspace.folder / "runs" / f"{recipe.name}-{key}"


def recipe_of(name: str, sets: Sequence[str] = ()) -> TrainConfig:
    """The recipe of a subject; "ta384-NAME" is NAME trained on the part ta384.

    Raises:
        PolyplinkError: If there is none, or a field to set is unknown.
    """
    plain = name.removeprefix(OTHER_PART)
    recipe = override(find_recipe(plain), sets)
    return recipe if plain == name else replace(recipe, name=name, part=OTHER_PART.rstrip("-"))


def has_recipe(name: str) -> bool:
    """Whether a recipe trains a subject."""
    return name.removeprefix(OTHER_PART) in RECIPES


def stand_in_recipe(name: str) -> TrainConfig | None:
    """The recipe at CPU size in a subject's place; None where it is not trained at all.

    A variant of a method keeps its own bags and loss: it is that variant, at another size.
    """
    plain = name.removeprefix(OTHER_PART)
    return small_sibling(find_recipe(plain)) if plain in RECIPES else None


def what_is_missing(name: str, workspace: Workspace | None = None) -> str:
    """Why an encoder cannot be had now; "" if it can.

    Args:
        name: The subject.
        workspace: What was given besides; None for this machine alone.
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
    recipe = recipe_of(name, workspace.sets if workspace else ())
    if workspace and (run_folder(workspace, recipe) / WEIGHTS_FILE).is_file():
        return ""
    if workspace and not workspace.may_train:
        return f"{name} is not trained in {workspace.folder}; let it train"
    return _backbone_missing(recipe)


def _backbone_missing(recipe: TrainConfig) -> str:
    """Why a recipe cannot start: its backbone's weights are not here; "" if they are."""
    backbone = recipe.encoder.frame_weights
    if backbone is None:
        return ""
    try:
        weights_path(backbone)
    except PolyplinkError as error:
        return (
            f"the backbone of {recipe.name}: {error}, or --set encoder.frame_weights=FILE "
            "(docs/how-to/backbone-weights.md)"
        )
    return ""


def find_subject(
    name: str, workspace: Workspace, part: str, progress: Progress = silent
) -> Subject:
    """An encoder, trained first where a recipe makes it.

    Args:
        name: The subject.
        workspace: Where encoders come from.
        part: Part it will be measured on, which it must not have seen.
        progress: Told of the training.

    Raises:
        PolyplinkError: If it is missing, or has seen the part.
    """
    if name == NO_ENCODER:  # what is asked of it rests on tracklets alone; any vectors will do
        where, how = pick_device("cpu"), find_recipe(STAND_IN).prepare
        return Subject(name, colour_histogram, "histogram-8x8x8", how, where)
    if workspace.stand_in and name not in workspace.given:
        small = stand_in_recipe(name)
        if small is None:
            return untrained_subject(name, workspace)
        run = _trained(override(small, workspace.sets), workspace, progress)
        return _loaded(name, run, workspace, part)
    if missing := what_is_missing(name, workspace):
        raise PolyplinkError(missing, f"or give --weights {name}=FILE")
    if name in workspace.given:
        return _loaded(name, workspace.given[name], workspace, part)
    try:
        path = weights_path(Path(name))
    except PolyplinkError:
        path = _trained(recipe_of(name, workspace.sets), workspace, progress)
    return _loaded(name, path, workspace, part)


def _trained(recipe: TrainConfig, workspace: Workspace, progress: Progress) -> Path:
    run = run_folder(workspace, recipe)
    if not (run / WEIGHTS_FILE).is_file():
        PolyplinkError.unless(
            workspace.may_train, f"no run of {recipe.name} at {run}", "let it train"
        )
        train(
            recipe,
            workspace.data,
            run,
            resume=(run / LAST).is_file(),
            device=workspace.device,
            workers=workspace.workers,
            progress=progress,
        )
    return run


def _loaded(name: str, path: Path, workspace: Workspace, part: str) -> Subject:
    where = pick_device(workspace.device)
    loaded = load_encoder(path, where)
    guard(loaded.record.seen, read_data(workspace.data), part)
    embedder: Embedder = NetworkEmbedder(loaded.encoder)
    return Subject(name, embedder, loaded.weights_id, loaded.record.prepare, where)


def untrained_subject(name: str, workspace: Workspace) -> Subject:
    """A small encoder with random weights of its own in a foundation encoder's place."""
    recipe = find_recipe(STAND_IN)
    where = pick_device(workspace.device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(crc32(name.encode()))
        encoder = place(build_encoder(recipe.encoder), where)
    key = f"standin-{content_key(recipe.encoder, name)}"
    return Subject(name, NetworkEmbedder(encoder.eval()), key, recipe.prepare, where)
