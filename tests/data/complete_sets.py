"""The five public sets with all their procedures and polyps, with a small frame each."""

from pathlib import Path

from polyplink.data.protocols import lesion_info, published_splits, video_info
from polyplink.data.tables import DataSet
from tests.data.public_sets import write_set
from tests.data.sample_sets import HEIGHT, WIDTH, data_set, unlabelled_row

FRAMES = 1


def _one_polyp_per_procedure(dataset: str, ids: list[str], histologies: list[str]) -> DataSet:
    """Procedures with one polyp each and a box in every frame; histologies are repeated in turn."""
    boxes = [(name, f, 8 + f, 8, 20, 16, name) for name in ids for f in range(FRAMES)]
    polyps = [
        (name, name, 3.0 + k % 5, None, *[histologies[k % len(histologies)]] * 2)
        for k, name in enumerate(ids)
    ]
    rows = [unlabelled_row(n, FRAMES, dataset, width=WIDTH, height=HEIGHT) for n in ids]
    return data_set(boxes, polyps, rows)


def _real_colon() -> DataSet:
    """The 46 procedures with a lesion; boxes of a procedure are side by side."""
    boxes, polyps = [], []
    columns = ("unique_object_id", "unique_video_name", "size [mm]", "histology_class")
    for name, owner, size, histology in lesion_info().select(columns).iter_rows():
        number = int(name.rpartition("_")[2])
        boxes += [(owner, f, 6 * (number - 1), 8, 5 + f, 16, name) for f in range(FRAMES)]
        polyps.append((name, owner, float(size), None, histology, histology))
    splits = published_splits()
    with_lesion = {*splits["rc27"], *splits["rc19"]}
    names = [name for name in video_info()["unique_video_name"] if name in with_lesion]
    rows = [unlabelled_row(n, FRAMES, "real-colon", width=WIDTH, height=HEIGHT) for n in names]
    return data_set(boxes, polyps, rows)


def write_complete_sets(root: Path) -> dict[str, tuple[str, ...]]:
    """Write all five in the layout of their releases, with images, below `root`.

    Returns:
        Format -> arguments of `polyplink import` between the format and the output folder.
    """
    real = _real_colon()
    write_set("real-colon", real, root / "real-colon")
    ids = [f"TrainValid_{k}" for k in range(1, 101)] + [f"Test_{k}" for k in range(101, 161)]
    ldpolyp = _one_polyp_per_procedure("ldpolyp", ids, ["unused"])
    write_set("ldpolyp", ldpolyp, root / "ldpolyp")
    histologies = ["Low-grade adenoma"] * 9 + ["SSL"]
    sun = _one_polyp_per_procedure("sun", [f"case{k}" for k in range(1, 101)], histologies)
    write_set("sun", sun, root / "sun")
    ids = [f"val_{k}" for k in range(1, 18)] + [f"test_{k}" for k in range(1, 23)]
    polypsset = _one_polyp_per_procedure("polypsset", ids, ["adenomatous", "hyperplastic"])
    write_set("polypsset", polypsset, root / "polypsset")
    histologies = ["Tubular Adenoma"] * 20 + ["Pathology Not Available"]
    size = _one_polyp_per_procedure("polyp-size", [f"{k:02d}" for k in range(1, 43)], histologies)
    write_set("polyp-size", size, root / "polyp-size")
    names = ("real-colon", "ldpolyp", "sun", "polypsset", "polyp-size")
    folders: dict[str, tuple[str, ...]] = {name: (str(root / name),) for name in names}
    folders["sun"] += ("--cases", str(root / "sun" / "cases.csv"))
    return folders
