"""Types of NumPy arrays, by the type of their numbers; docstrings give their shapes."""

import numpy as np
import numpy.typing as npt

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
