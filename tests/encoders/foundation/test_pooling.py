"""Poolings against loops."""

import pytest
import torch

from polyplink.encoders.foundation.pooling import Pooling, pool


@pytest.mark.parametrize("prefix", [1, 5])
@pytest.mark.parametrize("pooling", ["cls", "mean", "patchmean", "cat"])
def test_poolings_equal_a_loop(pooling: Pooling, prefix: int) -> None:
    tokens = torch.rand(3, 9, 4)
    found = pool(tokens, pooling, prefix)
    for image in range(3):
        rows = tokens[image].tolist()
        mean = [sum(row[k] for row in rows) / 9 for k in range(4)]
        patches = [sum(row[k] for row in rows[prefix:]) / (9 - prefix) for k in range(4)]
        naive = {"cls": rows[0], "mean": mean, "patchmean": patches, "cat": rows[0] + patches}
        assert torch.allclose(found[image], torch.tensor(naive[pooling]), atol=1e-6)
