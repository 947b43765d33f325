"""ONNX models in, and back with the plan in them.

    graph = stowage.onnx.load("model.onnx")
    result = stowage.optimize(graph, "cpu+h200x1")
    model = stowage.onnx.annotate("model.onnx", result.plan)     # needs the package onnx
    parts = stowage.onnx.split("model.onnx", result.plan)        # a model for each session of ONNX Runtime
    with stowage.onnx.Runner(parts, ["cpu:0", "cuda:0"]) as run: # needs onnxruntime
        outputs = run({"x": x})

:func:`load` of a path needs nothing; objects of the package onnx are taken and returned where it is installed.
"""
from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any, Optional, Union

from ._graph import Graph, Shape
from ._graph import load as _load
from ._library import Error
from ._onnx_run import Runner
from ._onnx_split import Part, Split
from ._onnx_split import split as _split
from ._plan import Plan

if TYPE_CHECKING:
    import onnx

__all__ = ["Part", "Runner", "Split", "annotate", "load", "split"]

Model = Union[str, "os.PathLike[str]", bytes, "onnx.ModelProto"]


def load(model: Model, shape: Optional[Shape] = None) -> Graph:
    """The graph of a model: a path, the bytes of a file, or a ModelProto. ``shape`` as for :func:`stowage.load`."""
    if isinstance(model, (str, os.PathLike)):
        return _load(model, shape)
    return Graph.parse(_serialized(model), "the ONNX model", shape)


def annotate(model: Model, plan: Plan, path: Union[str, "os.PathLike[str]", None] = None) -> onnx.ModelProto:
    """The model with a device, priority and group at each node, nodes in planned order.

    ``model`` is the one that the plan's graph was made from. With ``path`` the file is kept there. Needs the package onnx
    for the result; ``plan.export("onnx", path, model=...)`` writes the file without it.
    """
    try:
        import onnx
    except ImportError as error:
        raise ImportError(f"stowage.onnx.annotate needs the package onnx (pip install onnx): {error}") from None

    with tempfile.TemporaryDirectory() as folder:
        source = os.fspath(model) if isinstance(model, (str, os.PathLike)) else _file_of(model, folder)
        target = os.fspath(path) if path is not None else os.path.join(folder, "annotated.onnx")
        plan.export("onnx", target, model=source)
        return onnx.load(target, load_external_data=False)


def split(model: Model, plan: Plan) -> Split:
    """The model in parts, one session of ONNX Runtime each: what runs on one device without waiting for another in between, and the
    tensors that they exchange. :class:`Runner` runs them; :meth:`Split.save` writes them. ``model`` is the one that the plan's graph
    was made from; tensors that lie in other files are looked for beside it. Needs the package onnx.
    """
    planned = annotate(model, plan)
    if isinstance(model, (str, os.PathLike)):
        import onnx

        onnx.load_external_data_for_model(planned, os.path.dirname(os.path.abspath(os.fspath(model))))
    return _split(planned, plan)


def _serialized(model: Any) -> bytes:
    if isinstance(model, bytes):
        return model
    if not hasattr(model, "SerializeToString"):
        raise TypeError(f"a path, bytes or a ModelProto is needed, not {type(model).__name__}")
    try:
        return model.SerializeToString()
    except ValueError as error:  # protobuf's limit of 2 GiB
        raise Error(f"the model cannot be serialized: {error}; save it with external data and give its path") from None


def _file_of(model: Any, folder: str) -> str:
    path = os.path.join(folder, "model.onnx")
    with open(path, "wb") as opened:
        opened.write(_serialized(model))
    return path
