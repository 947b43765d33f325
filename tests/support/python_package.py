"""What the tests of the Python package share: the package from this checkout, two small graphs, another interpreter, a folder."""
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python"
sys.path.insert(0, str(PACKAGE / "src"))
if "STOWAGE_LIBRARY" in os.environ:
    os.environ["STOWAGE_LIBRARY"] = os.path.abspath(os.environ["STOWAGE_LIBRARY"])

GRAPH = ROOT / "data" / "graphs" / "unet.json.gz"
SANITIZED = "LD_PRELOAD" in os.environ  # the library is built with a sanitizer: everything is slow

TINY = {
    "format": "opgraph", "version": 1, "name": "tiny", "outputs": [4, 5], "loss": 4,
    "nodes": [
        {"id": 0, "name": "x", "op": "input", "inputs": [], "dtype": "f32", "shape": [128, 256]},
        {"id": 1, "name": "w", "op": "parameter", "label": "layer.weight", "inputs": [], "dtype": "f32", "shape": [64, 256]},
        {"id": 2, "name": "w_t", "op": "t", "view": True, "inputs": [1], "dtype": "f32", "shape": [256, 64]},
        {"id": 3, "name": "mm", "op": "mm", "inputs": [0, 2], "dtype": "f32", "shape": [128, 64], "flops": 4194304, "us": {"h200": 3.0}},
        {"id": 4, "name": "loss", "op": "sum", "inputs": [3], "dtype": "f32", "shape": [], "flops": 8192, "us": {"h200": 2.0}},
        {"id": 5, "name": "sgd", "op": "sub", "inputs": [1, 3], "updates": 1, "dtype": "f32", "shape": [64, 256], "us": {"h200": 4.0}},
    ],
}  # fmt: skip

# an input of dnn-partitioning, which brings its machine: two accelerators of 1000 bytes and a host
PARTED = {
    "maxSizePerFPGA": 1000, "maxFPGAs": 2, "maxCPUs": 1,
    "nodes": [{"id": 10, "name": "a", "cpuLatency": 1, "fpgaLatency": 0.25, "colorClass": None, "size": 100, "supportedOnFpga": 1},
              {"id": 20, "name": "b", "cpuLatency": 2, "fpgaLatency": 0.5, "colorClass": None, "size": 0, "supportedOnFpga": 1}],
    "edges": [{"sourceId": 10, "destId": 20, "cost": 0.002}],
}  # fmt: skip


def has(package):
    return importlib.util.find_spec(package) is not None


def merged(plan):
    """How many ops are not in a group of their own."""
    return sum(plan.group[op.id] != op.id for op in plan.graph.ops)


def groups(plan):
    """The group of each op, called by its first op: numbers are free."""
    first = {}
    return [-1 if plan.group[op.id] < 0 else first.setdefault(plan.group[op.id], op.id) for op in plan.graph.ops]


def torch_lacks():
    """Why stowage.torch cannot be tested here, or ""."""
    if SANITIZED:
        return "torch is not run under a sanitizer"
    if not has("torch"):
        return "torch is not installed"
    version = importlib.metadata.version("torch")
    return f"torch {version} is older than 2.1" if [int(n) for n in re.findall(r"\d+", version)[:2]] < [2, 1] else ""


def python(code, *, environment=None, **options):
    """Runs code in another interpreter that sees the package."""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(PACKAGE / "src"), **(environment or {})}, **options,
    )  # fmt: skip


class Temporary(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
