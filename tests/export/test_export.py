"""`stowage export`: the TensorFlow graph with the plan in it, and the plans to paste and to look at.

    STOWAGE_BIN=build/release/stowage python3 tests/export/test_export.py          (STOWAGE_DATA: the folder of graphs/)

The exit status is the verdict; the last line counts what passed, failed and was skipped. Graphviz, TensorFlow and accelerate are
used where they are present.
"""

import csv
import glob
import gzip
import importlib.util
import io
import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from counting import run_tests  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.environ.get("STOWAGE_DATA", os.path.join(ROOT, "data"))
BINARY = os.path.abspath(os.environ.get("STOWAGE_BIN", os.path.join(ROOT, "build", "release", "stowage")))
GRAPHS = sorted(glob.glob(os.path.join(DATA, "graphs", "*.json.gz")))
MODELS = os.path.join(ROOT, "tests", "import", "data")
TENSORFLOW = ["tf_mlp.pb", "tf_conv.pb.gz", "tf_loop.pb", "tf_loop.pbtxt", "tf_traced.pb", "tf_functions.pb"]
COLUMNS = "node,name,op,kind,device,priority,group,start_us,end_us,bytes,flops".split(",")
MOST_DRAWN = 2000


def warning_of(model):
    """What is said of a file's times, whatever is done with it: a loop of Enter and Merge does not say how often it runs."""
    if "tf_loop" not in model:
        return ""
    return ("stowage: warning: 1 loop does not say how often it runs: the limit in the condition counts, else one turn; give the time with "
            "--costs\n")


def read_graph(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def read_model(path):
    with open(path, "rb") as file:
        content = file.read()
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


def fields(message):
    """(number, value) of each field of a protobuf message; of strings and messages the bytes, of the rest the number."""
    at, found = 0, []

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        tag = varint()
        kind = tag & 7
        if kind == 0:
            value = varint()
        else:
            length = varint() if kind == 2 else {1: 8, 5: 4}[kind]
            value = message[at:at + length]
            at += length
        found.append((tag >> 3, value))
    return found


def is_priority(field):
    return field[0] == 5 and (1, b"_stowage_priority") in fields(field[1])


def label_of(node):
    return node.get("label") if node["op"] in ("parameter", "buffer") else None


def reading_times(graph, rows):
    """{label: [(device, picoseconds)]} of the ops that read a parameter, by the rows of the csv table."""
    nodes, times = graph["nodes"], {}

    def root(k):
        return root(nodes[k]["inputs"][0]) if rows[k]["kind"] == "view" else k

    for node, row in zip(nodes, rows):
        for source in set(node["inputs"]) if row["start_us"] else ():
            label = label_of(nodes[root(source)])
            if label:
                taken = round(float(row["end_us"]) * 1e6) - round(float(row["start_us"]) * 1e6)
                times.setdefault(label, []).append((int(row["device"].rpartition(":")[2]), taken))
    return times


def map_by_hand(weights, times):
    """What docs/formats/export.md says, in few words: {label: [(device, bytes or picoseconds)]} to {module: device}."""
    def inside(module, label):
        return module in ("", label) or label.startswith(module + ".")

    def parent(name):
        return name.rpartition(".")[0]

    modules = {""} | {label[:at] for label in weights for at in range(len(label)) if label[at] == "."}
    deep = {parent(parent(module)) for module in modules if parent(module)}
    own = {parent(label) for label in weights}
    plain = modules - {parent(module) for module in modules if module}

    numbered = [module for module in modules if re.search(r"(^|[._])[0-9]+$", module)]
    blocks = {module for module in numbered if sum(parent(other) == parent(module) for other in numbered) > 1}

    def layer(label):
        module = parent(label)
        if not module or module in deep:
            return label
        around = parent(module)
        return around if module in plain and around and around in own and around not in deep else module

    def unit(label):
        return min((block for block in blocks if inside(block, layer(label))), key=len, default=layer(label))

    sums = {}
    for which, table in enumerate((weights, times)):
        for label, parts in table.items():
            for device, size in parts:
                sums.setdefault(unit(label), {}).setdefault(device, [0, 0])[which] += size
    device_of = {label: max(sorted(sums[unit(label)]), key=lambda d: sums[unit(label)][d]) for label in weights}
    found, left = {}, dict(device_of)
    for name in sorted(modules | {unit(label) for label in weights}, key=lambda n: (n != "", n.count("."))):
        devices = {device for label, device in device_of.items() if inside(name, label)}
        if len(devices) == 1 and any(inside(name, label) for label in left):
            found[name] = devices.pop()
            left = {label: device for label, device in left.items() if not inside(name, label)}
    return found


class Case(unittest.TestCase):
    maxDiff = 2000

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="stowage-export-")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name, content=None):
        path = os.path.join(self.folder, name)
        if content is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False))
        return path

    def run_stowage(self, *arguments, **more):
        return subprocess.run([BINARY, *arguments], capture_output=True, timeout=600, **more)

    def export(self, graph, form, *more, machine="h200x4", plan="spread", name="out"):
        """The bytes of the file and the note."""
        path = self.path(name)
        grain = ("--grain", "op") if form == "device-map" else ()
        result = self.run_stowage("export", graph, "-m", machine, "-p", plan, "--to", form, "-o", path, *grain, *more)
        worse = "stowage: warning: what was exported is worse than one device\n"
        self.assertIn("simulated step: ", result.stdout.decode())
        self.assertEqual(result.stdout.startswith(b"worse than one device"), result.stderr.decode().endswith(worse), result)
        self.assertEqual((result.returncode, result.stderr.decode().removesuffix(worse)), (0, warning_of(graph)), result)
        with open(path, "rb") as file:
            return file.read(), result.stdout.decode()

    def fault(self, *arguments, says, warns=""):
        result = self.run_stowage(*arguments)
        self.assertTrue(result.stderr.decode().startswith(warns), result)
        line = result.stderr.decode()[len(warns):]
        self.assertEqual((result.returncode, result.stdout), (2, b""), result)
        self.assertTrue(line.startswith("stowage: ") and line.count("\n") == 1 and line.endswith("\n"), line)
        self.assertIn(says, line)

    def plan(self, graph, machine, method):
        """The plan file of a method, and what it holds."""
        path = self.path("plan.json")
        result = self.run_stowage("simulate", graph, "-m", machine, "-p", method, "-o", path)
        self.assertEqual(result.returncode, 0, result)
        with open(path, encoding="utf-8") as file:
            return path, json.load(file)


class Tables(Case):
    def rows(self, content):
        table = list(csv.reader(io.StringIO(content.decode(), newline=""), strict=True))
        self.assertEqual(table[0], COLUMNS)
        return [dict(zip(COLUMNS, row, strict=True)) for row in table[1:]]

    def test_every_graph(self):
        for path in GRAPHS:
            with self.subTest(graph=os.path.basename(path)):
                nodes = read_graph(path)["nodes"]
                rows = self.rows(self.export(path, "csv")[0])
                self.assertEqual([row["name"] for row in rows], [node["name"] for node in nodes])
                self.assertEqual([row["node"] for row in rows], [str(k) for k in range(len(nodes))])
                for row, node in zip(rows, nodes):
                    timed = row["kind"] == "op"
                    self.assertEqual(timed, row["start_us"] != "", row)
                    self.assertEqual(row["op"], node["op"])
                    if timed:
                        self.assertLessEqual(float(row["start_us"]), float(row["end_us"]))

    def test_agrees_with_the_plan_and_the_report(self):
        graph = os.path.join(DATA, "graphs", "unet.json.gz")
        path, plan = self.plan(graph, "h200x4", "metis")
        rows = self.rows(self.export(graph, "csv", plan=path)[0])
        names = [device["name"] for device in plan["machine"]["devices"]]
        for row, device, priority, group in zip(rows, plan["device"], plan["priority"], plan["group"], strict=True):
            self.assertEqual(row["device"], "" if row["kind"] in ("input", "constant") else row["device"] and names[device], row)
            if row["kind"] == "op":
                self.assertEqual((float(row["priority"]), int(row["group"])), (priority, group))
        self.assertAlmostEqual(max(float(row["end_us"]) for row in rows if row["end_us"]) / 1e6, plan["step_s"], delta=1e-12)

    def test_too_little_memory_is_said(self):
        graph = os.path.join(DATA, "graphs", "rnnlm-2.json.gz")
        _, note = self.export(graph, "csv", "--memory", "1MB", machine="h200x2")
        self.assertIn("the plan does not fit: ", note)

    def test_quotes(self):
        name = 'a,"b"\r\nc'
        graph = self.path("g.json", {"format": "opgraph", "version": 1, "name": "g", "outputs": [0], "nodes": [
            {"id": 0, "name": name, "op": "input", "inputs": [], "dtype": "f32", "shape": [1], "bytes": 4}]})
        self.assertEqual(self.rows(self.export(graph, "csv")[0])[0]["name"], 'a,"b"\\r\\nc')  # one line per node


class Modules(Case):
    def check_map(self, graph, plan, content, rows):
        weights, planned = {}, {}
        for node, device in zip(graph["nodes"], plan["device"]):
            if label_of(node):
                planned[label_of(node)] = device
                weights.setdefault(label_of(node), []).append((device, node["bytes"] + 1))
        names = json.loads(content)
        self.assertEqual(names, map_by_hand(weights, reading_times(graph, rows)))
        return names, planned

    def test_every_graph(self):
        for path in GRAPHS:
            graph = read_graph(path)
            if len(graph["nodes"]) > 5000:
                continue
            for method in ("single", "metis"):
                with self.subTest(graph=graph["name"], method=method):
                    plan_path, plan = self.plan(path, "h200x4", method)
                    content, note = self.export(path, "device-map", plan=plan_path)
                    table, _ = self.export(path, "csv", plan=plan_path)
                    rows = list(csv.DictReader(io.StringIO(table.decode(), newline="")))
                    names, planned = self.check_map(graph, plan, content, rows)
                    self.assertEqual(names == {"": plan["device"][0]}, len(set(planned.values())) == 1)
                    self.assertIn("device_map=", note)
                    content, note = self.export(path, "split-points", plan=plan_path)
                    self.check_split(json.loads(content), planned, note)

    def check_split(self, split, planned, note):
        stages = split["stages"]
        self.assertEqual(len(split["split_points"]), len(stages) - 1)
        self.assertEqual(len({stage["device"] for stage in stages}), len(stages))
        where = {}
        for stage in stages:
            for name in stage["modules"]:
                for label in planned:
                    if name in ("", label) or label.startswith(name + "."):
                        self.assertNotIn(label, where)
                        where[label] = stage["device"]
        self.assertEqual(where.keys(), planned.keys())
        if "such a pipeline" in note:
            self.assertEqual(where, planned)
        self.assertEqual("moves 0.0 % of the parameters' bytes" in note or "such a pipeline" in note, where == planned)
        for name, stage in zip(split["split_points"], stages[1:]):
            first = stage["modules"][0]
            self.assertTrue(first == name or first.startswith(name + ".") or name.startswith(first + "."), (name, first))

    def test_forward_and_back_is_a_pipeline(self):
        """Gradients go through the stages the other way."""
        def node(number, op, inputs, **more):
            return {"id": number, "name": f"n{number}", "op": op, "inputs": inputs, "dtype": "f32", "shape": [4], **more}
        graph = self.path("g.json", {
            "format": "opgraph", "version": 1, "name": "g", "outputs": [7], "loss": 4, "nodes": [
                node(0, "parameter", [], label="a.weight"), node(1, "parameter", [], label="b.weight"), node(2, "relu", [0]),
                node(3, "relu", [1, 2]), node(4, "relu", [3]), node(5, "relu", [4, 1]), node(6, "relu", [5]),
                node(7, "relu", [6, 0])]})
        _, plan = self.plan(graph, "h200x2", "single")
        for devices, is_pipeline in (([0, 1, 0, 1, 1, 1, 0, 0], True), ([0, 1, 0, 1, 0, 1, 0, 0], False)):
            plan["device"] = devices
            content, note = self.export(graph, "split-points", machine="h200x2", plan=self.path("plan.json", plan))
            self.assertEqual(json.loads(content)["split_points"], ["b"])
            self.assertEqual("such a pipeline" in note, is_pipeline, note)

    def test_names_that_are_no_modules(self):
        for model in ("hlo_train.txt", "hlo_train.pb", "tf_mlp.pb", "tf_loop.pbtxt"):
            for form in ("device-map", "split-points"):
                with self.subTest(model=model, form=form):
                    self.fault("export", os.path.join(MODELS, model), "-m", "h200x2", "-p", "random", "--to", form,
                               says="are no paths of PyTorch modules", warns=warning_of(model))

    def test_wrapper(self):
        gpt2 = os.path.join(DATA, "graphs", "gpt2.json.gz")
        wrapped, note = self.export(gpt2, "device-map", plan="metis")
        self.assertIn("--strip m takes it off", note)
        plain, note = self.export(gpt2, "device-map", "--strip", "m", plan="metis")
        self.assertEqual({"m." + name: device for name, device in json.loads(plain).items()}, json.loads(wrapped))
        self.assertNotIn("--strip", note)
        self.fault("export", gpt2, "-m", "h200x2", "-p", "metis", "--to", "device-map", "--strip", "x", says="no parameter lies in 'x'")
        self.fault("export", gpt2, "-m", "h200x2", "-p", "metis", "--to", "csv", "--strip", "m", says="device-map and split-points")

    ACCELERATE = """
import json, sys
import torch
from accelerate.utils.modeling import check_device_map
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.fc = torch.nn.LayerNorm(8), torch.nn.Linear(8, 8)
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.token = torch.nn.Parameter(torch.zeros(8))
        self.embedding, self.head = torch.nn.Embedding(16, 8), torch.nn.Linear(8, 16, bias=False)
        self.h = torch.nn.ModuleList(Block() for _ in range(3))
        self.head.weight = self.embedding.weight
model = Model()
if len(sys.argv) == 1:
    print(json.dumps([[name, list(value.shape)] for name, value in model.named_parameters()]))
else:
    names = json.load(open(sys.argv[1]))
    try:
        check_device_map(model, names)
    except ValueError as error:
        print(error)
    check_device_map(model, {**names, "head": names["embedding"]})
"""

    def test_accelerate_takes_it(self):
        """All but the tied head, of which the note tells."""
        if importlib.util.find_spec("accelerate") is None:
            self.skipTest("the package accelerate is not installed")

        def run(*arguments):
            return subprocess.run([sys.executable, "-c", self.ACCELERATE, *arguments], capture_output=True, timeout=300, text=True,
                                  check=True).stdout
        parameters = json.loads(run())
        nodes = [{"id": k, "name": f"p{k}", "op": "parameter", "label": "m." + name, "inputs": [], "dtype": "f32", "shape": shape}
                 for k, (name, shape) in enumerate(parameters)]
        graph = self.path("g.json", {"format": "opgraph", "version": 1, "name": "g", "outputs": [], "nodes": nodes})
        _, plan = self.plan(graph, "h200x2", "single")
        plan["device"] = [int(name.startswith("h.1") or name.endswith("bias")) for name, _ in parameters]
        path = self.path("plan.json", plan)
        content, note = self.export(graph, "device-map", "--strip", "m", machine="h200x2", plan=path, name="map.json")
        self.assertEqual(list(json.loads(content)), ["token", "embedding", "h.0", "h.1", "h.2"])
        self.assertIn("tied to its embedding", note)
        self.assertIn("for the following parameters: head.weight\n", run(self.path("map.json")))

    def test_processors(self):
        graph = os.path.join(DATA, "graphs", "rnnlm-2.json.gz")
        path, plan = self.plan(graph, "cpu+h200x2", "single")
        plan["device"] = [0] * len(plan["device"])
        content, _ = self.export(graph, "device-map", machine="cpu+h200x2", plan=self.path("plan.json", plan))
        self.assertEqual(json.loads(content), {"": "cpu"})


class Drawings(Case):
    SMALL = {"format": "opgraph", "version": 1, "name": 'a "graph" \\', "outputs": [3], "nodes": [
        {"id": 0, "name": "w", "op": "parameter", "label": 'l."w"\\', "inputs": [], "dtype": "f32", "shape": [4], "bytes": 16},
        {"id": 1, "name": "a", "op": "relu", "inputs": [0], "dtype": "f32", "shape": [4], "bytes": 16},
        {"id": 2, "name": "\u00e4\n", "op": "relu", "inputs": [1], "dtype": "f32", "shape": [4], "bytes": 16},
        {"id": 3, "name": "\\N", "op": "relu", "inputs": [2], "dtype": "f32", "shape": [4], "bytes": 16}]}

    def draw(self, content, form):
        if shutil.which("dot") is None:
            self.skipTest("Graphviz is not installed: there is no program 'dot'")
        return subprocess.run(["dot", "-T" + form], input=content, capture_output=True, check=True, timeout=600).stdout.decode()

    def test_graphviz_takes_it(self):
        graph = self.path("g.json", self.SMALL)
        _, plan = self.plan(graph, "h200x2", "single")
        plan.update(device=[0, 0, 1, 1], group=[-1, 1, 2, 2])
        content, note = self.export(graph, "dot", machine="h200x2", plan=self.path("plan.json", plan))
        self.assertIn("dot -Tsvg", note)
        drawing = self.draw(content, "svg")
        for words in ('l.&quot;w&quot;\\', "\u00e4\\n", "\\N", "group 2", "h200:1", "stroke-dasharray"):
            self.assertIn(words, drawing)
        drawn = json.loads(self.draw(content, "dot_json"))
        self.assertEqual(sum(edge.get("style") == "dashed" for edge in drawn["edges"]), 1)

    def test_every_small_graph(self):
        for path in GRAPHS:
            nodes = read_graph(path)["nodes"]
            with self.subTest(graph=os.path.basename(path)):
                if len(nodes) > MOST_DRAWN:
                    self.fault("export", path, "-m", "h200x2", "-p", "spread", "--to", "dot", says="use --to trace or --to csv")
                    continue
                content, _ = self.export(path, "dot", plan="metis")
                lines = content.decode().splitlines()
                self.assertEqual(sum(" [label=" in line and line.lstrip().startswith("n") for line in lines), len(nodes))
                self.assertEqual(sum(" -> " in line for line in lines),
                                 sum(len(node["inputs"]) + len(node.get("control", [])) for node in nodes))
                if shutil.which("nop") is not None:  # Graphviz's parser; laying out so many nodes takes minutes
                    subprocess.run(["nop", "-p"], input=content, capture_output=True, check=True, timeout=600)


class Traces(Case):
    def test_as_simulate_writes_it(self):
        graph = os.path.join(DATA, "graphs", "unet.json.gz")
        content, _ = self.export(graph, "trace")
        path = self.path("t.json")
        self.assertEqual(self.run_stowage("simulate", graph, "-m", "h200x4", "-p", "spread", "--trace", path).returncode, 0)
        with open(path, "rb") as file:
            self.assertEqual(file.read(), content)


class TensorFlowGraphs(Case):
    def nodes_of(self, name, content):
        """name -> device; and the file without what the plan adds."""
        devices, rest = {}, []
        if name.endswith(".pbtxt"):
            lines, current = content.decode().split("\n"), None
            for line in lines:
                if line.startswith("  name: "):
                    current = line.split('"')[1]
                    devices[current] = ""
                if line.startswith("  device: "):
                    devices[current] = line.split('"')[1]
                elif not line.startswith('  attr { key: "_stowage_priority"'):
                    rest.append(line)
            return devices, rest
        for number, value in fields(content):
            if number != 1:
                rest.append((number, value))
                continue
            inner = fields(value)
            devices[dict(inner)[1].decode()] = dict(inner).get(4, b"").decode()
            rest.append([field for field in inner if field[0] != 4 and not is_priority(field)])
        return devices, rest

    def test_round_trip(self):
        for name in TENSORFLOW:
            model = os.path.join(MODELS, name)
            before, untouched = self.nodes_of(name, read_model(model))
            outputs = set()
            for machine, method in (("h200x2", "spread"), ("cpu+h200x2", "spread"), ("h200x2+2", "metis")):
                with self.subTest(model=name, machine=machine):
                    content, note = self.export(model, "graphdef", machine=machine, plan=method, name=name.replace(".gz", ""))
                    devices, rest = self.nodes_of(name, content)
                    self.assertEqual(rest, untouched)
                    self.assertEqual(list(devices), list(before))
                    self.assertIn("set_soft_device_placement", note)
                    self.assertEqual("several hosts" in note, "+2" in machine)
                    used = {device for device in devices.values() if device}
                    self.assertGreater(len(used), 1)
                    job = "worker" if "+2" in machine else "localhost"
                    self.assertTrue(all(device.startswith(f"/job:{job}/replica:0/task:") for device in used), used)
                    outputs.add(content)
                    again = json.loads(self.run_stowage("inspect", self.path(name.replace(".gz", "")), "-f", "json").stdout)
                    first = json.loads(self.run_stowage("inspect", model, "-f", "json").stdout)
                    self.assertEqual(again["fingerprint"], first["fingerprint"])
            self.assertGreater(len(outputs), 1, "another plan, another file")

    def test_faults(self):
        graph = self.path("g.json", Drawings.SMALL)
        plan = ["-m", "h200x2", "-p", "spread", "--to", "graphdef", "-o", self.path("out")]
        self.fault("export", graph, *plan, says="not a TensorFlow GraphDef")
        with open(os.path.join(MODELS, "tf_mlp.pb"), "rb") as file:
            result = self.run_stowage("export", "-", *plan, stdin=file)
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"standard input", result.stderr)
        self.assertFalse(os.path.exists(self.path("out")))

    def test_pipe_is_refused(self):
        """A model is read twice; a pipe would hang the second time."""
        os.mkfifo(self.path("pipe.pb"))
        with open(os.path.join(MODELS, "tf_mlp.pb"), "rb") as file:
            content = file.read()
        arguments = [BINARY, "export", self.path("pipe.pb"), "-m", "h200x2", "-p", "spread", "--to", "graphdef", "-o", self.path("out")]
        running = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with open(self.path("pipe.pb"), "wb") as pipe:
            pipe.write(content)
        output = running.communicate(timeout=60)
        self.assertEqual((running.returncode, output[0]), (2, b""))
        self.assertIn(b"standard input or a pipe", output[1])

    NODE = ('node { name: "n%d" op: "Relu" input: "%s" attr { key: "T" value { type: DT_FLOAT } } '
            'attr { key: "_output_shapes" value { list { shape { dim { size: 4 } } } } } }')
    FIRST = 'node { name: "n0" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value { shape { dim { size: 4 } } } } %s}'

    def test_stale_priorities_go(self):
        """What an earlier export left at a node that is no task, and what stands twice."""
        stale = 'attr { key: "_stowage_priority" value { f: 7 } } '
        text = self.FIRST % stale + "\n" + (self.NODE % (1, "n0")).replace("attr {", stale + stale + "attr {", 1)
        content, _ = self.export(self.path("g.pbtxt", text), "graphdef", machine="h200x2", name="out.pbtxt")
        self.assertEqual(content.count(b"_stowage_priority"), 1)
        self.assertNotIn(b"f: 7", content)
        again, _ = self.export(self.path("out.pbtxt"), "graphdef", machine="h200x2", name="again.pbtxt")
        self.assertEqual(again, content)

    def test_all_in_one_line(self):
        """20,000 nodes in one line take no longer than in as many."""
        nodes = [self.FIRST % ""] + [self.NODE % (k, f"n{k - 1}") for k in range(1, 20000)]
        seconds = []
        for between in ("\n", " "):
            began = self.seconds_of_children()
            self.export(self.path("g.pbtxt", between.join(nodes)), "graphdef", machine="h200x1", plan="single", name="out.pbtxt")
            seconds.append(self.seconds_of_children() - began)
        self.assertLess(seconds[1], 5 * seconds[0] + 2)

    @staticmethod
    def seconds_of_children():
        """Of the processor: what others do on the machine does not count."""
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime

    CHECK = """
import json, sys
import numpy, tensorflow as tf
from google.protobuf import text_format
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
def read(path):
    graph = tf.compat.v1.GraphDef()
    content = open(path, "rb").read()
    if path.endswith("txt"):
        text_format.Parse(content.decode(), graph)
    else:
        graph.ParseFromString(content)
    return graph
before, after = read(sys.argv[1]), read(sys.argv[2])
with tf.Graph().as_default() as graph:
    tf.import_graph_def(read(sys.argv[2]), name="")  # which changes what it is given
    operations = graph.get_operations()
    config = tf.compat.v1.ConfigProto(allow_soft_placement=False, device_count={"CPU": 3})
    with tf.compat.v1.Session(graph=graph, config=config) as session:
        session.run([o for o in operations if o.type in ("Assign", "AssignVariableOp") and not o.name.startswith("save")])
        feeds = {o.outputs[0]: numpy.zeros([size or 4 for size in o.outputs[0].shape.as_list()], o.outputs[0].dtype.as_numpy_dtype)
                 for o in operations if o.type == "Placeholder"}
        ends = [o for o in operations if o.outputs and not any(t.consumers() for t in o.outputs) and not o.name.startswith("save")]
        try:
            session.run([o for o in ends if o.type != "Placeholder"], feeds)
        except tf.errors.InvalidArgumentError as error:
            if "CPU implementations do not yet support" not in str(error):  # of dilated convolutions, found long after placement
                raise
for node in after.node:
    node.attr.pop("_stowage_priority", None)
for old, new in zip(before.node, after.node):
    new.device = old.device
print("same" if before == after else "differs")
"""

    def test_tensorflow_runs_it(self):
        """With the placement as it stands: TensorFlow may move nothing."""
        if importlib.util.find_spec("tensorflow") is None:
            self.skipTest("the package tensorflow is not installed")
        machine = self.path("cpus.json", {
            "format": "machine", "version": 1, "name": "cpus", "devices": [{"name": f"c{k}", "kind": "cpu8"} for k in range(3)],
            "links": [{"from": f"c{a}", "to": f"c{b}", "bandwidth_bytes_per_s": 1e10, "latency_us": 1}
                      for a in range(3) for b in range(3) if a != b]})
        for name in TENSORFLOW:
            for method in ("spread", "random"):
                with self.subTest(model=name, method=method):
                    plain = self.path("before-" + name.replace(".gz", ""))
                    with open(plain, "wb") as file:
                        file.write(read_model(os.path.join(MODELS, name)))
                    self.check_in_tensorflow(plain, machine, method)
        tied = self.path("tied.pbtxt", self.TIED)
        names = [row.split(",")[1] for row in self.export(tied, "csv", machine=machine)[0].decode().splitlines()[1:]]
        _, plan = self.plan(tied, machine, "single")
        plan["device"] = [{"gather": 1, "act": 2, "late": 2}.get(name, 0) for name in names]
        note = self.check_in_tensorflow(tied, machine, self.path("plan.json", plan))
        self.assertIn("3 are not where the plan has them", note)

    def check_in_tensorflow(self, model, machine, plan):
        planned = "planned-" + os.path.basename(model)
        _, note = self.export(model, "graphdef", machine=machine, plan=plan, name=planned)
        result = subprocess.run([sys.executable, "-c", self.CHECK, model, self.path(planned)], capture_output=True, timeout=300,
                                text=True)
        self.assertEqual((result.returncode, result.stdout), (0, "same\n"), result.stderr[-2000:])
        return note

    # The plan may read a variable from anywhere; TensorFlow may not; and the plan knows the first of a list of `_class` only.
    TIED = """
node { name: "v" op: "VarHandleOp" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shared_name" value { s: "v" } }
       attr { key: "shape" value { shape { dim { size: 64 } dim { size: 8 } } } } }
node { name: "start" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "value" value { tensor { dtype: DT_FLOAT
       tensor_shape { dim { size: 64 } dim { size: 8 } } float_val: 1 } } } }
node { name: "assign" op: "AssignVariableOp" input: "v" input: "start" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_INT32 } } attr { key: "shape" value { shape { dim { size: 4 } } } } }
node { name: "gather" op: "ResourceGather" input: "v" input: "x" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "Tindices" value { type: DT_INT32 } } }
node { name: "act" op: "Relu" input: "gather" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "late" op: "Tanh" input: "act" attr { key: "T" value { type: DT_FLOAT } }
       attr { key: "_class" value { list { s: "loc:@act" s: "loc:@v" } } } }
"""


class Document(Case):
    """What docs/formats/export.md shows is what its commands print."""

    def examples(self):
        """(command, lines of the block that follows it, or None)"""
        with open(os.path.join(ROOT, "docs", "formats", "export.md"), encoding="utf-8") as file:
            text = file.read()
        pattern = r"^    stowage (export \S+\.gz .*)\n(?:\n```(?:json|csv)\n((?:.*\n)*?)```)?(?:\n```text\n((?:.*\n)*?)```)?"
        return re.findall(pattern, text, re.MULTILINE)

    def test_examples(self):
        examples = self.examples()
        self.assertEqual(sum(bool(shown) for _, shown, _ in examples), 3)
        for command, shown, note in examples:
            with self.subTest(command=command):
                arguments = shlex.split(command)
                arguments[1] = os.path.join(DATA, "graphs", arguments[1])
                out = self.path(arguments[-1])
                result = self.run_stowage(*arguments[:-1], out)
                self.assertEqual(result.returncode, 0)
                self.assertIn(result.stderr, (b"", b"stowage: warning: what was exported is worse than one device\n"))
                with open(out, encoding="utf-8") as file:
                    content = file.read()
                if shown and not out.endswith(".csv"):
                    self.assertEqual(content, shown)
                rows = iter(content.splitlines())  # of a table some are shown
                for line in shown.splitlines():
                    self.assertIn(line, rows)
                if note:
                    self.assertEqual(result.stdout.decode().splitlines()[:-1], note.splitlines())


def main():
    if not os.access(BINARY, os.X_OK):
        print(f"no program at '{BINARY}'; give its path in STOWAGE_BIN", file=sys.stderr)
        return 2
    return run_tests()


if __name__ == "__main__":
    sys.exit(main())
