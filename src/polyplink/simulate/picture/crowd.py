"""Frames that show different polyps, drawn together: what a GPU needs to have much to do at once.

On a CPU frames are drawn in groups that show the same polyps, so that a polyp's numbers are plain
numbers. Here a frame has as many places for polyps as the frame that shows most of them; a polyp's
numbers are rows (s, 1), and places that a frame does not need hold a polyp far away from
everything, which changes no bit of a distance. So it is with calm places. Pictures are those of
the groups up to rounding.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyplink.simulate.colon.surface import Colon
from polyplink.simulate.picture.body import Body, Shape
from polyplink.simulate.picture.field import Field, Touch
from polyplink.simulate.picture.numbers import Numbers, OwnNumbers

AWAY = 1e4  # units from everything, where whatever fills an empty place is
NO_STALK = (-1e6, 0.0, 1.0)  # a stalk so thin that none of it is ever the nearest
OWN = 16  # numbers of a body for distances; 20 more follow for the rest

Table = NDArray[np.float32]


def _row(body: Body, own: OwnNumbers, shift: float) -> list[float]:
    """All numbers of a body, in the order in which `_shape` reads them."""
    first = [*(n for row in own.rows for n in row), *own.offset, *own.steep, own.per_blend]
    rest = [*(n for row in body.rows for n in row), *body.offset, *body.radii, body.blend]
    return [float(n) for n in (*first, *rest, *(body.stalk or NO_STALK), shift)]


def _nobody() -> list[float]:
    """Numbers of what fills a place without a polyp: a unit ball far away."""
    none, away, one = [0.0] * 9, [0.0, 0.0, AWAY], [1.0] * 3
    return [*none, *away, *one, 1.0, *none, *away, *one, 1.0, *NO_STALK, 0.0]


def in_places(shown: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Indices (s, k) of what is True in rows (s, n), ascending; n fills what is left of a row."""
    most = int(shown.sum(1).max(initial=0))
    which = np.argsort(~shown, axis=1, kind="stable")[:, :most]
    return np.where(np.take_along_axis(shown, which, 1), which, shown.shape[1])


@dataclass(frozen=True)
class _Taken:
    """Numbers of the places of s frames, or m rays, cut up."""

    bodies: tuple[tuple[Tensor, ...], ...]
    calm: tuple[tuple[Tensor, Tensor, Tensor], ...]


class Crowd:
    """All polyps of a procedure on a device, and the numbers of those that frames show.

    Args:
        colon: The tube.
        bodies: Its n polyps.
        device: Where pictures are drawn.
    """

    def __init__(self, colon: Colon, bodies: Sequence[Body], device: torch.device) -> None:
        self._colon, numbers = colon, Numbers.of(colon, bodies)
        self._numbers = numbers
        texels = bodies[0].maps.shape[2] if bodies else 1
        last = max(texels * len(bodies) - 1, 1)
        self._scale = (texels - 1) / last
        shifts = [2 * texels * k / last + self._scale - 1 for k in range(len(bodies))]
        rows = [_row(*one) for one in zip(bodies, numbers.bodies, shifts, strict=True)]
        self._table = np.array([*rows, _nobody()], np.float32)
        self._stalked = np.array([*(body.stalk is not None for body in bodies), False])
        calm = [[float(n) for n in place] for place in numbers.calm]
        self._calm = np.array([*calm, [1.0, 0.0, AWAY]], np.float32)
        empty = [torch.zeros(1, 6, 1, 1, device=device)]
        self._maps = torch.cat([body.maps for body in bodies] or empty, 2)  # (1, 6, n m, m)
        self._radius = self._maps[:, :1].contiguous()

    def crew(self, bodies: NDArray[np.bool_], calm: NDArray[np.bool_]) -> "tuple[Crew, Table]":
        """What frames show, and the numbers to give `Crew.distance` beside their phases.

        Args:
            bodies: (s, n) which polyps a frame may show.
            calm: (s, c) which calm places.

        Returns:
            The scene, and (q, s) numbers of its frames, without their phases.
        """
        who, where = in_places(bodies), in_places(calm)  # (s, k), (s, l)
        numbers = [self._table[who].reshape(len(who), -1), self._calm[where].reshape(len(who), -1)]
        stalked = tuple(bool(self._stalked[place].any()) for place in who.T)
        return Crew(self, stalked, where.shape[1]), np.concatenate(numbers, 1).T

    def field(self, taken: _Taken, stalked: Sequence[bool]) -> Field:
        """The scene in which frames have numbers of their own."""
        pairs = [
            self._shape(numbers, stalk)
            for numbers, stalk in zip(taken.bodies, stalked, strict=True)
        ]
        numbers = replace(
            self._numbers,
            calm=taken.calm,
            calm_z=tuple(z for _, _, z in taken.calm),
            bodies=tuple(own for _, own in pairs),
        )
        return Field(self._colon, tuple(shape for shape, _ in pairs), numbers)

    def _shape(self, n: tuple[Tensor, ...], stalked: bool) -> tuple[Shape, OwnNumbers]:
        """Numbers of a place, as `_row` puts them one after the other."""
        plain = self._numbers
        own = OwnNumbers(
            rows=((n[0], n[1], n[2]), (n[3], n[4], n[5]), (n[6], n[7], n[8])),
            offset=n[9:12],
            steep=n[12:15],
            per_blend=n[15],
            extent=plain.extent,
            tiny=plain.smallest,
        )
        r = n[OWN:]
        shape = Shape(
            rows=((r[0], r[1], r[2]), (r[3], r[4], r[5]), (r[6], r[7], r[8])),
            offset=(r[9], r[10], r[11]),
            radii=(r[12], r[13], r[14]),
            maps=self._maps,
            radius=self._radius,
            blend=r[15],
            stalk=(r[16], r[17], r[18]) if stalked else None,
            tile=(self._scale, r[19]),
        )
        return shape, own


@dataclass(frozen=True)
class Crew:
    """A scene for frames with polyps of their own; see `Crowd.crew`.

    Attributes:
        crowd: All polyps.
        stalked: Whether any polyp in a place has a stalk, for every place.
        calm: Places for calm places.
    """

    crowd: Crowd
    stalked: tuple[bool, ...]
    calm: int

    def distance(self, points: Tensor, states: Tensor) -> Tensor:
        """As `Field.distance`; states (q, s, 1) are phases, then numbers of `Crowd.crew`."""
        return self._field(states).distance(points, states[0])

    def touch(self, points: Tensor, states: Tensor) -> Touch:
        """As `Field.touch`; one share and one paint for every place."""
        return self._field(states).touch(points, states[0])

    def _field(self, states: Tensor) -> Field:
        numbers = states.unbind()[1:]
        end = len(numbers) - 3 * self.calm
        each = OWN + 20
        bodies = tuple(numbers[k : k + each] for k in range(0, end, each))
        calm = tuple((a, b, c) for a, b, c in zip(*[iter(numbers[end:])] * 3, strict=True))
        return self.crowd.field(_Taken(bodies, calm), self.stalked)
