from pathlib import Path

import polars as pl
from hypothesis import given, strategies as st

from polyplink.data.files.folders import is_video
from polyplink.data.files.image_names import (
    ImagePlace,
    file_of,
    frame_name,
    image_place,
    member_name,
    present,
)

NAMES = (
    *("d/a.mp4#17", "d/A.TS#0", "p.zip!/b/c.jpg", "d/P.TAR.gz!/c.jpg", "p.zip!/q.tar!/c.jpg"),
    *("a.jpg", "a#1.jpg", "a.mp4", "a.mp4#x", "#3", "x!/b.jpg", "p.zip"),
    "d/a.recorder#5",
)


def test_names_are_split_into_file_member_and_frame() -> None:
    assert [image_place(name) for name in NAMES] == [
        ImagePlace("d/a.mp4", frame=17),
        ImagePlace("d/A.TS", frame=0),
        ImagePlace("p.zip", "b/c.jpg"),
        ImagePlace("d/P.TAR.gz", "c.jpg"),
        ImagePlace("p.zip", "q.tar!/c.jpg"),
        *map(ImagePlace, NAMES[5:-1]),
        ImagePlace("d/a.recorder", frame=5),
    ]
    assert frame_name("d/a.mp4", 17) == NAMES[0]
    assert member_name("p.zip", "b/c.jpg") == NAMES[2]
    assert is_video("a.AVI")
    assert not is_video("a.jpg")


@given(
    st.lists(
        st.text(st.sampled_from("a/.!#7\n")).map(lambda text: text.replace("a", ".zip"))
        | st.sampled_from(NAMES)
    )
)
def test_a_column_of_names_is_split_as_each_name_is(names: list[str]) -> None:
    files = pl.DataFrame({"image": names}, schema={"image": pl.String}).select(
        file_of(pl.col("image"))
    )
    assert files["image"].to_list() == [image_place(name).file for name in names]


def test_present_marks_existing_images(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for file in ("a/1.jpg", "v.mp4", "t.zip"):
        (tmp_path / file).touch()
    names = ["a/1.jpg", "a/2.jpg", "v.mp4#7", "w.mp4#7", "t.zip!/x/1.jpg", "b/1.jpg", None]
    folders = pl.Series([str(tmp_path)] * len(names))
    exists = present(pl.Series(names), folders).to_list()
    assert exists == [True, False, True, False, True, False, None]
    assert present(pl.Series([None, None], dtype=pl.Null), folders[:2]).null_count() == 2
