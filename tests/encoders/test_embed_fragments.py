from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.encoders import colour_histogram
from polyplink.encoders.embed_fragments import embed_fragments, fragment_table
from polyplink.tracklets import Prepared, PrepareSettings, prepare
from tests.samples import write_procedures


def prepared(root: Path) -> Prepared:
    settings = PrepareSettings(size=16, crop_factor=2.0, stride=1)
    return prepare(write_procedures(root, procedures=2, length=37), settings, workers=1)


@pytest.mark.parametrize("at_once", [1, 5, 64])
def test_each_fragment_is_embedded_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr("polyplink.encoders.embed_fragments.AT_ONCE", at_once)
    part = prepared(tmp_path)
    ticks: list[tuple[int, int]] = []
    found = embed_fragments(
        part,
        colour_histogram,
        "colours",
        8,
        progress=lambda done, total: ticks.append((done, total)),
    )
    table = fragment_table(part, 8)
    assert list(found.tracklet_ids) == table["fragment_id"].to_list()
    assert len(set(found.tracklet_ids)) == table.height == 12 * 4  # 37 // 8 of each tracklet
    for row, vector in zip(table.iter_rows(named=True), found.vectors, strict=True):
        first = row["crop_first"]
        own = part.crops(row["procedure_id"])[first : first + 8]
        assert np.allclose(vector, colour_histogram(np.array(own), [8])[0])
    assert ticks[-1] == (table.height, table.height)


def test_names_count_within_the_tracklet(tmp_path: Path) -> None:
    names = fragment_table(prepared(tmp_path), 8)["fragment_id"].to_list()
    assert [name.split(":")[1] for name in names[:5]] == [
        "00000#0",
        "00000#1",
        "00000#2",
        "00000#3",
        "00001#0",
    ]


def test_no_fragment_and_no_number_are_refused(tmp_path: Path) -> None:
    part = prepared(tmp_path)
    with pytest.raises(PolyplinkError, match="no tracklet has 50 crops"):
        fragment_table(part, 50)

    def broken(crops: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
        return np.full((len(lengths), 3), np.nan, np.float32)

    with pytest.raises(PolyplinkError, match=r"fragment 001-001:00000#0 is not finite"):
        embed_fragments(part, broken, "broken", 8)
