"""Stowage: decides where every operator of a model runs, in what order, and what is fused into one kernel.

    graph = stowage.load("model.json.gz")
    result = stowage.optimize(graph, "h200x4", budget="10s")
    print(result)
    result.plan.save("plan.json")

``stowage.torch`` makes graphs from PyTorch modules, ``stowage.onnx`` reads and annotates ONNX models, ``stowage.jax`` has XLA
run plans; they are imported only when asked for. Needs nothing beyond the standard library.
"""
from ._explain import Explanation
from ._graph import Graph, Node, load
from ._library import Error, library
from ._machine import Device, Machine, machines
from ._plan import Plan, Price, formats
from ._search import Bounds, Candidate, Found, Progress, Result, compare, optimize
from ._simulate import Evaluation, Simulator, methods, simulate

__version__: str = library.stw_version().decode()

__all__ = [
    "Bounds",
    "Candidate",
    "Device",
    "Error",
    "Evaluation",
    "Explanation",
    "Found",
    "Graph",
    "Machine",
    "Node",
    "Plan",
    "Price",
    "Progress",
    "Result",
    "Simulator",
    "compare",
    "formats",
    "load",
    "machines",
    "methods",
    "optimize",
    "simulate",
]
