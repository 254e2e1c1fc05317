"""The verb `review`: a person corrects a count in the browser."""

from pathlib import Path
from typing import Annotated

from typer import Option, echo

from polyplink.cli import options
from polyplink.cli.options import StrPath
from polyplink.cli.verb import verb
from polyplink.core.results import Result
from polyplink.core.text import many


@verb
def review(
    folder: options.CountedFolder,
    *,
    reviewer: Annotated[str, Option(help="Your name, for the log of corrections.")] = "",
    data: options.MovedData = None,
    mask_overlay: options.MaskOverlay = (),
    index: Annotated[
        StrPath | None, Option(help="Index in which similar earlier views are looked up.")
    ] = None,
    port: Annotated[int, Option(min=0, max=65535, help="Port; 0 takes any free one.")] = 0,
    browser: Annotated[bool, Option(help="Open the page in the browser.")] = True,
) -> Result[Path]:
    """Open a count in the browser, to look at and to correct; serves until Ctrl-C.

    Args:
        folder: Folder of `run` or `count`; every answer is appended to corrections.jsonl in it.

    Returns:
        The folder of the count.

    Raises:
        PolyplinkError: If the folder was not counted, its data or its recording have changed, or
            the port is taken.
    """
    folder = Path(folder)
    from polyplink.counting.count_folder import check_recording, counted_folder

    check_recording(counted_folder(folder))
    from polyplink.serve.desk import CountChangedError, open_desk
    from polyplink.serve.server import serve

    desk = open_desk(
        folder,
        None if data is None else Path(data),
        mask_overlay,
        reviewer=reviewer,
        index=None if index is None else Path(index),
    )
    questions = sum(procedure["questions"] for procedure in desk.overview()["procedures"])

    def ready(address: str) -> None:
        echo(f"review: {address}\nopen this address; Ctrl-C ends")
        if browser:
            import webbrowser

            webbrowser.open(address)

    serve(desk, port=port, ready=ready)
    facts = {"folder": str(desk.out), "questions": questions, "corrections": None}
    try:
        answers = sum(procedure["corrections"] for procedure in desk.overview()["procedures"])
    except CountChangedError as error:  # Ctrl-C is the usual end then too
        return Result(desk.out, facts, warnings=[error.what])
    printed = [f"{many(answers, 'correction')} in {desk.out}"]
    return Result(desk.out, facts | {"corrections": answers}, printed)
