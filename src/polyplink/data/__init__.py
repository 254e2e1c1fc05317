"""The three tables, the data sets that are read into them, their splits and their doctor."""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink.core.parts import FORMATS as FORMATS
    from polyplink.data.conversion import (
        convert as convert,
        find_format as find_format,
        find_written as find_written,
    )
    from polyplink.data.doctor import (
        SEVERITIES as SEVERITIES,
        Finding as Finding,
        diagnose as diagnose,
    )
    from polyplink.data.formats.assemble import ReadOptions as ReadOptions
    from polyplink.data.formats.coco import import_coco as import_coco, write_coco as write_coco
    from polyplink.data.formats.csv import import_csv as import_csv, write_csv as write_csv
    from polyplink.data.formats.cvat import import_cvat as import_cvat, write_cvat as write_cvat
    from polyplink.data.formats.format import Format as Format
    from polyplink.data.formats.masks import import_masks as import_masks
    from polyplink.data.formats.mot import import_mot as import_mot, write_mot as write_mot
    from polyplink.data.formats.yolo import import_yolo as import_yolo, write_yolo as write_yolo
    from polyplink.data.merged import (
        known_overlap as known_overlap,
        merge as merge,
        overlaps as overlaps,
    )
    from polyplink.data.origin import (
        BoxesOrigin as BoxesOrigin,
        BoxSource as BoxSource,
        annotated_boxes as annotated_boxes,
        box_source as box_source,
        material_of as material_of,
        read_origin as read_origin,
        write_origin as write_origin,
    )
    from polyplink.data.protocols import (
        check_splits as check_splits,
        lesion_info as lesion_info,
        positive_frames as positive_frames,
        published_splits as published_splits,
        split_by_patient as split_by_patient,
        split_by_rule as split_by_rule,
        split_by_shares as split_by_shares,
        video_info as video_info,
    )
    from polyplink.data.returned import (
        Returned as Returned,
        return_boxes as return_boxes,
        write_places as write_places,
    )
    from polyplink.data.sets.layout import ReleaseOptions as ReleaseOptions
    from polyplink.data.sets.ldpolyp import (
        import_ldpolyp as import_ldpolyp,
        write_ldpolyp as write_ldpolyp,
    )
    from polyplink.data.sets.polyp_size import (
        import_polyp_size as import_polyp_size,
        write_polyp_size as write_polyp_size,
    )
    from polyplink.data.sets.polypsset import (
        import_polypsset as import_polypsset,
        write_polypsset as write_polypsset,
    )
    from polyplink.data.sets.real_colon import (
        annotations_folder as annotations_folder,
        format_annotations as format_annotations,
        frame_stem as frame_stem,
        frames_folder as frames_folder,
        import_real_colon as import_real_colon,
        simulated_name as simulated_name,
        write_real_colon as write_real_colon,
        write_tables as write_tables,
    )
    from polyplink.data.sets.sun import import_sun as import_sun, write_sun as write_sun
    from polyplink.data.tables import (
        DETECTIONS as DETECTIONS,
        POLYPS as POLYPS,
        PROCEDURES as PROCEDURES,
        TABLES as TABLES,
        Column as Column,
        DataSet as DataSet,
        Imported as Imported,
        Places as Places,
        change_data as change_data,
        check as check,
        check_folder as check_folder,
        csv_text as csv_text,
        is_data_folder as is_data_folder,
        read_data as read_data,
        write_data as write_data,
        write_table as write_table,
    )
    from polyplink.data.vocabulary import (
        ADENOMA as ADENOMA,
        SIMULATED as SIMULATED,
        STILLS as STILLS,
        common_histology as common_histology,
        common_location as common_location,
        find_maps as find_maps,
        label_polyps as label_polyps,
        normalise_location as normalise_location,
        read_adenoma_maps as read_adenoma_maps,
        size_label as size_label,
    )

hand_on(__name__)
