"""All foundation encoders by name."""

from polyplink.core.errors import find_named
from polyplink.encoders.foundation import dinov2, dinov3, endovit, surgenet, timesformer, vjepa2
from polyplink.encoders.foundation.spec import Spec

FOUNDATION: dict[str, Spec] = {
    spec.name: spec
    for family in (dinov2, dinov3, vjepa2, timesformer, endovit, surgenet)
    for spec in family.SPECS
}


def find_spec(name: str) -> Spec:
    """What is known of an encoder.

    Raises:
        PolyplinkError: If there is none of that name.
    """
    return find_named("foundation encoder", name, FOUNDATION)
