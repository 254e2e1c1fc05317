"""The noise-aware contrastive loss of NTSSL (2.2), as in the text and as in the reference code.

Positives are summed inside the logarithm, so one true positive in a bag is enough: the gradient
on a false positive vanishes as the others align. In SupCon, with the mean over positives outside
the logarithm, every positive must match.

Bags may differ in size: samples carry the number of their bag, and members that are missing in a
short procedure are absent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from polyplink.core.errors import PolyplinkError
from polyplink.core.lazy_torch import torch
from polyplink.core.ranges import NOT_NEGATIVE, POSITIVE, Ranged
from polyplink.learn.contrastive import Views, cosine_logits, masked_logsumexp, mean_over


def symmetric_noise_aware(
    embeddings: torch.Tensor,
    bag: torch.Tensor,
    temperature: float,
    *,
    fragment: torch.Tensor | None = None,
    procedure: torch.Tensor | None = None,
) -> torch.Tensor:
    """The loss as in the reference code and MIL-NCE: every sample of every bag is an anchor.

    For sample a: -log( sum over p in P(a) of e^s(a,p) / sum over q != a of e^s(a,q) ), where P(a)
    are the other samples of its bag; averaged over the samples that have a positive.

    Args:
        embeddings: (n, d), projected; normalised here.
        bag: (n,) int, the bag of each sample.
        temperature: Divides the cosine; 0.07 in the reference.
        fragment: (n,) int, the fragment of each sample: samples of the anchor's fragment are then
            neither positives nor negatives (the reference's masking of same-fragment frames). None
            to mask nothing.
        procedure: (n,) int, the procedure of each sample: samples of the anchor's procedure outside
            its bag are then no negatives, because they may show its polyp. None for all negatives.

    Returns:
        Scalar; 0 where no sample has a positive.
    """
    logits = cosine_logits(embeddings, embeddings, temperature)  # n n
    compared = ~torch.eye(len(bag), dtype=torch.bool, device=bag.device)
    if fragment is not None:
        compared = compared & (fragment[:, None] != fragment[None, :])
    positive = (bag[:, None] == bag[None, :]) & compared  # n n
    if procedure is not None:
        compared = positive | (procedure[:, None] != procedure[None, :])
    rows = masked_logsumexp(logits, compared) - masked_logsumexp(logits, positive)  # n
    return mean_over(rows, positive.any(dim=1))


def anchored_noise_aware(
    embeddings: torch.Tensor,
    bag: torch.Tensor,
    anchor: torch.Tensor,
    temperature: float,
    *,
    procedure: torch.Tensor | None = None,
) -> torch.Tensor:
    """The loss as in the text, eq. 1: members of a bag against its anchor and all other anchors.

    For anchor y_i with members z_i1..z_iK: -log( sum_k e^s(z_ik, y_i) / ( sum_k e^s(z_ik, y_i) +
    sum over j != i, k of e^s(z_ik, y_j) ) ). The text sums over anchors; this function averages.
    With several anchors in a bag (its frames), each gives a row, and only anchors of other bags
    are in the denominator.

    Args:
        embeddings: (n, d), projected; normalised here.
        bag: (n,) int, the bag of each sample.
        anchor: (n,) bool, True for the anchor's sample(s) of a bag.
        temperature: Divides the cosine; the text states none.
        procedure: (n,) int or None, as in `symmetric_noise_aware`.

    Returns:
        Scalar; 0 where no anchor has a member.
    """
    logits = cosine_logits(embeddings, embeddings, temperature)  # n n, rows y, columns z
    same_bag = bag[:, None] == bag[None, :]  # n n
    members = same_bag & ~anchor[None, :]  # the members of each row's bag
    positives = members & anchor[:, None]  # n n
    positive = masked_logsumexp(logits, positives)  # n
    # The second sum of the denominator: first, for every member, over the anchors of other bags,
    # then over the members of the bag.
    of_others = ~same_bag if procedure is None else procedure[:, None] != procedure[None, :]  # n n
    foreign = masked_logsumexp(logits.T, of_others & anchor[None, :])  # n, by member z
    negative = masked_logsumexp(foreign.expand_as(logits), members)  # n
    rows = torch.logaddexp(positive, negative) - positive
    return mean_over(rows, positives.any(dim=1))


@dataclass(frozen=True)
class NoiseAwareLoss(Ranged, prefix="loss"):
    """The noise-aware loss, configured by a recipe.

    Attributes:
        kind: Discriminates the losses in a recipe's JSON.
        form: "symmetric" (the reference code) or "anchored" (eq. 1 of the text).
        temperature: Divides the cosine.
        tracklet: Weight of the loss on tracklet (CLS) embeddings.
        frame: Weight of the loss on frame embeddings, with all frames of a bag as its members.
        within: Weight of the reference's third term: frames of one fragment as positives.
        mask_fragment: Leave frames of the anchor's fragment out of the frame term
            (symmetric form only; eq. 1 never pairs an anchor with itself).
        negatives: "all" views of other bags (NTSSL), or only those of "other_procedures": views of
            one procedure in different bags often show the same polyp.
    """

    kind: Literal["noise_aware"] = "noise_aware"
    form: Literal["symmetric", "anchored"] = "symmetric"
    temperature: Annotated[float, POSITIVE] = 0.07
    tracklet: Annotated[float, NOT_NEGATIVE] = 1.0
    frame: Annotated[float, NOT_NEGATIVE] = 1.0
    within: Annotated[float, NOT_NEGATIVE] = 0.0
    mask_fragment: bool = False
    negatives: Literal["all", "other_procedures"] = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        if max(self.tracklet, self.frame, self.within) <= 0.0:
            raise PolyplinkError(
                "loss.tracklet, loss.frame and loss.within are all 0",
                "set one above 0, as in --set loss.frame=1",
            )

    def __call__(self, views: Views) -> torch.Tensor:
        """The loss of a batch, from its bags alone (NTSSL 2.2, "Multi-Level Objective").

        It is the weighted sum of the tracklet level, the frame level and the third term; terms of
        weight 0 are not computed.
        """
        bag, anchor, frames = views.bag, views.anchor, views.frames
        procedure = views.procedure if self.negatives == "other_procedures" else None  # n
        length = len(frames) // len(bag)
        fragment = torch.arange(len(bag), device=bag.device).repeat_interleave(length)  # n s
        total = frames.new_zeros(())
        if self.tracklet:
            level = self._level(views.tracklets, bag, anchor, None, procedure)
            total = total + self.tracklet * level
        frame_procedure = None if procedure is None else procedure[fragment]  # n s
        if self.frame:
            masked = fragment if self.mask_fragment else None
            level = self._level(frames, bag[fragment], anchor[fragment], masked, frame_procedure)
            total = total + self.frame * level
        if self.within:
            within = symmetric_noise_aware(
                frames, fragment, self.temperature, procedure=frame_procedure
            )
            total = total + self.within * within
        return total

    def _level(
        self,
        embeddings: torch.Tensor,
        bag: torch.Tensor,
        anchor: torch.Tensor,
        fragment: torch.Tensor | None,
        procedure: torch.Tensor | None,
    ) -> torch.Tensor:
        """The loss on embeddings (n, d) of tracklets or of frames, in the configured form."""
        if self.form == "anchored":
            return anchored_noise_aware(
                embeddings, bag, anchor, self.temperature, procedure=procedure
            )
        return symmetric_noise_aware(
            embeddings, bag, self.temperature, fragment=fragment, procedure=procedure
        )
