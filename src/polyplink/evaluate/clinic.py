"""What a clinic asks of a count: polyps, adenomas and their detection rate per colonoscopy.

PPC is polyps per colonoscopy, APC adenomas per colonoscopy, ADR the share of colonoscopies with an
adenoma or more. Each is given as it is (from the polyps with a tracklet) and as counted (from the
clusters). A cluster is called what most of its tracklets of known histology show: it is a
histologist's word that is counted here, not a classifier's.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class ClinicRow:
    """One procedure as a clinic counts it.

    Attributes:
        procedure: Its name.
        polyps: Polyps that have a tracklet.
        counted: Clusters.
        adenomas: Polyps that are adenomas; None where no histology is known.
        adenomas_counted: Clusters called adenoma; None likewise.
    """

    procedure: str
    polyps: int
    counted: int
    adenomas: int | None
    adenomas_counted: int | None


@dataclass(frozen=True)
class Clinic:
    """Rates over procedures; those of adenomas over the procedures of known histology.

    Attributes:
        procedures: Procedures counted.
        ppc: Polyps per colonoscopy.
        ppc_counted: Clusters per colonoscopy.
        with_histology: Procedures of which some polyp's histology is known.
        apc: Adenomas per colonoscopy; None without histology, as are the next three.
        apc_counted: Clusters called adenoma per colonoscopy.
        adr: Share of colonoscopies with an adenoma.
        adr_counted: Share with a cluster called adenoma.
        rows: One per procedure.
    """

    procedures: int
    ppc: float
    ppc_counted: float
    with_histology: int
    apc: float | None
    apc_counted: float | None
    adr: float | None
    adr_counted: float | None
    rows: tuple[ClinicRow, ...]


def clinic_row(
    procedure: str, labels: npt.ArrayLike, polyps: Sequence[int], adenoma: Sequence[bool | None]
) -> ClinicRow:
    """Count one procedure.

    Args:
        procedure: Its name.
        labels: Cluster of every tracklet of known polyp (n,).
        polyps: Its polyp (n,).
        adenoma: Whether that is an adenoma (n,); None where unknown.
    """
    clusters, of = np.unique(np.asarray(labels), return_inverse=True)
    kind = [None if value is None else bool(value) for value in adenoma]
    known = np.array([value is not None for value in kind], dtype=np.bool_)
    yes = np.array([value is True for value in kind], dtype=np.bool_)
    true = len({polyp for polyp, value in zip(polyps, yes.tolist(), strict=True) if value})
    votes = np.bincount(of, weights=yes, minlength=clusters.size)
    against = np.bincount(of, weights=known & ~yes, minlength=clusters.size)
    called = int(((votes > 0) & (votes >= against)).sum())  # a tie is called adenoma: it is one
    has = bool(known.any())
    return ClinicRow(
        procedure,
        len(set(polyps)),
        int(clusters.size),
        true if has else None,
        called if has else None,
    )


def _rate(values: Sequence[int | None], at_least: bool) -> float | None:
    defined = [value for value in values if value is not None]
    if not defined:
        return None
    return float(np.mean([float(v > 0) if at_least else float(v) for v in defined]))


def clinic_figures(rows: Sequence[ClinicRow]) -> Clinic | None:
    """The rates over procedures; None where nothing was counted."""
    if not rows:
        return None
    true, called = [r.adenomas for r in rows], [r.adenomas_counted for r in rows]
    return Clinic(
        procedures=len(rows),
        ppc=float(np.mean([row.polyps for row in rows])),
        ppc_counted=float(np.mean([row.counted for row in rows])),
        with_histology=sum(value is not None for value in true),
        apc=_rate(true, at_least=False),
        apc_counted=_rate(called, at_least=False),
        adr=_rate(true, at_least=True),
        adr_counted=_rate(called, at_least=True),
        rows=tuple(rows),
    )
