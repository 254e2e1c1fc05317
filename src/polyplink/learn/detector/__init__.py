"""A detector of polyps: its network, training on annotated frames, and ONNX file."""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink.learn.detector.augmented_frames import (
        Augmentation as Augmentation,
        TrainingFrames as TrainingFrames,
        draw_batch as draw_batch,
    )
    from polyplink.learn.detector.figure import training_figure as training_figure
    from polyplink.learn.detector.fit import (
        FitConfig as FitConfig,
        FitState as FitState,
        fit_detector as fit_detector,
    )
    from polyplink.learn.detector.frames import (
        detect_in_frames as detect_in_frames,
        read_frames as read_frames,
        true_boxes as true_boxes,
    )
    from polyplink.learn.detector.loss import assign as assign, detection_loss as detection_loss
    from polyplink.learn.detector.onnx_file import (
        export_detector as export_detector,
        read_network as read_network,
    )
    from polyplink.learn.detector.yolox import YoloxNano as YoloxNano, grid as grid

hand_on(__name__)
