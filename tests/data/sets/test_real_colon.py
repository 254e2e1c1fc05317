import shutil
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given, settings

from polyplink.core.errors import PolyplinkError
from polyplink.data import TABLES, DataSet, import_real_colon, write_real_colon
from tests.data.made_sets import data_sets, small_set


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_real_colon(small_set(), tmp_path)
    return tmp_path


@settings(max_examples=40, deadline=None)
@given(data_sets())
def test_import_undoes_write(data: DataSet) -> None:
    with TemporaryDirectory() as folder:
        write_real_colon(data, Path(folder))
        again = import_real_colon(Path(folder)).data
    for name in TABLES:
        # Where the files lie is the one thing that changes.
        before, after = (getattr(d, name).drop("source", strict=False) for d in (data, again))
        assert after.equals(before)
    assert again.key == data.key


def test_procedures_splits_and_no_warning(root: Path) -> None:
    imported = import_real_colon(root)
    assert imported.warnings == []
    assert imported.data.splits == small_set().splits
    procedures = imported.data.procedures
    assert procedures["dataset"].unique().to_list() == ["real-colon"]
    assert procedures["patient"].equals(procedures["procedure_id"].alias("patient"))
    assert procedures["source"].unique().to_list() == [str(root.resolve())]
    assert imported.data.detections["image"].null_count() == 4


def test_more_workers_read_the_same(root: Path) -> None:
    assert import_real_colon(root, workers=2).data.key == import_real_colon(root).data.key


def test_a_fault_in_a_worker_is_the_same_error(root: Path) -> None:
    (root / "001-009_annotations" / "001-009_2.xml").write_text("<annotation>")
    for workers in (1, 2):
        with pytest.raises(PolyplinkError, match=r"001-009_2\.xml is not whole XML"):
            import_real_colon(root, strict=True, workers=workers)


def test_progress_counts_procedures_and_an_interrupt_passes(root: Path) -> None:
    seen: list[tuple[int, int]] = []
    import_real_colon(root, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    for workers in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            import_real_colon(root, progress=interrupt, workers=workers)


def test_quirks_of_the_release(root: Path) -> None:
    """Folder without `s`, `.0` in names, sites misspelt, a lesion count that is wrong."""
    before = import_real_colon(root).data
    (root / "001-001_annotations").rename(root / "001-001_annotation")
    for path in (root / "001-009_annotations").iterdir():
        path.rename(path.with_name(f"{path.stem}.0.xml"))
    lesions = root / "lesion_info.csv"
    lesions.write_text(
        lesions.read_text().replace("transverse", "trasnverse").replace("cecum", "caecum")
    )
    videos = root / "video_info.csv"
    videos.write_text(videos.read_text().replace(",25,6,2,", ",25,6,1,"))
    imported = import_real_colon(root)
    assert imported.data.key == before.key
    assert imported.warnings == [
        "1 x num_lesions of video_info.csv is not the number of rows of lesion_info.csv, "
        "which counts (first: 001-001: 1 and 2)"
    ]


def test_images_where_they_are_there_and_wanted(root: Path) -> None:
    frames = root / "001-001_frames"
    frames.mkdir()
    for i in range(6):
        (frames / f"001-001_{i}.jpg").touch()
    images = import_real_colon(root).data.detections["image"].to_list()
    names = [f"001-001_frames/001-001_{i}.jpg" for i in (0, 1, 1)]
    assert images == [*names, None]
    for path in images[:3]:
        assert path is not None
        assert (root / path).is_file()
    without = import_real_colon(root, images=False).data
    assert without.detections["image"].null_count() == 4
    (frames / "001-001_0.jpg").unlink()
    with pytest.raises(
        PolyplinkError, match="frame with a box without an image; unpack the frames"
    ):
        import_real_colon(root, strict=True)
    counted = import_real_colon(root)
    assert counted.data.detections["frame"].to_list() == [1, 1, 2]
    assert "1 x frame with a box without an image, left out" in counted.warnings[0]


def test_only_procedures_that_are_present(root: Path) -> None:
    shutil.rmtree(root / "001-001_annotations")
    data = import_real_colon(root).data
    assert data.procedures["procedure_id"].to_list() == ["001-009", "001-010"]
    assert data.polyps["polyp_id"].to_list() == ["001-009_1"]
    assert data.splits == {"eval": ["001-009"], "negative": ["001-010"]}


def test_number_of_frames_is_that_of_the_table_and_a_difference_is_told(root: Path) -> None:
    (root / "001-010_annotations" / "001-010_1.xml").unlink()
    imported = import_real_colon(root)
    assert imported.data.procedures["n_frames"].to_list() == [6, 4, 3]
    assert imported.warnings == [
        "1 x num_frames of video_info.csv is not the number of annotation files "
        "(first: 001-010: 3 and 2)"
    ]


def test_faults_are_counted_over_procedures(root: Path) -> None:
    for path in (root / "001-001_annotations").glob("*_1.xml"):
        path.write_text(path.read_text().replace("<xmax>31<", "<xmax>11<"))
    for path in (root / "001-009_annotations").glob("*_2.xml"):
        path.write_text(path.read_text().replace("<xmax>14<", "<xmax>5<"))
    imported = import_real_colon(root)
    assert imported.warnings == [
        "2 x box of no area, left out (first: 001-001_1.xml (11, 8, 11, 24))"
    ]
    assert imported.data.detections.height == 2


def pack(root: Path, procedure_id: str, *, kind: str = "annotations", prefix: str = "./x/") -> Path:
    """Replace a folder by the archive that it came from."""
    folder = root / f"{procedure_id}_{kind}"
    with tarfile.open(root / f"{folder.name}.tar.gz", "w:gz") as archive:
        for path in sorted(folder.iterdir(), reverse=True):
            archive.add(path, f"{prefix}{path.name}")
    shutil.rmtree(folder)
    return root / f"{folder.name}.tar.gz"


def test_archives_read_as_their_folders_do(root: Path) -> None:
    before = import_real_colon(root)
    for procedure_id, prefix in (("001-001", ""), ("001-009", "001-009_annotations/")):
        pack(root, procedure_id, prefix=prefix)
    for workers in (1, 2):
        again = import_real_colon(root, workers=workers)
        assert again.data.key == before.data.key
        assert again.warnings == []
    (root / "001-009_annotations").mkdir()
    (root / "001-009_annotations" / "001-009_0.xml").write_text("half unpacked")
    with pytest.raises(PolyplinkError, match="has no annotation that can be read"):
        import_real_colon(root)


def test_images_in_an_archive_are_named_without_a_look_into_it(root: Path) -> None:
    (root / "001-001_frames.tar.gz").write_bytes(b"tens of gigabytes")
    images = import_real_colon(root).data.detections["image"].to_list()
    start = "001-001_frames.tar.gz!/001-001_"
    assert images == [*(f"{start}{i}.jpg" for i in (0, 1, 1)), None]


def test_an_archive_that_is_cut_short_is_named(root: Path) -> None:
    path = pack(root, "001-001")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(PolyplinkError, match=r"001-001_annotations\.tar\.gz is cut short"):
        import_real_colon(root)


def test_the_folder_of_another_set_is_recognised(tmp_path: Path) -> None:
    place = tmp_path / "TrainValid" / "Images" / "1"
    place.mkdir(parents=True)
    (place / "0001.jpg").touch()
    with pytest.raises(PolyplinkError, match="this looks like ldpolyp: import it as that"):
        import_real_colon(tmp_path)


def test_mistakes_of_folders_and_tables(root: Path) -> None:
    with pytest.raises(PolyplinkError, match=r"no folder .*nowhere; check the path"):
        import_real_colon(root / "nowhere")
    extra = root / "009-001_annotations"
    extra.mkdir()
    with pytest.raises(
        PolyplinkError, match=r"video_info\.csv has no row for 009-001; add the row"
    ):
        import_real_colon(root)
    extra.rmdir()
    (root / "001-001_annotation").mkdir()
    with pytest.raises(PolyplinkError, match="are of one procedure; remove one of them"):
        import_real_colon(root)
    (root / "001-001_annotation").rmdir()
    for path in (root / "001-010_annotations").iterdir():
        path.unlink()
    with pytest.raises(PolyplinkError, match=r"001-010_annotations has no annotations \(\*\.xml\)"):
        import_real_colon(root)
    (root / "lesion_info.csv").unlink()
    with pytest.raises(PolyplinkError, match=r"lesion_info\.csv is missing"):
        import_real_colon(root)
    for folder in root.glob("*_annotations"):
        shutil.rmtree(folder)
    with pytest.raises(PolyplinkError, match=r"has no <procedure>_annotations\.tar\.gz, nor"):
        import_real_colon(root)


def test_set_without_any_box_or_polyp(tmp_path: Path) -> None:
    data = small_set()
    bare = DataSet.of(data.detections.clear(), data.procedures, data.polyps.clear())
    write_real_colon(bare, tmp_path)
    again = import_real_colon(tmp_path).data
    assert again.key == bare.key
    assert again.detections.schema["polyp_id"] == pl.String


def test_what_the_simulator_wrote_is_never_called_real(root: Path) -> None:
    assert set(import_real_colon(root).data.procedures["dataset"]) == {"real-colon"}
    (root / "run.json").write_text(
        '{"command": "simulate", "settings": {"name": "tiny"}, "seed": 3}'
    )
    assert set(import_real_colon(root).data.procedures["dataset"]) == {"simulated tiny 3"}
