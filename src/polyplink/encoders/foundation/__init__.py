"""Foundation encoders: pre-trained by others, one file per family."""

from polyplink.encoders.foundation.build import build_foundation
from polyplink.encoders.foundation.catalogue import FOUNDATION, find_spec
from polyplink.encoders.foundation.spec import Origin, Spec

__all__ = ["FOUNDATION", "Origin", "Spec", "build_foundation", "find_spec"]
