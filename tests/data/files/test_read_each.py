import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.read_each import read_each


def double(value: int) -> int:
    PolyplinkError.unless(value >= 0, f"{value} is below 0", "take another")
    return 2 * value


@pytest.mark.parametrize("workers", [1, 2])
def test_in_order_with_progress(workers: int) -> None:
    seen: list[tuple[int, int]] = []
    read = read_each(
        double, [3, 1, 2], workers=workers, progress=lambda done, total: seen.append((done, total))
    )
    assert read == [6, 2, 4]
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_a_mistake_passes() -> None:
    with pytest.raises(PolyplinkError, match="-1 is below 0; take another"):
        read_each(double, [3, -1])
