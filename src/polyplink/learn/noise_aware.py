"""The noise-aware contrastive loss of NTSSL (2.2), in the text's form and the reference's.

Positives are summed inside the logarithm, so one true positive in a bag is enough: the gradient
on a wrong one fades as the others align. In SupCon, where the mean over positives stands outside
the logarithm, every positive must match.

Bags may have any size: samples carry the number of their bag, and members that a short procedure
could not give are simply absent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from polyplink.core.errors import PolyplinkError
from polyplink.core.on_demand import torch
from polyplink.core.ranges import POSITIVE, Ranged
from polyplink.learn.contrastive import Views, cosine_logits, masked_logsumexp, mean_over


def symmetric_noise_aware(
    embeddings: torch.Tensor,
    bag: torch.Tensor,
    temperature: float,
    *,
    fragment: torch.Tensor | None = None,
    procedure: torch.Tensor | None = None,
) -> torch.Tensor:
    """The reference's form, as in MIL-NCE: every sample of every bag takes its turn as anchor.

    For sample a: -log( sum over p in P(a) of e^s(a,p) / sum over q != a of e^s(a,q) ), P(a) the
    other samples of its bag; mean over samples that have a positive.

    Args:
        embeddings: (n, d), projected; normalised here.
        bag: (n,) int, the bag of each sample.
        temperature: Divides the cosine; 0.07 in the reference.
        fragment: (n,) int or None. Where given, samples of the anchor's own fragment are neither
            positives nor negatives (the reference's masking of same-fragment frames).
        procedure: (n,) int or None. Where given, samples of the anchor's own procedure that are
            not of its bag are no negatives: they may show its polyp.

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
    """The text's form, eq. 1: bag members against their own anchor and against all others.

    For anchor y_i with members z_i1..z_iK: -log( sum_k e^s(z_ik, y_i) / ( sum_k e^s(z_ik, y_i) +
    sum over j != i, k of e^s(z_ik, y_j) ) ); the text sums over anchors, here it is their mean.
    With several anchors in a bag (its frames), each gives a row, and only anchors of other bags
    are in the denominator.

    Args:
        embeddings: (n, d), projected; normalised here.
        bag: (n,) int, the bag of each sample.
        anchor: (n,) bool, True for the anchor's sample(s) of a bag.
        temperature: Divides the cosine; the text names none.
        procedure: (n,) int or None, as in `symmetric_noise_aware`.

    Returns:
        Scalar; 0 where no anchor has a member.
    """
    logits = cosine_logits(embeddings, embeddings, temperature)  # n n, rows y, columns z
    same_bag = bag[:, None] == bag[None, :]  # n n
    members = same_bag & ~anchor[None, :]  # the members of each row's bag
    positives = members & anchor[:, None]  # n n
    positive = masked_logsumexp(logits, positives)  # n
    # The denominator's second sum, inside out: every member against the anchors of other bags,
    # then over the members of the bag.
    apart = ~same_bag if procedure is None else procedure[:, None] != procedure[None, :]  # n n
    foreign = masked_logsumexp(logits.T, apart & anchor[None, :])  # n, by member z
    against = masked_logsumexp(foreign.expand_as(logits), members)  # n
    rows = torch.logaddexp(positive, against) - positive
    return mean_over(rows, positives.any(dim=1))


@dataclass(frozen=True)
class NoiseAwareLoss(Ranged, prefix="loss"):
    """Which of the noise-aware terms count, and how.

    Attributes:
        kind: Discriminates the losses in a recipe's JSON.
        form: "symmetric" (the reference) or "anchored" (the text's eq. 1).
        temperature: Divides the cosine.
        tracklet: Weight of the loss on tracklet (CLS) embeddings.
        frame: Weight of the loss on frame embeddings, every frame of a bag a member.
        within: Weight of the reference's third term: frames of one fragment as positives.
        mask_fragment: Leave frames of the anchor's own fragment out of the frame term
            (symmetric form only; eq. 1 never pairs an anchor with itself).
        negatives: "all" views of other bags (NTSSL), or only those of "other_procedures": views of
            one procedure in different bags often show the same polyp.
    """

    kind: Literal["noise_aware"] = "noise_aware"
    form: Literal["symmetric", "anchored"] = "symmetric"
    temperature: Annotated[float, POSITIVE] = 0.07
    tracklet: float = 1.0
    frame: float = 1.0
    within: float = 0.0
    mask_fragment: bool = False
    negatives: Literal["all", "other_procedures"] = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        weights = (self.tracklet, self.frame, self.within)
        PolyplinkError.unless(
            min(weights) >= 0.0 and max(weights) > 0.0,
            f"loss.tracklet, loss.frame and loss.within are {weights}",
            "set none below 0 and one above, as in --set loss.frame=1",
        )

    def __call__(self, views: Views) -> torch.Tensor:
        """The loss of a batch, from its bags alone (NTSSL 2.2, "Multi-Level Objective").

        The weighted sum of tracklet level, frame level and the third term; one of weight 0 is not
        computed.
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
        if self.form == "anchored":
            return anchored_noise_aware(
                embeddings, bag, anchor, self.temperature, procedure=procedure
            )
        return symmetric_noise_aware(
            embeddings, bag, self.temperature, fragment=fragment, procedure=procedure
        )
