"""Make torchvision importable with a CPU build of torch.

torchvision's published wheel is linked against CUDA. With a CPU build of torch its compiled
operators do not load, and `import torchvision` and `import timm` then fail while registering shapes
for an operator that does not exist. polyplink calls none of those operators, so declaring their
schemas is enough. If torchvision's own operators load, nothing is declared.
"""

from __future__ import annotations

import importlib.util
from contextlib import suppress
from functools import cache
from pathlib import Path

from polyplink.core.lazy_torch import torch

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


@cache  # declared operators must stay alive, and may be declared only once
def heal_torchvision() -> torch.library.Library | None:
    """Declare the schemas that `import torchvision` needs if its own operators do not load.

    Call it before importing torchvision or timm. `torchvision.ops.nms` and `torchvision.io`
    stay unavailable if the schemas had to be declared.

    Returns:
        The library that holds the declarations, or None if none were needed.
    """
    spec = importlib.util.find_spec("torchvision")
    if spec is None or not spec.submodule_search_locations:
        return None
    for compiled in sorted(Path(spec.submodule_search_locations[0]).glob("_C*.so")):
        with suppress(OSError, ImportError):
            torch.ops.load_library(str(compiled))  # type: ignore[no-untyped-call]
            return None
    library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
    for schema in _SCHEMAS:
        library.define(schema)  # type: ignore[no-untyped-call]
    return library
