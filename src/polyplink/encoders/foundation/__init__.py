"""Foundation encoders: pre-trained by others, one file a family."""

from polyplink.encoders.foundation.base import Foundation, Origin, Spec, transformers
from polyplink.encoders.foundation.catalogue import FOUNDATION, find_spec

__all__ = ["FOUNDATION", "Foundation", "Origin", "Spec", "find_spec", "transformers"]
