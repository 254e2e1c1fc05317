"""Parts of an encoder that are fitted to crops without labels: whitened features, and tone."""

from collections.abc import Iterator

import numpy as np
import torch

from polyplink.encoders.encoder import Encoder, WrappedEncoder
from polyplink.encoders.tone import ToneEncoder
from polyplink.encoders.whitening import WhitenedEncoder

CROPS, BATCH = 4096, 128  # crops for the statistics, and crops in a batch


def batches(crops: np.ndarray, device: torch.device) -> Iterator[torch.Tensor]:
    """Crops (n, h, w, 3) uint8 in batches, on a device."""
    for i in range(0, len(crops), BATCH):
        yield torch.from_numpy(crops[i : i + BATCH]).to(device)


def fitted_to_crops(encoder: Encoder, crops: np.ndarray, tone: float, whiten: bool) -> Encoder:
    """Add whitening and tone to an encoder, fitted to crops without labels.

    Args:
        encoder: The encoder; if it already has these parts, they are replaced.
        crops: uint8 (n, h, w, 3).
        tone: Weight of the tone, see `ToneEncoder`; 0 for none.
        whiten: Whether to whiten features, see `WhitenedEncoder`.
    """
    device, encoder = encoder.device, unwrapped(encoder)
    if whiten:
        encoder = WhitenedEncoder(encoder).to(device).fit(batches(crops, device))
    if tone:
        encoder = ToneEncoder(encoder, tone).to(device).fit(batches(crops, device))
    return encoder.eval()


def unwrapped(encoder: Encoder) -> Encoder:
    """The encoder without whitening and tone."""
    while isinstance(encoder, WrappedEncoder):
        encoder = encoder.encoder
    return encoder
