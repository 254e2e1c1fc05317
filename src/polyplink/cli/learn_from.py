"""The verb `learn-from`: links fitted on reviewed counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument

from polyplink.cli import options
from polyplink.cli.options import StrPath, refuse_folder_of_weights
from polyplink.cli.verb import verb
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import Result, ShownFields
from polyplink.core.runs import RunRecord
from polyplink.core.text import many


@dataclass(frozen=True)
class Learned(ShownFields):
    """Weights and data set that reviews result in.

    Attributes:
        weights: The weights with links and operating point of the reviews.
        data: Data folder of the reviewed procedures with the corrected identities, for `train`.
        procedures: Procedures of the fit: those marked as finished.
        links: Data that the links were fitted on, and how well they count there.
        warnings: Warnings for the user, as that the links of the weights are kept.
    """

    weights: Path
    data: Path
    procedures: int
    links: str
    warnings: tuple[str, ...]


@verb
def learn_from(
    weights: options.Weights,
    folders: Annotated[StrPath | Sequence[StrPath], Argument(help="Reviewed folders.")],
    *,
    out: options.Out = "learned",
) -> Result[Learned]:
    """Fit links and operating point on finished reviews; writes new weights and labelled data.

    Args:
        out: The output folder, which gets weights.safetensors and data (boxes with the corrected
            identities).

    Raises:
        PolyplinkError: If no procedure is marked as finished, a folder was counted with other
            weights, `out` holds these weights, or the reviews hold no pair of views of one polyp,
            or none of two polyps.
    """
    weights, out = Path(weights), Path(out)
    reviewed = [*map(Path, (folders,) if isinstance(folders, str | Path) else folders)]
    from polyplink.counting.count_folder import counted_folder
    from polyplink.encoders.weights import read_record, weights_path

    path = weights_path(weights)
    for folder in reviewed:
        counted_folder(folder)
    from polyplink.associate.identities import recorded_point
    from polyplink.counting.operating_point import store_operating_point
    from polyplink.data.merge import merge
    from polyplink.data.tables import write_data
    from polyplink.encoders.weights import weights_id
    from polyplink.serve.desk import Desk
    from polyplink.serve.finished_reviews import finished_procedures, fit_reviews
    from polyplink.serve.handoff import identified_data

    # The reviews, which must be of counts with these weights.
    record = RunRecord("learn-from", settings={"weights": weights, "folders": reviewed})
    record.claim(out)
    refuse_folder_of_weights(path, out)
    before = recorded_point(read_record(path).operating)
    key = weights_id(path)
    desks = [Desk(folder) for folder in reviewed]
    for desk in desks:
        if not desk.count.weights.startswith(key):
            raise PolyplinkError(
                f"{desk.out} was counted with weights {desk.count.weights}, not with {key} of "
                f"{path}",
                "give the weights of the count",
            )
    labelled = [labels for desk in desks for labels in finished_procedures(desk)]
    if not any(procedure.has_polyp for procedure in labelled):
        raise PolyplinkError(
            f"no procedure with a polyp in {', '.join(map(str, reviewed))} is marked as finished",
            "mark some as finished in `polyplink review`",
        )

    # Links and operating point, stored in a copy of the weights; boxes with the new identities.
    with record.stage("learn"):
        point, notes = fit_reviews(desks, labelled, before)
    data = merge([(desk.data, identified_data(desk, finished=True)) for desk in desks])
    write_data(out / "data", data)
    names = data.procedures["procedure_id"].to_list()
    stored = store_operating_point(path, out, point, data, names)
    record.write(out)
    learned = Learned(stored, out / "data", len(labelled), point.origin, tuple(notes))
    printed = [
        f"{many(len(labelled), 'finished procedure')} with a view",
        f"{stored}: {point.origin}",
        f"{learned.data}: boxes with the corrected identities",
    ]
    return Result(learned, printed=printed, warnings=notes)
