"""torch, imported when it is first used, for modules that define settings beside what computes.

Importing torch takes two seconds, and an installation without the extra `encoders` has none.
"""

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any


class _Lazy(ModuleType):
    """A module that is imported when one of its attributes is used."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)


if TYPE_CHECKING:
    import torch as torch  # noqa: PLC0414 - so that other modules may import it from here
else:
    torch = _Lazy("torch")
