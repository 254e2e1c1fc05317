"""ONNX models that return the same boxes for every image, in every output layout."""

from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

SIZE = 64  # pixels of the input; images are 128 x 96, so a letterbox scales them by 1/2
BOXES = np.array([[10.0, 14.0, 30.0, 34.0], [40.0, 20.0, 60.0, 50.0]])  # corners in the input
SCORES = np.array([0.9, 0.6])


def centre_and_size(boxes: np.ndarray) -> np.ndarray:
    """Boxes (n, 4) as centre and size, from corners."""
    return np.concatenate([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]], 1)


def place_among_empty_candidates(rows: np.ndarray, n: int) -> np.ndarray:
    """Both rows among n candidates of score 0, with a copy of the first at a lower score."""
    table = np.zeros((n, rows.shape[1]))
    table[:, :4] = [5, 5, 4, 4]
    table[7], table[n - 3] = rows
    table[8] = rows[0] * 0.99
    return table[None]


def outputs_of(layout: str) -> dict[str, np.ndarray]:
    """Outputs of a detector of the layout for BOXES with SCORES, all of class 0 of two."""
    scores, zeros = SCORES[:, None], np.zeros((2, 1))
    labels = np.zeros(2, np.int64)
    match layout:
        case "yolov5":
            rows = np.concatenate(
                [centre_and_size(BOXES), scores / 0.95, scores * 0 + 0.95, zeros], 1
            )
            return {"output": place_among_empty_candidates(rows, 1200)}
        case "yolov8":
            rows = np.concatenate([centre_and_size(BOXES), scores, zeros], 1)
            return {"output0": place_among_empty_candidates(rows, 1200).transpose(0, 2, 1)}
        case "nms":
            return {"output0": np.concatenate([BOXES, scores, zeros], 1)[None]}
        case "nms7":
            return {"output": np.concatenate([zeros, BOXES, zeros, scores], 1)}
        case "nms4":
            return {
                "num_dets": np.array([[2]]),
                "det_boxes": BOXES[None],
                "det_scores": SCORES[None],
                "det_classes": labels[None],
            }
        case "detr" | "detr-sigmoid":
            n = 100 if layout == "detr" else 300
            logits = np.full((1, n, 3 if layout == "detr" else 2), -20.0)
            boxes = np.full((1, n, 4), 0.5)
            if layout == "detr":
                logits[0, :, 2] = 0.0
                logits[0, :2, 0] = np.log(SCORES / (1 - SCORES))
            else:
                logits[0, :2, 0] = np.log(SCORES / (1 - SCORES))
            boxes[0, :2] = centre_and_size(BOXES) / SIZE
            return {"logits": logits, "pred_boxes": boxes}
        case "rtdetr8":
            rows = np.concatenate([centre_and_size(BOXES) / SIZE, scores], 1)
            return {"output0": rows[None]}
        case "rtdetr":
            return {"labels": labels[None], "boxes": BOXES[None], "scores": SCORES[None]}
        case _:
            return {"boxes": BOXES, "labels": labels, "scores": SCORES}


def write_model(path: Path, outputs: dict[str, np.ndarray], shape: list[Any]) -> Path:
    """Write an ONNX model that returns the same outputs for every image."""
    inputs = [helper.make_tensor_value_info("images", TensorProto.FLOAT, shape)]
    if set(outputs) == {"labels", "boxes", "scores"} and outputs["boxes"].ndim == 3:
        inputs.append(helper.make_tensor_value_info("sizes", TensorProto.INT64, [1, 2]))
    nodes, output_infos = [], []
    for name, output in outputs.items():
        value = output.astype(np.int64 if output.dtype.kind == "i" else np.float32)
        nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value)))
        kind = TensorProto.INT64 if value.dtype.kind == "i" else TensorProto.FLOAT
        output_infos.append(helper.make_tensor_value_info(name, kind, list(value.shape)))
    graph = helper.make_graph(nodes, "detector", inputs, output_infos)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path
