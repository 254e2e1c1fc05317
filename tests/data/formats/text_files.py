"""Sequences of MOT and labels of YOLO for tests."""

from pathlib import Path

INFO = "[Sequence]\nname=s\nimDir=img1\nframeRate=25\nseqLength=9\nimWidth=64\nimHeight=48\n"


def write_sequence(
    root: Path, lines: str, kind: str = "gt", info: str = INFO, name: str = "s"
) -> Path:
    folder = root / name
    (folder / kind).mkdir(parents=True, exist_ok=True)
    (folder / kind / f"{kind}.txt").write_text(lines)
    (folder / "seqinfo.ini").write_text(info)
    return root


def write_labels(root: Path, **files: str) -> Path:
    (root / "labels").mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (root / "labels" / f"{name}.txt").write_text(text)
    return root
