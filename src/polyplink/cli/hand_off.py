"""The verb `hand-off`: a reviewed count as files for other people and programs."""

from pathlib import Path

from polyplink.cli import options
from polyplink.cli.verb import verb
from polyplink.core.results import Result
from polyplink.core.text import many


@verb
def hand_off_review(
    folder: options.CountedFolder,
    *,
    language: options.Language = "en",
    data: options.MovedData = None,
    mask_overlay: options.MaskOverlay = (),
) -> Result[list[Path]]:
    """Write a reviewed count as spreadsheet, page to print, JSON, COCO and MOT.

    Args:
        folder: Folder of `run` or `count`; the files go into its folder `reviewed`.

    Returns:
        Paths of the files.

    Raises:
        PolyplinkError: If the folder was not counted, or its data or its recording have changed.
    """
    folder = Path(folder)
    from polyplink.counting.count_folder import check_recording, counted_folder

    check_recording(counted_folder(folder))
    from polyplink.counting.count_part import named_procedures
    from polyplink.serve.desk import open_desk
    from polyplink.serve.handoff import FOLDER, hand_off, outdated_messages

    # The files.
    desk = open_desk(folder, None if data is None else Path(data), mask_overlay)
    paths = hand_off(desk, language)

    # What they lack.
    overview = desk.overview()
    warnings = [*map(str, outdated_messages(overview))]
    if unfinished := [row["id"] for row in overview["procedures"] if not row["done"]]:
        names = named_procedures(unfinished)["names"]
        warnings.append(f"{many(len(unfinished), 'procedure')} not marked as finished ({names})")
    if with_questions := [row["id"] for row in overview["procedures"] if row["questions"]]:
        open_questions = sum(row["questions"] for row in overview["procedures"])
        names = named_procedures(with_questions)["names"]
        warnings.append(f"{many(open_questions, 'open question')} ({names})")
    if borderless := sorted(desk.pictures.borderless):
        warnings.append(
            f"{many(len(borderless), 'procedure')} without a dark border ({borderless[0]}): "
            "`field` masks nothing there; cover text over the picture with --mask-overlay "
            "LEFT,TOP,WIDTH,HEIGHT"
        )
    if missing := sorted(desk.pictures.missing):
        warnings.append(
            f"{many(len(missing), 'procedure')} without pictures ({missing[0]}): recording and "
            "crops are missing; restore the recording and hand off again"
        )
    names = [str(path) for path in paths]
    facts = {"folder": str(desk.out / FOLDER), "files": names, "warnings": warnings}
    return Result(paths, facts, names, warnings)
