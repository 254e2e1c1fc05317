"""Write docs/reference/licences.md: `make licences`.

Dependencies state their licences in their metadata, weights and data sets in our catalogues.
"""

import re
import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from polyplink.data.doctor import LICENCES
from polyplink.encoders.catalogue import BACKBONE, FOUNDATION, REFERENCES

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "licences.md"
DEVELOPMENT = ("all", "bench", "dev", "docs", "trackers")  # extras that no user needs
DETECTORS = (  # no detector comes with polyplink: what the programs that write its files are under
    ("YOLOv5, YOLOv8, YOLO11 (Ultralytics)", "AGPL-3.0, or a licence that is bought"),
    ("YOLOv7, YOLOv9", "GPL-3.0"),
    ("YOLOv10", "AGPL-3.0"),
    ("DETR, RT-DETR, D-FINE", "Apache-2.0"),
    ("torchvision", "BSD-3-Clause"),
)
HEAD = """# Licences

The licences of what polyplink installs, reads or contains. This is not legal advice.
`make licences` makes the page from the metadata of installed packages.

polyplink is under Apache-2.0. It contains two models, with the terms of their data on their cards
(`polyplink models`), and the tables of REAL-Colon
(`src/polyplink/data/released/real_colon/README.md`).
"""


def licence(package: str) -> str:
    """The licence that an installed package states."""
    try:
        package_metadata = metadata(package)
    except PackageNotFoundError:
        return "(not installed where this page was made)"
    classes = [
        classifier.rpartition(":: ")[2]
        for classifier in package_metadata.get_all("Classifier") or ()
        if classifier.startswith("License ::") and classifier.rpartition(":: ")[2] != "OSI Approved"
    ]
    text = (
        package_metadata["License-Expression"]
        or (package_metadata["License"] or "").strip().partition("\n")[0]
    )
    stated = 0 < len(text) < 100 and not text.startswith(("Copyright", "License agreement"))
    return text if stated else ", ".join(classes) or "see the package"


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    heads = list(heads)
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in lines
    )


def by_licence(named: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Licences in order, each with the names that are under it, from pairs of name and licence."""
    names: dict[str, list[str]] = {}
    for name, terms in named:
        names.setdefault(terms, []).append(name)
    return [(terms, ", ".join(names[terms])) for terms in sorted(names, key=str.lower)]


def packages() -> list[tuple[str, str]]:
    """Direct dependencies, with the extras that ask for them, and their licences."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {"": project["dependencies"], **project["optional-dependencies"]}
    extras_of: dict[str, list[str]] = {}
    for extra, lines in extras.items():
        for line in lines:
            name = re.split(r"[\[<>=!~; ]", line)[0]
            if extra not in DEVELOPMENT and name != "polyplink":
                extras_of.setdefault(name, []).append(extra)
    return [
        (f"{name} ({', '.join(by)})" if any(by) else name, licence(name))
        for name, by in sorted(extras_of.items())
    ]


def main() -> None:
    """Write the page."""
    weights = (*FOUNDATION.values(), *REFERENCES.values(), BACKBONE)
    parts = (
        HEAD,
        "## Packages\n",
        "In brackets: the extras that install a package. Others are always installed.\n",
        table(("licence", "packages"), by_licence(packages())),
        "\n## Weights\n",
        "None is downloaded. `polyplink weights list` prints where each comes from.\n",
        table(("licence", "weights"), by_licence((w.title, w.licence) for w in weights)),
        "\n## Data sets\n",
        table(
            ("data set", "licence", "access", "observe"),
            ((name, *terms) for name, terms in LICENCES.items()),
        ),
        "\n## Detectors\n",
        "polyplink reads ONNX files and runs no code of these programs; their licences may bind\n"
        "anyone who trains or passes on a detector.\n",
        table(("written by", "licence of the program"), DETECTORS),
    )
    PAGE.write_text("\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
