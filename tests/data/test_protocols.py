import polars as pl
import pytest

from polyplink.data import DataSet, lesion_info, published_splits, video_info
from polyplink.data.protocols import PROTOCOLS, leave_one_out, protocol_part
from polyplink.errors import PolyplinkError

OTHERS = {"ldpolyp": 160, "sun": 100, "polypsset": 39, "polyp-size": 42}


def tables(datasets: dict[str, int]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Procedures and polyps: REAL-Colon's own, and others of one polyp each."""
    names = video_info()["unique_video_name"].to_list()
    sets = ["real-colon"] * len(names)
    owners = lesion_info()["unique_video_name"].to_list()
    for dataset, n in datasets.items():
        more = [f"{dataset}{k}" for k in range(n)]
        names, owners, sets = names + more, owners + more, sets + [dataset] * n
    procedures = pl.DataFrame({"procedure_id": names, "dataset": sets, "patient": names})
    polyps = pl.DataFrame({"polyp_id": [f"{o}/{k}" for k, o in enumerate(owners)]})
    return procedures, polyps.with_columns(procedure_id=pl.Series(owners))


def test_parts_of_real_colon_are_those_published() -> None:
    procedures, polyps = tables({})
    for name in ("rc27", "rc19", "rc14neg"):
        assert protocol_part(name, procedures, polyps) == published_splits()[name]
    assert protocol_part("train", procedures, polyps) is None
    with pytest.raises(PolyplinkError, match=r"rc19 is of 19 .* 1 are not here \(001-009"):
        protocol_part("rc19", procedures.filter(pl.col("procedure_id") != "001-009"), polyps)


def test_ta384_has_384_identities() -> None:
    procedures, polyps = tables(OTHERS)
    ids = protocol_part("ta384", procedures, polyps)
    assert ids is not None
    assert polyps.filter(pl.col("procedure_id").is_in(ids)).height == 384
    with pytest.raises(PolyplinkError, match="ta384 has 100 identities of sun; here are 99"):
        protocol_part("ta384", *tables(OTHERS | {"sun": 99}))
    with pytest.raises(PolyplinkError, match="no procedure of ldpolyp is here"):
        protocol_part("ta384", *tables({"sun": 100}))


@pytest.mark.parametrize(("name", "n"), [("rsp", 189), ("rspp", 228)])
def test_probe_splits_are_70_to_30_by_polyp_and_cut_no_patient(name: str, n: int) -> None:
    procedures, polyps = tables(OTHERS)
    train = protocol_part(f"{name}-train", procedures, polyps) or []
    test = protocol_part(f"{name}-test", procedures, polyps) or []
    assert not set(train) & set(test)
    counts = [polyps.filter(pl.col("procedure_id").is_in(side)).height for side in (train, test)]
    assert sum(counts) == n
    assert abs(counts[0] / n - 0.7) < 0.01


def test_leave_one_out() -> None:
    assert leave_one_out(["a", "b", "c"]) == [
        (["b", "c"], "a"),
        (["a", "c"], "b"),
        (["a", "b"], "c"),
    ]


def test_a_data_set_finds_them_as_parts() -> None:
    procedures, polyps = tables({})
    full = procedures.with_columns(n_frames=1, width=9, height=9, source=pl.lit("/"))
    empty = pl.DataFrame(schema=["procedure_id", "frame", "x", "y", "w", "h"])
    data = DataSet.of(empty, full, polyps)
    assert len(data.part("rc19")) == 19
    with pytest.raises(PolyplinkError, match=r"choose one of: .*rc27.*rspp-test"):
        data.part("none")
    assert set(PROTOCOLS) >= {"rc27", "rc19", "rc14neg", "ta384"}
