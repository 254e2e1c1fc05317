"""All foundation encoders by name."""

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.encoders.foundation import FOUNDATION, find_spec


def test_the_encoders_of_the_papers_are_there() -> None:
    assert set(FOUNDATION) == {
        *(f"dinov2-{size}" for size in "sblg"),
        *(f"dinov3-{size}" for size in "sbl"),
        "vjepa2-l",
        "endofm",
        "endofm-lv",
        "endovit",
        "surgenet",
    }
    assert all(name == spec.name for name, spec in FOUNDATION.items())
    assert all(spec.origin.source and spec.origin.licence for spec in FOUNDATION.values())
    with pytest.raises(PolyplinkError, match="no foundation encoder 'endofn'; did you mean endofm"):
        find_spec("endofn")
