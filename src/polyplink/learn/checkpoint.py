"""Checkpoints: tensors as safetensors, the rest as JSON in the same file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from polyplink.core.artefacts import parse_json, to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.encoders.weights import check_state, write_tensors

_STATE = "state"
_OPTIMIZER = "optimizer."  # prefix of the names of its tensors


def save_checkpoint(
    path: Path,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    state: Mapping[str, Any],
) -> None:
    """Write everything that resuming a run needs into one file, atomically.

    Args:
        path: The file.
        module: What is trained.
        optimizer: AdamW; its moments are stored, its settings come from the recipe.
        state: JSON-able values: epochs done, history, the recipe.
    """
    tensors = dict(module.state_dict())
    for index, values in optimizer.state_dict()["state"].items():
        for name, value in values.items():  # "step", "exp_avg", "exp_avg_sq"
            tensors[f"{_OPTIMIZER}{index}.{name}"] = value
    write_tensors(path, tensors, {_STATE: json.dumps(to_plain(state))})


def read_state(path: Path) -> dict[str, Any]:
    """The JSON values of a checkpoint.

    Raises:
        PolyplinkError: If the file is missing or is not a checkpoint.
    """
    if not path.is_file():
        raise PolyplinkError(f"no checkpoint {path}", "start without --resume, in a new folder")
    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {})[_STATE]
    except (SafetensorError, OSError, KeyError):
        raise PolyplinkError(
            f"{path} is not a checkpoint", "start a new run in another --out"
        ) from None
    state: dict[str, Any] = parse_json(text, str(path), "start a new run in another folder")
    return state


def load_checkpoint(
    path: Path, module: nn.Module, optimizer: torch.optim.Optimizer | None = None
) -> dict[str, Any]:
    """Load the tensors of a checkpoint, strictly, into a module and optionally an optimiser.

    Returns:
        Its JSON values, see `read_state`.

    Raises:
        PolyplinkError: If the file is missing, is not a checkpoint or is one of another encoder.
    """
    values = read_state(path)
    with safe_open(path, framework="pt") as file:
        stored = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    tensors = {name: value for name, value in stored.items() if not name.startswith(_OPTIMIZER)}
    check_state(path, tensors, module.state_dict())
    module.load_state_dict(tensors)
    if optimizer is None:
        return values
    moments: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in stored.items():
        if key.startswith(_OPTIMIZER):
            _, index, name = key.split(".")
            moments.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict(
        {"state": moments, "param_groups": optimizer.state_dict()["param_groups"]}
    )
    _lay_out_as_parameters(optimizer)
    return values


def _lay_out_as_parameters(optimizer: torch.optim.Optimizer) -> None:
    """Give moments the memory layout of their parameters, as a fused step requires.

    The file stores contiguous tensors, but the weights of convolutions are in channels_last.
    """
    for parameter, values in optimizer.state.items():
        for name, value in values.items():
            if value.shape == parameter.shape:
                values[name] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)
