"""Write a data set as plain CSV: `detections.csv`, `procedures.csv`, `polyps.csv`."""

from pathlib import Path

from polyplink.core.artefacts import write_text
from polyplink.data.formats.side_tables import write_side_tables
from polyplink.data.tables import DataSet


def write_csv(data: DataSet, root: Path) -> None:
    """Write the three tables with our column names; `import_csv` reads them.

    Everything is carried but the splits; an empty text becomes null. Floats are written with as
    many digits as give the same float32 back.

    Args:
        data: The data set.
        root: Folder to write into; made if absent. Files of the same names are replaced.
    """
    write_text(root / "detections.csv", data.detections.write_csv())
    write_side_tables(data, root)
