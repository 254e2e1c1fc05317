"""Every loss that a recipe can name, told apart by `kind`."""

from typing import Annotated

from pydantic import Field

from polyplink.learn.intra_inter import IntraInterLoss
from polyplink.learn.noise_aware import NoiseAwareLoss
from polyplink.learn.nt_xent import NtXentLoss
from polyplink.learn.supervised import SupervisedLoss
from polyplink.learn.temporally_aware import TemporallyAwareLoss

AnyLoss = Annotated[
    NoiseAwareLoss | SupervisedLoss | TemporallyAwareLoss | IntraInterLoss | NtXentLoss,
    Field(discriminator="kind"),
]
"""A loss: called with the `Views` of a batch, it gives a scalar."""
