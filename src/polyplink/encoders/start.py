"""Starting anew from the weights of another run.

`resume` continues a run; `init_from` begins another one where the weights of an earlier run ended.
"""

from dataclasses import replace
from pathlib import Path

import torch

from polyplink.core.artefacts import KEY_DIGITS, file_key
from polyplink.core.errors import PolyplinkError
from polyplink.encoders.build import build_encoder
from polyplink.encoders.config import AnyEncoderConfig, FoundationConfig, MveConfig, SfeConfig
from polyplink.encoders.encoder import Encoder
from polyplink.encoders.lookup import weights_path
from polyplink.encoders.state import check_state
from polyplink.encoders.store import check_seal
from polyplink.encoders.weights import Seen, read_record, read_tensors

_HEAD = "head."  # of a single-frame encoder


def build_started(config: AnyEncoderConfig, init_from: Path | None = None) -> Encoder:
    """Build an encoder, with the values of other weights where they are given.

    Weights of the same encoder give all tensors. Weights of a single-frame encoder (SFE) give a
    multi-view encoder (MVE) its backbone and the head on single frames, as its paper starts
    (Intrator et al. 2023); the transformer begins at random.

    Args:
        config: The encoder; its `frame_weights` are not read where `init_from` is given.
        init_from: Weights file, run folder or name; None for none.

    Raises:
        PolyplinkError: If there are no such weights, or they are of another encoder.
    """
    if init_from is None:
        return build_encoder(config)
    path = weights_path(init_from)
    check_seal(path)
    source, state = read_record(path).encoder, read_tensors(path)
    encoder = build_encoder(replace(config, frame_weights=None))
    wanted = encoder.state_dict()
    if isinstance(source, SfeConfig) and isinstance(config, MveConfig):
        state = _frame_part(path, source, state)
        wanted = {k: v for k, v in wanted.items() if k.startswith(("backbone.", "frame_head."))}
    check_state(path, state, wanted)
    encoder.load_state_dict(encoder.state_dict() | state)
    return encoder


def _frame_part(
    path: Path, source: SfeConfig, state: dict[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Tensors of a single-frame encoder under the names of the multi-view encoder."""
    PolyplinkError.unless(
        source.vector == "projected",
        f"{path} holds a single-frame encoder without its head",
        "train it with --set encoder.vector=projected, which keeps the head",
    )
    return {
        name.replace(_HEAD, f"frame_{_HEAD}", 1) if name.startswith(_HEAD) else name: tensor
        for name, tensor in state.items()
    }


def sources(config: AnyEncoderConfig, init_from: Path | None) -> list[Path]:
    """Files with the record of what an encoder starts from: other weights, or a foundation's."""
    if init_from is not None:
        return [weights_path(init_from)]
    if isinstance(config, FoundationConfig) and config.frame_weights is not None:
        return [weights_path(config.frame_weights)]
    return []


def inherited(config: AnyEncoderConfig, init_from: Path | None) -> tuple[Seen, dict[str, str]]:
    """What an encoder has seen before it is trained, and the ids of the weights it starts from."""
    seen, ids = Seen(), {}
    for path in sources(config, init_from):
        seen = read_record(path).seen
        ids["init_from"] = file_key(path)[:KEY_DIGITS]
    return seen, ids
