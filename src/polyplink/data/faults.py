"""Faults of a source: left out, counted and told, or raised at once."""

from dataclasses import dataclass, field

from polyplink.core.errors import PolyplinkError


@dataclass
class Faults:
    """What was wrong with a source while it was read.

    Attributes:
        strict: Whether a fault is raised instead of left out and counted.
        counts: For each kind of fault or warning, in the order met: how often, and the first name.
    """

    strict: bool = False
    counts: dict[str, tuple[int, str]] = field(default_factory=dict)

    def fault(self, kind: str, name: str, mend: str) -> None:
        """Meet a fault that makes a box or frame unusable.

        Args:
            kind: What is wrong, for the count ("box of no area").
            name: Where: a file or procedure, and the value.
            mend: What to do about it.

        Raises:
            PolyplinkError: If strict.
        """
        if self.strict:
            raise PolyplinkError(f"{name}: {kind}", f"{mend}, or import without --strict")
        self.warn(f"{kind}, left out", name)

    def warn(self, kind: str, name: str, count: int = 1) -> None:
        """Count something that is odd but usable."""
        before, first = self.counts.get(kind, (0, name))
        self.counts[kind] = (before + count, first)

    def add(self, other: "Faults") -> None:
        """Add the counts of another reader."""
        for kind, (count, name) in other.counts.items():
            self.warn(kind, name, count)

    def lines(self) -> list[str]:
        """One line for each kind: how often, what, and the first name."""
        return [f"{count} x {kind} (first: {name})" for kind, (count, name) in self.counts.items()]
