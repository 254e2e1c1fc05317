"""All foundation encoders by name."""

from polyplink.core.errors import find_named
from polyplink.encoders.foundation import dino, timesformer, timm_models, vjepa2
from polyplink.encoders.foundation.base import Spec

FOUNDATION: dict[str, Spec] = {
    spec.name: spec for family in (dino, vjepa2, timesformer, timm_models) for spec in family.SPECS
}


def find_spec(name: str) -> Spec:
    """Look up a foundation encoder.

    Raises:
        PolyplinkError: If the name is unknown.
    """
    return find_named("foundation encoder", name, FOUNDATION)
