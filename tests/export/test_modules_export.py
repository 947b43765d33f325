"""`stowage export`: device maps and split points.

    STOWAGE_BIN=build/release/stowage python3 tests/export/test_modules_export.py          (STOWAGE_DATA: the folder of graphs/)

The exit status is the verdict; the last line counts what passed, failed and was skipped. accelerate is used where it is
present.
"""

import csv
import importlib.util
import io
import json
import os
import re
import subprocess
import sys

from exporting import Case, DATA, GRAPHS, main, MODELS, read_graph, warning_of


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


if __name__ == "__main__":
    sys.exit(main())
