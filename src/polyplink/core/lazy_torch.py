"""torch and timm, imported when they are first used, with torchvision made importable.

Importing torch takes two seconds, and an installation without the extra `encoders` has none:
modules that define settings beside what computes import it from here.

torchvision's published wheel is linked against CUDA. With a CPU build of torch its compiled
operators do not load, and `import torchvision` and `import timm` then fail while registering shapes
for an operator that does not exist. polyplink calls none of those operators, so declaring their
schemas is enough. If torchvision's own operators load, nothing is declared.
"""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

# tqdm, which timm imports, warns in notebooks without ipywidgets; no bar needs them.
warnings.filterwarnings("ignore", "IProgress not found")


class _Lazy(ModuleType):
    """A module that is imported when one of its attributes is used."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)


if TYPE_CHECKING:
    import torch as torch  # noqa: PLC0414 - so that other modules may import it from here
else:
    torch = _Lazy("torch")


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


def timm() -> ModuleType:
    """The timm package, imported on first use: it takes seconds."""
    heal_torchvision()
    return importlib.import_module("timm")
