"""stowage inspect, machine and generate: files, machines and graphs, described and made.

    python3 tests/cli/test_inspect.py build/release/stowage          (or STOWAGE_BIN=build/release/stowage)

The exit status is the verdict; the last line counts what passed and failed.
"""

import gzip
import json
import os
import sys

import program
from program import GRAPH, ROOT, SMALL, Case, node, unwrapped


class Inspect(Case):
    def test_graph(self):
        path = self.path("g.json", SMALL)
        text = self.done("inspect", path)
        for word in ("graph small (family test)", "fingerprint", "elementwise", "h200", "cpu8", "made_up_operator", "unknown operator"):
            self.assertIn(word, text)
        report = json.loads(self.done("inspect", path, "--format", "json"))
        self.assertEqual(list(report), ["format", "name", "family", "fingerprint", "nodes", "ops", "views", "parameters", "buffers",
                                        "inputs", "constants", "ops_without_shape", "ops_empty", "loops_without_count", "edges", "control_edges", "updates",
                                        "outputs", "parameter_bytes", "buffer_bytes", "input_bytes", "flops", "measured", "classes",
                                        "unknown_operators", "open_inputs", "open_dimensions"])
        self.assertEqual([report[key] for key in ("nodes", "ops", "views", "parameters", "inputs", "edges", "updates", "outputs")],
                         [5, 3, 0, 1, 1, 5, 1, 1])
        self.assertEqual((report["parameter_bytes"], report["flops"]), (1024, 768))
        self.assertEqual([(m["kind"], m["unmeasured_ops"]) for m in report["measured"]], [("h200", 0), ("cpu8", 1)])
        self.assertAlmostEqual(report["measured"][0]["total_s"], 9e-6)
        self.assertEqual(report["unknown_operators"], [{"op": "made_up_operator", "ops": 1}])

    def test_many_unknown_operators(self):
        nodes = [node(0, "input", [])] + [node(i, f"strange_{i % 25}", [0]) for i in range(1, 52)]
        path = self.path("g.json", {"format": "opgraph", "version": 1, "name": "g", "outputs": [51], "nodes": nodes})
        text = self.done("inspect", path)
        self.assertIn("and 5 more", text)
        self.assertEqual(text.count("strange_"), 20)
        self.assertEqual(len(json.loads(self.done("inspect", path, "-f", "json"))["unknown_operators"]), 25)

    def test_every_graph_of_the_collection(self):
        folder = os.path.join(ROOT, "data", "graphs")
        for name in sorted(os.listdir(folder)):
            report = json.loads(self.done("inspect", os.path.join(folder, name), "--format", "json"))
            self.assertEqual(report["name"], name.removesuffix(".json.gz"))
            self.assertEqual(report["nodes"], sum(report[k] for k in ("ops", "views", "parameters", "buffers", "inputs", "constants")))
            self.assertEqual(sum(c["ops"] for c in report["classes"]), report["ops"])

    def test_features(self):
        path = self.path("g.json", SMALL)
        text = self.done("inspect", path, "--features", "-m", "h200x2")
        for word in ("features of small on h200x2", "class.matmul", "transfer_wait", "slot", "busy_then"):
            self.assertIn(word, text)
        self.assertLessEqual(max(len(line) for line in text.splitlines()), 100)
        report = json.loads(self.done("inspect", path, "--features", "-m", "h200x2", "--units", "off", "-f", "json"))
        self.assertEqual(list(report), ["graph", "machine", "version", "units", "devices", "plan", "unit", "feedback", "device", "pair",
                                        "operator"])
        self.assertEqual((report["units"], report["devices"], report["plan"]), (3, 2, "single"))
        with open(os.path.join(ROOT, "docs", "features.md")) as file:
            explained = file.read()
        for name, rows in (("unit", 3), ("feedback", 3), ("device", 2), ("pair", 3)):
            self.assertEqual(len(report[name]["rows"]), rows)
            for column in report[name]["columns"]:
                self.assertIn(f"| `{column}` |", explained)
            for row in report[name]["rows"]:
                for numbers in row if name == "pair" else [row]:
                    self.assertEqual(len(numbers), len(report[name]["columns"]))
                    self.assertTrue(all(isinstance(x, (int, float)) and -2 <= x <= 2 for x in numbers), numbers)
        self.assertEqual(len(report["pair"]["rows"][0]), 2)
        unknown = report["operator"].index(0)  # made_up_operator
        self.assertEqual(report["unit"]["rows"][unknown][report["unit"]["columns"].index("class.opaque")], 1.0)
        share = report["pair"]["columns"].index("share")
        self.assertEqual([[device[share] for device in row] for row in report["pair"]["rows"]], [[1, 0]] * 3)
        one = json.loads(self.done("inspect", GRAPH, "--features", "-m", "h200x1", "--units", "7", "-f", "json"))
        self.assertEqual(one["units"], 7)

    def test_features_faults(self):
        path = self.path("g.json", SMALL)
        self.fault("inspect", path, "--features", says=["--features needs a machine", "--machine h200x4"])
        self.fault("inspect", path, "--features", "-m", "h200x2", "--units", "0", says=["--units", "'0'"])
        self.fault("inspect", path, "--features", "-m", "nonesuch", says=["nonesuch"])
        self.fault("inspect", "h200x2", "--features", says=["'h200x2' is a machine"])
        self.fault("inspect", path, "--machine", "h200x2", says=["--machine is for --features"])
        self.fault("inspect", "-", "--features", "-m", "-", says=["only once"])

    def test_empty_graph(self):
        path = self.path("g.json", {"format": "opgraph", "version": 1, "name": "empty", "outputs": [], "nodes": []})
        result = self.run_stowage("inspect", path)
        self.assertIn(result.returncode, (0, 2), result)

    def test_other_files(self):
        for command in (["inspect"], ["simulate", "-m", "h200x2", "--plan", "spread"]):
            self.fault(*command, self.path("empty", ""), says=["empty: is empty"])
            self.fault(*command, self.path("words", "no graph"), says=["words: not a format that is read; known: opgraph JSON"])

    def test_unknown_rank(self):  # a dtype alone is no shape
        path = os.path.join(ROOT, "fuzz", "corpus", "onnx", "y_rank_unknown.onnx")
        self.assertEqual(json.loads(self.done("inspect", path, "--format", "json"))["ops_without_shape"], 2)

    def test_machine(self):
        text = self.done("inspect", "h200x4")
        self.assertIn("machine h200x4: 4 devices", text)
        self.assertIn("every device", text)
        self.assertIn("nic", self.done("inspect", "h200x2+2"))
        self.assertIn("no links", self.done("inspect", "h200x1"))
        path = self.path("m.json", self.done("machine", "h200x4"))
        self.assertEqual(self.done("inspect", path), text)
        self.assertEqual(self.done("inspect", path, "--format", "json"), self.done("machine", "h200x4"))
        self.assertEqual(self.done("machine", "h200x4", "--format", "text"), text)
        self.assertIn("more; --format json lists all", self.done("inspect", "h200x8+8"))

    def test_plan(self):
        plan = self.path("plan.json")
        self.done("simulate", GRAPH, "-m", "h200x4", "-p", "spread", "-o", plan)
        text = self.done("inspect", plan)
        for word in ("plan for unet", "fingerprint", "h200x4", "spread", "step time", "lower bound", "yes"):
            self.assertIn(word, text)
        report = json.loads(self.done("inspect", plan, "--format", "json"))
        self.assertEqual(list(report), ["format", "graph", "fingerprint", "machine", "method", "seed", "objective", "value", "step_s",
                                        "valid", "lower_bound_s", "lower_bound_fusion_s", "measured_share", "nodes", "ops_written",
                                        "kernels", "devices"])
        self.assertEqual(report["kernels"], report["ops_written"])  # nothing is fused
        self.assertGreater(report["kernels"], 0)
        self.assertEqual((report["graph"], report["method"], report["valid"]), ("unet", "spread", True))
        self.assertEqual(len(report["devices"]), 4)
        self.assertEqual(sum(device["nodes"] for device in report["devices"]), report["nodes"])
        self.assertEqual(json.loads(self.done("inspect", GRAPH, "-f", "json"))["fingerprint"], report["fingerprint"])

    def test_plan_by_hand(self):
        plan = self.path("p.json", {"format": "plan", "version": 1, "device": [0, 0, 2]})
        self.assertIn("66.7 %", self.done("inspect", plan))
        report = json.loads(self.done("inspect", plan, "-f", "json"))
        self.assertEqual([device["nodes"] for device in report["devices"]], [2, 0, 1])
        self.assertIsNone(report["graph"])
        self.assertEqual((report["ops_written"], report["kernels"]), (None, None))
        fused = self.path("f.json", {"format": "plan", "version": 1, "device": [0] * 6, "group": [7, 3, -1, 7, 3, 9]})
        self.assertIn("3 for 5 ops", self.done("inspect", fused))
        report = json.loads(self.done("inspect", fused, "-f", "json"))
        self.assertEqual((report["ops_written"], report["kernels"]), (5, 3))
        for bad in ({"version": 1, "group": [-2]}, {"version": 1, "group": [1e12]}, {"version": 1, "group": ["a"]},
                    {"version": 1, "group": 4}, {"version": 2, "device": []}, {"version": 1, "device": [-1]}, {"version": 1, "device": [64]},
                    {"version": 1, "device": ["a"]}, {"version": 1, "step_s": "fast"}, {"version": 1, "machine": {}}):
            self.fault("inspect", self.path("p.json", {"format": "plan", **bad}), says=["p.json"])

    def test_names_cannot_steer_the_terminal(self):
        evil = dict(SMALL, name="\033[2Jx\u009b31m\n", family="\033]0;t\007")
        evil["nodes"] = [dict(n) for n in SMALL["nodes"]]
        evil["nodes"][3]["op"] = "\033[31mred"
        evil["nodes"][3]["us"] = {"\033[5mkind": 1.0}
        text = self.done("inspect", self.path("g.json", evil))
        self.assertFalse([c for c in text if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160)], repr(text))


class Machine(Case):
    def test_list(self):
        text = self.done("machine")
        self.assertIn("h200xN", text)
        listed = json.loads(self.done("machine", "--format", "json"))
        self.assertGreaterEqual(len(listed), 5)
        for entry in listed:
            self.assertEqual(list(entry), ["name", "description"])
            self.assertIn(entry["name"], text)
        self.fault("machine", "-o", "x.json", says=["--output needs a machine"])
        self.fault("machine", "--memory", "4GB", says=["--memory needs a machine"])

    def test_file(self):
        text = self.done("machine", "cpu+h200x2")
        machine = json.loads(text)
        self.assertEqual((machine["format"], machine["name"], len(machine["devices"])), ("machine", "cpu+h200x2", 3))
        path = self.path("m.json")
        self.assertEqual(self.done("machine", "cpu+h200x2", "-o", path), "")
        with open(path) as file:
            self.assertEqual(file.read(), text)
        self.assertEqual(self.done("machine", path), text)
        self.assertEqual(self.done("machine", path, "-o", "-"), text)
        self.fault("machine", path, "-o", path, "--format", "text", says=["--output"])

    def test_memory(self):
        machine = json.loads(self.done("machine", "h200x2", "--memory", "4GB"))
        self.assertEqual([device["memory_bytes"] for device in machine["devices"]], [4 * 10**9] * 2)

    def test_unknown(self):
        self.fault("machine", "h200x0", says=["h200x0"])
        self.fault("machine", "h300x2", says=["h300x2"])


class Generate(Case):
    SMALL = ["--width", "64", "--batch", "2", "--steps", "3", "--vocabulary", "100"]

    def test_list(self):
        text = self.done("generate")
        listed = json.loads(self.done("generate", "--format", "json"))
        self.assertGreaterEqual(len(listed), 11)
        for entry in listed:
            self.assertEqual(list(entry), ["family", "description", "parameters"])
            for word in (entry["family"], entry["description"]):
                self.assertIn(word, unwrapped(text))
            for name, value in entry["parameters"].items():
                self.assertIn(f"--{name} {value}", text)
        self.fault("generate", "--layers", "2", says=["--layers needs a family"])
        self.fault("generate", "-o", "x.json", says=["--output needs a family"])

    def test_file(self):
        path = self.path("g.json.gz")
        text = self.done("generate", "rnnlm", *self.SMALL, "-o", path)
        name = "rnnlm-layers2-width64-batch2-steps3-vocabulary100"
        self.assertTrue(text.startswith(f"{name}: "), text)
        self.assertEqual(os.listdir(self.folder), ["g.json.gz"])  # nothing is left aside
        with gzip.open(path) as file:
            graph = json.load(file)
        self.assertEqual((graph["name"], graph["family"]), (name, "rnnlm"))
        self.assertEqual(json.loads(self.done("generate", "rnnlm", *self.SMALL, "-o", "-")), graph)
        told = json.loads(self.done("generate", "rnnlm", *self.SMALL, "-o", path, "--format", "json"))
        self.assertEqual(told["ops"], sum(n["op"] not in ("parameter", "input") and not n.get("view") for n in graph["nodes"]))
        self.assertEqual(told["flops"], sum(n.get("flops", 0) for n in graph["nodes"]))
        self.assertEqual(told["parameter_bytes"], sum(n["bytes"] for n in graph["nodes"] if n["op"] == "parameter"))
        simulated = json.loads(self.done("simulate", path, "-m", "h200x2", "-p", "expert", "--format", "json"))
        self.assertTrue(simulated["valid"])
        self.assertEqual(simulated["measured_share"], 0)

    def test_same_bytes(self):
        content = []
        for ending in ("a.json.zst", "b.json.zst"):
            self.done("generate", "layered", "--seed", "5", "--layers", "3", "-o", self.path(ending))
            with open(self.path(ending), "rb") as file:
                content.append(file.read())
        self.assertEqual(content[0], content[1])
        self.assertTrue(content[0].startswith(b"\x28\xb5\x2f\xfd"))

    def test_every_family_is_known(self):
        for entry in json.loads(self.done("generate", "--format", "json")):
            with self.subTest(family=entry["family"]):
                path = self.path("g.json")
                self.done("generate", entry["family"], "--layers", "4", "--batch", "2", "-o", path)
                self.assertEqual(json.loads(self.done("inspect", path, "--format", "json"))["unknown_operators"], [])

    def test_faults(self):
        self.fault("generate", "rnlm", "-o", "-", says=["no family 'rnlm'; did you mean rnnlm?"])
        self.fault("generate", "elephant", "-o", "-", says=["no family 'elephant'"])
        self.fault("generate", "rnnlm", says=["needs -o FILE"])
        self.fault("generate", "rnnlm", "--image", "64", "-o", "-", says=["--image", "rnnlm does not take it"])
        self.fault("generate", "resnet", "--seed", "2", "-o", "-", says=["--seed", "resnet does not take it"])
        self.fault("generate", "rnnlm", "--layers", "0", "-o", "-", says=["--layers: '0'"])
        self.fault("generate", "rnnlm", "--layers", "two", "-o", "-", says=["--layers: 'two'"])
        self.fault("generate", "rnnlm", "--layer", "2", "-o", "-", says=["did you mean --layers?"])
        self.fault("generate", "bert", "--width", "100", "-o", "-", says=["100 is not a multiple of 64"])
        self.fault("generate", "rnnlm", "--layers", "1000", "--steps", "1000", "-o", "x.json", says=["more than 1000000 ops"])
        self.fault("generate", "rnnlm", "gnmt", "-o", "-", says=["unexpected argument 'gnmt'"])
        self.fault("generate", "rnnlm", *self.SMALL, "-o", "no/such/folder/g.json", says=["no/such/folder/g.json"])
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    sys.exit(program.main())
