"""Foundation encoders: published pre-trained models behind one interface.

A `Spec` describes one published model. An image model becomes a `FrameFoundation` (its frame
vectors are averaged), a video model a `ClipFoundation` (its clip vectors are averaged).
"""

import torch

from polyplink.core.errors import PolyplinkError
from polyplink.encoders.catalogue import find_spec
from polyplink.encoders.config import FoundationConfig
from polyplink.encoders.encoder import ClipWise, Encoder, FrameWise, Tokens
from polyplink.encoders.spec import Pooling, Spec
from polyplink.encoders.weights import check_state, read_tensors, weights_path


class Foundation(Encoder):
    """A published model as an encoder."""

    config: FoundationConfig

    def __init__(self, spec: Spec, config: FoundationConfig) -> None:
        super().__init__()
        self.spec = spec
        self.config = config = spec.settle(config)
        self.pooling = config.pooling or "cls"
        self.width = spec.width * (2 if self.pooling == "cat" else 1)
        network = spec.network(spec, config)
        self.backbone = getattr(network, spec.part) if spec.part else network
        self.keep_pixel_scale(config.mean or spec.mean, config.std or spec.std)

    def check_pixels(self, frames: torch.Tensor) -> None:
        """Check that crops (..., h, w, 3) have the configured size."""
        height, width = frames.shape[-3:-1]
        size = self.config.size
        if not (height == width == size):
            raise PolyplinkError(
                f"{self.spec.name} is set to images of {size} pixels, "
                f"and these crops have {width} x {height}",
                f"prepare them with --set prepare.size={size}",
            )


def pool(tokens: torch.Tensor, pooling: Pooling, prefix: int = 1) -> torch.Tensor:
    """Pool the tokens of each image into one vector.

    Args:
        tokens: (n, p, d): the CLS token, further non-patch tokens (registers) if any, patches.
        pooling: "cls" is token 0; "mean" the mean of all tokens; "patchmean" the mean of the
            patches; "cat" the concatenation of cls and patchmean.
        prefix: Number of tokens before the first patch.

    Returns:
        (n, d), or (n, 2d) for "cat".
    """
    if pooling == "mean":
        return tokens.mean(dim=1)
    if pooling == "cls":
        return tokens[:, 0]
    patches = tokens[:, prefix:].mean(dim=1)  # n d
    return patches if pooling == "patchmean" else torch.cat([tokens[:, 0], patches], dim=1)


class FrameFoundation(Foundation, FrameWise):
    """An image model: a tracklet's vector is the mean of the pooled tokens of its frames."""

    def pooled(self, pixels: torch.Tensor) -> torch.Tensor:
        """Normalised pixels (n, 3, h, w) to frame vectors (n, d)."""
        # NTSSL's code counts registers as patches; the "own" preset does not.
        prefix = self.spec.prefix if self.config.preset == "own" else 1
        return pool(self.spec.tokens(self.backbone, pixels), self.pooling, prefix)

    def encode_frames(self, frames: torch.Tensor) -> torch.Tensor:
        """Crops uint8 (n, h, w, 3) to frame vectors (n, d)."""
        self.check_pixels(frames)
        return self.pooled(self.normalised(frames))


def clip_starts(frames: int, clip: int) -> list[int]:
    """First frames of the clips that cover a tracklet.

    The clips are as few as possible and evenly spaced; neighbours overlap if `clip` does not divide
    `frames`. Every clip has exactly min(clip, frames) frames.

    Args:
        frames: Number of frames of the tracklet, at least 1.
        clip: Number of frames of a clip; 0 for the whole tracklet.

    Example:
        >>> clip_starts(10, 4)
        [0, 3, 6]
    """
    if clip == 0 or frames <= clip:
        return [0]
    count = -(-frames // clip)
    return [round(i * (frames - clip) / (count - 1)) for i in range(count)]


class ClipFoundation(Foundation, ClipWise):
    """A video model: a tracklet's vector is the mean of the pooled tokens of its clips."""

    def pooled(self, pixels: torch.Tensor) -> Tokens:
        """Normalised pixels (b, t, 3, h, w) to clip vectors (b, d) and frame vectors (b*t, d).

        A single frame has no CLS token: its vector is the mean of its patches, with "cat" preceded
        by the CLS token of the clip. Frames that share tokens (V-JEPA 2 reads pairs) have the same
        vector; each token counts once in the clip's vector. With "mean" the patches are averaged
        over time first, as in NTSSL's code: CLS is one of 1 + p tokens for clips of any length.
        """
        patches, cls = self.spec.tokens(self.backbone, pixels)  # b g p d; b d
        b, g, p, d = patches.shape
        t = pixels.shape[1]
        groups = patches.mean(dim=2)  # b g d
        patchmean = groups.mean(dim=1)  # b d
        group = torch.arange(t, device=pixels.device) // (t // g)
        frames = groups[:, group.clamp(max=g - 1)]  # b t d
        if cls is None or self.pooling == "patchmean":
            return Tokens(patchmean, frames.reshape(b * t, d))
        if self.pooling == "cls":
            return Tokens(cls, frames.reshape(b * t, d))
        if self.pooling == "mean":
            mean = (cls + p * patchmean) / (1 + p)
            return Tokens(mean, frames.reshape(b * t, d))
        with_class_token = torch.cat([cls[:, None].expand(b, t, d), frames], dim=2)  # b t 2d
        return Tokens(torch.cat([cls, patchmean], dim=1), with_class_token.reshape(b * t, 2 * d))

    def encode_clips(self, clips: torch.Tensor) -> Tokens:
        """Crops uint8 (b, t, h, w, 3) to tokens; the vectors of several clips are averaged."""
        b, t = clips.shape[:2]
        self.check_pixels(clips)
        min_frames = self.spec.least_frames
        if t < min_frames:
            raise PolyplinkError(
                f"{self.spec.name} takes clips of {min_frames} frames or more, but a tracklet has "
                f"{t}",
                "give a smaller --stride or a greater --min-length",
            )
        clip = self.config.clip or 0
        size = min(clip or t, t)
        vectors: list[torch.Tensor] = []
        frames, n_windows = clips.new_zeros(()), clips.new_zeros(t, dtype=torch.float32)
        for start in clip_starts(t, clip):
            part = clips[:, start : start + size].reshape(b * size, *clips.shape[2:])
            pixels = self.normalised(part)
            tokens = self.pooled(pixels.view(b, size, *pixels.shape[1:]))
            vectors.append(tokens.tracklet)
            by_frame = tokens.frames.view(b, size, -1)  # b s d
            if frames.ndim == 0:
                frames = by_frame.new_zeros(b, t, by_frame.shape[2])
            # A frame in several clips gets the mean of its vectors.
            at = torch.arange(start, start + size, device=clips.device)
            frames = frames.index_add(1, at, by_frame)
            n_windows[start : start + size] += 1
        mean = torch.stack(vectors).mean(dim=0)  # b d
        return Tokens(mean, (frames / n_windows[:, None].to(frames.dtype)).flatten(0, 1))


def build_foundation(config: FoundationConfig) -> Foundation:
    """Build the encoder of a published model and load its `frame_weights`, if any.

    Raises:
        PolyplinkError: If the model is unknown or does not support the configuration, or its
            weights are missing or do not fit.
    """
    spec = find_spec(config.model)
    encoder = (ClipFoundation if spec.clip > 1 else FrameFoundation)(spec, config)
    if config.frame_weights is not None:
        path = weights_path(config.frame_weights)
        state = read_tensors(path, "import published weights with `polyplink weights add`")
        check_state(path, state, encoder.state_dict())
        encoder.load_state_dict(state)
    return encoder
