#!/usr/bin/env python3
"""The Python package: its objects against the library's own answers, lifetimes, threads, Ctrl-C, torch and ONNX, the README.

    STOWAGE_LIBRARY=build/release/libstowage.so python3 tests/python/test_python.py [names of tests]
"""
import contextlib
import copy
import ctypes
import ctypes.util
import gc
import gzip
import importlib.metadata
import importlib.util
import io
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import unittest
import warnings
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from counting import run_tests  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python"
sys.path.insert(0, str(PACKAGE / "src"))
if "STOWAGE_LIBRARY" in os.environ:
    os.environ["STOWAGE_LIBRARY"] = os.path.abspath(os.environ["STOWAGE_LIBRARY"])

import stowage  # noqa: E402
from stowage import _library, _text  # noqa: E402

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


class Import(Temporary):
    def test_needs_the_standard_library_alone(self):
        done = python("import sys, stowage; print(sorted({m.split('.')[0] for m in sys.modules} & {'torch', 'numpy', 'onnx', 'jax'}))")
        self.assertEqual((done.stdout, done.stderr, done.returncode), ("[]\n", "", 0))

    def test_a_missing_library_is_named(self):
        done = python("import stowage", environment={"STOWAGE_LIBRARY": str(self.folder / "none.so")})
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"ImportError: stowage: the library {self.folder / 'none.so'} cannot be loaded", done.stderr)

    def test_no_library_at_all_says_what_helps(self):
        shutil.copytree(PACKAGE / "src" / "stowage", self.folder / "stowage", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
        environment = {k: v for k, v in os.environ.items() if k != "STOWAGE_LIBRARY"}
        code = "import ctypes.util; ctypes.util.find_library = lambda name: None; import stowage"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=self.folder,
                              env={**environment, "PYTHONPATH": str(self.folder)})  # fmt: skip
        self.assertIn("ImportError: stowage: libstowage.so is not there. Set STOWAGE_LIBRARY", done.stderr)

    def test_packages_that_are_not_there_are_named(self):
        for module, call in (("jax", ""), ("torch", ""), ("onnx", "; stowage.onnx.annotate(b'', None)")):
            done = python(f"import sys; sys.modules[{module!r}] = None; import stowage.{module}{call}")
            self.assertRegex(done.stderr.splitlines()[-1], rf"^ImportError: stowage\.{module}\S* needs .*pip install '?{module}")

    def test_a_library_of_another_kind_is_refused(self):
        libc = ctypes.util.find_library("c")
        done = python("import stowage", environment={"STOWAGE_LIBRARY": libc})
        self.assertIn(f"ImportError: stowage: the library {libc} does not fit this package", done.stderr)

    def test_version(self):
        self.assertEqual(stowage.__version__.split(".")[:2], _library.VERSION.split(".")[:2])
        project = (PACKAGE / "pyproject.toml").read_text()
        header = re.search(r'STW_VERSION "(.*)"', (ROOT / "include" / "stowage.h").read_text())[1]
        self.assertIn(f'version = "{header}"', project)
        self.assertEqual(_library.VERSION, header)

    def test_every_name_exists(self):
        for name in stowage.__all__:
            self.assertTrue(hasattr(stowage, name), name)


class Layout(Temporary):
    """The structures must be those of stowage.h, byte by byte."""

    STRUCTURES = {
        "stw_error": _library.CError, "stw_node": _library.CNode, "stw_evaluation": _library.CEvaluation,
        "stw_bounds": _library.CBounds, "stw_progress": _library.CProgress, "stw_watch": _library.CWatch,
        "stw_found": _library.CFound, "stw_candidate": _library.CCandidate, "stw_noise": _library.CNoise,
        "stw_export_io": _library.CExportIo,
    }  # fmt: skip

    @unittest.skipUnless(shutil.which("cc"), "no C compiler")
    def test_sizes_and_offsets(self):
        lines = []
        for name, structure in self.STRUCTURES.items():
            lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
            lines += [f'printf("{name}.{f[0]} %zu\\n", offsetof({name}, {f[0]}));' for f in structure._fields_]
        source, program = self.folder / "layout.c", self.folder / "layout"
        source.write_text("#include <stddef.h>\n#include <stdio.h>\n#include <stowage.h>\nint main(void) {" + "\n".join(lines) + "return 0;}")
        environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
        subprocess.run(["cc", "-I", ROOT / "include", source, "-o", program], check=True, env=environment)
        printed = subprocess.run([program], check=True, capture_output=True, text=True, env=environment).stdout
        expected = dict(line.split() for line in printed.splitlines())
        for name, structure in self.STRUCTURES.items():
            self.assertEqual(ctypes.sizeof(structure), int(expected[name]), name)
            for field in structure._fields_:
                self.assertEqual(getattr(structure, field[0]).offset, int(expected[f"{name}.{field[0]}"]), (name, field[0]))


class Graphs(Temporary):
    def test_nodes_are_those_of_the_file(self):
        graph = stowage.Graph.parse(TINY)
        self.assertEqual((graph.name, len(graph), len(graph.nodes), len(graph.ops)), ("tiny", 6, 6, 3))
        self.assertEqual([n.kind for n in graph.nodes], ["input", "parameter", "view", "op", "op", "op"])
        for node, written in zip(graph.nodes, TINY["nodes"]):
            self.assertEqual((node.id, node.name, node.op), (written["id"], written["name"], written["op"]))
            self.assertEqual((list(node.inputs), list(node.shape), node.dtype), (written["inputs"], written["shape"], "f32"))
            self.assertEqual((node.label, node.updates), (written.get("label", ""), written.get("updates")))
            self.assertEqual(node.flops, written.get("flops", 0))
        self.assertEqual([n.root for n in graph.nodes], [0, 1, 1, 3, 4, 5])
        self.assertEqual(graph.nodes[-1], graph.nodes[5])
        self.assertEqual(graph.nodes[1:3], [graph.nodes[1], graph.nodes[2]])
        for index in (6, -7, 2**32, 2**32 + 3, -(2**32), 2**64):
            with self.assertRaises(IndexError):
                graph.nodes[index]
        for index in (1.5, "1"):
            with self.assertRaises(TypeError):
                graph.nodes[index]

    def test_sums(self):
        graph = stowage.Graph.parse(TINY)
        self.assertEqual(graph.parameter_bytes, 64 * 256 * 4)
        self.assertEqual(graph.bytes, 4 * (128 * 256 + 64 * 256 + 128 * 64 + 1 + 64 * 256))
        self.assertEqual(graph.flops, 4194304 + 8192)
        self.assertEqual(len(graph.fingerprint), 32)
        self.assertIsNone(graph.machine)

    def test_repr(self):
        graph = stowage.Graph.parse(TINY)
        self.assertEqual(repr(graph), "<Graph 'tiny': 6 nodes, 3 ops, 65.5 kB of parameters, 4.2 MFLOP>")
        self.assertIn("<td>65.5 kB</td>", graph._repr_html_())
        self.assertIn("&lt;b&gt;", stowage.Graph.parse({**TINY, "name": "<b>"})._repr_html_())

    def test_save_and_load(self):
        graph = stowage.Graph.parse(TINY)
        for name in ("g.json", "g.json.gz"):
            graph.save(self.folder / name)
            again = stowage.load(self.folder / name)
            self.assertEqual((again.fingerprint, again.path), (graph.fingerprint, str(self.folder / name)))
        self.assertEqual(json.loads(gzip.decompress((self.folder / "g.json.gz").read_bytes())), TINY)
        again.save(self.folder / "copy.json.gz")
        self.assertEqual(stowage.load(self.folder / "copy.json.gz").fingerprint, graph.fingerprint)

    def test_errors_carry_the_library_s_words(self):
        with self.assertRaises(stowage.Error) as caught:
            stowage.load("/nowhere/graph.json")
        self.assertIn("/nowhere/graph.json", str(caught.exception))
        with self.assertRaises(stowage.Error) as caught:
            stowage.Graph.parse({**TINY, "version": 9}, "mine")
        self.assertIn("mine", str(caught.exception))
        self.assertEqual(caught.exception.status, "input")

    def test_files_appear_whole_or_not_at_all(self):
        from stowage._files import whole_file

        path, link = self.folder / "g.json", self.folder / "link.json"
        with self.assertRaises(KeyError):
            with whole_file(path) as opened:
                opened.write(b"half")
                raise KeyError
        self.assertEqual(os.listdir(self.folder), [])
        link.symlink_to("g.json")
        graph = stowage.Graph.parse(TINY)
        graph.save(link)  # where it leads to
        self.assertTrue(link.is_symlink())
        path.chmod(0o600)
        before = path.read_bytes()
        with self.assertRaises(KeyError):
            with whole_file(path) as opened:
                opened.write(b"half")
                raise KeyError
        self.assertEqual(path.read_bytes(), before)
        stowage.load(path).save(path)
        self.assertEqual((path.read_bytes(), path.stat().st_mode & 0o777), (before, 0o600))
        self.assertEqual(sorted(os.listdir(self.folder)), ["g.json", "link.json"])
        with self.assertRaises(OSError):
            graph.save(self.folder / "no" / "g.json")
        graph.save("/dev/null")

    def test_limit_of_a_file(self):
        path = self.folder / "wide.json.gz"
        path.write_bytes(gzip.compress(json.dumps(TINY).encode() + b" " * 70_000_000, 1))
        for read in (lambda **more: stowage.load(path, **more), lambda **more: stowage.Graph.parse(path.read_bytes(), **more)):
            with self.assertRaises(stowage.Error) as caught:
                read()
            self.assertIn("to more than 67108864 bytes", str(caught.exception))
            self.assertEqual(read(file_limit="71MB").name, "tiny")
            self.assertEqual(read(file_limit=71_000_000).name, "tiny")

    def test_shape_text(self):
        from stowage._graph import shape_text

        self.assertEqual(shape_text({"image": (8, 3, 224), "batch": 8}), "image=8,3,224;batch=8")
        self.assertEqual(shape_text("x=1"), "x=1")
        with self.assertRaises(stowage.Error):
            stowage.load(GRAPH, shape={"nothing": (1, 2)})


class Machines(Temporary):
    def test_builtin(self):
        machine = stowage.Machine("cpu+h200x2")
        self.assertEqual([d.name for d in machine.devices], ["cpu", "h200:0", "h200:1"])
        self.assertEqual((len(machine), machine.name), (3, "cpu+h200x2"))
        self.assertIn("h200xN", stowage.machines())
        self.assertIn("3 devices (cpu, h200:0, h200:1)", repr(machine))
        self.assertIn("<td>h200:1</td>", machine._repr_html_())

    def test_memory_leaves_the_other_machine_alone(self):
        machine = stowage.Machine("h200x2")
        small = machine.with_memory("2GB")
        self.assertEqual(small.memory, [2 * 10**9] * 2)
        self.assertGreater(min(machine.memory), 10**11)
        self.assertEqual(stowage.Machine("h200x2", memory="1GiB").memory, [2**30] * 2)
        self.assertEqual(small.with_memory(5e8).memory, [5 * 10**8] * 2)
        for bad in ("2 apples", "GB", ""):
            with self.assertRaises(ValueError):
                machine.with_memory(bad)

    def test_memory_of_machines_that_came_with_something(self):
        graph = stowage.Graph.parse(PARTED)
        small = graph.machine.with_memory(500)
        self.assertEqual((small.name, [d.name for d in small.devices]), (graph.machine.name, [d.name for d in graph.machine.devices]))
        self.assertEqual(small.memory, [500] * len(graph.machine))
        self.assertEqual(stowage.optimize(graph, evaluations=20, memory=50).plan, None)
        plan = stowage.Simulator(graph).run("single")
        plan.save(self.folder / "plan.json")
        own = stowage.Plan.load(self.folder / "plan.json", graph)
        self.assertEqual(own.machine.with_memory("1kB").memory, [1000] * len(own.machine))
        self.assertEqual(stowage.simulate(graph, None, own, memory=10**9).step, plan.evaluate().step)
        tiny, device = stowage.Graph.parse(TINY), [0, 1, 1, 1, 0, 1]
        for name in ("h200x2-pcie", "h200x2-host", "cpu+h200x2"):  # nothing else changes: links, host, times
            before = stowage.Machine(name)
            steps = [stowage.Plan(tiny, machine, device=device).evaluate().step for machine in (before, before.with_memory("1GB"))]
            self.assertEqual(steps[0], steps[1])
            self.assertIsNotNone(steps[0])

    def test_the_current_directory_plays_no_part_later(self):
        described = {"format": "machine", "version": 1, "name": "mine", "devices": [{"name": "a", "kind": "h200"}]}
        (self.folder / "m.json").write_text(json.dumps(described))
        stowage.Graph.parse(TINY).save(self.folder / "g.json")
        before = os.getcwd()
        os.chdir(self.folder)
        try:
            machine, graph = stowage.Machine("m.json"), stowage.load("g.json")
        finally:
            os.chdir(before)
        self.assertEqual(machine.with_memory("1GB").memory, [10**9])
        graph.save(self.folder / "copy.json")
        self.assertEqual(graph.path, str(Path(self.folder, "g.json").resolve()))

    def test_sizes_out_of_range(self):
        machine = stowage.Machine("h200x1")
        for bad in (-1, 2**63, 2**64 + 10**9, 1e30, "99999999999TB", float("nan")):
            with self.assertRaises((ValueError, OverflowError)):
                machine.with_memory(bad)

    def test_file_and_dict(self):
        described = {"format": "machine", "version": 1, "name": "mine", "devices": [{"name": "a", "kind": "h200"}]}
        (self.folder / "m.json").write_text(json.dumps(described))
        for source in (described, self.folder / "m.json", str(self.folder / "m.json")):
            self.assertEqual([d.name for d in stowage.Machine(source).devices], ["a"])
        with self.assertRaises(stowage.Error):
            stowage.Machine("h200x0")


class Plans(Temporary):
    def setUp(self):
        super().setUp()
        self.graph = stowage.Graph.parse(TINY)

    def test_values(self):
        plan = stowage.Plan(self.graph, "h200x2", device=[0, 1, 1, 1, 0, 1], priority=[0.5] * 6)
        self.assertEqual((plan.device, plan.priority), ((0, 1, 1, 1, 0, 1), (0.5,) * 6))
        with self.assertRaises(TypeError):
            plan.device[0] = 1  # would be lost
        self.assertEqual([plan.group[k] for k in (3, 4, 5)], [3, 4, 5])
        plan.group = [-1, -1, -1, 3, 3, 5]
        self.assertEqual(plan.group[4], 3)
        self.assertEqual(repr(plan), "<Plan of tiny on h200x2; h200:0: 1 ops, h200:1: 2 ops>")
        self.assertIn("<td>66.7 %</td>", plan._repr_html_())
        for bad in ([0] * 5, [0.5] * 6, ["x"] * 6, [None] * 6):
            with self.assertRaises(ValueError):
                plan.device = bad
        for bad in (2**31, -(2**31) - 1, 2**32, 2**64):
            with self.assertRaises(OverflowError):
                plan.device = [bad] * 6
            with self.assertRaises(OverflowError):
                plan.set_order(0, [3, bad, 4])
            with self.assertRaises(OverflowError):
                plan.set_order(bad, [3, 5, 4])
        self.assertEqual(plan.device, (0, 1, 1, 1, 0, 1))
        plan.device = [1.0] * 6
        self.assertEqual(plan.device, (1,) * 6)

    @unittest.skipUnless(has("numpy"), "numpy is not installed")
    def test_numpy(self):
        import numpy

        plan = stowage.Plan(self.graph, "h200x2", device=numpy.array([0, 1, 1, 1, 0, 1]))
        arrays = plan.to_numpy()
        self.assertEqual(tuple(arrays["device"].tolist()), plan.device)
        with self.assertRaises(ValueError):
            plan.device = numpy.full(6, 0.5)
        plan.device = numpy.ones(6, numpy.float32)
        self.assertEqual(plan.device, (1,) * 6)
        self.assertEqual(arrays["priority"].dtype, numpy.float64)

    def test_evaluation(self):
        one = stowage.Plan(self.graph, "h200x2").evaluate()
        self.assertTrue(one.valid)
        self.assertAlmostEqual(one.step, 9e-6, 12)
        self.assertEqual((one.transfers, one.busy[1], one.reason, one.message), (0, 0.0, None, ""))
        self.assertAlmostEqual(one.measured_share, 1.0)
        self.assertLessEqual(one.lower_bound, one.step)
        two = stowage.simulate(self.graph, "h200x2", stowage.Plan(self.graph, "h200x2", device=[0, 0, 0, 0, 1, 0]))
        self.assertEqual((two.transfers, two.transfer_bytes), (1, 128 * 64 * 4))
        self.assertIn("h200:1", repr(two))
        self.assertIn("<th>utilisation</th>", two._repr_html_())

    def test_invalid_plans_are_results(self):
        split = stowage.Plan(self.graph, "h200x2", device=[0, 0, 0, 0, 0, 1]).evaluate()
        self.assertEqual((split.valid, split.reason, split.step, split.peak), (False, "colocation", None, ()))
        self.assertIn("invalid (colocation", repr(split))
        tight = stowage.simulate(self.graph, "h200x1", stowage.Plan(self.graph, "h200x1"), memory=1000)
        self.assertEqual((tight.valid, tight.reason), (False, "memory"))
        with self.assertRaises(stowage.Error):
            stowage.Plan(self.graph, "h200x2", device=[7] * 6).evaluate()

    def test_save_and_load(self):
        plan = stowage.Plan(self.graph, "h200x2", device=[0, 0, 0, 0, 1, 0], priority=[0.1, 1 / 3, 0, 2, 3, 4])
        plan.set_order(0, [5, 3]), plan.set_order(0, None)
        plan.save(self.folder / "plan.json")
        again = stowage.Plan.load(self.folder / "plan.json", self.graph)
        self.assertEqual((again.device[4], again.priority[1], again.machine.name), (1, 1 / 3, "h200x2"))
        self.assertEqual(again.evaluate(), plan.evaluate())
        self.assertEqual(stowage.simulate(self.graph, None, self.folder / "plan.json"), plan.evaluate())
        other = stowage.Plan.load(self.folder / "plan.json", self.graph, "h200x3")
        self.assertNotEqual(other.warning, "")
        with self.assertRaises(stowage.Error):
            stowage.Plan.load(self.folder / "plan.json", stowage.load(GRAPH))

    def test_order(self):
        plan = stowage.Plan(self.graph, "h200x1")
        plan.set_order(0, [3, 5, 4])
        self.assertTrue(plan.evaluate().valid)
        self.assertTrue(plan.copy().evaluate().valid)
        self.assertEqual((plan.order(0), plan.copy().order(0), plan.order(1)), ((3, 5, 4), (3, 5, 4), None))
        plan.set_order(0, [5, 3, 4])
        self.assertEqual(plan.evaluate().reason, "order")

    def test_copies_are_plans_of_their_own(self):
        plan = stowage.Plan(self.graph, "h200x2", device=[0, 0, 0, 0, 1, 0])
        for made in (plan.copy(), copy.copy(plan)):
            made.device = [0] * 6
            self.assertEqual((plan.device[4], made.device[4]), (1, 0))

    def test_another_machine(self):
        plan = stowage.Plan(self.graph, "h200x2", device=[0, 0, 0, 0, 1, 0])
        fast, slow = plan.evaluate(), stowage.simulate(self.graph, "h200x2-pcie", plan)
        self.assertGreater(slow.step, fast.step)

    def test_export(self):
        plan = stowage.Plan(self.graph, "h200x2")
        plan.export("trace", self.folder / "t.json")
        self.assertIn("traceEvents", json.loads((self.folder / "t.json").read_text()))
        self.assertIn("trace", stowage.formats())
        with self.assertRaises(stowage.Error):
            plan.export("nothing", self.folder / "x")
        with self.assertRaises(stowage.Error):
            plan.export("onnx", self.folder / "x.onnx")  # no model

    def test_carried(self):
        """A plan goes into an HLO module and comes back with it."""
        module, planned = self.folder / "m.hlo.txt", self.folder / "planned.hlo.txt"
        module.write_text("HloModule m\n\nENTRY main {\n  x = f32[64]{0} parameter(0)\n  a = f32[64]{0} tanh(x)\n"
                          "  b = f32[64]{0} sine(x)\n  ROOT c = f32[64]{0} add(a, b)\n}\n")  # fmt: skip
        plan = stowage.Plan(stowage.load(module), "h200x2", device=[0, 0, 1, 0], priority=[0, 0.1, 2, 0])
        plan.export("hlo", planned)
        again = stowage.Plan.carried(stowage.load(planned), "h200x2")
        self.assertEqual(sorted(zip(again.device, again.priority))[1:], [(0, 0.0), (0, 0.1), (1, 2.0)])
        self.assertEqual(stowage.simulate(again.graph, "h200x2", again).step, stowage.simulate(plan.graph, "h200x2", plan).step)
        with self.assertRaisesRegex(stowage.Error, "carries no plan"):
            stowage.Plan.carried(self.graph, "h200x2")

    def test_device_map(self):
        plan = stowage.Plan(self.graph, "h200x2", device=[0, 1, 1, 1, 1, 1])
        found = plan.to_device_map()
        self.assertIsInstance(found, dict)
        self.assertTrue(found)
        with self.assertRaisesRegex(stowage.Error, "nowhere"):
            plan.to_device_map(strip="nowhere")


class Searches(Temporary):
    def test_optimize_repeats_and_agrees_with_the_simulator(self):
        options = {"evaluations": 300, "seed": 3, "threads": 1}
        first, second = (stowage.optimize(GRAPH, "h200x2", **options) for _ in range(2))
        self.assertEqual(first.plan.device, second.plan.device)
        self.assertEqual(first.step, second.step)
        self.assertAlmostEqual(first.evaluation.step, first.step, 12)
        self.assertGreaterEqual(first.step, first.bounds.plan * (1 - 1e-9))
        self.assertLessEqual(first.step, min(c.step for c in first.candidates if c.valid))
        self.assertIs(first.default, first.candidates[0])
        self.assertAlmostEqual(first.speedup, first.default.step / first.step)
        self.assertFalse(first.interrupted)
        self.assertEqual(first.best.found[-1].value, first.best.value)
        self.assertIn(f"* {first.best.method}", repr(first))
        self.assertIn(f"<b>* {first.best.method}</b>", first._repr_html_().replace("<b>* anneal (default)", ""))

    def test_plans_of_results_are_read_only(self):
        result = stowage.optimize(GRAPH, "h200x2", evaluations=50)
        with self.assertRaises(stowage.Error):
            result.plan.device = result.plan.device
        copy = result.plan.copy()
        copy.priority = copy.priority
        self.assertEqual(copy.evaluate().step, result.step)
        result.save(self.folder / "plan.json")
        self.assertEqual(len(json.loads((self.folder / "plan.json").read_text())["candidates"]), len(result.candidates))

    def test_nothing_fits(self):
        result = stowage.optimize(GRAPH, "h200x2", evaluations=50, memory="1MB")
        self.assertEqual((result.plan, result.step, result.best, result.speedup), (None, None, None, None))
        self.assertIn("no valid plan", " ".join(repr(result).split()))
        self.assertNotEqual(result.lacking, "")
        with self.assertRaises(ValueError):
            result.save(self.folder / "plan.json")

    def test_compare(self):
        result = stowage.compare(GRAPH, "h200x2", ["single", "heft"], evaluations=50)
        self.assertEqual([c.method for c in result.candidates], ["single", "heft"])
        with self.assertRaises(stowage.Error):
            stowage.compare(GRAPH, "h200x2", "nothing", evaluations=50)

    def test_tasks(self):
        self.assertGreater(merged(stowage.optimize(GRAPH, "h200x2", evaluations=60).plan), 10)  # all tasks unless they are given
        self.assertEqual(merged(stowage.optimize(GRAPH, "h200x2", evaluations=60, tasks="placement,schedule").plan), 0)
        self.assertEqual(merged(stowage.optimize(GRAPH, "h200x2", evaluations=60, tasks=["placement", "schedule"]).plan), 0)
        only = stowage.optimize(GRAPH, "h200x2", evaluations=60, tasks="fusion").plan
        self.assertEqual(set(only.device), {0})
        self.assertGreater(merged(only), 10)
        for rule in ("none", "default", "reverse-post-order"):
            plan = stowage.optimize(GRAPH, "h200x2", evaluations=60, fusion=rule).plan.copy()
            before = groups(plan)
            plan.fuse(rule)
            self.assertEqual(groups(plan), before, rule)
        for options in ({"tasks": "cooking"}, {"fusion": "greedy"}):
            with self.assertRaisesRegex(stowage.Error, "".join(options.values())):
                stowage.optimize(GRAPH, "h200x2", evaluations=60, **options)

    def test_start(self):
        simulator = stowage.Simulator(GRAPH, "h200x2")
        given = stowage.optimize(simulator, evaluations=80, tasks="placement,schedule").plan
        changed = given.copy()
        changed.priority = [float(k % 7) for k in range(len(simulator.graph))]
        file = self.folder / "given.json"
        changed.save(file)
        for start in ({"start": changed}, {"start": file}, {"from_": str(file)}, {"from_": changed}):
            result = stowage.optimize(simulator, evaluations=80, tasks="fusion", **start)
            self.assertEqual((result.plan.device, result.plan.priority), (changed.device, changed.priority))
            self.assertGreater(merged(result.plan), 10)
            self.assertEqual((result.candidates[0].method, result.candidates[0].step), ("given", changed.evaluate().step))
            self.assertIs(result.default, result.candidates[0])
            self.assertIn("given (default)", repr(result))
            self.assertLessEqual(result.step, changed.evaluate().step)
        ordered = stowage.optimize(simulator, evaluations=80, tasks="schedule", start=result.plan)  # the plan of a result, too
        self.assertEqual((ordered.plan.device, groups(ordered.plan)), (changed.device, groups(result.plan)))
        compared = stowage.compare(simulator, methods="single,heft", evaluations=80, tasks="fusion", start=changed)
        self.assertEqual([c.method for c in compared.candidates], ["single", "heft"])
        self.assertEqual(compared.plan.device, changed.device)
        with self.assertRaisesRegex(ValueError, "start and from_"):
            stowage.optimize(simulator, evaluations=80, start=changed, from_=file)
        with self.assertRaisesRegex(stowage.Error, "none.json"):
            stowage.optimize(simulator, evaluations=80, start="none.json")
        with self.assertRaisesRegex(stowage.Error, "plan"):
            stowage.optimize(ROOT / "data" / "graphs" / "resnet50.json.gz", "h200x2", evaluations=80, start=changed)

    def test_a_method_by_itself_fuses_nothing_unless_told(self):
        simulator = stowage.Simulator(GRAPH, "h200x2")
        for method in ("heft", "anneal"):
            self.assertEqual(merged(simulator.run(method, evaluations=40)), 0, method)
            self.assertGreater(merged(simulator.run(method, evaluations=40, tasks="placement,schedule,fusion")), 10, method)

    def test_bad_options(self):
        for options in ({"nothing": 1}, {"budget": "soon"}, {"seed": -1}, {"threads": "x"}):
            with self.assertRaises(stowage.Error):
                stowage.optimize(GRAPH, "h200x2", **options)
        with self.assertRaises(stowage.Error):
            stowage.optimize(GRAPH)  # no machine

    def test_a_method_by_itself(self):
        simulator = stowage.Simulator(GRAPH, "h200x2")
        plan = simulator.run("spread")
        self.assertEqual(simulator.simulate(plan), stowage.simulate(GRAPH, "h200x2", "spread"))
        self.assertIn("spread", stowage.methods())
        op = simulator.graph.ops[0]
        self.assertGreater(simulator.op_seconds(op.id), 0)
        for node, device in ((10**6, 0), (2**32, 0), (op.id, 2), (op.id, 2**32), (-1, 0)):
            with self.assertRaises(IndexError):
                simulator.op_seconds(node, device)

    def test_a_search_by_itself(self):
        simulator = stowage.Simulator(GRAPH, "h200x2")
        plan = simulator.run("anneal", evaluations=100, seed=2)
        self.assertEqual(plan.evaluate().step, simulator.run("anneal", evaluations=100, seed=2).evaluate().step)
        self.assertLess(plan.evaluate().step, simulator.run("anneal", evaluations=1, seed=2).evaluate().step)
        plan.priority = plan.priority  # may be changed
        tight = stowage.Simulator(GRAPH, "h200x2", memory="1MB")
        self.assertEqual(tight.simulate(tight.run("anneal", evaluations=20)).reason, "memory")
        with self.assertRaises(stowage.Error):
            simulator.run("exact", evaluations=20)  # too large

    def test_ctrl_c_ends_a_method(self):
        code = f"""
import stowage
try:
    stowage.Simulator({str(GRAPH)!r}, "h200x2").run("anneal", budget="100h")
except KeyboardInterrupt:
    print("interrupted")
"""
        self.assertEqual(self.interrupt(code), ("interrupted\n", ""))

    def test_costs(self):
        (self.folder / "c.csv").write_text("name,kind,us\nmm,h200,100\n")
        plan = stowage.Plan(stowage.Graph.parse(TINY), "h200x1")
        evaluation = stowage.simulate(plan.graph, "h200x1", plan, costs=self.folder / "c.csv")
        self.assertGreater(evaluation.step, 100e-6)

    def test_remarks_on_costs_are_warned_of(self):
        file = self.folder / "c.csv"
        file.write_text("name,kind,us\nmm,h200,100\nnothing,h200,5\n")
        graph = stowage.Graph.parse(TINY)
        simulator = stowage.Simulator(graph, "h200x1", costs=file)
        self.assertIn("1 of 2 rows of the costs name no op", simulator.warnings[0])
        for call in (
            lambda: stowage.simulate(graph, "h200x1", "single", costs=file),
            lambda: stowage.simulate(graph, "h200x1", stowage.Plan(graph, "h200x1"), costs=file),
            lambda: stowage.optimize(graph, "h200x1", evaluations=5, costs=file),
            lambda: stowage.compare(graph, "h200x1", "single", evaluations=5, costs=file),
            lambda: [stowage.optimize(simulator, evaluations=5) for _ in range(3)],  # once
        ):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                call()
            self.assertEqual([(str(w.message), w.filename) for w in caught], [(simulator.warnings[0], __file__)])

    def test_progress(self):
        seen = []
        stowage.optimize(GRAPH, "h200x2", budget=0.5, progress=seen.append)
        self.assertTrue(seen)
        self.assertEqual(seen[-1].budget, 0.5)
        self.assertIsNotNone(seen[-1].best)
        self.assertGreater(seen[-1].lower_bound, 0)

    def test_what_progress_raises_is_raised(self):
        def progress(_):
            raise LookupError("mine")

        with self.assertRaisesRegex(LookupError, "mine"):
            stowage.optimize(GRAPH, "h200x2", budget="100h", progress=progress)

    def test_interrupt_from_progress_keeps_the_plan(self):
        def progress(p):
            if p.best is not None:
                raise KeyboardInterrupt

        result = stowage.optimize(GRAPH, "h200x2", budget="100h", progress=progress)
        self.assertTrue(result.interrupted)
        self.assertIsNotNone(result.plan)
        self.assertIn("interrupted", repr(result))

    def test_ctrl_c_keeps_the_plan(self):
        code = f"""
import signal, stowage
r = stowage.optimize({str(GRAPH)!r}, "h200x2", budget="100h")
print(r.interrupted, r.plan is not None, signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""
        self.assertEqual(self.interrupt(code), ("True True True\n", ""))

    # Says "ready" when the library reports a plan for the first time: from there on the search has something to keep.
    SAYS_READY = """
from stowage import _search
called, said = _search._Watch._called, []
def say(self, context, progress):
    if progress.contents.has_plan and not said:
        said.append(print("ready", flush=True))
    called(self, context, progress)
_search._Watch._called = say
"""

    def interrupt(self, code):
        """Sends SIGINT to a program that has found a plan; what it wrote from there on."""
        process = subprocess.Popen([sys.executable, "-c", self.SAYS_READY + code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, "PYTHONPATH": str(PACKAGE / "src")})  # fmt: skip
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGINT)
        return process.communicate(timeout=1000)

    def test_ctrl_c_without_a_plan_is_raised(self):
        def progress(_):
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            stowage.optimize(GRAPH, "h200x2", budget="100h", memory="1MB", progress=progress)

    def test_threads_share_a_simulator(self):
        simulator = stowage.Simulator(GRAPH, "h200x2")
        plans = [simulator.run(m) for m in ("single", "spread", "topo", "etf")]
        expected = [simulator.simulate(p) for p in plans]
        wrong = []

        def work():
            for _ in range(10):
                if [simulator.simulate(p) for p in plans] != expected:
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_a_search_in_another_thread(self):
        found = []
        thread = threading.Thread(target=lambda: found.append(stowage.optimize(GRAPH, "h200x2", evaluations=50)))
        thread.start()
        thread.join()
        self.assertIsNotNone(found[0].plan)


class Telling(Temporary):
    """What there is to know of a result: warnings, what it rests on; and text that is none."""

    def test_a_text_with_a_nul_is_refused(self):
        graph, machine = stowage.Graph.parse(TINY), stowage.Machine("h200x2")
        simulator = stowage.Simulator(graph, machine)
        plan = simulator.run("single")
        real = self.folder / "plan.json"
        plan.save(real)
        cut = f"{real}\0.txt"  # C would read and write plan.json
        for wrong in (lambda: stowage.load(cut), lambda: stowage.Machine(cut), lambda: stowage.Plan.load(cut, graph), lambda: plan.save(cut),
                      lambda: plan.export("csv", cut), lambda: stowage.Simulator(graph, machine, costs=cut),
                      lambda: simulator.run("single\0x"), lambda: simulator.run("heft", rule="fifo\0"),
                      lambda: stowage.optimize(graph, machine, evaluations=5, start=cut), lambda: plan.fuse("none\0x"),
                      lambda: stowage.simulate(graph, machine, cut), lambda: stowage.compare(graph, machine, ["single\0"], evaluations=1)):
            with self.assertRaisesRegex(ValueError, "embedded null"):
                wrong()

    def test_warnings_are_told_once(self):
        unknown = json.loads(json.dumps(TINY))
        unknown["nodes"][4].update(op="made_up")
        del unknown["nodes"][4]["us"]
        graph = stowage.Graph.parse(unknown)
        says = "1 of 3 ops are unknown operators ('made_up') and count by the bytes that they move, without arithmetic"
        simulator = stowage.Simulator(graph, "h200x2")
        self.assertEqual(len(simulator.warnings), 1)
        self.assertIn(says, simulator.warnings[0])
        self.assertEqual(stowage.Simulator(stowage.Graph.parse(TINY), "h200x2").warnings, ())  # every op is measured
        for run in (lambda: stowage.simulate(graph, "h200x2", "single"), lambda: stowage.optimize(graph, "h200x2", evaluations=5)):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                run()
            self.assertEqual([str(w.message) for w in told], list(simulator.warnings))
            self.assertEqual(told[0].filename, __file__)

    def test_noise_goes_by_what_is_known(self):
        result = stowage.optimize(GRAPH, "h200x2", evaluations=40, tasks="placement,schedule")
        self.assertEqual(result.draws, 32)
        self.assertAlmostEqual(result.noise["measured"], 0.05)
        self.assertNotIn("fused", result.noise)
        if result.best is not result.candidates[0]:
            self.assertIn(f"ahead of the default in {result.ahead} of 32 draws with times off by 5 % where measured", " ".join(repr(result).split()))
            self.assertLessEqual(max(map(len, repr(result).splitlines())), 100)

    def test_sizes_of_dnn_partitioning_inputs_are_bytes_for_people(self):
        graph = stowage.Graph.parse(PARTED)
        evaluation = stowage.Simulator(graph).simulate(stowage.Simulator(graph).run("single"))
        self.assertIn("100 B", repr(graph))
        self.assertRegex(repr(evaluation), r"accelerator:0 .* 100 B +1 kB")
        for machine in (None, "h200x2"):
            small = stowage.Simulator(graph, machine, memory="50B")
            self.assertEqual(small.simulate(small.run("single")).reason, "memory")
            large = stowage.Simulator(graph, machine, memory="1kB")
            self.assertTrue(large.simulate(large.run("single")).valid)
        named = stowage.Simulator(graph, "h200x2")
        self.assertTrue(named.simulate(named.run("single")).valid)
        self.assertGreater(named.machine.memory[0], 1 << 50)  # in the graph's unit

    def test_names_do_not_steer_terminals(self):
        graph = stowage.Graph.parse({**TINY, "name": "\x1b[31mred\u202e"})
        for shown in (stowage.Simulator(graph, "h200x2"), stowage.Simulator(graph, "h200x2").run("single"), graph,
                      stowage.optimize(graph, "h200x2", evaluations=5)):
            self.assertTrue(repr(shown).replace("\n", "").isprintable(), repr(shown))


class Lifetimes(unittest.TestCase):
    def test_what_is_needed_is_kept(self):
        plan = stowage.optimize(stowage.load(GRAPH), stowage.Machine("h200x2"), evaluations=20).plan
        gc.collect()
        self.assertTrue(plan.evaluate().valid)
        nodes = stowage.Graph.parse(TINY).nodes
        gc.collect()
        self.assertEqual(nodes[3].name, "mm")
        own = stowage.Plan(stowage.Graph.parse(TINY), "h200x2")
        gc.collect()
        self.assertEqual(own.machine.name, "h200x2")
        self.assertTrue(own.evaluate().valid)

    def test_pickles_and_deep_copies_are_refused(self):
        graph = stowage.Graph.parse(TINY)
        plan = stowage.Plan(graph, "h200x2")
        for each in (graph, plan.machine, plan, plan.simulator, stowage.optimize(graph, "h200x2", evaluations=5)):
            for copied in (pickle.dumps, copy.deepcopy):
                with self.assertRaisesRegex(TypeError, "cannot be pickled or deep-copied; save"):
                    copied(each)
        evaluation = plan.evaluate()
        self.assertEqual(pickle.loads(pickle.dumps(evaluation)), evaluation)

    def test_what_was_never_finished_goes_quietly(self):
        seen = []
        hook, sys.unraisablehook = sys.unraisablehook, seen.append
        try:
            for kind in (_library.Handle, stowage.Graph, stowage.Plan, stowage.Simulator):
                kind.__new__(kind)
            gc.collect()
        finally:
            sys.unraisablehook = hook
        self.assertEqual(seen, [])

    def test_everything_is_given_back(self):
        counted, destroyed = [], []
        create, destroy = _library.Handle.__init__, _library.Handle.__del__

        def counting_create(self, pointer, destroy, *keep):
            counted.append(1 if destroy else 0)
            create(self, pointer, destroy, *keep)

        def counting_destroy(self):
            destroyed.append(1 if self._destroy and self.pointer else 0)
            destroy(self)

        _library.Handle.__init__, _library.Handle.__del__ = counting_create, counting_destroy
        try:
            result = stowage.optimize(GRAPH, "h200x2", evaluations=20)
            result.plan.copy().evaluate()
            del result
            gc.collect()
        finally:
            _library.Handle.__init__, _library.Handle.__del__ = create, destroy
        self.assertGreater(sum(counted), 5)
        self.assertEqual(sum(destroyed), sum(counted))


class Text(unittest.TestCase):
    def test_bytes(self):
        for text, expected in (("4GB", 4 * 10**9), ("512MiB", 2**29), ("1.5kB", 1500), ("1000", 1000), ("2 TiB", 2**41)):
            self.assertEqual(_text.parse_bytes(text), expected)
        self.assertEqual([_text.show_bytes(n) for n in (0, 999, 1000, 65536, 1.5e12)], ["0 B", "999 B", "1 kB", "65.5 kB", "1.5 TB"])

    def test_seconds(self):
        shown = [_text.show_seconds(s) for s in (2.5, 0.00836, 1.5e-6, 0, float("nan"))]
        self.assertEqual(shown, ["2.5 s", "8.36 ms", "1.5 us", "0 us", "-"])


@unittest.skipIf(torch_lacks(), torch_lacks())
class Torch(Temporary):
    def trace(self, module, *args, **options):
        import stowage.torch

        return stowage.torch.trace(module, *args, **options)

    def setUp(self):
        super().setUp()
        import torch

        self.torch, self.nn = torch, torch.nn

    def test_a_training_step(self):
        module = self.nn.Sequential(self.nn.Linear(16, 32), self.nn.ReLU(), self.nn.Linear(32, 4))
        graph = self.trace(module, self.torch.randn(8, 16))
        labels = [n.label for n in graph.nodes if n.kind == "parameter"]
        self.assertEqual(labels, ["0.weight", "0.bias", "2.weight", "2.bias"])
        self.assertEqual(graph.parameter_bytes, sum(p.numel() * 4 for p in module.parameters()))
        updated = sorted(n.updates for n in graph.nodes if n.updates is not None)
        self.assertEqual(updated, [0, 1, 2, 3])
        matmul = sum(n.flops for n in graph.nodes if n.op in ("mm", "addmm"))
        # forward, gradient of each weight, gradient of the hidden layer
        self.assertEqual(matmul, 2 * 8 * (2 * 16 * 32 + 3 * 32 * 4))
        self.assertTrue(stowage.simulate(graph, "h200x1", "single").valid)
        self.assertTrue(stowage.optimize(graph, "h200x2", evaluations=50).plan.evaluate().valid)

    def test_flops_agree_with_torch(self):
        from torch.utils.flop_counter import FlopCounterMode

        module = self.nn.Sequential(self.nn.Conv2d(3, 8, 3), self.nn.ReLU(), self.nn.Flatten(), self.nn.Linear(8 * 36, 5))
        x = self.torch.randn(2, 3, 8, 8)
        with FlopCounterMode(display=False) as counter:
            module(x).pow(2).mean().backward()
        graph = self.trace(module, x)
        heavy = sum(n.flops for n in graph.nodes if n.op in ("mm", "addmm", "convolution", "convolution_backward"))
        self.assertEqual(heavy, counter.get_total_flops())

    def test_inference(self):
        graph = self.trace(self.nn.Linear(4, 3), self.torch.randn(2, 4), train=False, name="mine")
        self.assertEqual((graph.name, [n.op for n in graph.ops]), ("mine", ["addmm"]))

    def test_views_and_several_results(self):
        nn, torch = self.nn, self.torch

        class Split(nn.Module):
            def forward(self, x):
                a, b = x.relu().split(2, dim=1)
                values, indices = (a @ b.transpose(1, 2)).max(dim=1)
                return values, indices

        graph = self.trace(Split(), torch.randn(2, 4, 3), train=False)
        views = {n.op for n in graph.nodes if n.kind == "view"}
        self.assertLessEqual({"split", "getitem", "transpose"}, views)
        largest = next(n for n in graph.ops if n.op == "max")
        self.assertEqual(largest.bytes, 2 * 2 * 4 + 2 * 2 * 8)

    def test_writes_in_place_keep_their_order(self):
        nn, torch = self.nn, self.torch

        class Writes(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("state", torch.zeros(4))

            def forward(self, x):
                y = x.clone()
                before = y * 2
                y[0] = 1.0
                after = y + 3
                self.state += after
                return before + after

        graph = self.trace(Writes(), torch.randn(4), train=False)
        graph.save(self.folder / "g.json")
        nodes = json.loads((self.folder / "g.json").read_text())["nodes"]
        by_op = {n["op"]: n for n in nodes}
        write = by_op["fill_"] if "fill_" in by_op else by_op["copy_"]
        before = next(n for n in nodes if n["op"] == "mul")
        after = next(n for n in nodes if n["op"] == "add")
        self.assertIn(before["id"], write["control"])
        self.assertIn(write["id"], after["control"])
        state = next(n for n in nodes if n["op"] == "buffer")
        self.assertEqual(by_op["add_"]["updates"], state["id"])
        self.assertTrue(stowage.simulate(graph, "h200x1", "single").valid)

    def test_batch_norm_and_recurrence_and_attention(self):
        nn, torch = self.nn, self.torch
        conv = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
        attention = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        for module, x in ((conv, torch.randn(2, 3, 6, 6)), (attention, torch.randn(2, 5, 16)), (nn.LSTM(4, 6, 2), torch.randn(5, 3, 4))):
            graph = self.trace(module, x)
            self.assertTrue(stowage.simulate(graph, "h200x2", "spread").valid, module)
        self.assertGreaterEqual(sum(n.op in ("mm", "addmm") for n in graph.ops), 10)  # the LSTM as its steps

    def test_loss(self):
        nn, torch = self.nn, self.torch
        target = torch.tensor([1, 0])
        graph = self.trace(nn.Linear(4, 3), torch.randn(2, 4), loss=lambda out: nn.functional.cross_entropy(out, target))
        self.assertIn("nll_loss_forward", [n.op for n in graph.ops])
        with self.assertRaisesRegex(stowage.Error, "one element"):
            self.trace(nn.Linear(4, 3), torch.randn(2, 4), loss=lambda out: out)

    def test_parameters_without_a_gradient(self):
        nn, torch = self.nn, self.torch

        class Partly(nn.Module):
            def __init__(self):
                super().__init__()
                self.unused, self.frozen, self.used = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)
                self.tied = self.used
                self.frozen.requires_grad_(False)

            def forward(self, x, *, scale, more):
                return self.used(self.frozen(x)) * scale + more[0]

        graph = self.trace(Partly(), torch.randn(2, 3), scale=2, more=[torch.randn(3)])
        updated = {graph.nodes[n.updates].label for n in graph.nodes if n.updates is not None}
        self.assertEqual(updated, {"used.weight", "used.bias"})
        self.assertEqual(sum(n.kind == "parameter" for n in graph.nodes), 6)
        self.assertEqual(sum(n.kind == "input" for n in graph.nodes), 2)
        stacked = self.trace(nn.ModuleList([nn.Identity()])[0], torch.randn(2), train=False)
        self.assertEqual(len(stacked.ops), 0)

    def test_faults(self):
        nn, torch = self.nn, self.torch

        class Branches(nn.Module):
            def forward(self, x):
                return x if x.sum() > 0 else -x

        with self.assertRaisesRegex(stowage.Error, "Branches cannot be traced"):
            self.trace(Branches(), torch.randn(3), train=False)
        with self.assertRaisesRegex(stowage.Error, "train=False"):
            self.trace(nn.ReLU(), torch.randn(3))
        with self.assertRaises(TypeError):
            self.trace(len, torch.randn(3))
        with self.assertRaises(ValueError):
            self.trace(nn.Linear(2, 2), torch.randn(1, 2), costs=self.folder / "c.csv")

    def test_measured(self):
        nn, torch = self.nn, self.torch
        module, x = nn.Sequential(nn.Embedding(50, 16), nn.Linear(16, 16)), torch.randint(0, 50, (4, 3))
        before = [p.detach().clone() for p in module.parameters()]
        graph = self.trace(module, x, measure=True, kind="h200", costs=self.folder / "c.csv")
        evaluation = stowage.simulate(graph, "h200x1", "single")
        self.assertGreater(evaluation.measured_share, 0.99)
        rows = (self.folder / "c.csv").read_text().splitlines()
        self.assertEqual(rows[0], "name,kind,us")
        plain = self.trace(module, x)
        self.assertEqual(stowage.simulate(plain, "h200x1", "single").measured_share, 0)
        with_file = stowage.simulate(plain, "h200x1", "single", costs=self.folder / "c.csv")
        self.assertAlmostEqual(with_file.step, evaluation.step, 9)
        for old, new in zip(before, module.parameters()):
            self.assertTrue(torch.equal(old, new))  # nothing of the module was touched

    def test_nothing_is_computed(self):
        with self.torch.device("meta"):
            module = self.nn.Linear(50000, 50000)
        graph = self.trace(module, self.torch.empty(8, 50000, device="meta"))
        self.assertEqual(graph.parameter_bytes, 4 * (50000 * 50000 + 50000))


class Onnx(Temporary):
    def model(self):
        """An ONNX model with open batch, made without the package: relu(x @ w)."""

        def field(number, wire, data):
            return bytes([number << 3 | wire]) + data

        def text(number, value):
            value = value if isinstance(value, bytes) else value.encode()
            return field(number, 2, bytes([len(value)]) + value)

        def value_info(name, *sizes):
            shape = b"".join(text(1, field(1, 0, bytes([s])) if isinstance(s, int) else text(2, s)) for s in sizes)
            return text(1, name) + text(2, text(1, field(1, 0, b"\x01") + text(2, shape)))

        weight = field(1, 0, b"\x04") + field(1, 0, b"\x03") + field(2, 0, b"\x01") + text(8, "w") + text(9, b"\0" * 48)
        nodes = text(1, text(1, "x") + text(1, "w") + text(2, "h") + text(3, "first") + text(4, "MatMul"))
        nodes += text(1, text(1, "h") + text(2, "y") + text(3, "second") + text(4, "Relu"))
        graph = nodes + text(2, "g") + text(5, weight) + text(11, value_info("x", "batch", 4)) + text(12, value_info("y", "batch", 3))
        return field(1, 0, b"\x08") + field(7, 2, bytes([len(graph) & 127 | 128, len(graph) >> 7]) + graph) + text(8, field(2, 0, b"\x11"))

    def test_load(self):
        import stowage.onnx

        (self.folder / "m.onnx").write_bytes(self.model())
        for source in (self.model(), self.folder / "m.onnx"):
            graph = stowage.onnx.load(source, shape={"batch": 7})
            self.assertEqual([n.op for n in graph.ops], ["MatMul", "Relu"])
            self.assertEqual(graph.ops[-1].shape, (7, 3))
        with self.assertRaises(TypeError):
            stowage.onnx.load(7)

    @unittest.skipUnless(has("onnx"), "onnx is not installed")
    def test_annotate(self):
        import onnx

        import stowage.onnx

        model = onnx.load_from_string(self.model())
        graph = stowage.onnx.load(model, shape={"batch": 7})
        plan = stowage.optimize(graph, "h200x2", evaluations=10).plan
        try:
            annotated = stowage.onnx.annotate(model, plan, self.folder / "out.onnx")
        except stowage.Error as error:
            if "not written yet" in str(error):
                self.skipTest(str(error))
            raise
        self.assertEqual(sorted(n.name for n in annotated.graph.node), ["first", "second"])
        self.assertTrue(all(n.metadata_props for n in annotated.graph.node))
        self.assertTrue((self.folder / "out.onnx").is_file())


class Readme(Temporary):
    """The examples of python/README.md and README.md, one after another in one session."""

    def run_examples(self, packages, file=PACKAGE / "README.md", at_least=7):
        blocks = re.findall(r"^```python\n(.*?)^```", file.read_text(), re.M | re.S)
        self.assertGreaterEqual(len(blocks), at_least)
        (self.folder / "data").symlink_to(ROOT / "data")
        (self.folder / "model.onnx").write_bytes(Onnx().model())
        before, session = os.getcwd(), {}
        os.chdir(self.folder)
        try:
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                for block in blocks:
                    if re.search(r"^import jax$", block, re.M):
                        continue  # test_jax.py runs it
                    if packages or not re.search(r"^import (torch|onnx)$", block, re.M):
                        exec(compile(block, str(file), "exec"), session)
        finally:
            os.chdir(before)
        return printed.getvalue()

    def test_examples_without_other_packages(self):
        printed = self.run_examples(False)
        self.assertIn("times as fast as the default", printed)
        self.assertIn("bytes are missing", printed)

    def test_the_example_of_the_checkout(self):
        self.assertIn("times as fast as the default", self.run_examples(False, ROOT / "README.md", 1))

    @unittest.skipIf(torch_lacks() or not has("onnx"), torch_lacks() or "onnx is not installed")
    def test_all_examples(self):
        try:
            self.assertIn("<Graph 'TransformerEncoderLayer'", self.run_examples(True))
        except stowage.Error as error:
            if "not written yet" in str(error):
                self.skipTest(str(error))
            raise


@unittest.skipIf(SANITIZED, "pip is not run under a sanitizer")
class Install(Temporary):
    def setUp(self):
        super().setUp()
        self.package = self.folder / "checkout" / "python"
        shutil.copytree(PACKAGE, self.package, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__", ".mypy_cache"))
        made = subprocess.run([sys.executable, "-m", "venv", self.folder / "venv"], capture_output=True, text=True)
        if made.returncode != 0:
            self.skipTest("this Python makes no virtual environments: " + (made.stderr or made.stdout).strip()[:80])
        self.python = str(self.folder / "venv" / "bin" / "python")
        self.environment = {k: v for k, v in os.environ.items() if k not in ("STOWAGE_LIBRARY", "PYTHONPATH")}

    def pip(self, *arguments, **environment):
        """Runs pip from the folder, as a shell would."""
        done = subprocess.run([self.python, "-m", "pip", "install", "--retries", "1", *arguments], capture_output=True, text=True,
                              cwd=self.folder, env={**self.environment, "PWD": str(self.folder), **environment})  # fmt: skip
        if done.returncode != 0 and re.search("No matching distribution|connection", done.stderr, re.I):
            self.skipTest("pip cannot get setuptools here")
        return done

    def test_in_a_fresh_environment(self):
        stale = self.package / "build" / f"lib.{sysconfig.get_platform()}-cpython-{sys.version_info[0]}{sys.version_info[1]}" / "stowage"
        stale.mkdir(parents=True)
        (stale / "libstowage.so").write_text("of an earlier build")
        shutil.copyfile(_library.library._name, self.folder / "mine.so")
        installed = self.pip("--quiet", str(self.package), STOWAGE_LIBRARY="mine.so")  # relative to where pip was called
        self.assertEqual(installed.returncode, 0, installed.stderr)
        code = f"""
import stowage
r = stowage.optimize({str(GRAPH)!r}, "h200x2", evaluations=20)
print(r.plan is not None, "site-packages" in stowage._library.library._name)
"""
        done = subprocess.run([self.python, "-c", code], capture_output=True, text=True, env=self.environment, cwd=self.folder)
        self.assertEqual((done.stdout, done.stderr), ("True True\n", ""))

    def test_without_a_library_nothing_is_installed(self):
        self.assertEqual(self.pip("--quiet", "setuptools", "wheel").returncode, 0)
        install = ("--no-build-isolation", "--no-index", str(self.package))
        refused = self.pip(*install, STOWAGE_LIBRARY="none.so")
        self.assert_refused(refused, f"STOWAGE_LIBRARY is 'none.so', and {self.folder / 'none.so'} is no file")
        self.assert_refused(self.pip(*install), "checkout is no checkout of Stowage, so there is nothing to build the library from")
        (self.package.parent / "include").mkdir()
        (self.package.parent / "include" / "stowage.h").touch()
        (self.package.parent / "CMakeLists.txt").write_text("message(FATAL_ERROR broken)")
        bare = self.folder / "bin"
        bare.mkdir()
        self.assert_refused(self.pip(*install, PATH=str(bare)), "CMake is not installed, so the library cannot be built")
        if shutil.which("cmake"):
            self.assert_refused(self.pip(*install), "building the library failed")

    def assert_refused(self, done, reason):
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(reason, done.stdout + done.stderr)
        found = subprocess.run([self.python, "-c", "import stowage"], capture_output=True, text=True, env=self.environment, cwd=self.folder)
        self.assertIn("No module named 'stowage'", found.stderr)


if __name__ == "__main__":
    sys.exit(run_tests())
