"""Ways of drawing bags by name."""

from typing import get_args

import pytest
from pydantic import TypeAdapter, ValidationError

from polyplink.core.artefacts import to_plain
from polyplink.learn.sampling import AnyBags


@pytest.mark.parametrize("kind", get_args(get_args(AnyBags)[0]))
def test_plain_values_name_the_way(kind: type) -> None:
    adapter = TypeAdapter(AnyBags)
    assert adapter.validate_python(to_plain(kind())) == kind()
    with pytest.raises(ValidationError, match="lottery"):
        adapter.validate_python({"kind": "lottery"})
