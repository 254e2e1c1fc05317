"""The loss of the detector: task-aligned assignment, quality scores and generalised IoU.

A box is learned by the cells near its centre that predict it best: the `CANDIDATES` cells with the
largest s ** 0.5 * IoU ** 4 (TOOD, Feng et al. 2021, equation 5, with exponents that favour the
IoU). The target score of such a cell is its alignment relative to the best cell of the box, times
the best IoU; that of all other cells is 0. Scores are learned by binary cross-entropy, with
negatives weighted as in the varifocal loss (Zhang et al. 2021).
"""

import torch
from torch import Tensor
from torch.nn import functional

CANDIDATES = 10  # cells that learn one box
NEAR = 2.5  # strides from the centre within which cells may learn a box
BOX_WEIGHT = 2.0


def corners(boxes: Tensor) -> tuple[Tensor, Tensor]:
    """Top left and bottom right corners (..., 2, n) of boxes (..., 4, n), centre and size."""
    half = boxes[..., 2:, :] / 2
    return boxes[..., :2, :] - half, boxes[..., :2, :] + half


def generalised_iou(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """IoU and generalised IoU (Rezatofighi et al. 2019) of boxes (..., 4, n), centre and size."""
    (low_a, high_a), (low_b, high_b) = corners(a), corners(b)
    shared = (torch.minimum(high_a, high_b) - torch.maximum(low_a, low_b)).clamp_min(0).prod(-2)
    union = a[..., 2:, :].prod(-2) + b[..., 2:, :].prod(-2) - shared
    hull = (torch.maximum(high_a, high_b) - torch.minimum(low_a, low_b)).prod(-2)
    iou = shared / union.clamp_min(1e-6)
    return iou, iou - (hull - union) / hull.clamp_min(1e-6)


def assign(logits: Tensor, boxes: Tensor, truth: Tensor, cells: Tensor) -> tuple[Tensor, Tensor]:
    """Assign true boxes to cells: target scores (b, n), and the box (b, n) that each cell learns.

    Args:
        logits: (b, n) score logits of the cells.
        boxes: (b, 4, n) predicted boxes of the cells, centre and size in pixels.
        truth: (b, k, 4) true boxes, centre and size in pixels; NaN beyond the last.
        cells: (3, n) from `polyplink.learn.detector.yolox.grid`.
    """
    is_box = truth.isfinite().all(2)  # b k
    t = truth.nan_to_num()[..., None]  # b k 4 1
    iou, _ = generalised_iou(boxes[:, None], t)  # b k n
    iou = iou.clamp_min(0)
    centres = (cells[:2] + 0.5) * cells[2]  # 2 n
    offset = (centres - t[:, :, :2]).abs()  # b k 2 n
    # Inside the box, or within a few strides of the centre where the box is small.
    is_inside = (offset <= torch.maximum(t[:, :, 2:] / 2, cells[2])).all(2)
    is_near = (offset <= NEAR * cells[2]).all(2)
    alignment = logits.sigmoid()[:, None].sqrt() * iou.pow(4) + 1e-9 * iou  # b k n
    # In an untrained network no box may overlap: the nearest cells are then the candidates.
    alignment = alignment + 1e-12 / (1 + offset.sum(2))
    alignment = alignment.masked_fill(~(is_inside & is_near & is_box[..., None]), 0.0)
    best = alignment.topk(min(CANDIDATES, alignment.shape[2]), 2)
    candidates = torch.zeros_like(alignment).scatter_(2, best.indices, best.values)  # b k n
    score, box_index = candidates.max(1)  # b n
    assigned = candidates * functional.one_hot(box_index, candidates.shape[1]).transpose(1, 2)
    largest = assigned.amax(2, keepdim=True)  # b k 1
    best_iou = torch.where(assigned > 0, iou, 0).amax(2, keepdim=True)
    target = (assigned / largest.clamp_min(1e-12) * best_iou.clamp_min(0.1)).amax(1)  # b n
    return torch.where(score > 0, target, 0.0), box_index


def detection_loss(logits: Tensor, boxes: Tensor, truth: Tensor, cells: Tensor) -> Tensor:
    """The detection loss of a batch; the arguments are those of `assign`."""
    with torch.no_grad():
        target, box_index = assign(logits, boxes, truth, cells)
    total = target.sum().clamp_min(1.0)
    weight = torch.where(target > 0, 1.0, logits.detach().sigmoid().square())
    scores = functional.binary_cross_entropy_with_logits(logits, target, weight, reduction="sum")
    target_boxes = truth.nan_to_num().gather(1, box_index[..., None].expand(-1, -1, 4))  # b n 4
    _, giou = generalised_iou(boxes, target_boxes.transpose(1, 2))
    return (scores + BOX_WEIGHT * (target * (1 - giou)).sum()) / total
