"""The encoders that polyplink trains: SFE, MVE and NTSSL's tracklet encoder.

All three run a timm backbone on every frame. SFE averages the frames of a tracklet, MVE and the
tracklet encoder aggregate them with a transformer.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

import torch
from torch import nn

from polyplink.core.errors import PolyplinkError
from polyplink.encoders.config import EncoderConfig, MveConfig, SfeConfig
from polyplink.encoders.encoder import FrameWise, Tokens, mean_over_frames, timm
from polyplink.encoders.store import added_weights, check_state, read_tensors

FAMILY = "timm:"


def build_frame_encoder(name: str, weights: Path | None = None) -> tuple[nn.Module, int]:
    """Build a backbone that maps frames (n, 3, h, w) to vectors (n, width).

    Args:
        name: "timm:" and a model name of timm, e.g. "timm:resnet50.tv2_in1k".
        weights: Safetensors file with pre-trained values under timm's names; None leaves the
            random values. Nothing is downloaded.

    Returns:
        The module without its classifier, and its output width.

    Raises:
        PolyplinkError: If there is no such model, or the file does not fit it.
    """
    if not name.startswith(FAMILY):
        raise PolyplinkError(f"frame encoder {name!r} is of no known family", "write timm:NAME")
    model_name = name.removeprefix(FAMILY)
    try:
        model: nn.Module = timm().create_model(model_name, pretrained=False, num_classes=0)
    except (RuntimeError, ValueError):
        near = get_close_matches(model_name.split(".")[0], timm().list_models(), n=1)
        mend = f"did you mean timm:{near[0]}?" if near else "see timm.list_models() for the names"
        raise PolyplinkError(f"timm knows no model {model_name!r}", mend) from None
    if weights is not None:
        _load_backbone(model, weights)
    # Some models widen their features in what is left of the head.
    width = getattr(model, "head_hidden_size", None) or model.num_features
    return model, int(width)  # type: ignore[arg-type]


def _load_backbone(model: nn.Module, path: Path) -> None:
    path = added_weights(path) or path
    if not path.is_file():
        raise PolyplinkError(
            f"no file {path} with weights of the frame encoder",
            "name the file with --set encoder.frame_weights=FILE, or none to start from random "
            "values",
        )
    state = read_tensors(path, "convert it first")
    # A published file also holds the classifier, which is not part of a frame encoder.
    named = getattr(model, "pretrained_cfg", {}).get("classifier") or ()
    heads = (named,) if isinstance(named, str) else tuple(named)
    prefixes = tuple(f"{head}." for head in heads)
    kept = {key: value for key, value in state.items() if not key.startswith(prefixes)}
    check_state(path, kept, model.state_dict())
    model.load_state_dict(kept)


def two_layers(width: int, hidden: int, out: int) -> nn.Sequential:
    """A perceptron: width -> hidden, ReLU -> out."""
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, out))


def transformer_layers(config: EncoderConfig | MveConfig) -> nn.TransformerEncoder:
    """Post-norm encoder layers with ReLU, as torch builds them by default."""
    layer = nn.TransformerEncoderLayer(
        config.width, config.heads, config.feedforward, config.dropout, batch_first=True
    )
    return nn.TransformerEncoder(layer, config.layers, enable_nested_tensor=False)


def attend(
    transformer: nn.TransformerEncoder,
    cls_token: torch.Tensor,
    features: torch.Tensor,
    lengths: Sequence[int],
) -> Tokens:
    """A transformer with a token in front over the frames of each tracklet.

    Args:
        transformer: Layers of width d, batch first.
        cls_token: (1, 1, d).
        features: (n, d), the frames of all tracklets one after the other.
        lengths: Frames of each of the b tracklets, at least 1, summing to n.

    Returns:
        The token in front per tracklet, and the tokens of the frames.
    """
    b, d = len(lengths), features.shape[1]
    cls = cls_token.to(features.dtype).expand(b, 1, d)  # b 1 d
    if len(set(lengths)) == 1:  # fixed shapes: nothing to pad, mask or wait for
        tokens = transformer(torch.cat([cls, features.view(b, -1, d)], dim=1))
        return Tokens(tracklet=tokens[:, 0], frames=tokens[:, 1:].reshape(-1, d))
    steps = torch.arange(max(lengths))  # s
    real = (steps[None, :] < torch.tensor(lengths)[:, None]).to(features.device)  # b s
    padded = features.new_zeros(b, len(steps), d)  # b s d
    padded[real] = features
    mask = torch.cat([real.new_zeros(b, 1), ~real], dim=1)  # b 1+s, True = ignore
    tokens = transformer(torch.cat([cls, padded], dim=1), src_key_padding_mask=mask)
    return Tokens(tracklet=tokens[:, 0], frames=tokens[:, 1:][real])


class SfeEncoder(FrameWise):
    """A backbone on every frame; a tracklet is the mean of its frames (Intrator et al. 2023).

    With `vector` "projected" the head 2048 -> 2048, ReLU -> 128 is part of the encoder, as in the
    first program; with "features" it serves the loss alone (`build_projector`), as in NTSSL's.
    """

    def __init__(self, config: SfeConfig) -> None:
        super().__init__()
        self.config = config
        self.backbone, features = build_frame_encoder(config.frame_encoder, config.frame_weights)
        projected = config.vector == "projected"
        self.head = (
            two_layers(features, config.projector_hidden, config.projector_out)
            if projected
            else nn.Identity()
        )
        self.width = config.projector_out if projected else features
        self.keep_pixel_scale(config.mean, config.std)

    def encode_frames(self, frames: torch.Tensor) -> torch.Tensor:
        """Crops uint8 (n, h, w, 3) to frame vectors (n, d)."""
        vectors: torch.Tensor = self.head(self.backbone(self.normalised(frames)))  # n d
        return vectors

    def aggregate(self, features: torch.Tensor, lengths: Sequence[int]) -> Tokens:
        """Frame vectors (n, d) to tokens: the tracklet's is the mean of its frames."""
        return Tokens(tracklet=mean_over_frames(features, lengths), frames=features)


class MveEncoder(FrameWise):
    """Frames through backbone and head, a transformer with a CLS token, a linear layer.

    Intrator et al. 2023; trained by TPC too (Parolari et al. 2025). No positional encoding. The
    linear layer is part of the encoder: the vectors that are compared are after it.
    """

    def __init__(self, config: MveConfig) -> None:
        super().__init__()
        self.config = config
        self.width = config.projector_out
        self.backbone, features = build_frame_encoder(config.frame_encoder, config.frame_weights)
        self.frame_head = two_layers(features, config.frame_hidden, config.width)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, config.width))
        self.transformer = transformer_layers(config)
        self.head = nn.Linear(config.width, config.projector_out)
        self.keep_pixel_scale(config.mean, config.std)

    def encode_frames(self, frames: torch.Tensor) -> torch.Tensor:
        """Crops uint8 (n, h, w, 3) to what the single-frame encoder gives (n, width)."""
        features = self.backbone(self.normalised(frames))  # n f
        projected: torch.Tensor = self.frame_head(features)  # n width
        return projected

    def aggregate(self, features: torch.Tensor, lengths: Sequence[int]) -> Tokens:
        """Frame features (n, width) to tokens (b, d) and (n, d), after the linear layer."""
        tokens = attend(self.transformer, self.cls_token, features, lengths)
        return Tokens(tracklet=self.head(tokens.tracklet), frames=self.head(tokens.frames))


class TrackletEncoder(FrameWise):
    """A backbone on every frame, then a transformer with a CLS token over the tracklet.

    NTSSL 3, "Implementation Details", after its predecessors: backbone, linear to `width`, a
    learnable token in front (zeros at first), post-norm transformer layers with ReLU, no
    positional encoding: the encoder is blind to the order of frames. Frames of all tracklets go
    through the backbone packed, without padding; only the transformer sees a mask.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.width = config.width
        self.backbone, features = build_frame_encoder(config.frame_encoder, config.frame_weights)
        self.adapter = nn.Linear(features, config.width)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, config.width))
        self.transformer = transformer_layers(config)
        self.keep_pixel_scale(config.mean, config.std)

    def encode_frames(self, frames: torch.Tensor) -> torch.Tensor:
        """Crops uint8 (n, h, w, 3) to frame features (n, d), before the transformer."""
        features: torch.Tensor = self.adapter(self.backbone(self.normalised(frames)))  # n d
        return features

    def aggregate(self, features: torch.Tensor, lengths: Sequence[int]) -> Tokens:
        """Frame features (n, d) to tokens: see `attend`."""
        return attend(self.transformer, self.cls_token, features, lengths)
