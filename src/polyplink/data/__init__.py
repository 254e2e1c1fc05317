"""The three tables, the data sets that are read into them, their splits and their doctor."""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink.data.conversion import FORMATS, convert, find_importer
    from polyplink.data.doctor import SEVERITIES, Finding, diagnose
    from polyplink.data.formats.assemble import ReadOptions
    from polyplink.data.formats.coco import import_coco, write_coco
    from polyplink.data.formats.csv import import_csv, write_csv
    from polyplink.data.formats.cvat import import_cvat, write_cvat
    from polyplink.data.formats.masks import import_masks
    from polyplink.data.formats.mot import import_mot, write_mot
    from polyplink.data.formats.yolo import import_yolo, write_yolo
    from polyplink.data.merged import known_overlap, merge, overlaps
    from polyplink.data.protocols import (
        check_splits,
        lesion_info,
        positive_frames,
        published_splits,
        split_by_patient,
        split_by_rule,
        split_by_shares,
        video_info,
    )
    from polyplink.data.sets.layout import ReleaseOptions
    from polyplink.data.sets.ldpolyp import import_ldpolyp, write_ldpolyp
    from polyplink.data.sets.polyp_size import import_polyp_size, write_polyp_size
    from polyplink.data.sets.polypsset import import_polypsset, write_polypsset
    from polyplink.data.sets.real_colon import (
        annotations_folder,
        format_annotations,
        frame_stem,
        frames_folder,
        import_real_colon,
        simulated_name,
        write_real_colon,
        write_tables,
    )
    from polyplink.data.sets.sun import import_sun, write_sun
    from polyplink.data.tables import (
        DETECTIONS,
        POLYPS,
        PROCEDURES,
        TABLES,
        Column,
        DataSet,
        Imported,
        change_data,
        check,
        check_folder,
        csv_text,
        read_data,
        write_data,
        write_table,
    )
    from polyplink.data.vocabulary import (
        ADENOMA,
        SIMULATED,
        common_histology,
        common_location,
        find_maps,
        label_polyps,
        normalise_location,
        read_adenoma_maps,
        size_label,
    )

__all__ = [
    "ADENOMA",
    "DETECTIONS",
    "FORMATS",
    "POLYPS",
    "PROCEDURES",
    "SEVERITIES",
    "SIMULATED",
    "TABLES",
    "Column",
    "DataSet",
    "Finding",
    "Imported",
    "ReadOptions",
    "ReleaseOptions",
    "annotations_folder",
    "change_data",
    "check",
    "check_folder",
    "check_splits",
    "common_histology",
    "common_location",
    "convert",
    "csv_text",
    "diagnose",
    "find_importer",
    "find_maps",
    "format_annotations",
    "frame_stem",
    "frames_folder",
    "import_coco",
    "import_csv",
    "import_cvat",
    "import_ldpolyp",
    "import_masks",
    "import_mot",
    "import_polyp_size",
    "import_polypsset",
    "import_real_colon",
    "import_sun",
    "import_yolo",
    "known_overlap",
    "label_polyps",
    "lesion_info",
    "merge",
    "normalise_location",
    "overlaps",
    "positive_frames",
    "published_splits",
    "read_adenoma_maps",
    "read_data",
    "simulated_name",
    "size_label",
    "split_by_patient",
    "split_by_rule",
    "split_by_shares",
    "video_info",
    "write_coco",
    "write_csv",
    "write_cvat",
    "write_data",
    "write_ldpolyp",
    "write_mot",
    "write_polyp_size",
    "write_polypsset",
    "write_real_colon",
    "write_sun",
    "write_table",
    "write_tables",
    "write_yolo",
]

hand_on(__name__)
