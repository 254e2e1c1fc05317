"""The report of an embedded part of a data set: what `count` and `evaluate` have in common."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from polyplink.core.artefacts import to_plain
from polyplink.encoders import weights_path
from polyplink.jobs.clustering import scenes
from polyplink.jobs.embedding import Embedded
from polyplink.jobs.operating import Operating
from polyplink.jobs.page import (
    Linked,
    link,
    operating_point,
    pages,
    provenance,
    training_curves,
)
from polyplink.report import Comparison, Report


def link_all(done: Embedded, operating: Operating) -> list[Linked]:
    """Cluster every procedure at the operating point; those without tracklets are left out."""
    return [
        link(scene, operating) for scene in scenes(done.prepared, done.embeddings, operating.form)
    ]


def association_warnings(operating: Operating, linked: Sequence[Linked]) -> tuple[str, ...]:
    """What a reader of time lines and links must know."""
    said = []
    if operating.calibration is None:
        said.append(f"Links carry no sureness ({operating.origin}).")
    failed = [one.scene.procedure_id for one in linked if not one.clustering.converged]
    if failed:
        said.append(f"Affinity propagation did not converge in {', '.join(failed)}.")
    return tuple(said)


def report_on(
    title: str,
    weights: Path,
    done: Embedded,
    operating: Operating,
    linked: Sequence[Linked],
    *,
    seconds: Mapping[str, float],
    comparison: Comparison | None = None,
    notes: tuple[str, ...] = (),
    warnings: tuple[str, ...] = (),
) -> Report:
    """The page of a job.

    Args:
        title: Head line.
        weights: As the user gave them; a training history beside them is shown.
        done: The part and its vectors.
        operating: With which setting it was associated.
        linked: From `link_all`.
        seconds: Time per stage.
        comparison: Table of methods, where there is one.
        notes: Things to know.
        warnings: Things to know beside those of the association.
    """
    return Report(
        title=title,
        provenance=provenance(done.prepared, done.loaded),
        procedures=tuple(pages(linked, done.prepared, operating)),
        comparison=comparison,
        training=training_curves(weights_path(weights), done.loaded),
        operating_point=operating_point(operating),
        settings={name: str(value) for name, value in to_plain(done.prepared.settings).items()},
        seconds=seconds,
        notes=notes,
        warnings=association_warnings(operating, linked) + warnings,
    )
