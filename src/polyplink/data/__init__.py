"""The three tables, the data sets that are read into them, their splits and their doctor."""

from polyplink.data.doctor import diagnose
from polyplink.data.findings import Finding, Severity
from polyplink.data.imported import Imported
from polyplink.data.real_colon import SIMULATED, import_real_colon, simulated_name
from polyplink.data.released import lesion_info, positive_frames, published_splits, video_info
from polyplink.data.splits import split_by_rule
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
    write_table,
)
from polyplink.data.voc import VocFrame, VocObject, format_voc, parse_voc
from polyplink.data.vocabulary import (
    ADENOMA,
    AdenomaMap,
    adenoma_label,
    normalise_location,
    size_label,
)
from polyplink.data.write_real_colon import (
    annotations_folder,
    frame_stem,
    frames_folder,
    write_annotations,
    write_real_colon,
    write_tables,
)

__all__ = [
    "ADENOMA",
    "DETECTIONS",
    "POLYPS",
    "PROCEDURES",
    "SIMULATED",
    "TABLES",
    "AdenomaMap",
    "Column",
    "DataSet",
    "Finding",
    "Imported",
    "Schema",
    "Severity",
    "VocFrame",
    "VocObject",
    "adenoma_label",
    "annotations_folder",
    "check",
    "diagnose",
    "format_voc",
    "frame_stem",
    "frames_folder",
    "import_real_colon",
    "lesion_info",
    "normalise_location",
    "parse_voc",
    "positive_frames",
    "published_splits",
    "read_data",
    "simulated_name",
    "size_label",
    "split_by_rule",
    "video_info",
    "write_annotations",
    "write_data",
    "write_real_colon",
    "write_table",
    "write_tables",
]
