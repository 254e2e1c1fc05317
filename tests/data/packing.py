"""Write files into folders and archives, and read them back."""

import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path


def pack(path: Path, files: Mapping[str, bytes], layout: int = tarfile.GNU_FORMAT) -> Path:
    """Write files into a .zip, .tar, .tar.gz or .tgz archive, by its suffix, or into a folder."""
    name = path.name.lower()
    path.parent.mkdir(parents=True, exist_ok=True)
    if name.endswith(".zip"):
        with zipfile.ZipFile(path, "w") as zipped:
            for member, data in files.items():
                zipped.writestr(member, data)
    elif name.endswith((".tar", ".tar.gz", ".tgz")):
        with tarfile.open(path, "w:" if name.endswith(".tar") else "w:gz", format=layout) as tar:
            for member, data in files.items():
                info = tarfile.TarInfo(member)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    else:
        path.mkdir(exist_ok=True)
        for member, data in files.items():
            (path / member).parent.mkdir(parents=True, exist_ok=True)
            (path / member).write_bytes(data)
    return path


def files_of(folder: Path) -> dict[str, bytes]:
    """Relative path and content of each file below a folder, sorted by path."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
