"""The three tables, the data sets that are read into them, their splits and their doctor."""

from polyplink.data.tables import (
    DETECTIONS,
    POLYPS,
    PROCEDURES,
    TABLES,
    Column,
    DataSet,
    Schema,
    check,
    read_data,
    write_data,
)
from polyplink.data.voc import VocFrame, VocObject, format_voc, parse_voc
from polyplink.data.write_real_colon import (
    annotations_folder,
    frame_stem,
    frames_folder,
    write_annotations,
    write_real_colon,
    write_tables,
)

__all__ = [
    "DETECTIONS",
    "POLYPS",
    "PROCEDURES",
    "TABLES",
    "Column",
    "DataSet",
    "Schema",
    "VocFrame",
    "VocObject",
    "annotations_folder",
    "check",
    "format_voc",
    "frame_stem",
    "frames_folder",
    "parse_voc",
    "read_data",
    "write_annotations",
    "write_data",
    "write_real_colon",
    "write_tables",
]
