"""The library that holds the architectures."""

import importlib
from types import ModuleType

import pytest
import torch

from polyplink.core.errors import PolyplinkError
from polyplink.encoders.foundation.library import from_published_names, split_qkv, transformers


def test_a_fused_projection_falls_into_three() -> None:
    tensor = torch.arange(12).view(6, 2)
    query, key, value = split_qkv(tensor)
    assert torch.equal(torch.cat([query, key, value]), tensor)
    assert query.tolist() == [[0, 1], [2, 3]]


def test_what_the_loader_missed_or_did_not_take_can_be_seen() -> None:
    library = transformers()
    shape = library.Dinov2Config(hidden_size=12, num_hidden_layers=1, num_attention_heads=2)
    state = {"embeddings.cls_token": torch.ones(1, 1, 12), "stranger": torch.zeros(1)}
    found = from_published_names(library.Dinov2Model, shape, state)
    assert set(found) == set(state)
    assert torch.equal(found["embeddings.cls_token"], torch.ones(1, 1, 12))


def test_a_missing_library_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str) -> ModuleType:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", gone)
    with pytest.raises(PolyplinkError, match=r"pip install 'polyplink\[foundation\]'"):
        transformers()
