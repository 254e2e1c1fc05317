"""What is known of views."""

import torch

from polyplink.learn.supervised import same_polyp
from polyplink.learn.views import identities


def test_unknown_views_match_nothing_not_even_each_other() -> None:
    known = torch.tensor([True, False, True, False, True])
    polyp = identities(torch.tensor([0, 7, 0, 7, 3]), known)
    assert polyp[known].tolist() == [0, 0, 3]
    assert same_polyp(polyp).sum() == 5 + 2  # each itself, and the one pair
