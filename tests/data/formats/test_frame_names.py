import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.data.formats.frame_names import name_frames


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("001-001_12.jpg", ("001-001", 12, None)),
        ("001-012_40104.0.txt", ("001-012", 40104, None)),
        ("a_b_3_000012.txt", ("a_b_3", 12, None)),
        ("Video01_frame0000.jpg", ("Video01", 0, None)),
        ("case7/0001.jpg", ("case7", 1, None)),
        ("case7/frame_000012.PNG", ("case7", 12, None)),
        ("case7/image-12.png", ("case7", 12, None)),
        ("centre/case7/12.png", ("centre/case7", 12, None)),
        ("train/case7/12.txt", ("case7", 12, "train")),
        ("val/001-001_12.txt", ("001-001", 12, "val")),
        ("folder/001-001_12", ("001-001", 12, None)),
        ("12.jpg", (None, 12, None)),
        ("train/12.jpg", (None, 12, "train")),
        ("polyp.jpg", (None, None, None)),
        ("case7/polyp.jpg", (None, None, None)),
        ("training/12.jpg", ("training", 12, None)),
        ("v_99999999999.jpg", (None, None, None)),
        (None, (None, None, None)),
    ],
)
def test_names(name: str | None, wanted: tuple[str | None, int | None, str | None]) -> None:
    assert name_frames(pl.Series([name], dtype=pl.String)).row(0) == wanted


@settings(deadline=None)
@given(
    st.text("ab_-0123 é", min_size=1, max_size=8).filter(lambda s: s == s.strip()),
    st.integers(0, 10**9),
)
def test_folder_and_number_are_read_as_they_are(procedure_id: str, frame: int) -> None:
    names = pl.Series([f"{procedure_id}/{frame}.jpg", f"{procedure_id}/{frame:06d}.txt"])
    assert name_frames(names).rows() == [(procedure_id, frame, None)] * 2
