from itertools import chain

from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.data import lesion_info, published_splits, split_by_rule, video_info

_names = st.lists(st.from_regex(r"00[1-4]-0(0[1-9]|1[0-5])", fullmatch=True), unique=True)


def test_the_rule_gives_the_published_lists() -> None:
    published = published_splits()
    with_lesion = set(lesion_info()["unique_video_name"])
    assert split_by_rule(video_info()["unique_video_name"], with_lesion) == {
        "train": published["rc27"],
        "eval": published["rc19"],
        "negative": published["rc14neg"],
    }


def test_parts_without_procedures_are_absent_and_other_names_are_in_no_part() -> None:
    assert split_by_rule(["001-009", "my video"], {"001-009", "my video"}) == {"eval": ["001-009"]}
    assert split_by_rule(["001-009"], set()) == {"negative": ["001-009"]}
    assert split_by_rule([], set()) == {}


@settings(deadline=None)
@given(_names, st.sets(st.integers(0, 59)))
def test_every_numbered_procedure_is_in_one_part(names: list[str], chosen: set[int]) -> None:
    with_lesion = {name for i, name in enumerate(names) if i in chosen}
    parts = split_by_rule(names, with_lesion)
    assert sorted(chain(*parts.values())) == sorted(names)
    for name in names:
        seen = "train" if int(name[-3:]) <= 8 else "eval"
        assert name in parts[seen if name in with_lesion else "negative"]
