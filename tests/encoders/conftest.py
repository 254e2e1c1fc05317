"""An exported encoder, made once for all tests: it takes seconds."""

from pathlib import Path

import pytest

from polyplink.encoders.export import export_frames
from tests.encoders.exports import RECORD, SIDE, tiny


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "encoder.onnx"
    return export_frames(tiny(), path, SIDE, RECORD)
