"""ONNX files, computed by onnxruntime on the CPU."""

import os
from pathlib import Path
from typing import Any

from polyplink.core.errors import PolyplinkError, extras_installed, first_line


def import_onnxruntime(purpose: str) -> Any:
    """Import onnxruntime with its telemetry off (from 1.29 it reports every session).

    Args:
        purpose: What needs onnxruntime, for the error message.

    Raises:
        PolyplinkError: If onnxruntime is not installed.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # not on Windows, where the system collects
    with extras_installed(purpose):
        import onnxruntime  # noqa: PLC0415 - an extra
    onnxruntime.disable_telemetry_events()
    return onnxruntime


def open_session(path: Path, purpose: str, hint: str, threads: int = 1) -> Any:
    """A session of onnxruntime.

    Args:
        path: The ONNX file.
        purpose: What needs onnxruntime, for the error message if it is not installed.
        hint: How to fix a broken file, for the error message.
        threads: Number of threads of a run; 0 for one per core.

    Raises:
        PolyplinkError: If onnxruntime is not installed, or the file is broken.
    """
    onnxruntime = import_onnxruntime(purpose)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    try:
        # Its fallback is the same provider again, and prints on stdout.
        session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"], enable_fallback=0
        )
        ports = (*session.get_inputs(), *session.get_outputs())
        str([(port.name, port.shape, port.type) for port in ports])  # a name may not be UTF-8
    except Exception as error:  # onnxruntime has no exception class of its own
        raise PolyplinkError(f"{path} cannot be read as ONNX ({first_line(error)})", hint) from None
    return session
