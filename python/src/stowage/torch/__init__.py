"""PyTorch modules: their graphs, and plans that run.

    import stowage, stowage.torch
    graph = stowage.torch.trace(module, example_input)          # forward, backward, SGD update
    result = stowage.optimize(graph, "h200x4")

Needs torch 2.1 or newer.
"""
try:
    import torch as _torch  # noqa: F401
except ImportError as _error:
    raise ImportError(f"stowage.torch needs PyTorch 2.1 or newer (pip install torch): {_error}") from None

from .calibrating._calibrate import calibrate
from .predicting._predict import Calibration
from .running._place import Placed, place
from .tracing._trace import costs_of, trace
from .tuning._tune import Tuned, tune

__all__ = ["Calibration", "Placed", "Tuned", "calibrate", "costs_of", "place", "trace", "tune"]
