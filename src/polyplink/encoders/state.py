"""Tensors of a file against those that a model wants."""

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save

from polyplink.core.artefacts import whole_file
from polyplink.core.errors import PolyplinkError


def write_tensors(
    path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]
) -> None:
    """Write tensors of any device as safetensors, whole or not at all."""
    cpu = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
    # Through memory, because the library hides from its caller that a disk is full.
    data = save(cpu, dict(metadata))
    with whole_file(path) as temporary:
        temporary.write_bytes(data)


def check_state(
    path: Path, state: Mapping[str, torch.Tensor], wanted: Mapping[str, torch.Tensor]
) -> None:
    """Refuse tensors that are not exactly the wanted ones, in name and shape.

    Raises:
        PolyplinkError: Counting what is missing, unknown or of another shape, and naming one.
    """
    missing = sorted(wanted.keys() - state.keys())
    unknown = sorted(state.keys() - wanted.keys())
    bent = sorted(k for k in wanted.keys() & state.keys() if wanted[k].shape != state[k].shape)
    if missing or unknown or bent:
        raise PolyplinkError(
            f"{path} holds weights of another encoder: {len(missing)} tensors missing, "
            f"{len(unknown)} unknown, {len(bent)} of another shape, "
            f"first {(missing + unknown + bent)[0]!r}",
            "give the weights of the encoder that the recipe names",
        )
