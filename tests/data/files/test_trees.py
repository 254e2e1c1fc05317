import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.files.archives import read_members
from polyplink.data.files.image_names import INSIDE
from polyplink.data.files.trees import Tree, image_files, open_tree, walk_files
from tests.data.packing import files_of, pack

FILES = {"a/1.txt": b"one", "a/2.TXT": b"two", "b/10.jpg": b"\xff\xd8\xff picture"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return pack(tmp_path / "plain", FILES)


@pytest.fixture(params=["x.zip", "x.tar", "x.tar.gz", "X.TGZ"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    path = pack(tmp_path / "packed" / request.param, FILES)
    before = path.read_bytes()
    yield path
    if path.stat().st_size == len(before):  # reading changes nothing on disk
        assert [child.name for child in path.parent.iterdir()] == [path.name]


def contents(tree: Tree) -> dict[str, bytes]:
    return {member.path: data for member, data in tree.read_many(tree.members)}


def test_an_archive_gives_the_same_tree_as_its_folder(folder: Path, archive: Path) -> None:
    assert contents(open_tree(folder, Faults())) == FILES
    for source in (archive, archive.parent):
        tree = open_tree(source, Faults())
        assert tree.root == archive.parent
        assert contents(tree) == FILES
        assert [member.image for member in tree.members] == [
            f"{archive.name}{INSIDE}{name}" for name in FILES
        ]
        assert tree.read(tree.members[1]) == b"two"
        starts = [data for _, data in tree.read_many(tree.members, 2)]
        assert starts == [data[:2] for data in FILES.values()]
        assert [member.name for member in tree.members] == ["1.txt", "2.TXT", "10.jpg"]
        assert [member.suffix for member in tree.members] == [".txt", ".txt", ".jpg"]


def test_images_of_an_archive_below_the_root_are_named_with_its_folder(folder: Path) -> None:
    pack(folder / "parts" / "x.zip", {"1.txt": b"one", "2.TXT": b"two"})
    inside = [m for m in open_tree(folder, Faults()).members if INSIDE in m.image]
    assert [m.path for m in inside] == ["parts/1.txt", "parts/2.TXT"]
    assert [m.image for m in inside] == ["parts/x.zip!/1.txt", "parts/x.zip!/2.TXT"]


@pytest.mark.parametrize("place", [".", "x"])
def test_members_of_an_unpacked_archive_are_listed_once(folder: Path, place: str) -> None:
    root = folder.parent / "both"
    pack(root / place, FILES)
    pack(root / "x.zip", FILES)
    assert [m.image for m in open_tree(root, Faults()).members] == [
        str(Path(place) / name) for name in FILES
    ]


def test_hidden_files_are_not_listed(folder: Path) -> None:
    for name in ("._1.txt", "__MACOSX/1.txt", ".git/x.txt", "a/.DS_Store"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    packed = pack(folder.parent / "packed.zip", files_of(folder))
    for source in (folder, packed):
        assert [m.path for m in open_tree(source, Faults()).members] == list(FILES)


def test_image_files_lists_all_folders_except_hidden_ones(folder: Path) -> None:
    pack(folder / "c", {"2.PNG": b"", ".2.png": b"", ".thumbs/3.png": b"", "1.tif": b""})
    names = [path.relative_to(folder).as_posix() for path in image_files(folder)]
    assert names == ["b/10.jpg", "c/1.tif", "c/2.PNG"]
    with pytest.raises(PolyplinkError, match="has no image files"):
        image_files(folder / "a")
    with pytest.raises(PolyplinkError, match=r"10.jpg is a file, but a folder is expected"):
        image_files(folder / "b" / "10.jpg")


def test_members_with_unusual_paths_are_counted(tmp_path: Path) -> None:
    names = ("../up.txt", "/root.txt", "in.zip", "win\\dows.txt", "./here.txt")
    pack(tmp_path / "x.zip", dict.fromkeys(names, b"x"))
    faults = Faults()
    tree = open_tree(tmp_path, faults)
    assert [m.path for m in tree.members] == ["win/dows.txt", "here.txt"]
    assert len(contents(tree)) == 2
    assert [*map(str, faults.messages)] == [
        "2 x archive member with an odd path, left out (first: x.zip!/../up.txt)",
        "1 x archive inside an archive, not opened (x.zip!/in.zip)",
    ]


def test_a_linked_folder_is_followed_once(folder: Path) -> None:
    (folder / "a" / "back").symlink_to(folder)
    (folder.parent / "links").mkdir()
    (folder.parent / "links" / "b").symlink_to(folder / "b")
    assert [m.path for m in open_tree(folder, Faults()).members] == list(FILES)
    assert [m.path for m in open_tree(folder.parent / "links", Faults()).members] == ["b/10.jpg"]
    for name in "acdefgh":  # whatever the order in which the system lists them
        (folder.parent / "links" / name).symlink_to(folder / "b")
    assert list(walk_files(folder.parent / "links")) == ["a/10.jpg"]


def test_a_zip_with_a_password_is_refused_unless_unpacked(folder: Path) -> None:
    root = folder.parent / "locked"
    pack(root / "x.zip", FILES)
    data = bytearray((root / "x.zip").read_bytes())
    entry = data.find(b"PK\x01\x02")
    while entry >= 0:  # set the encryption flag of every entry of the central directory
        data[entry + 8] |= 1
        entry = data.find(b"PK\x01\x02", entry + 1)
    (root / "x.zip").write_bytes(data)
    with pytest.raises(
        PolyplinkError, match=r"x\.zip requires a password; unpack it in its folder"
    ):
        open_tree(root, Faults())
    with pytest.raises(
        PolyplinkError, match=r"x\.zip, member a/1\.txt, cannot be read .*encrypted"
    ):
        list(read_members(root / "x.zip", lambda _: True))
    for unpacked in ("x", "elsewhere/by hand"):
        shutil.copytree(folder, root / unpacked)
        images = [m.image for m in open_tree(root, Faults()).members]
        assert images == [f"{unpacked}/{name}" for name in FILES]
        shutil.rmtree(root / unpacked)
    shutil.copytree(folder, root / "x")
    (root / "x" / "a" / "1.txt").unlink()
    with pytest.raises(PolyplinkError, match="requires a password"):
        open_tree(root, Faults())


def test_missing_files_and_invalid_folders_are_refused(folder: Path) -> None:
    with pytest.raises(PolyplinkError, match=r"no folder .*nowhere; check the path"):
        open_tree(folder / "nowhere", Faults())
    with pytest.raises(PolyplinkError, match=r"1\.txt is a file, but a folder is expected"):
        open_tree(folder / "a" / "1.txt", Faults())
    (folder / "odd!").mkdir()
    with pytest.raises(PolyplinkError, match="odd! ends in `!`"):
        open_tree(folder, Faults())
    (folder / "odd!").rmdir()
    tree = open_tree(folder, Faults())
    (folder / "a" / "1.txt").unlink()
    with pytest.raises(PolyplinkError, match=r"1\.txt: No such file .*; restore the file"):
        contents(tree)


def test_sizes_are_read_from_every_kind_of_image(tmp_path: Path) -> None:
    picture = Image.fromarray(np.zeros((30, 40, 3), np.uint8))
    for name in ("a.jpg", "b.png", "c.bmp", "d.tif"):
        picture.save(tmp_path / name)
    # A long profile is stored before the size in the file.
    picture.save(tmp_path / "e.jpg", icc_profile=bytes(20_000))
    (tmp_path / "f.jpg").write_bytes(b"\xff\xd8 no image")
    tree = open_tree(tmp_path, Faults())
    faults = Faults()
    sizes = tree.image_sizes(tree.members, faults)
    assert {member.name: size for member, size in sizes.items()} == dict.fromkeys(
        ("a.jpg", "b.png", "c.bmp", "d.tif", "e.jpg"), (40, 30)
    )
    assert [*map(str, faults.messages)] == ["1 x file that is not an image, left out (f.jpg)"]
    with pytest.raises(PolyplinkError, match=r"f\.jpg: file that is not an image; restore it"):
        tree.image_sizes(tree.members, Faults(strict=True))
