"""Checkpoints in the published layouts, with random values."""

import argparse
import math
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

State = dict[str, torch.Tensor]


def golden_value(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    """A tensor with the values of those behind goldens/encoders.json (see its README)."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    value = torch.randn(shape, generator=generator)
    if name.endswith(("pos_embed", "time_embed", "cls_token")):
        return value * 0.3
    if value.ndim >= 2:
        return value / math.sqrt(math.prod(shape[1:]))
    scale_like = ("norm" in name and name.endswith("weight")) or name.endswith("scale")
    return value * 0.2 + (1.0 if scale_like else 0.0)


def golden_state(shapes: Mapping[str, tuple[int, ...]]) -> State:
    return {name: golden_value(name, shape) for name, shape in shapes.items()}


def timesformer_shapes(frames: int, depth: int = 12) -> dict[str, tuple[int, ...]]:
    """Names and shapes of EndoFM's backbone as published."""
    d = 768
    shapes: dict[str, tuple[int, ...]] = {
        "cls_token": (1, 1, d),
        "pos_embed": (1, 197, d),
        "time_embed": (1, frames, d),
        "patch_embed.proj.weight": (d, 3, 16, 16),
        "patch_embed.proj.bias": (d,),
        "norm.weight": (d,),
        "norm.bias": (d,),
    }
    linear = {"attn.qkv": (3 * d, d), "attn.proj": (d, d), "temporal_attn.qkv": (3 * d, d),
              "temporal_attn.proj": (d, d), "temporal_fc": (d, d), "mlp.fc1": (4 * d, d),
              "mlp.fc2": (d, 4 * d)}  # fmt: skip
    for i in range(depth):
        for name in ("norm1", "norm2", "temporal_norm1"):
            shapes |= {f"blocks.{i}.{name}.{part}": (d,) for part in ("weight", "bias")}
        for name, shape in linear.items():
            shapes[f"blocks.{i}.{name}.weight"] = shape
            shapes[f"blocks.{i}.{name}.bias"] = shape[:1]
    return shapes


def vit_shapes(depth: int = 12) -> dict[str, tuple[int, ...]]:
    """Names and shapes of EndoViT's encoder as published."""
    temporal = ("temporal", "time_embed")
    shapes = timesformer_shapes(8, depth)
    return {name: shape for name, shape in shapes.items() if not any(t in name for t in temporal)}


def caformer_shapes() -> dict[str, tuple[int, ...]]:
    """Names and shapes of SurgeNet's backbone as published."""
    dims, depths = (64, 128, 320, 512), (3, 3, 9, 3)
    shapes: dict[str, tuple[int, ...]] = {
        "downsample_layers.0.conv.weight": (64, 3, 7, 7),
        "downsample_layers.0.conv.bias": (64,),
        "downsample_layers.0.post_norm.weight": (64,),
        "norm.weight": (512,),
        "norm.bias": (512,),
    }
    for i in range(1, 4):
        shapes[f"downsample_layers.{i}.pre_norm.weight"] = (dims[i - 1],)
        shapes[f"downsample_layers.{i}.conv.weight"] = (dims[i], dims[i - 1], 3, 3)
        shapes[f"downsample_layers.{i}.conv.bias"] = (dims[i],)
    for i, (d, depth) in enumerate(zip(dims, depths, strict=True)):
        for j in range(depth):
            block: dict[str, tuple[int, ...]] = {"norm1.weight": (d,), "norm2.weight": (d,)}
            block |= {"mlp.fc1.weight": (4 * d, d), "mlp.fc2.weight": (d, 4 * d)}
            if i < 2:
                block |= {"token_mixer.pwconv1.weight": (2 * d, d)}
                block |= {"token_mixer.dwconv.weight": (2 * d, 1, 7, 7)}
                block |= {"token_mixer.pwconv2.weight": (d, 2 * d)}
            else:
                block |= {"token_mixer.qkv.weight": (3 * d, d), "token_mixer.proj.weight": (d, d)}
                block |= {"res_scale1.scale": (d,), "res_scale2.scale": (d,)}
            shapes |= {f"stages.{i}.{j}.{name}": shape for name, shape in block.items()}
    return shapes


def write_endofm(path: Path, state: State) -> Path:
    """Write what DINO for videos saves: a pickle with an argparse.Namespace and NumPy numbers."""
    head = {"head.mlp.0.weight": torch.zeros(2, 2), "head.last_layer.weight_g": torch.ones(2, 1)}
    teacher = {f"backbone.{name}": value for name, value in state.items()} | head
    student = {f"module.backbone.{name}": value * 0 for name, value in list(state.items())[:3]}
    torch.save(
        {
            "student": student,
            "teacher": teacher,
            "motion_student": 0,
            "motion_teacher": 0,
            "optimizer": {"state": {}, "param_groups": [{"lr": np.float64(1e-3)}]},
            "epoch": 30,
            "args": argparse.Namespace(arch="timesformer", lr=np.float64(1e-3)),
            "dino_loss": {"center": torch.zeros(1, 2)},
            "fp16_scaler": {"scale": 65536.0},
        },
        path,
    )
    return path


def write_endovit(path: Path, state: State) -> Path:
    """Write what MAE saves: encoder, decoder and optimiser."""
    decoder = {
        name: torch.zeros(2)
        for name in ("mask_token", "decoder_embed.weight", "decoder_pos_embed",
                     "decoder_blocks.0.norm1.weight", "decoder_norm.bias", "decoder_pred.bias")
    }  # fmt: skip
    checkpoint = {"model": state | decoder, "optimizer": {}, "epoch": 14, "scaler": {}}
    torch.save(checkpoint | {"args": argparse.Namespace(mean=torch.zeros(3))}, path)
    return path
