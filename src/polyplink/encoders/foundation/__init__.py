"""Foundation encoders: pre-trained by others, one file per family."""

from polyplink.encoders.foundation.build import build_foundation

__all__ = ["build_foundation"]
