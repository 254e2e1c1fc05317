"""Frames that are image files in archives, read without unpacking."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.archives import INSIDE, ZipArchive, is_archive
from polyplink.data.files.tar_stream import tar_members
from polyplink.tracklets.ahead import Threads
from polyplink.tracklets.crops import FrameCrops, Pixels, Unreadable, cut_frame, decode

Read = tuple[str, bytes | Unreadable]  # member and its bytes


class ArchivedImages:
    """Members of .zip, .tar, .tar.gz and .tgz archives: `ARCHIVE.zip!/member`.

    A tar archive is read once from its beginning, as one that is compressed has no other way. A
    member is found by its whole name, or by the last part of it where the archive packs it in a
    folder and the image's name has none.

    Args:
        root: What the archives' names are relative to.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def takes(self, frame: FrameCrops) -> bool:
        """Whether the frame's image is a member of an archive."""
        archive, mark, _ = (frame.image or "").partition(INSIDE)
        return bool(mark) and is_archive(archive)

    def crops(
        self, frames: Sequence[FrameCrops], size: int, threads: Threads
    ) -> Iterator[tuple[FrameCrops, Pixels | Unreadable]]:
        """Read each archive once, decode and cut in threads (see `sources.CropSource`)."""
        archives: dict[str, dict[str, FrameCrops]] = {}
        for frame in frames:
            archive, _, member = str(frame.image).partition(INSIDE)
            archives.setdefault(archive, {})[member] = frame

        def work(
            read: tuple[FrameCrops, bytes | Unreadable],
        ) -> tuple[FrameCrops, Pixels | Unreadable]:
            frame, data = read
            image = data if isinstance(data, Unreadable) else decode(data)
            return frame, cut_frame(image, frame, str(self._root / str(frame.image)), size)

        for archive, members in archives.items():
            yield from threads.map(work, _read(self._root / archive, members))


def _read(
    path: Path, members: dict[str, FrameCrops]
) -> Iterator[tuple[FrameCrops, bytes | Unreadable]]:
    """The bytes of each member, then those that the archive has not."""
    read = _from_zip if path.name.lower().endswith(".zip") else _from_tar
    found = set()
    for name, data in read(path, members):
        found.add(name)
        yield members[name], data
    if members and not found:
        raise PolyplinkError(
            f"{path} has no member {next(iter(members))}", "give the archive of these frames"
        )
    for name in members.keys() - found:
        yield members[name], Unreadable("not in the archive")


def _from_tar(path: Path, members: dict[str, FrameCrops]) -> Iterator[Read]:
    left = set(members)

    def known(name: str) -> str | None:
        last = name.rpartition("/")[2]
        return next((n for n in (name, name.removeprefix("./"), last) if n in left), None)

    for name, data in tar_members(path, lambda name: known(name) is not None):
        if (member := known(name)) is not None:
            left.remove(member)
            yield member, data


def _from_zip(path: Path, members: dict[str, FrameCrops]) -> Iterator[Read]:
    archive = ZipArchive(path)
    last = {name.rpartition("/")[2]: name for name in archive.names()}
    whole = set(archive.names())
    there = {m if m in whole else last[m]: m for m in members if m in whole or m in last}
    for name, data in archive.read_each(list(there)):
        yield there[name], Unreadable(data) if isinstance(data, str) else data
