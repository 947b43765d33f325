"""`stowage export --to onnx`: is the result the same model, does it carry the plan, and do ONNX's own tools take it?

    STOWAGE_BIN=build/release/stowage python3 tests/export/test_onnx_export.py

The first half needs nothing but Python; the real models are in shared/external/onnx beside the source tree, or where STOWAGE_ONNX
says. The second half needs the packages onnx and onnxruntime and says so when they are not there. The exit status is the verdict;
the last line counts what passed and failed.
"""

import ast
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from counting import run_tests  # noqa: E402

try:
    import numpy
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    onnx = None

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.path.abspath(os.environ.get("STOWAGE_BIN", os.path.join(ROOT, "build", "release", "stowage")))
MODELS = os.environ.get("STOWAGE_ONNX", os.path.join(ROOT, "..", "shared", "external", "onnx"))
SLOW_BUILD = "STOWAGE_SLOW_BUILD" in os.environ  # small models only
SMALL = 400_000  # bytes

KEYS = {"layer_ann", "stowage.device", "stowage.priority", "stowage.group"}
OURS = "stowage"  # the name of our device configuration
IR_VERSION, GRAPH, CONFIGURATION = 1, 7, 26  # fields of the model
NODE, METADATA, NODE_CONFIGURATION = 1, 9, 10  # of the graph, and of a node


# ---- the wire format ----

def varint_of(value):
    out = bytearray()
    while value >= 0x80:
        out.append(0x80 | value & 0x7F)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint_of(field << 3) + varint_of(value)


def text(field, content):
    content = content.encode() if isinstance(content, str) else content
    return varint_of(field << 3 | 2) + varint_of(len(content)) + content


def fields(message):
    """(number, value, the bytes of the whole field) of each field."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        start = at
        tag = varint()
        kind = tag & 7
        if kind == 0:
            value = varint()
        else:
            length = varint() if kind == 2 else {1: 8, 5: 4}[kind]
            value = message[at:at + length]
            assert len(value) == length
            at += length
        yield tag >> 3, value, message[start:at]


def values(message, field):
    return [value for n, value, _ in fields(message) if n == field]


def name_of(message):
    return b"".join(values(message, 1)[:1]).decode()


# ---- small models without the onnx package ----

def value_info(field, name, shape):
    dims = b"".join(text(1, number(1, dim)) for dim in shape)
    return text(field, text(1, name) + text(2, text(1, number(1, 1) + text(2, dims))))


def node(op, inputs, output, more=b""):
    return text(NODE, b"".join(text(1, name) for name in inputs) + text(2, output) + text(3, "n_" + output) + text(4, op) + more)


def model_of(graph, ir_version=8):
    return number(IR_VERSION, ir_version) + text(GRAPH, graph) + text(8, number(2, 17))


def chain(ops):
    """A model of ops one after the other on a tensor of 1 MiB."""
    nodes = b"".join(node(op, ["x" if i == 0 else f"v{i - 1}"], f"v{i}") for i, op in enumerate(ops))
    return model_of(nodes + value_info(11, "x", [512, 512]) + value_info(12, f"v{len(ops) - 1}", [512, 512]))


# ---- models taken apart ----

class Model:
    """Fields of the model and of the graph but for nodes, in order and without ours; nodes without ours; our metadata."""

    def __init__(self, content):
        self.rest, self.graph_rest, self.nodes, self.plan, self.devices = [], [], [], [], []
        self.ir_version = self.configuration = None
        for n, value, whole in fields(content):
            if n == IR_VERSION:
                self.ir_version = value
            elif n == CONFIGURATION and name_of(value) == OURS:
                self.configuration = [name.decode() for name in values(value, 3)]
            elif n != GRAPH:
                self.rest.append(whole)
            else:
                self.read_graph(value)

    def read_graph(self, graph):
        for n, value, whole in fields(graph):
            if n == NODE:
                self.read_node(value)
            else:
                self.graph_rest.append(whole)

    def read_node(self, content):
        kept, plan, devices = [], {}, []
        for n, value, whole in fields(content):
            if n == METADATA and name_of(value) in KEYS:
                assert name_of(value) not in plan
                plan[name_of(value)] = values(value, 2)[0].decode()
            elif n == NODE_CONFIGURATION and name_of(value) == OURS:
                devices.append(value)
            else:
                kept.append(whole)
        self.nodes.append(b"".join(kept))
        self.plan.append(plan)
        self.devices.append(devices)

    def name(self, k):
        """As the graph has it: the node's name, else its first output's."""
        return (b"".join(values(self.nodes[k], 3)[:1]) or b"".join(values(self.nodes[k], 2)[:1])).decode()

    def outputs(self, k):
        return [name.decode() for name in values(self.nodes[k], 2)]


class Case(unittest.TestCase):
    maxDiff = 2000

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name, content=None):
        path = os.path.join(self.folder, name)
        if content is not None:
            with open(path, "wb") as file:
                file.write(content)
        return path

    def bytes_of(self, path):
        with open(path, "rb") as file:
            return file.read()

    def stowage(self, *arguments):
        return subprocess.run([BINARY, *arguments], stdin=subprocess.DEVNULL, capture_output=True, cwd=self.folder, timeout=600)

    def check_done(self, result):
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, rb"\A(stowage: warning: (\d+ of \d+ ops work on empty tensors, |open sizes count as 1|"
                                        rb"\d+ of \d+ ops are unknown operators|what was exported is worse than one device)[^\n]*\n)*\Z")

    def exported(self, graph, plan, name="out.onnx", machine=("-m", "h200x2", "--memory", "4TB")):
        """Path and note."""
        result = self.stowage("export", graph, "--plan", plan, *machine, "--to", "onnx", "-o", self.path(name))
        self.check_done(result)
        return self.path(name), result.stdout.decode()

    def table(self, graph, plan, machine=("-m", "h200x2", "--memory", "4TB")):
        """The plan by `--to csv`: rows of the ops in the order of the graph."""
        path = self.path("plan.csv")
        result = self.stowage("export", graph, "--plan", plan, *machine, "--to", "csv", "-o", path)
        self.check_done(result)
        with open(path, newline="") as file:
            return [row for row in csv.DictReader(file) if row["kind"] == "op"]

    def check_is_the_plan(self, rows, model):
        """Devices of the nodes are those of the ops of the same name; tasks begin in the order of the file."""
        named = {}
        for row in rows:
            named.setdefault(row["name"], []).append(row)
        checked, last = 0, 0.0
        for k in range(len(model.nodes)):
            found = named.get(model.name(k), [])
            if len(found) != 1:  # a node without a name, or without a task of its own
                continue
            row = found[0]
            self.assertEqual(model.plan[k]["stowage.device"], row["device"], row["name"])
            if row["start_us"]:
                self.assertGreaterEqual(float(row["start_us"]), last, row["name"])
                last = float(row["start_us"])
            checked += 1
        return checked

    def check_same_model(self, before, after):
        """All bytes that are not ours survive; nodes in an order in which inputs come first."""
        self.assertEqual(before.rest, after.rest)
        self.assertEqual(before.graph_rest, after.graph_rest)
        self.assertEqual(sorted(before.nodes), sorted(after.nodes))
        written = {name for k in range(len(after.nodes)) for name in after.outputs(k)}
        there = set()
        for k, content in enumerate(after.nodes):
            for name in values(content, 1):
                self.assertTrue(name.decode() not in written or name.decode() in there or name == b"", name)
            there.update(after.outputs(k))

    def check_plan(self, model, note):
        """Every node has all of it, and devices agree wherever they stand."""
        devices = set()
        for k, plan in enumerate(model.plan):
            self.assertEqual(set(plan), KEYS)
            float(plan["stowage.priority"])
            int(plan["stowage.group"])
            device = int(plan["layer_ann"].removeprefix("stowage_"))
            devices.add(device)
            if model.ir_version < 11:
                self.assertEqual((model.configuration, model.devices[k]), (None, []))
                continue
            self.assertEqual(model.configuration[device], plan["stowage.device"])
            [configuration] = model.devices[k]
            self.assertEqual(values(configuration, 3), [device])
            self.assertEqual([(name_of(s), values(s, 2)) for s in values(configuration, 2)],
                             [(name, [varint_of(device)]) for name in model.outputs(k) if name])
        setting = "; ".join(f"gpu:{d}(=stowage_{d})" for d in sorted(devices))
        self.assertIn(f"session.layer_assignment_settings = {setting}\n", note)


class Files(Case):
    def real_models(self):
        if not os.path.isdir(MODELS):
            self.skipTest(f"no models in '{MODELS}'; STOWAGE_ONNX names their folder")
        paths = sorted(os.path.join(MODELS, name) for name in os.listdir(MODELS) if name.endswith(".onnx"))
        return [path for path in paths if not SLOW_BUILD or os.path.getsize(path) < SMALL]

    def test_real_models(self):
        for path in self.real_models():
            with self.subTest(model=os.path.basename(path)):
                out, note = self.exported(path, "spread")
                other, _ = self.exported(path, "single", "other.onnx")
                before, after = Model(self.bytes_of(path)), Model(self.bytes_of(out))
                self.check_same_model(before, after)
                self.check_plan(after, note)
                self.assertIn(after.ir_version, (before.ir_version, 11))
                self.assertNotEqual(self.bytes_of(out), self.bytes_of(other))
                self.assertEqual({plan["layer_ann"] for plan in Model(self.bytes_of(other)).plan}, {"stowage_0"})
                rows = self.table(path, "spread")
                self.assertGreaterEqual(self.check_is_the_plan(rows, after), 0.95 * len(rows), "ops that no node is known by")

    def test_a_planned_file_is_another_graph(self):
        """Its order is another, so the plan of the original is refused there; from the original it gives the same bytes."""
        nodes = node("Relu", ["x"], "a") + node("Tanh", ["x"], "b") + node("Exp", ["x"], "c") + node("Add", ["a", "b"], "d")
        nodes += node("Add", ["d", "c"], "y")
        model = self.path("m.onnx", model_of(nodes + value_info(11, "x", [512, 512]) + value_info(12, "y", [512, 512])))
        rows = self.table(model, "single", ("-m", "h200x1"))
        priority = [0.0] * (max(int(row["node"]) for row in rows) + 1)
        priority[next(int(row["node"]) for row in rows if row["name"] == "n_c")] = 5.0
        plan = self.path("plan.json")
        made = self.stowage("optimize", model, "-m", "h200x1", "--tasks", "placement,schedule", "--budget", "100ms", "-o", plan)
        self.assertEqual(made.returncode, 0, made.stderr)
        with open(plan) as file:
            content = json.load(file)
        content["priority"] = priority
        with open(plan, "w") as file:
            json.dump(content, file)
        first, _ = self.exported(model, plan, "first.onnx", ())
        self.assertEqual(Model(self.bytes_of(first)).name(0), "n_c")
        again, _ = self.exported(model, plan, "again.onnx", ())
        self.assertEqual(self.bytes_of(first), self.bytes_of(again))
        self.fault("export", first, "--plan", plan, "--to", "onnx", "-o", "out.onnx", says="the plan is for another graph")

    def test_again(self):
        """The plan of the new file, made by the same method, gives the same bytes: here one device and no choice."""
        first, _ = self.exported(self.path("m.onnx", chain(["Relu", "Tanh", "Sigmoid"])), "single")
        again, _ = self.exported(first, "single", "again.onnx")
        self.assertEqual(self.bytes_of(first), self.bytes_of(again))

    def test_standard_output(self):
        model = self.path("m.onnx", chain(["Relu", "Tanh"]))
        out, note = self.exported(model, "single")
        result = self.stowage("export", model, "--plan", "single", "-m", "h200x2", "--to", "onnx")
        self.assertEqual((result.returncode, result.stdout, result.stderr.decode()), (0, self.bytes_of(out), note))

    def test_a_cpu_is_called_cpu(self):
        result = self.stowage("machine", "h200x2", "-f", "json")
        self.assertEqual(result.returncode, 0, result.stderr)
        machine = json.loads(result.stdout)
        machine["devices"][0]["kind"] = "cpu8"
        path = self.path("machine.json", json.dumps(machine).encode())
        _, note = self.exported(self.path("m.onnx", chain(["Relu"])), "single", machine=("-m", path))
        self.assertIn("session.layer_assignment_settings = cpu(=stowage_0)\n", note)

    def fault(self, *arguments, says):
        result = self.stowage(*arguments)
        line = result.stderr.decode()
        self.assertEqual((result.returncode, result.stdout, line.count("\n")), (2, b"", 1), line)
        self.assertIn(says, line)
        self.assertFalse(os.path.exists(self.path("out.onnx")))

    def test_no_onnx(self):
        graph = {"format": "opgraph", "version": 1, "name": "g", "family": "test", "outputs": [],
                 "nodes": [{"id": 0, "name": "n", "op": "relu", "inputs": [], "dtype": "f32", "shape": [4], "bytes": 16}]}
        path = self.path("g.json", json.dumps(graph).encode())
        self.fault("export", path, "--plan", "single", "-m", "h200x2", "--to", "onnx", "-o", "out.onnx",
                   says="does not come from an ONNX model (its family is 'test')")

    def test_packed(self):
        """A packed file goes out unpacked."""
        import gzip
        content = chain(["Relu", "Tanh"])
        plain, _ = self.exported(self.path("m.onnx", content), "single")
        packed, _ = self.exported(self.path("m.onnx.gz", gzip.compress(content)), "single", "packed.onnx")
        self.assertEqual(self.bytes_of(plain), self.bytes_of(packed))

    @unittest.skipUnless(os.path.exists("/proc/self/status"), "there is no /proc")
    def test_weights_are_held_in_memory_once(self):
        size = 256 << 20
        tensor = number(1, size // 4) + number(2, 1) + text(8, "w") + varint_of(9 << 3 | 2) + varint_of(size)
        node_bytes = node("Add", ["x", "w"], "y")
        rest = value_info(11, "x", [size // 4]) + value_info(12, "y", [size // 4])
        head = varint_of(5 << 3 | 2) + varint_of(len(tensor) + size) + tensor
        graph = varint_of(GRAPH << 3 | 2) + varint_of(len(node_bytes) + len(rest) + len(head) + size)
        model = self.path("large.onnx")
        with open(model, "wb") as file:  # the weights are a hole in the file
            file.write(number(IR_VERSION, 8) + text(8, number(2, 17)) + graph + node_bytes + rest + head)
            file.truncate(file.tell() + size)
        process = subprocess.Popen([BINARY, "export", model, "--plan", "single", "-m", "h200x2", "--to", "onnx", "-o",
                                    self.path("out.onnx")], stdout=subprocess.DEVNULL)
        most = 0
        while process.poll() is None:
            with open(f"/proc/{process.pid}/status") as file:
                most = max([most] + [int(line.split()[1]) for line in file if line.startswith("RssAnon:")])
            time.sleep(0.001)
        self.assertEqual(process.returncode, 0)
        self.assertGreater(most, 0)
        self.assertLess(most << 10, size + 100e6)
        self.assertGreater(os.path.getsize(self.path("out.onnx")), os.path.getsize(model))
        os.unlink(self.path("out.onnx"))


# ---- with ONNX's own tools ----

def tensor(name, *shape, seed=0):
    return numpy_helper.from_array(numpy.random.default_rng(seed + len(name)).standard_normal(shape, numpy.float32) / 4, name)


def info(name, *shape, kind=None):
    return helper.make_tensor_value_info(name, kind or TensorProto.FLOAT, shape)


def built(nodes, inputs, outputs, initializers, ir_version=8, opset=17, **more):
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), *more.pop("opsets", [])], **more)
    model.ir_version = ir_version
    return model


def convolutions(**more):
    n = helper.make_node
    nodes = [n("Conv", ["x", "w1", "b1"], ["c1"], name="conv1", pads=[1, 1, 1, 1]), n("Relu", ["c1"], ["r1"], name="relu1"),
             n("Conv", ["r1", "w2"], ["left"], name="left", pads=[1, 1, 1, 1]),
             n("Conv", ["r1", "w3"], ["right"], name="right", pads=[0, 0, 0, 0]),
             n("Concat", ["left", "right"], ["cat"], name="cat", axis=1), n("MaxPool", ["cat"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
             n("Flatten", ["p"], ["flat"], name="flat"), n("Gemm", ["flat", "fc", "b2"], ["y"], name="fc", transB=1)]
    weights = [tensor("w1", 8, 3, 3, 3), tensor("b1", 8), tensor("w2", 8, 8, 3, 3), tensor("w3", 8, 8, 1, 1), tensor("fc", 10, 256),
               tensor("b2", 10)]
    inputs = [info("x", 2, 3, 8, 8)]
    if more.get("ir_version", 8) < 4:
        inputs += [info(w.name, *w.dims) for w in weights]
    return built(nodes, inputs, [info("y", 2, 10)], weights, **more)


def attention(**more):
    """A block of a transformer; a Loop and an If follow, whose bodies read values from outside."""
    n = helper.make_node
    scalar = lambda name, value, kind=numpy.int64: numpy_helper.from_array(numpy.array(value, kind), name)
    loop = helper.make_graph([n("Add", ["state", "ffn"], ["sum"]), n("Tanh", ["sum"], ["next"]), n("Identity", ["go"], ["go_on"])], "loop",
                             [info("i", kind=TensorProto.INT64), info("go", kind=TensorProto.BOOL), info("state", 2, 16, 32)],
                             [info("go_on", kind=TensorProto.BOOL), info("next", 2, 16, 32)])
    then = helper.make_graph([n("Add", ["turned", "q"], ["t"])], "then", [], [info("t", 2, 16, 32)])
    otherwise = helper.make_graph([n("Mul", ["turned", "gate"], ["e"])], "else", [], [info("e", 2, 16, 32)])
    nodes = [n("MatMul", ["x", "wq"], ["q"], name="q"), n("MatMul", ["x", "wk"], ["k"], name="k"),
             n("MatMul", ["x", "wv"], ["v"], name="v"),
             n("Transpose", ["k"], ["kt"], name="kt", perm=[0, 2, 1]), n("MatMul", ["q", "kt"], ["scores"], name="scores"),
             n("Constant", [], ["scale"], name="scale", value_float=0.25), n("Mul", ["scores", "scale"], ["scaled"], name="scaled"),
             n("Softmax", ["scaled"], ["weights"], name="softmax", axis=-1), n("MatMul", ["weights", "v"], ["mixed"], name="mixed"),
             n("Reshape", ["mixed", "rows"], ["as_rows"], name="rows"), n("MatMul", ["as_rows", "w1"], ["h"], name="ffn1"),
             n("Relu", ["h"], ["hr"], name="ffn_relu"), n("MatMul", ["hr", "w2"], ["out_rows"], name="ffn2"),
             n("Reshape", ["out_rows", "back"], ["ffn"], name="back"), n("Sigmoid", ["x"], ["gate"], name="gate"),
             n("Loop", ["turns", "yes", "x"], ["turned"], name="loop", body=loop),
             n("ReduceSum", ["ffn"], ["total"], name="total", keepdims=0), n("Greater", ["total", "zero"], ["positive"], name="positive"),
             n("If", ["positive"], ["y"], name="if", then_branch=then, else_branch=otherwise)]
    weights = [tensor("wq", 32, 32), tensor("wk", 32, 32, seed=1), tensor("wv", 32, 32, seed=2), tensor("w1", 32, 64), tensor("w2", 64, 32),
               scalar("rows", [32, 32]), scalar("back", [2, 16, 32]), scalar("turns", 3), scalar("yes", True, numpy.bool_),
               scalar("zero", 0, numpy.float32)]
    return built(nodes, [info("x", 2, 16, 32)], [info("y", 2, 16, 32)], weights, **more)


def function(**more):
    body = helper.make_function("local", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 17)])
    nodes = [helper.make_node("Twice", ["x"], ["t"], name="call", domain="local"), helper.make_node("Exp", ["x"], ["e"], name="exp"),
             helper.make_node("Sub", ["t", "e"], ["y"], name="sub")]
    return built(nodes, [info("x", 4, 8)], [info("y", 4, 8)], [], functions=[body], opsets=[helper.make_opsetid("local", 1)], **more)


@unittest.skipUnless(onnx, "the packages onnx and onnxruntime are not installed")
class Tools(Case):
    def models(self):
        yield "convolutions", convolutions()
        yield "convolutions of version 3, weights among the inputs", convolutions(ir_version=3, opset=9)
        yield "attention, Loop and If", attention()
        yield "attention of version 12", attention(ir_version=12, opset=21)
        yield "function", function()

    def results(self, path, option=None, level=None, ordered=False):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        if level is not None:
            options.graph_optimization_level = level
        if ordered:
            options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED
        if option:
            options.add_session_config_entry(*option)
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        rng = numpy.random.default_rng(3)
        weights = {w.name for w in onnx.load(path, load_external_data=False).graph.initializer}
        feed = {i.name: rng.standard_normal(i.shape, numpy.float32) for i in session.get_inputs() if i.name not in weights}
        return session.run(None, feed)

    def check_results(self, before, after, note):
        setting = next(line for line in note.splitlines() if line.startswith("session."))
        levels = onnxruntime.GraphOptimizationLevel
        for level, ordered in ((None, False), (levels.ORT_DISABLE_ALL, False), (levels.ORT_DISABLE_ALL, True)):
            expected = self.results(before, level=level)
            got = self.results(after, tuple(setting.split(" = ", 1)), level, ordered)
            self.assertEqual(len(expected), len(got))
            for a, b in zip(expected, got):
                numpy.testing.assert_array_equal(a, b)

    def test_same_results(self):
        for name, model in self.models():
            for plan in ("single", "spread"):
                with self.subTest(model=name, plan=plan):
                    onnx.checker.check_model(model, full_check=True)
                    before = self.path("m.onnx", model.SerializeToString())
                    after, note = self.exported(before, plan)
                    onnx.checker.check_model(after, full_check=True)
                    self.check_plan(Model(self.bytes_of(after)), note)
                    self.check_same_model(Model(self.bytes_of(before)), Model(self.bytes_of(after)))
                    self.assertEqual(onnx.load(after).ir_version, model.ir_version if model.ir_version in (3, 12) else 11)
                    self.check_results(before, after, note)

    def parts_of(self, note):
        """[(part, inputs, outputs)] as the note says."""
        return [(part, ast.literal_eval(inputs), ast.literal_eval(outputs)) for part, inputs, outputs
                in re.findall(r"^  (stowage_\d+): inputs (\[.*?\]), outputs (\[.*\])$", note, re.MULTILINE)]

    def test_parts(self):
        """The parts that the note names, cut as the document says, give the results of the whole, one after the other."""
        with open(os.path.join(ROOT, "docs", "formats", "onnx.md")) as file:
            [cut] = re.findall(r"```python\n(.*?)```", file.read(), re.DOTALL)
        before = self.path("m.onnx", convolutions().SerializeToString())
        planned, note = self.exported(before, "spread", "planned.onnx", ("-m", "h200x4"))
        parts = self.parts_of(note)
        self.assertGreater(len(parts), 1, note)
        done = subprocess.run([sys.executable, "-c", cut], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rng = numpy.random.default_rng(3)
        there = {"x": rng.standard_normal((2, 3, 8, 8), numpy.float32)}
        for part, inputs, outputs in parts:
            session = onnxruntime.InferenceSession(self.path(part + ".onnx"), providers=["CPUExecutionProvider"])
            self.assertEqual(sorted(i.name for i in session.get_inputs()), sorted(inputs))
            self.assertEqual(sorted(o.name for o in session.get_outputs()), sorted(outputs))
            there.update(zip(outputs, session.run(outputs, {name: there[name] for name in inputs})))
        [expected] = self.results(planned)
        numpy.testing.assert_allclose(there["y"], expected, rtol=1e-5, atol=1e-6)

    def test_external_data(self):
        """It is never opened, and the new model finds it when it lies beside."""
        model = convolutions()
        onnx.save_model(model, self.path("m.onnx"), save_as_external_data=True, location="weights.bin", size_threshold=64)
        os.rename(self.path("weights.bin"), self.path("away"))
        after, note = self.exported(self.path("m.onnx"), "spread")
        os.rename(self.path("away"), self.path("weights.bin"))
        onnx.checker.check_model(after, full_check=True)
        self.check_results(self.path("m.onnx"), after, note)

    def test_weights_are_not_overwritten(self):
        weights = numpy_helper.from_array(numpy.ones((64, 64), numpy.float32), "w")
        graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
                                  [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 64])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 64])], [weights])
        with tempfile.TemporaryDirectory() as folder:
            model, data = os.path.join(folder, "m.onnx"), os.path.join(folder, "w.bin")
            onnx.save_model(helper.make_model(graph), model, save_as_external_data=True, location="w.bin", size_threshold=0)
            size = os.path.getsize(data)
            result = subprocess.run([BINARY, "export", model, "-m", "h200x1", "--plan", "single", "--to", "onnx", "-o", data],
                                    capture_output=True, check=False)
            self.assertEqual(result.returncode, 2, result)
            self.assertIn(b"holds weights of the model", result.stderr)
            self.assertEqual(os.path.getsize(data), size)

    def test_a_loop_that_only_counts_takes_time(self):
        body = helper.make_graph([helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Add", ["n", "n"], ["m"])], "b",
                                 [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("go", TensorProto.BOOL, []),
                                  helper.make_tensor_value_info("n", TensorProto.INT64, [])],
                                 [helper.make_tensor_value_info("on", TensorProto.BOOL, []), helper.make_tensor_value_info("m", TensorProto.INT64, [])])
        turns = numpy_helper.from_array(numpy.array(1000, numpy.int64), "turns")
        graph = helper.make_graph([helper.make_node("Loop", ["turns", "", "n0"], ["n1"], body=body)], "g",
                                  [helper.make_tensor_value_info("n0", TensorProto.INT64, [])],
                                  [helper.make_tensor_value_info("n1", TensorProto.INT64, [])], [turns])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.onnx")
            onnx.save_model(helper.make_model(graph), path)
            told = subprocess.run([BINARY, "simulate", path, "-m", "h200x1", "-p", "single", "-f", "json"], capture_output=True, check=True)
            self.assertGreater(json.loads(told.stdout)["step_s"], 1e-4)  # a launch for each turn

    def test_order_is_what_runs(self):
        """With the options of the note ONNX Runtime runs the nodes in the order of the file."""
        before = self.path("m.onnx", attention().SerializeToString())
        plan = self.path("plan.json")
        result = self.stowage("optimize", before, "-m", "h200x2", "--budget", "300ms", "-o", plan)
        self.assertEqual(result.returncode, 0, result.stderr)
        after, _ = self.exported(before, plan, machine=())
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED
        options.enable_profiling = True
        options.profile_file_prefix = self.path("profile")
        session = onnxruntime.InferenceSession(after, options, providers=["CPUExecutionProvider"])
        session.run(None, {"x": numpy.ones((2, 16, 32), numpy.float32)})
        with open(session.end_profiling()) as file:
            events = [e for e in json.load(file) if e.get("cat") == "Node" and e["name"].endswith("_kernel_time")]
        names = [n.name for n in onnx.load(after).graph.node if n.op_type != "Constant"]
        ran = sorted((e["ts"], e["name"].removesuffix("_kernel_time")) for e in events)
        self.assertEqual([name for _, name in ran if name in names], names)

    def test_real_models_pass_the_checker(self):
        for path in Files.real_models(self):
            with self.subTest(model=os.path.basename(path)):
                try:
                    onnx.checker.check_model(path)
                except onnx.checker.ValidationError:
                    sound = False
                else:
                    sound = True
                after, _ = self.exported(path, "spread")
                if sound:
                    onnx.checker.check_model(after)
                onnx.load(after, load_external_data=False)


def main():
    if not os.access(BINARY, os.X_OK):
        print(f"no program at '{BINARY}'; give its path in STOWAGE_BIN", file=sys.stderr)
        return 2
    return run_tests()


if __name__ == "__main__":
    sys.exit(main())
