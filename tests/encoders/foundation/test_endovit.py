"""EndoViT equals the original module."""

import json
from pathlib import Path

import pytest
import torch

from polyplink.core.errors import PolyplinkError
from polyplink.encoders import FoundationConfig
from polyplink.encoders.foundation.endovit import EndoVitEncoder
from polyplink.encoders.published import read_published, unwrap
from polyplink.encoders.recognise import fit_published
from tests.encoders.published import golden_state, vit_shapes, write_endovit
from tests.encoders.small import made

GOLDEN = json.loads((Path(__file__).parents[1] / "goldens/encoders.json").read_text())["endovit"]


@torch.no_grad()
def test_tokens_equal_those_of_the_original(tmp_path: Path) -> None:
    state = golden_state(vit_shapes())
    assert len(state) == GOLDEN["tensors"] == 150
    path = write_endovit(tmp_path / "pytorch_model.bin", state)
    fitted = fit_published(path, unwrap(read_published(path)))
    encoder = made(fitted.config)
    encoder.load_state_dict(dict(fitted.tensors))
    assert isinstance(encoder, EndoVitEncoder)
    (case,) = GOLDEN["cases"]
    pixels = torch.rand((1, 2, 3, 224, 224), generator=torch.Generator().manual_seed(0))[0]
    tokens = encoder.tokens(pixels)
    assert torch.allclose(tokens.mean(dim=0)[0, :8], torch.tensor(case["cls8"]), atol=1e-3)
    mean = tokens[:, 1:].mean(dim=(0, 1))[:8]
    assert torch.allclose(mean, torch.tensor(case["patchmean8"]), atol=1e-3)


def test_other_sizes_are_refused() -> None:
    with pytest.raises(PolyplinkError, match="endovit takes images of 224 pixels alone, not 232"):
        made(FoundationConfig(model="endovit", depth=1, size=232))
    encoder = made(FoundationConfig(model="endovit", depth=1))
    with pytest.raises(PolyplinkError, match="these crops have 32 x 32; prepare them with"):
        encoder(torch.zeros(2, 32, 32, 3, dtype=torch.uint8), [2])
