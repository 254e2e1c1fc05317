"""Export the detector to an ONNX file, and read one; tensors keep the names of the network."""

from pathlib import Path

import torch

from polyplink.core.artefacts import atomic_file, write_json
from polyplink.core.errors import PolyplinkError, extras_installed
from polyplink.core.onnx_files import write_graph
from polyplink.detect.onnx import DetectorRecord, record_path
from polyplink.learn.detector.yolox import STRIDES, YoloxNano, coco_start


def export_detector(network: YoloxNano, path: Path, record: DetectorRecord) -> None:
    """Write a detector as an ONNX file for any number and size of images, and its record.

    Raises:
        PolyplinkError: If the extra `export` is not installed.
    """
    step = STRIDES[-1]  # sides of an input are multiples of it
    height, width = (torch.export.Dim(name, min=2, max=64) for name in ("rows", "columns"))
    axes = {0: torch.export.Dim("batch", min=1, max=256), 2: step * height, 3: step * width}
    inputs = {"images": torch.zeros((2, 3, 4 * step, 5 * step))}
    with atomic_file(path) as new:
        write_graph(new, network, inputs, "output0", {"images": axes}, purpose="the export")
    write_json(record_path(path), record)


def read_network(path: Path) -> YoloxNano:
    """The network of a detector that polyplink exported, or YOLOX-Nano's COCO weights.

    Args:
        path: An ONNX file, or `yolox-nano.param` with its `.bin` beside it.

    Raises:
        PolyplinkError: If the file is missing or of another network.
    """
    if not path.is_file():
        raise PolyplinkError(f"no file {path}", "give --init an existing file")
    if path.suffix == ".param":
        return coco_start(path)
    with extras_installed("reading a detector's weights"):
        import onnx  # noqa: PLC0415  an extra
        from onnx import numpy_helper  # noqa: PLC0415
    network = YoloxNano()
    problem = f"{path} is not a detector that `polyplink train-detector` wrote"
    remedy = "give such a file, or yolox-nano.param"
    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception:  # protobuf's errors have no public class
        raise PolyplinkError(problem, remedy) from None
    state = network.state_dict()
    weights = {
        tensor.name: torch.from_numpy(numpy_helper.to_array(tensor).copy())
        for tensor in model.graph.initializer
        if tensor.name in state
    }
    is_same_network = {name: tensor.shape for name, tensor in weights.items()} == {
        name: tensor.shape for name, tensor in state.items()
    }
    if not is_same_network:
        raise PolyplinkError(problem, remedy)
    network.load_state_dict(weights)
    return network
