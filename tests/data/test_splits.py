from itertools import chain

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.data import lesion_info, published_splits, split_by_rule, video_info
from polyplink.data.splits import split_by_patient

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


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), max_size=12), st.integers(0, 9))
def test_no_patient_is_on_both_sides(rows: list[tuple[int, int]], seed: int) -> None:
    names = [f"p{k}" for k in range(len(rows))]
    patients = [str(patient) for patient, _ in rows]
    schema = ["procedure_id", "dataset", "patient"]
    procedures = pl.DataFrame(
        list(zip(names, ["a"] * len(rows), patients, strict=True)), schema=schema, orient="row"
    ).cast(pl.String)
    owners = [name for name, (_, n) in zip(names, rows, strict=True) for _ in range(n)]
    polyps = pl.DataFrame({"procedure_id": pl.Series(owners, dtype=pl.String)})
    train, test = split_by_patient(procedures, polyps, share=0.5, seed=seed)
    assert sorted(train + test) == sorted(names)
    patient_of = dict(zip(names, patients, strict=True))
    assert not {patient_of[p] for p in train} & {patient_of[p] for p in test}
    assert sum(owners.count(p) for p in train) <= round(0.5 * len(owners))
    assert split_by_patient(procedures, polyps, share=0.5, seed=seed) == (train, test)
