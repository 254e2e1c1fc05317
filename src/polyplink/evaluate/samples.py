"""The tracklets that are evaluated: whose they are, when they were seen, what they show."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from polyplink.associate.similarity import checked_positions
from polyplink.core.errors import PolyplinkError

Codes = npt.NDArray[np.int64]


def _codes(names: Sequence[str]) -> tuple[tuple[str, ...], Codes]:
    """Distinct names in order of first appearance, and the place of every name in them."""
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    return tuple(places), np.array([places[name] for name in names], dtype=np.int64)


@dataclass(frozen=True)
class Samples:
    """n tracklets of any number of procedures, one row each, in any order.

    Attributes:
        tracklet_ids: Name of every tracklet (n,), unique.
        procedures: Names of the procedures, in order of first appearance.
        procedure: Place of every tracklet's procedure in `procedures` (n,).
        polyp: Code of every tracklet's polyp (n,); an unknown one has a code of its own.
        known: Whether the polyp is known (n,).
        positions: Position in the procedure (n,), in [0, 1].
    """

    tracklet_ids: tuple[str, ...]
    procedures: tuple[str, ...]
    procedure: Codes
    polyp: Codes
    known: npt.NDArray[np.bool_]
    positions: npt.NDArray[np.float64]

    @classmethod
    def of(
        cls,
        tracklet_ids: Sequence[str],
        procedures: Sequence[str],
        polyps: Sequence[str | None],
        positions: npt.ArrayLike,
    ) -> Self:
        """Check the columns of a table of tracklets.

        Args:
            tracklet_ids: Name of every tracklet (n,).
            procedures: Name of its procedure (n,).
            polyps: Name of its polyp (n,), None where unknown.
            positions: Its position in the procedure (n,), in [0, 1].

        Raises:
            PolyplinkError: If the columns differ in length or are empty, a tracklet occurs twice,
                a polyp occurs in two procedures, no polyp is known, or a position is outside
                [0, 1].
        """
        p = checked_positions(positions)
        lengths = {len(tracklet_ids), len(procedures), len(polyps), p.size}
        if len(lengths) > 1 or lengths == {0}:
            raise PolyplinkError(
                f"columns of {len(tracklet_ids)} tracklets, {len(procedures)} procedures, "
                f"{len(polyps)} polyps and {p.size} positions",
                "give one of each per tracklet, and at least one tracklet",
            )
        _check_names(tracklet_ids, procedures, polyps)
        names, procedure = _codes(procedures)
        known = np.array([polyp is not None for polyp in polyps], dtype=np.bool_)
        # A tracklet of unknown polyp is named by its row: equal to no other.
        _, polyp = _codes([f"p{v}" if v is not None else f"{i}" for i, v in enumerate(polyps)])
        return cls(tuple(tracklet_ids), names, procedure, polyp, known, p)

    def of_procedure(self, place: int) -> tuple[Self, Codes]:
        """One procedure's tracklets, and their rows in these samples."""
        rows = np.flatnonzero(self.procedure == place)
        return self.take(rows), rows

    def take(self, rows: Codes) -> Self:
        """Some tracklets, at least one, in that order."""
        names, procedure = _codes([self.procedures[place] for place in self.procedure[rows]])
        return replace(
            self,
            tracklet_ids=tuple(self.tracklet_ids[row] for row in rows),
            procedures=names,
            procedure=procedure,
            polyp=self.polyp[rows],
            known=self.known[rows],
            positions=self.positions[rows],
        )

    @property
    def unlabelled(self) -> int:
        """How many tracklets have no known polyp."""
        return int((~self.known).sum())


def _check_names(
    tracklet_ids: Sequence[str], procedures: Sequence[str], polyps: Sequence[str | None]
) -> None:
    seen: set[str] = set()
    for row, name in enumerate(tracklet_ids):
        if name in seen:
            raise PolyplinkError(
                f"tracklet {name!r} occurs twice (row {row})", "give each tracklet one row"
            )
        seen.add(name)
    home: dict[str, str] = {}
    for polyp, procedure in zip(polyps, procedures, strict=True):
        if polyp is not None and home.setdefault(polyp, procedure) != procedure:
            raise PolyplinkError(
                f"polyp {polyp!r} is in procedures {home[polyp]!r} and {procedure!r}",
                "name polyps so that no two procedures share a name",
            )
    if not home:
        raise PolyplinkError(
            "no tracklet has a known polyp", "evaluate on procedures with annotated polyps"
        )
