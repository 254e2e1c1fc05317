"""Fragments ready for training: their positions in time, their polyps and their pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from polyplink.core.lazy_torch import torch

if TYPE_CHECKING:  # recipes import this module; importing tracklets takes a quarter of a second
    import polars as pl

    from polyplink.tracklets.prepare import Prepared

_SHARE_OF_MEMORY = 0.5  # of the free GPU memory, for crops; the training step needs the rest


@dataclass(frozen=True)
class Tracklets:
    """The t tracklets of a set, for samplers that cut views from whole tracklets.

    Attributes:
        names: (t,) ids of the tracklets.
        procedures: (t,) int code of each tracklet's procedure.
        polyps: (t,) int code of each tracklet's polyp; meaningless where `labelled` is False.
        labelled: (t,) bool, whether the polyp is known.
        first: (t,) int64, row of the tracklet's first crop among all crops of the set.
        count: (t,) int64, number of the tracklet's crops, which are consecutive rows.
    """

    names: Sequence[str]
    procedures: np.ndarray
    polyps: np.ndarray
    labelled: np.ndarray
    first: np.ndarray
    count: np.ndarray


class FragmentSet:
    """Fragments of some procedures, with access to their crops from a device.

    If the device is a GPU and the crops fit in half of its free memory, they are copied there once
    and batches are indexed on the GPU. Otherwise each batch is gathered from the memory maps.

    Attributes:
        procedures: (n,) int code of each fragment's procedure.
        positions: (n,) float64, first frame within the procedure's annotated span, 0 to 1.
        polyps: (n,) int code of each fragment's polyp; meaningless where `labelled` is False.
        labelled: (n,) bool, whether the polyp is known.
        rows: (n, s) int64, rows of the fragments' crops among all crops of the set.
        tracklets: The tracklets that the fragments were cut from, and those too short for one.
        tracklet_of: (c,) int64, the tracklet of every crop; -1 for a crop of no tracklet.
        polyp_positions: (c,) float64, time of every crop, from 0 at its polyp's first frame to 1
            at its last; 0 where the polyp is unknown.
        stride: Frames from one crop to the next.
    """

    def __init__(
        self, prepared: Prepared, procedures: Sequence[str], length: int, device: torch.device
    ) -> None:
        part = prepared.select(procedures)
        table, crops = part.fragments(length), part.fragments(1)

        # The crops of all procedures, one array after the other, and the first row of each array.
        present = crops["procedure_id"].unique(maintain_order=True).to_list()
        code = {name: i for i, name in enumerate(present)}
        self._arrays = [part.crops(name) for name in present]
        self._starts = np.cumsum([0, *map(len, self._arrays)])

        # The fragments.
        self.procedures = np.array([code[p] for p in table["procedure_id"]], dtype=np.int64)
        self.positions = table["position"].to_numpy().astype(np.float64)
        self.labelled = table["polyp_id"].is_not_null().to_numpy()
        self.tracklets = _tracklets_of(part.tracklets, code, self._starts)
        self.polyps = self.tracklets.polyps[table["tracklet"].to_numpy()]
        first = table["crop_first"].to_numpy() + self._starts[self.procedures]  # n
        self.rows = first[:, None] + np.arange(length)  # n s
        self.stride = prepared.settings.stride

        # Tracklet and time of each crop that belongs to a tracklet.
        owner = crops["tracklet"].to_numpy()  # c
        places = crops["crop_first"].to_numpy() + self._starts[self.tracklets.procedures[owner]]
        self.tracklet_of = np.full(int(self._starts[-1]), -1, np.int64)
        self.tracklet_of[places] = owner
        self.polyp_positions = np.zeros(int(self._starts[-1]))
        self.polyp_positions[places] = crops["polyp_position"].fill_null(0.0).to_numpy()
        self.device = device
        self._resident = self._copy_to_device()

    def __len__(self) -> int:
        return len(self.rows)

    def _copy_to_device(self) -> torch.Tensor | None:
        """All crops (c, h, w, 3) on the GPU; None on a CPU, or if they take too much memory."""
        if self.device.type != "cuda" or not self._arrays:
            return None
        free, _ = torch.cuda.mem_get_info(self.device)
        if sum(a.nbytes for a in self._arrays) > _SHARE_OF_MEMORY * free:
            return None
        shape = (int(self._starts[-1]), *self._arrays[0].shape[1:])
        resident = torch.empty(shape, dtype=torch.uint8, device=self.device)
        for start, array in zip(self._starts, self._arrays, strict=False):
            resident[start : start + len(array)] = torch.from_numpy(np.array(array))
        return resident

    def pixels(self, clips: np.ndarray) -> torch.Tensor:
        """Crops of m clips with rows (m, s), concatenated: uint8 (m s, h, w, 3) on the device."""
        rows = clips.reshape(-1)  # m s
        if self._resident is not None:
            return self._resident[torch.from_numpy(rows).to(self.device)]
        owner = np.searchsorted(self._starts, rows, side="right") - 1
        out = np.empty((len(rows), *self._arrays[0].shape[1:]), np.uint8)
        for i in np.unique(owner):
            is_owner = owner == i
            out[is_owner] = self._arrays[i][rows[is_owner] - self._starts[i]]
        return torch.from_numpy(out).to(self.device)


def _tracklets_of(table: pl.DataFrame, code: dict[str, int], starts: np.ndarray) -> Tracklets:
    """The tracklets of a prepared part; `starts` holds the first row of each procedure."""
    procedures = np.array([code[p] for p in table["procedure_id"]], dtype=np.int64)
    names = table["polyp_id"].fill_null("").to_numpy()
    return Tracklets(
        names=table["tracklet_id"].to_list(),
        procedures=procedures,
        polyps=np.unique(names, return_inverse=True)[1].astype(np.int64),
        labelled=table["polyp_id"].is_not_null().to_numpy(),
        first=table["crop_first"].to_numpy().astype(np.int64) + starts[procedures],
        count=table["n_crops"].to_numpy().astype(np.int64),
    )
