"""The tables of REAL-Colon, their splits, and the named parts of papers."""

from collections import Counter
from itertools import chain

import polars as pl
import pytest
from hypothesis import given, strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.data.protocols import (
    PROTOCOLS,
    lesion_info,
    positive_frames,
    protocol_part,
    published_splits,
    split_by_patient,
    split_by_rule,
    video_info,
)
from polyplink.data.tables import DataSet
from polyplink.data.vocabulary import ADENOMA

OTHERS = {"ldpolyp": 160, "sun": 100, "polypsset": 39, "polyp-size": 42}


def tables(datasets: dict[str, int]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Procedures and polyps of REAL-Colon, and of other sets with one polyp per procedure."""
    names = video_info()["unique_video_name"].to_list()
    sets = ["real-colon"] * len(names)
    owners = lesion_info()["unique_video_name"].to_list()
    histologies = lesion_info()["histology_class"].to_list()
    for dataset, n in datasets.items():
        names_of_set = [f"{dataset}{k}" for k in range(n)]
        names, owners, sets = names + names_of_set, owners + names_of_set, sets + [dataset] * n
        histologies += [next(iter(ADENOMA.get(dataset, {None: None})))] * n
    procedures = pl.DataFrame({"procedure_id": names, "dataset": sets, "patient": names})
    polyps = pl.DataFrame({"polyp_id": [f"{o}/{k}" for k, o in enumerate(owners)]})
    return procedures, polyps.with_columns(
        procedure_id=pl.Series(owners),
        size_mm=pl.lit(3.0),
        histology_class=pl.Series(histologies, dtype=pl.String),
    )


def test_parts_of_real_colon_equal_the_published_lists() -> None:
    procedures, polyps = tables({})
    for name in ("rc27", "rc19", "rc14neg"):
        assert protocol_part(name, procedures, polyps) == published_splits()[name]
    assert protocol_part("train", procedures, polyps) is None
    with pytest.raises(
        PolyplinkError, match=r"rc19 consists of 19 .* of which 1 is missing \(001-009"
    ):
        protocol_part("rc19", procedures.filter(pl.col("procedure_id") != "001-009"), polyps)


def test_ta384_has_384_identities() -> None:
    procedures, polyps = tables(OTHERS)
    ids = protocol_part("ta384", procedures, polyps)
    assert ids is not None
    assert polyps.filter(pl.col("procedure_id").is_in(ids)).height == 384
    with pytest.raises(PolyplinkError, match="ta384 has 100 identities of sun, not 99"):
        protocol_part("ta384", *tables(OTHERS | {"sun": 99}))
    with pytest.raises(PolyplinkError, match="needs procedures of ldpolyp"):
        protocol_part("ta384", *tables({"sun": 100}))


def labels_of(name: str, procedures: pl.DataFrame, polyps: pl.DataFrame) -> pl.DataFrame:
    """Polyps of both sides of a probe, with the column "side": 0 for train, 1 for test."""
    sides = [
        protocol_part(f"{name}-{side}", procedures, polyps) or [] for side in ("train", "test")
    ]
    assert not set(sides[0]) & set(sides[1])
    return pl.concat(
        polyps.filter(pl.col("procedure_id").is_in(ids)).with_columns(side=pl.lit(k))
        for k, ids in enumerate(sides)
    )


# 7 of rspp's 228 polyps, in rc19, have no label; 2 procedures have only such polyps.
@pytest.mark.parametrize(("name", "n", "videos"), [("rsp", 189, 161), ("rspp", 221, 198)])
def test_probe_splits_are_70_to_30_by_polyp_and_divide_no_patient(
    name: str, n: int, videos: int
) -> None:
    procedures, polyps = tables(OTHERS)
    rows = labels_of(name, procedures, polyps)
    assert rows["procedure_id"].n_unique() == videos
    if name == "rspp":
        rows = rows.filter(~pl.col("histology_class").is_in(["NO POLYP", "OTHER"]))
    assert rows.height == n
    assert abs(rows.filter(pl.col("side") == 0).height / n - 0.7) < 0.01


def test_rspp_leaves_out_classes_without_a_label_in_its_map() -> None:
    procedures, polyps = tables(OTHERS)
    changed = pl.col("procedure_id").is_in(["sun0", "polyp-size5"])
    sun, cancer = pl.col("procedure_id") == "sun0", pl.lit("Invasive cancer (T1b)")
    histology = pl.when(sun).then(cancer).otherwise(pl.lit("Pathology Not Available"))
    other = polyps.with_columns(
        histology_class=pl.when(changed).then(histology).otherwise(pl.col("histology_class"))
    )
    assert other.filter(changed).height == 2
    assert labels_of("rspp", procedures, other)["procedure_id"].n_unique() == 196
    with_cancer = {**ADENOMA, "sun": {**ADENOMA["sun"], "Invasive cancer (T1b)": True}}
    sides = [protocol_part(f"rspp-{s}", procedures, other, with_cancer) for s in ("train", "test")]
    assert sum(len(side or []) for side in sides) == 197


def test_incomplete_and_unlabelled_parts_are_refused() -> None:
    with pytest.raises(PolyplinkError, match="rsp has 42 identities of polyp-size, not 41"):
        protocol_part("rsp-test", *tables(OTHERS | {"polyp-size": 41}))
    procedures, polyps = tables(OTHERS)
    sun = pl.col("procedure_id").str.starts_with("sun")
    for name, column in (("rsp", "size_mm"), ("rspp", "histology_class")):
        bare = polyps.with_columns(pl.when(~sun).then(pl.col(column)).alias(column))
        with pytest.raises(PolyplinkError, match=f"no polyp of sun has a {column}.*--cases"):
            protocol_part(f"{name}-train", procedures, bare)


def test_each_fold_of_loo19_leaves_out_one_procedure() -> None:
    procedures, polyps = tables({})
    nineteen = published_splits()["rc19"]
    assert protocol_part("loo19", procedures, polyps) == nineteen
    for left_out in nineteen:
        train = protocol_part(f"loo19-train:{left_out}", procedures, polyps) or []
        assert protocol_part(f"loo19:{left_out}", procedures, polyps) == [left_out]
        assert sorted([*train, left_out]) == sorted(nineteen)
    with pytest.raises(PolyplinkError, match="'001-001' is not one of the 19 procedures of loo19"):
        protocol_part("loo19:001-001", procedures, polyps)
    assert protocol_part("rc19:001-009", procedures, polyps) is None


def test_a_data_set_has_the_protocols_as_parts() -> None:
    procedures, polyps = tables({})
    full = procedures.with_columns(n_frames=1, width=9, height=9, source=pl.lit("/"))
    empty = pl.DataFrame(schema=["procedure_id", "frame", "x", "y", "w", "h"])
    data = DataSet.of(empty, full, polyps)
    assert len(data.part("rc19")) == 19
    with pytest.raises(PolyplinkError, match=r"published part: rc27.*rspp-test.*loo19-train:PROC"):
        data.part("none")
    assert set(PROTOCOLS) >= {"rc27", "rc19", "rc14neg", "ta384"}


def test_released_tables_have_the_published_totals() -> None:
    videos, lesions, counts = video_info(), lesion_info(), positive_frames()
    assert videos["unique_video_name"].n_unique() == videos.height == 60
    assert lesions["unique_object_id"].n_unique() == lesions.height == 132
    classes = {"AD": 55, "HP": 54, "NO POLYP": 19, "SSL": 2, "OTHER": 1, "TSA": 1}
    assert Counter(lesions["histology_class"]) == classes
    assert (lesions["size [mm]"] <= 5).sum() == 117
    listed = Counter(lesions["unique_video_name"])
    claimed = dict(videos.select("unique_video_name", "num_lesions").iter_rows())
    differing = {name: (n, listed[name]) for name, n in claimed.items() if listed[name] != n}
    assert differing == {"003-012": (2, 3)}
    # A third party counted the frames.
    assert counts["num_frames"].sum() == videos["num_frames"].sum() == 2_757_723
    assert counts["n_polyp_frames"].sum() == 342_109
    assert set(counts.filter(pl.col("n_polyp_frames") > 0)["video_id"]) == set(listed)


def test_published_splits_cover_every_procedure_once() -> None:
    splits = published_splits()
    parts = [splits[name] for name in ("rc27", "rc19", "rc14neg")]
    assert [len(part) for part in parts] == [27, 19, 14]
    assert sorted(chain(*parts)) == sorted(video_info()["unique_video_name"])
    lesions = Counter(lesion_info()["unique_video_name"])
    assert [sum(lesions[name] for name in part) for part in parts] == [85, 47, 0]
    several = [name for name in splits["rc19"] if lesions[name] >= 2]
    assert splits["eval19_with_2_or_more"] == several
    assert len(several) == 10


def test_split_by_rule_gives_the_published_lists_and_no_empty_part() -> None:
    published = published_splits()
    with_lesion = set(lesion_info()["unique_video_name"])
    assert split_by_rule(video_info()["unique_video_name"], with_lesion) == {
        "train": published["rc27"],
        "eval": published["rc19"],
        "negative": published["rc14neg"],
    }
    assert split_by_rule(["001-009", "my video"], {"001-009", "my video"}) == {"eval": ["001-009"]}
    assert split_by_rule([], set()) == {}


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


def test_tpc_divides_rc19_by_procedure_number() -> None:
    """As get_split of the public program: up to 010 for validation, 011 and above for test."""
    procedures, polyps = tables({})
    naive: dict[str, list[str]] = {"tpc-val": [], "tpc-test": []}
    for name in published_splits()["rc19"]:
        naive["tpc-val" if int(name.split("-")[1]) <= 10 else "tpc-test"].append(name)
    for part, names in naive.items():
        assert protocol_part(part, procedures, polyps) == names
    counts = [polyps.filter(pl.col("procedure_id").is_in(names)).height for names in naive.values()]
    assert [len(names) for names in naive.values()] == [7, 12]
    assert counts == [16, 31]
