"""Where the sequences of a MOTChallenge data set are."""

from dataclasses import dataclass
from pathlib import Path

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.files.folders import files_in
from polyplink.data.formats.frame_names import PARTS

KINDS = ("gt", "det")


@dataclass(frozen=True)
class Sequence:
    """One sequence.

    Attributes:
        name: Its name, which becomes the procedure's.
        path: The file with its boxes.
        folder: The sequence's folder; for a file of results, the one of its name beside it,
            which may not be there.
        truth: Whether the boxes are ground truth.
        part: `train` or `test`, from the folder around it; None: none.
    """

    name: str
    path: Path
    folder: Path
    truth: bool
    part: str | None


def mot_sequences(source: Path, kind: str | None, faults: Faults) -> list[Sequence]:
    """Find the sequences of a source.

    Args:
        source: See `import_mot`.
        kind: "gt", "det", or None: the ground truth where it is there.
        faults: Told of detections that are not read because ground truth is there.

    Raises:
        PolyplinkError: If the kind is unknown, there is none, or two have one name.
    """
    PolyplinkError.unless(
        kind is None or kind in KINDS, f"no kind {kind!r}", f"choose one of: {', '.join(KINDS)}"
    )
    if source.is_file():
        return [_of_file(source, kind)]
    if not source.is_dir():
        raise PolyplinkError(f"no file or folder {source}", "check the path")
    found = []
    for folder in [source, *_below(source)]:
        files = [folder / each / f"{each}.txt" for each in KINDS]
        there = [path for path in files if path.is_file()]
        wanted = [path for path in there if kind is None or path.stem == kind]
        if kind is None and len(there) > 1:
            faults.warn("sequence with detections beside ground truth, not read", folder.name)
        found += [_of_file(path, kind) for path in wanted[:1]]
    if not found:
        found = [_of_file(path, kind) for path in files_in(source, ".txt")]
    if not found:
        raise PolyplinkError(
            f"{source} has no <sequence>/gt/gt.txt, <sequence>/det/det.txt or <sequence>.txt",
            "check the path",
        )
    _require_own_names(found)
    return found


def _below(source: Path) -> list[Path]:
    """Folders in a source, and in its parts."""
    folders = []
    for folder in sorted(p for p in source.iterdir() if p.is_dir() and p.name[0] != "."):
        folders += sorted(p for p in folder.iterdir() if p.is_dir()) if _is_part(folder) else []
        folders.append(folder)
    return folders


def _is_part(folder: Path) -> bool:
    return folder.name in PARTS


def _of_file(path: Path, kind: str | None) -> Sequence:
    if path.stem in KINDS and path.parent.name == path.stem:
        folder = path.parent.parent
        part = folder.parent.name if _is_part(folder.parent) else None
        return Sequence(folder.resolve().name, path, folder, path.stem == "gt", part)
    return Sequence(path.stem, path, path.parent / path.stem, kind == "gt", None)


def _require_own_names(found: list[Sequence]) -> None:
    paths: dict[str, Path] = {}
    for sequence in found:
        if sequence.name in paths:
            raise PolyplinkError(
                f"{sequence.path} and {paths[sequence.name]} are of one sequence name",
                "give every sequence its own name",
            )
        paths[sequence.name] = sequence.path
