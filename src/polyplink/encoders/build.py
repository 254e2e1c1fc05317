"""Build encoders from a configuration; the encoders that polyplink trains.

SFE, MVE and NTSSL's tracklet encoder run a timm backbone on every frame. SFE averages the frames of
a tracklet; the other two aggregate them with a transformer.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.functional import normalize

from polyplink.core.errors import PolyplinkError, first_line, one_line
from polyplink.core.lazy_torch import timm
from polyplink.core.parts import ENCODERS
from polyplink.encoders.adapt import wrap_encoder
from polyplink.encoders.config import (
    AnyEncoderConfig,
    EncoderConfig,
    FoundationConfig,
    MveConfig,
    SfeConfig,
)
from polyplink.encoders.encoder import ClipWise, Encoder, FrameWise, Tokens, owners
from polyplink.encoders.weights import (
    added_weights,
    check_state,
    read_tensors,
)

FAMILY = "timm:"
COUNTER = ".num_batches_tracked"
_BACKBONE = "backbone."
_NETWORK = "network."


class StageMeans(nn.Module):
    """The concatenated means of a backbone's feature maps at some stages, each of length 1.

    Earlier stages keep texture and colour, which distinguish polyps, whereas the last stage of an
    ImageNet network distinguishes objects. Layers after the last requested stage are dropped.
    Concentric rings about the centre of the crop have means of their own: what is on the polyp and
    what surrounds it stay apart, however the camera is turned.

    Args:
        network: From `timm.create_model(..., features_only=True)`.
        rings: See `SfeConfig.rings`.
    """

    def __init__(self, network: Any, rings: Sequence[float] = ()) -> None:
        super().__init__()
        self.rings = tuple(rings)
        last = network.feature_info.module_name()[-1].split(".")
        if last[0] == "blocks" and hasattr(network, "blocks"):  # timm would compute all blocks
            network.blocks = network.blocks[: int(last[1]) + 1]
        self.channels_last = getattr(network, "output_fmt", "NCHW") == "NHWC"
        self.network: nn.Module = network
        self.num_features = (len(self.rings) + 1) * sum(network.feature_info.channels())
        self.pretrained_cfg = getattr(network, "pretrained_cfg", {})

    def set_grad_checkpointing(self, on: bool) -> None:
        """Switch gradient checkpointing of the network, see `Encoder.checkpointing`."""
        network: Any = getattr(self.network, "model", self.network)  # of a ViT: inside
        network.set_grad_checkpointing(on)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        """Frames (n, 3, h, w) to vectors (n, num_features)."""
        maps = self.network(frames)  # n channels h w for each stage; n h w channels for Swin
        means = []
        for stage in maps:
            pixels = stage if self.channels_last else stage.movedim(1, 3)  # n h w channels
            shares = ring_shares(pixels.shape[1], pixels.shape[2], self.rings).to(stage)  # k h w
            of_rings = torch.einsum("nhwc,khw->nkc", pixels, shares)
            means.append(normalize(of_rings, dim=2).flatten(1))  # n k*channels
        return torch.cat(means, dim=1)


def ring_shares(height: int, width: int, rings: Sequence[float]) -> torch.Tensor:
    """The weight of every pixel in the mean over each ring.

    Args:
        height: Height of the map, pixels.
        width: Width of the map, pixels.
        rings: Radii of k - 1 concentric circles, see `SfeConfig.rings`.

    Returns:
        (k, height, width); each sums to 1, or to 0 if no pixel's centre lies in the ring.

    Example:
        >>> ring_shares(3, 3, [0.6])[0]  # the inner ring
        tensor([[0., 0., 0.],
                [0., 1., 0.],
                [0., 0., 0.]])
    """
    y = (torch.arange(height) + 0.5) / height * 2 - 1  # h, -1 to 1
    x = (torch.arange(width) + 0.5) / width * 2 - 1  # w
    radius = (y[:, None] ** 2 + x**2).sqrt()  # h w
    edges = pairwise((0.0, *rings, math.inf))
    inside = torch.stack(
        [(radius >= low) & (radius < high) for low, high in edges]
    ).float()  # k h w
    shares: torch.Tensor = inside / inside.sum(dim=(1, 2), keepdim=True).clamp(min=1)
    return shares


def build_frame_encoder(
    name: str,
    weights: Path | None = None,
    stages: Sequence[int] = (),
    rings: Sequence[float] = (),
) -> tuple[nn.Module, int]:
    """Build a backbone that maps frames (n, 3, h, w) to vectors (n, width).

    Args:
        name: "timm:" and a model name of timm, e.g. "timm:resnet50.tv2_in1k".
        weights: Weights that `polyplink weights add` wrote, or a safetensors file with timm's
            names; None for random values. Nothing is downloaded.
        stages: See `SfeConfig.stages`.
        rings: See `SfeConfig.rings`.

    Returns:
        The module without its classifier, and its output width.

    Raises:
        PolyplinkError: If the model is unknown, or the file does not fit it.
    """
    if not name.startswith(FAMILY):
        raise PolyplinkError(
            f"frame encoder {name!r} belongs to no known family", "write timm:NAME"
        )
    model_name = name.removeprefix(FAMILY)
    if not timm().is_model(model_name):  # a name of the Hub would be downloaded
        near = get_close_matches(model_name.split(".")[0], timm().list_models(), n=1)
        hint = f"did you mean timm:{near[0]}?" if near else "see timm.list_models() for the names"
        raise PolyplinkError(f"timm knows no model {model_name!r}", hint)
    try:
        options: dict[str, Any] = {"num_classes": 0}
        if stages:
            options = {"features_only": True, "out_indices": tuple(sorted(stages))}
        model: nn.Module = timm().create_model(model_name, pretrained=False, **options)
        model = StageMeans(model, rings) if stages else model
    except (IndexError, AssertionError):
        raise PolyplinkError(
            f"timm:{model_name} does not have every stage of {', '.join(map(str, stages))}",
            "give lower numbers",
        ) from None
    except (RuntimeError, ValueError) as error:
        raise PolyplinkError(
            f"timm cannot build {model_name!r} ({first_line(error)})",
            "see timm.list_models(pretrained=True) for the names",
        ) from None
    if weights is not None:
        path = added_weights(weights) or weights
        if not path.is_file():
            raise PolyplinkError(
                f"no file {path} with weights of the frame encoder",
                "give the file with --set encoder.frame_weights=FILE, or none to start from random "
                "values",
            )
        state = backbone_state(model, read_tensors(path, "import it with `polyplink weights add`"))
        check_state(path, state, model.state_dict())
        model.load_state_dict(state)
    # In some models, the remaining layers of the head widen the features.
    width = getattr(model, "head_hidden_size", None) or model.num_features
    return model, int(width)  # type: ignore[arg-type]


def backbone_state(model: nn.Module, state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Select the tensors of a backbone from a published file or from an encoder's weights.

    The classifier, which is not part of a frame encoder, is dropped; counters of BatchNorm layers,
    which older files lack, are added.

    Args:
        model: Result of `build_frame_encoder`.
        state: Tensors with timm's names, with or without the prefix "backbone.".
    """
    classifier = getattr(model, "pretrained_cfg", {}).get("classifier") or ()
    heads = tuple(
        f"{head}." for head in ([classifier] if isinstance(classifier, str) else classifier)
    )
    backbone = {key.removeprefix(_BACKBONE): value for key, value in state.items()}
    if isinstance(model, StageMeans):  # without layers after its last stage
        tensors = {_in_full_network(key): value for key, value in backbone.items()}
        names = {key: _in_full_network(key) for key in model.state_dict()}
        return {key: tensors[name] for key, name in names.items() if name in tensors}
    counters = {k: v for k, v in model.state_dict().items() if k.endswith(COUNTER)}
    return counters | {key: value for key, value in backbone.items() if not key.startswith(heads)}


def _in_full_network(name: str) -> str:
    """The name of a tensor of `StageMeans` in the whole network, with "_" for every ".".

    timm's extractors of feature maps change "stages.0" to "stages_0", or put "model." before it.
    """
    return name.removeprefix(_NETWORK).removeprefix("model.").replace(".", "_")


def two_layers(width: int, hidden: int, out: int) -> nn.Sequential:
    """A perceptron: width -> hidden, ReLU -> out."""
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, out))


class SfeEncoder(FrameWise):
    """A backbone on every frame; a tracklet is the mean of its frames (Intrator et al. 2023).

    With `vector` "projected" the head 2048 -> 2048, ReLU -> 128 is part of the encoder, as in the
    original; with "features" only the loss uses it (`build_projector`), as in NTSSL's code.
    """

    def __init__(self, config: SfeConfig) -> None:
        super().__init__()
        self.config = config
        self.backbone, features = build_frame_encoder(
            config.frame_encoder, config.frame_weights, config.stages, config.rings
        )
        self.head: nn.Module = nn.Identity()
        self.width = features
        if config.vector == "projected":
            self.head = two_layers(features, config.projector_hidden, config.projector_out)
            self.width = config.projector_out
        self.keep_pixel_scale(config.mean, config.std)

    def encode_frames(self, frames: torch.Tensor) -> torch.Tensor:
        """Crops uint8 (n, h, w, 3) to frame vectors (n, d)."""
        vectors: torch.Tensor = self.head(self.backbone(self.normalised(frames)))  # n d
        return vectors


class TrackletEncoder(FrameWise):
    """A backbone on every frame, then a transformer with a CLS token over the tracklet.

    NTSSL 3, "Implementation Details", like its predecessors: backbone, linear layer to `width`, a
    learnable CLS token (initially zeros), post-norm transformer layers with ReLU. There is no
    positional encoding, so the encoder ignores the order of frames. Frames of all tracklets pass
    through the backbone packed, without padding; only the transformer uses a mask.
    """

    def __init__(self, config: EncoderConfig | MveConfig) -> None:
        super().__init__()
        self.config = config
        self.width = config.width
        self.backbone, features = build_frame_encoder(config.frame_encoder, config.frame_weights)
        # The layers before the transformer, under the names of the released tensors.
        if isinstance(config, MveConfig):
            self.frame_head = two_layers(features, config.frame_hidden, config.width)
        else:
            self.adapter = nn.Linear(features, config.width)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, config.width))
        layer = nn.TransformerEncoderLayer(
            config.width, config.heads, config.feedforward, config.dropout, batch_first=True
        )
        self.transformer = nn.TransformerEncoder(layer, config.layers, enable_nested_tensor=False)
        self.keep_pixel_scale(config.mean, config.std)

    def encode_frames(self, frames: torch.Tensor) -> torch.Tensor:
        """Crops uint8 (n, h, w, 3) to frame features (n, d), before the transformer."""
        features: torch.Tensor = self.adapter(self.backbone(self.normalised(frames)))  # n d
        return features

    def aggregate(self, features: torch.Tensor, lengths: Sequence[int]) -> Tokens:
        """Frame features (n, d) to the CLS token of each tracklet and the tokens of the frames."""
        b, d = len(lengths), features.shape[1]
        cls = self.cls_token.to(features.dtype).expand(b, 1, d)  # b 1 d
        if len(set(lengths)) == 1:  # fixed shapes: no padding, mask or synchronisation
            tokens = self.transformer(torch.cat([cls, features.view(b, -1, d)], dim=1))
            return Tokens(tracklet=tokens[:, 0], frames=tokens[:, 1:].reshape(-1, d))
        steps = torch.arange(max(lengths))  # s
        real = (steps[None, :] < torch.tensor(lengths)[:, None]).to(features.device)  # b s
        padded = features.new_zeros(b, len(steps), d)  # b s d
        padded[real] = features
        mask = torch.cat([real.new_zeros(b, 1), ~real], dim=1)  # b 1+s, True = ignore
        tokens = self.transformer(torch.cat([cls, padded], dim=1), src_key_padding_mask=mask)
        return Tokens(tracklet=tokens[:, 0], frames=tokens[:, 1:][real])

    def pool_packed(self, features: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """The tracklets' vectors, from one sequence with attention only within each tracklet."""
        b = lengths.shape[0]
        tokens = torch.cat([self.cls_token[0].expand(b, -1), features])  # b+n d
        owner = torch.cat([torch.arange(b), owners(features, lengths)])  # b+n
        is_other = owner[:, None] != owner[None]  # b+n b+n, True = ignore
        vectors: torch.Tensor = self.transformer(tokens[None], mask=is_other, is_causal=False)[
            0, :b
        ]  # b d
        return vectors


class MveEncoder(TrackletEncoder):
    """Frames through backbone and head, a transformer with a CLS token, a linear layer.

    Intrator et al. 2023; also trained by TPC (Parolari et al. 2025). No positional encoding. The
    linear layer is part of the encoder: its outputs are the vectors that are compared.
    """

    def __init__(self, config: MveConfig) -> None:
        super().__init__(config)
        self.head = nn.Linear(config.width, config.projector_out)
        self.width = config.projector_out

    def encode_frames(self, frames: torch.Tensor) -> torch.Tensor:
        """Crops uint8 (n, h, w, 3) to the vectors of the single-frame encoder (n, width)."""
        features = self.backbone(self.normalised(frames))  # n f
        projected: torch.Tensor = self.frame_head(features)  # n width
        return projected

    def aggregate(self, features: torch.Tensor, lengths: Sequence[int]) -> Tokens:
        """Frame features (n, width) to tokens (b, d) and (n, d), after the linear layer."""
        tokens = super().aggregate(features, lengths)
        return Tokens(tracklet=self.head(tokens.tracklet), frames=self.head(tokens.frames))

    def pool_packed(self, features: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """The tracklets' vectors, after the linear layer."""
        vectors: torch.Tensor = self.head(super().pool_packed(features, lengths))
        return vectors


def build_encoder(config: AnyEncoderConfig) -> Encoder:
    """Build an encoder and load its `frame_weights`, if any.

    Raises:
        PolyplinkError: If a backbone is unknown or does not support the configuration, or its
            weights are missing or do not fit.

    Example:
        >>> config = EncoderConfig(frame_encoder="timm:test_resnet", width=16, heads=2)
        >>> build_encoder(config).width
        16
    """
    if getattr(config, "tone", 0.0) or getattr(config, "whiten", False):
        return wrap_encoder(build_encoder(replace(config, tone=0.0, whiten=False)), config)
    build: Callable[[], Encoder] | None = getattr(config, "build", None)
    if build is not None:  # of a plugin
        with ENCODERS.running(config.kind):
            encoder: object = build()
        if not isinstance(encoder, Encoder):
            raise PolyplinkError(
                f"build() of encoder {config.kind!r} returns {type(encoder).__name__}",
                "return a FrameWise or ClipWise encoder",
            )
        assert isinstance(encoder, Encoder)
        return encoder
    match config:
        case EncoderConfig():
            return TrackletEncoder(config)
        case SfeConfig():
            return SfeEncoder(config)
        case MveConfig():
            return MveEncoder(config)
        case FoundationConfig():
            # Published models and their descriptions are imported for these encoders alone.
            from polyplink.encoders.foundation import build_foundation  # noqa: PLC0415

            return build_foundation(config)
        case _:
            raise TypeError(
                f"{type(config).__name__} is not a configuration of an encoder: no build()"
            )


def check_input(encoder: Encoder, size: int, length: int) -> None:
    """Refuse crops of a size, or clips of a length, that an encoder does not take.

    Args:
        encoder: The encoder; set to evaluation mode.
        size: Width and height of the crops, pixels.
        length: Crops in a clip; an encoder of single frames takes any number.

    Raises:
        PolyplinkError: If it does not take them.
    """
    if encoder.config.kind not in ENCODERS:
        check_tokens(encoder, size, length)
        return
    n = 1 if isinstance(encoder, FrameWise) else length
    crops = torch.zeros(n, size, size, 3, dtype=torch.uint8, device=encoder.device)
    try:
        with torch.inference_mode():
            encoder.eval()(crops, [n])
    except (RuntimeError, AssertionError, ValueError) as error:
        name = getattr(encoder.config, "frame_encoder", type(encoder).__name__)
        raise PolyplinkError(
            f"{name} takes no images of {size} pixels ({first_line(error)})",
            "give the size that it takes with --set prepare.size=N",
        ) from None


def check_tokens(encoder: Encoder, size: int, length: int) -> None:
    """Refuse an encoder of a plugin that lacks an attribute, or returns something else than tokens.

    Args:
        encoder: The encoder; set to evaluation mode.
        size: Width and height of the crops, pixels.
        length: Crops in a clip.

    Raises:
        PolyplinkError: If an attribute is missing, or a result has another type or shape.
    """
    name, lengths = f"encoder {encoder.config.kind!r}", [length, length]
    for attribute in ("width", "backbone", "mean", "std"):
        if not hasattr(encoder, attribute):
            raise PolyplinkError(
                f"{name} has no {attribute}",
                "its __init__ sets width and backbone, and calls keep_pixel_scale",
            )
    n, width = sum(lengths), encoder.width
    crops = torch.zeros(n, size, size, 3, dtype=torch.uint8, device=encoder.device)
    tokens: Any
    with ENCODERS.running(encoder.config.kind), torch.inference_mode():
        if isinstance(encoder, FrameWise):
            method, features = "aggregate", encoder.eval().encode_frames(crops)
            if getattr(features, "shape", ())[:1] != (n,) or features.ndim != 2:
                raise PolyplinkError(
                    f"encode_frames of {name} returns {_describe(features)} for {n} frames",
                    f"return a tensor of shape ({n}, number of features)",
                )
            tokens = encoder.aggregate(features, lengths)
        elif isinstance(encoder, ClipWise):
            method = "encode_clips"
            tokens = encoder.eval().encode_clips(crops.view(2, length, *crops.shape[1:]))
        else:
            method, tokens = "forward", encoder.eval()(crops, lengths)
    if not isinstance(tokens, Tokens):
        raise PolyplinkError(
            f"{method} of {name} returns {_describe(tokens)}",
            "return polyplink.encoders.encoder.Tokens(tracklet, frames)",
        )
    for field, rows in (("tracklet", len(lengths)), ("frames", n)):
        tensor = getattr(tokens, field)
        if isinstance(encoder, ClipWise) and getattr(tensor, "ndim", 0) == 3:
            tensor = tensor.flatten(0, 1)  # frames may also be b t d
        if getattr(tensor, "shape", None) != (rows, width):
            raise PolyplinkError(
                f"{method} of {name} returns {_describe(tensor)} as {field} of "
                f"{len(lengths)} tracklets with {n} frames",
                f"return a tensor of shape ({rows}, {width}); {width} is the width of the encoder",
            )


def _describe(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return one_line(repr(value), 60)


def build_projector(encoder: Encoder) -> nn.Module:
    """Build the projector between an encoder's tokens and the loss; dropped after training.

    It is the identity if the encoder contains its head (SFE "projected", MVE).
    """
    config = encoder.config
    if isinstance(config, MveConfig) or getattr(config, "vector", "") == "projected":
        return nn.Identity()
    return two_layers(encoder.width, config.projector_hidden, config.projector_out)
