"""SurgeNet equals the original module."""

import json
from pathlib import Path

import torch

from polyplink.encoders.foundation.surgenet import SurgeNetEncoder
from polyplink.encoders.published import read_published, unwrap
from polyplink.encoders.recognise import fit_published
from tests.encoders.published import caformer_shapes, golden_state
from tests.encoders.small import made

GOLDEN = json.loads((Path(__file__).parents[1] / "goldens/encoders.json").read_text())["surgenet"]


@torch.no_grad()
def test_vectors_equal_those_of_the_original(tmp_path: Path) -> None:
    state = golden_state(caformer_shapes())
    assert len(state) == GOLDEN["tensors"] == 152
    path = tmp_path / "SurgeNetXL_checkpoint_epoch0050_teacher.pth"
    torch.save(state | {"head.mlp.0.weight": torch.zeros(2, 2)}, path)
    fitted = fit_published(path, unwrap(read_published(path)))
    encoder = made(fitted.config)
    encoder.load_state_dict(dict(fitted.tensors))
    assert isinstance(encoder, SurgeNetEncoder)
    for case in GOLDEN["cases"]:
        shape = (1, case["frames"], 3, case["size"], case["size"])
        pixels = torch.rand(shape, generator=torch.Generator().manual_seed(0))[0]
        vectors = encoder.pooled(pixels)
        assert vectors.shape == (2, 512)
        mean = vectors.mean(dim=0)
        assert torch.allclose(mean[:8], torch.tensor(case["mean8"]), atol=1e-3)
    # Prefixes and wrappings of other files of the same authors.
    path = tmp_path / "another.pth"
    torch.save({"teacher": {f"module.backbone.{k}": v for k, v in state.items()}}, path)
    again = fit_published(path, unwrap(read_published(path)))
    assert all(torch.equal(again.tensors[k], v) for k, v in fitted.tensors.items())
